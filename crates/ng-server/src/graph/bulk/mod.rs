//! Bulk updates: columns that are streamed as Arrow IPC become a graph, or are added to one
//! (HolisticGNN's `UpdateGraph`).
//!
//! What must not live here: how a graph is served (`catalogue`), messages on their way (`service`).
//! The invariants: one stream is one commit, whole or not at all; memory is that of a few batches,
//! and of what is added to a graph that is there, which its budget bounds.

mod columns;
mod existing;
mod new;

use ng_rpc::{Message, Problem, v1};

use super::change::check_key;

pub use columns::Columns;
pub use new::{Making, make};

/// The form of a note, beside those of transactions.
const FORM: u8 = 2;
/// Bytes of the hash behind it.
const HASH_BYTES: usize = 32;

/// Checks what a head says by itself.
///
/// # Errors
/// It names no types, or its key is too long.
pub fn check_head(head: &v1::UpdateGraphHead) -> Result<(), Problem> {
    check_key(&head.idempotency_key)?;
    if head.node_types.is_empty() && head.edge_types.is_empty() {
        let problem = Problem::argument("head.node_types", "the head has no types");
        return Err(problem.remedy("list the node and edge types whose columns follow"));
    }
    Ok(())
}

/// What is kept with the key of a stream: its hash, and what it was answered.
fn note_of(hash: &[u8; HASH_BYTES], answer: &v1::UpdateGraphResponse) -> Vec<u8> {
    let kept = v1::UpdateGraphResponse { notes: Vec::new(), snapshot: None, ..answer.clone() };
    let mut note = vec![FORM];
    note.extend_from_slice(hash);
    note.extend(kept.encode_to_vec());
    note
}

/// The answer to a stream that comes again, from what was kept with its key.
///
/// # Errors
/// The key was that of another stream, or of a batch of changes.
pub fn repeated(
    known: &ng_store::KeyedCommit,
    hash: &[u8; HASH_BYTES],
) -> Result<v1::UpdateGraphResponse, Problem> {
    let same = known.note.strip_prefix(&[FORM]).and_then(|rest| rest.strip_prefix(hash.as_slice()));
    let kept = same.and_then(|kept| v1::UpdateGraphResponse::decode(kept).ok());
    let kept = kept.ok_or_else(|| {
        let message = "another stream or transaction with this key was applied before";
        Problem::argument("head.idempotency_key", message)
            .remedy("use a new key for each stream, and the same key only to repeat it")
    })?;
    let snapshot = Some(v1::Snapshot { commit: known.lsn, fingerprint: 0 });
    Ok(v1::UpdateGraphResponse { snapshot, repeated: true, ..kept })
}
