//! Induced subgraphs: the entries of a list whose source is in the batch, in the order of the list.

use ng_types::NodeId;

use super::piece::{Piece, Sources};

/// Appends the positions in a piece whose source is in the batch.
pub(super) fn look(is_in_batch: &dyn Fn(NodeId) -> bool, piece: Piece<'_>, chosen: &mut Vec<u32>) {
    let is_taken = |at: &u32| {
        is_in_batch(match piece.sources {
            Sources::Packed(all) => all.get(*at as usize),
            Sources::Ids(all) => all[*at as usize],
        })
    };
    let taken = (0..piece.sources.len() as u32).filter(is_taken);
    chosen.extend(taken.map(|at| piece.first + at));
}
