//! [`Transaction`]: operations that become durable together, or not at all.

use std::collections::HashMap;
use std::sync::Arc;

use ng_simd::{Misfit, RowEncoder};
use ng_types::{EdgeTypeId, MemoryUser, NodeId, NodeTypeId};

use crate::catalog::{Catalog, KeyedCommit, Owner, TensorMeta, TensorRef};
use crate::error::ReadError;
use crate::limits::{KEY_BYTES_MAX, KEY_NOTE_BYTES_MAX};
use crate::page::Edit;
use crate::topology::Entry;
use crate::write::error::UpdateError;
use crate::write::op::Op;
use crate::write::ops::Ops;
use crate::write::writer::{Head, Writer};

/// An open transaction. Only the transaction itself sees its changes before
/// [`Transaction::commit`]. Transactions of several threads take turns: the next one starts when
/// this one is committed or dropped. Dropping it undoes all of its changes.
///
/// A transaction is a draft as long as its operations can be checked without being done: then they
/// are done once they are durable, on pages that nobody else may see, and none of them has to be
/// copied. An operation whose answer depends on lists ends the draft: all operations so far are
/// done on copies of the pages, and so are all that follow.
pub struct Transaction {
    writer: Arc<Writer>,
    /// Taken out while the transaction is open; `None` once it was given back.
    head: Option<Head>,
    edit: Option<Edit>,
    is_draft: bool,
    ops: Ops,
    broken: Option<String>,
    encoders: HashMap<TensorRef, RowEncoder>,
}

/// The data of an edge besides its ends. Columns that its type does not have are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EdgeData {
    /// When.
    pub time: i64,
    /// How much.
    pub weight: f32,
}

/// A transaction that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its number.
    pub lsn: u64,
    /// [`crate::Snapshot::fingerprint`] of the store with it.
    pub fingerprint: u64,
    /// Operations in it.
    pub ops: u64,
}

impl Transaction {
    /// A transaction whose turn has come.
    pub(crate) fn begin(writer: Arc<Writer>) -> Result<Self, UpdateError> {
        let (head, edit) = writer.begin()?;
        Ok(Self {
            writer,
            head: Some(head),
            edit: Some(edit),
            is_draft: true,
            ops: Ops::default(),
            broken: None,
            encoders: HashMap::new(),
        })
    }

    fn edit(&mut self) -> Result<&mut Edit, UpdateError> {
        if let Some(cause) = &self.broken {
            return Err(UpdateError::Broken { cause: cause.clone() });
        }
        let closed = || UpdateError::Broken { cause: "the transaction is closed".into() };
        self.edit.as_mut().ok_or_else(closed)
    }

    /// Does `op`. If there is no memory for it, a checkpoint takes what earlier commits hold, the
    /// transaction is done again, and then `op`.
    fn with_room<T>(
        &mut self,
        op: impl Fn(&mut Self) -> Result<T, UpdateError>,
    ) -> Result<T, UpdateError> {
        let kept = self.ops.bytes.len();
        match op(self) {
            Err(error)
                if error.is_shortage() && self.head.as_ref().is_some_and(Head::holds_memory) =>
            {
                self.start_over(kept)?;
                op(self)
            }
            done => done,
        }
    }

    /// Checkpoints, and does the first `kept` bytes of operations again on what that has made.
    fn start_over(&mut self, kept: usize) -> Result<(), UpdateError> {
        let Some(head) = self.head.take() else { return Ok(()) };
        self.edit = None;
        let (head, done) = self.writer.make_room_for(head);
        self.head = head;
        let done = done.and_then(|()| {
            let Some(head) = &self.head else { return Ok(()) };
            let writer = &self.writer;
            let mut edit = Edit::new(&writer.inner, &writer.pool, &head.version);
            let done = self.ops.rewind(kept, &mut |op| edit.replay(op));
            self.edit = Some(edit);
            done
        });
        self.is_draft = false;
        self.broken = done.as_ref().err().map(UpdateError::to_string);
        done
    }

    /// Does what the draft has only checked.
    fn end_draft(&mut self) -> Result<(), UpdateError> {
        if !std::mem::replace(&mut self.is_draft, false) || self.is_empty() {
            return Ok(());
        }
        let (Some(head), Some(mut edit)) = (&self.head, self.edit.take()) else {
            return Ok(());
        };
        edit.restart(&head.version);
        let done = edit.replay_all(&self.ops.bytes);
        self.edit = Some(edit);
        done.inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// An error unless all of these nodes exist; a draft has not done yet what it deletes.
    fn check_nodes(&mut self, node_type: NodeTypeId, ids: &[NodeId]) -> Result<(), UpdateError> {
        let is_deleted = |id: &&NodeId| self.ops.deleted.contains(&(node_type, **id));
        let deleted =
            ids.iter().find(|id| self.is_draft && !self.ops.deleted.is_empty() && is_deleted(id));
        if let Some(id) = deleted.copied() {
            let node_type = self.edit()?.catalog.node_type(node_type)?.name.clone();
            return Err(UpdateError::NodeNotFound { node_type, id, why: "it was deleted".into() });
        }
        self.run(|edit| edit.check_nodes(node_type, ids))
    }

    /// Runs an operation; one that fails half way spoils the transaction.
    fn run<T>(
        &mut self,
        op: impl FnOnce(&mut Edit) -> Result<T, UpdateError>,
    ) -> Result<T, UpdateError> {
        op(self.edit()?).inspect_err(|error| {
            if !error.is_refusal() {
                self.broken = Some(error.to_string());
            }
        })
    }

    /// Notes an operation that was done or checked.
    fn note(&mut self, op: &Op<'_>) -> Result<(), UpdateError> {
        let noted = self.ops.push(&self.writer.inner, op);
        noted.inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// Ends a draft that would take much memory: what is done once it is durable has to be done
    /// whatever it takes.
    fn afford(
        &mut self,
        cost_bytes: impl FnOnce(&mut Edit) -> Result<u64, UpdateError>,
    ) -> Result<(), UpdateError> {
        if !self.is_draft {
            return Ok(());
        }
        let cost = self.run(cost_bytes)?;
        self.ops.cost_bytes = self.ops.cost_bytes.saturating_add(cost);
        let is_much = self.ops.cost_bytes > self.writer.inner.budget.share(MemoryUser::Draft);
        if is_much { self.end_draft() } else { Ok(()) }
    }

    /// The types and tensors, as this transaction has made them.
    ///
    /// # Errors
    /// [`UpdateError::Broken`] if the transaction is closed or spoiled.
    pub fn catalog(&mut self) -> Result<&Catalog, UpdateError> {
        Ok(&self.edit()?.catalog)
    }

    /// Finds a tensor by name, for [`Transaction::set_row`].
    ///
    /// # Errors
    /// [`UpdateError::Read`] if the owner has none of that name.
    pub fn tensor(&mut self, owner: Owner, name: &str) -> Result<TensorRef, UpdateError> {
        let what = format!("tensor {name:?}");
        let found = self.edit()?.catalog.find_tensor(owner, name);
        Ok(found.ok_or(ReadError::Missing { what })?)
    }

    /// Operations so far.
    pub fn len(&self) -> u64 {
        self.ops.count
    }

    /// Whether nothing was done yet.
    pub fn is_empty(&self) -> bool {
        self.ops.count == 0
    }

    /// Adds a node (AddVertex) and returns its id. Its rows are 0 until [`Transaction::set_row`].
    ///
    /// # Errors
    /// [`UpdateError::Unsupported`] for types with string ids or without free ids,
    /// [`UpdateError::Read`].
    pub fn add_node(&mut self, node_type: NodeTypeId) -> Result<NodeId, UpdateError> {
        self.with_room(|tx| {
            if tx.edit()?.catalog.reuse_ids {
                tx.end_draft()?;
            }
            tx.afford(|edit| edit.node_cost_bytes(node_type))?;
            let (writer, is_draft) = (Arc::clone(&tx.writer), tx.is_draft);
            let deleted = std::mem::take(&mut tx.ops.deleted);
            let may_reuse =
                |id| !deleted.contains(&(node_type, id)) && writer.may_reuse(node_type, id);
            let result = tx.run(|edit| {
                let id = edit.next_node(node_type, may_reuse)?;
                match is_draft {
                    true => edit.draft_node(node_type, id)?,
                    false => edit.add_node(node_type, id)?,
                }
                Ok(id)
            });
            tx.ops.deleted = deleted;
            let id = result?;
            tx.note(&Op::AddNode { node_type, id })?;
            Ok(id)
        })
    }

    /// Deletes a node and all of its edges (DeleteVertex). Its id is not given out again unless the
    /// store was created with `reuse_ids`.
    ///
    /// # Errors
    /// [`UpdateError::NodeNotFound`], [`UpdateError::ReverseMissing`], [`UpdateError::Read`].
    pub fn delete_node(&mut self, node_type: NodeTypeId, id: NodeId) -> Result<(), UpdateError> {
        self.with_room(|tx| {
            tx.check_nodes(node_type, &[id])?;
            tx.afford(|edit| edit.delete_cost_bytes(node_type, id))?;
            let is_draft = tx.is_draft;
            tx.run(|edit| match is_draft {
                true => edit.check_delete(node_type, id),
                false => edit.delete_node(node_type, id).map(drop),
            })?;
            tx.note(&Op::DeleteNode { node_type, id })
        })
    }

    /// Adds an edge (AddEdge), in both directions if the type is undirected or keeps its reverse.
    /// Returns its edge id, or `None` if edges have no ids. On a `unique` type, an existing edge
    /// gets the new time and weight and keeps its id.
    ///
    /// # Errors
    /// [`UpdateError::NodeNotFound`], [`UpdateError::Read`].
    pub fn add_edge(
        &mut self,
        edge_type: EdgeTypeId,
        source: NodeId,
        destination: NodeId,
        data: EdgeData,
    ) -> Result<Option<u64>, UpdateError> {
        let ids = self.add_edges(edge_type, &[source], &[destination], &[data])?;
        Ok(ids.first().copied())
    }

    /// [`Transaction::add_edge`] for many edges, all or none: an error changes nothing. `data` has
    /// one element per edge, or is empty. Returns the edge ids; empty if edges have no ids. All
    /// reads for the edges are made together.
    ///
    /// # Errors
    /// As [`Transaction::add_edge`], and [`UpdateError::Unsupported`] for columns of unequal
    /// length.
    pub fn add_edges(
        &mut self,
        edge_type: EdgeTypeId,
        sources: &[NodeId],
        destinations: &[NodeId],
        data: &[EdgeData],
    ) -> Result<Vec<u64>, UpdateError> {
        self.with_room(|tx| {
            let count = sources.len();
            if destinations.len() != count || !(data.is_empty() || data.len() == count) {
                let what = format!(
                    "{count} sources, {} destinations and {} times or weights differ in number; \
                     give one of each per edge",
                    destinations.len(),
                    data.len()
                );
                return Err(UpdateError::Unsupported { what });
            }
            let meta = tx.edit()?.catalog.edge_type(edge_type)?;
            let (ends, has_ids) =
                ([(meta.source, sources), (meta.destination, destinations)], meta.has_edge_ids);
            if meta.unique {
                tx.end_draft()?;
            }
            for (node_type, ids) in ends {
                tx.check_nodes(node_type, ids)?;
            }
            tx.afford(|edit| Ok(edit.edge_cost_bytes(edge_type)?.saturating_mul(count as u64)))?;
            let is_draft = tx.is_draft;
            let first = match is_draft {
                true => tx.run(|edit| edit.draft_edges(edge_type, count as u64))?,
                false => tx.run(|edit| {
                    edit.prefetch_edges(edge_type, sources, destinations)?;
                    Ok(0)
                })?,
            };
            tx.ops.touch_edges(edge_type, sources, destinations);
            let mut ids = Vec::with_capacity(count);
            for (at, (source, destination)) in sources.iter().zip(destinations).enumerate() {
                let (source, destination) = (*source, *destination);
                let EdgeData { time, weight } =
                    if data.is_empty() { EdgeData::default() } else { data[at] };
                let edge_id = if has_ids { first + at as u64 } else { 0 };
                let mut entry = Entry { source, edge_id, time, weight };
                if !is_draft {
                    entry.edge_id = tx.run(|edit| edit.add_edge(edge_type, destination, entry))?;
                }
                tx.note(&Op::AddEdge { edge_type, destination, entry })?;
                if has_ids {
                    ids.push(entry.edge_id);
                }
            }
            Ok(ids)
        })
    }

    /// Deletes all parallel edges from `source` to `destination` (DeleteEdge), or the one with
    /// `edge_id`; returns how many.
    ///
    /// # Errors
    /// [`UpdateError::EdgeNotFound`] if there is none, [`UpdateError::NodeNotFound`],
    /// [`UpdateError::Unsupported`] for an id where edges have none, [`UpdateError::Read`].
    pub fn delete_edge(
        &mut self,
        edge_type: EdgeTypeId,
        source: NodeId,
        destination: NodeId,
        edge_id: Option<u64>,
    ) -> Result<u64, UpdateError> {
        self.with_room(|tx| {
            tx.end_draft()?;
            let removed =
                tx.run(|edit| edit.delete_edge(edge_type, source, destination, edge_id))?;
            tx.note(&Op::DeleteEdge { edge_type, source, destination, edge_id })?;
            Ok(removed)
        })
    }

    /// Replaces one row of a tensor (UpdateEmbed): little-endian elements.
    ///
    /// # Errors
    /// [`UpdateError::RowWidth`], [`UpdateError::NodeNotFound`], [`UpdateError::Unsupported`] for
    /// an edge id that was never given out, [`UpdateError::Read`].
    pub fn set_row(
        &mut self,
        tensor: TensorRef,
        row: u64,
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        self.set_rows(tensor, &[row], bytes)
    }

    /// [`Transaction::set_row`] for many rows, all or none: an error changes nothing. `bytes`
    /// contains the rows one after the other.
    ///
    /// # Errors
    /// As [`Transaction::set_row`].
    pub fn set_rows(
        &mut self,
        tensor: TensorRef,
        rows: &[u64],
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        self.with_room(|tx| {
            let width = bytes.len() / rows.len().max(1);
            if width * rows.len() != bytes.len() {
                let what =
                    format!("{} bytes cannot be divided into {} rows", bytes.len(), rows.len());
                return Err(UpdateError::Unsupported { what });
            }
            tx.run(|edit| edit.check_rows(tensor, rows, width as u64))?;
            if let Owner::Node(node_type) = tensor.owner {
                tx.check_nodes(node_type, rows)?;
            }
            tx.afford(|edit| Ok(edit.row_cost_bytes(tensor)?.saturating_mul(rows.len() as u64)))?;
            if !tx.is_draft {
                tx.run(|edit| edit.prefetch_rows(tensor, rows))?;
            }
            tx.ops.touch_rows(tensor, rows);
            tx.ops.bytes.reserve(bytes.len() + 16 * rows.len());
            for (row, bytes) in rows.iter().zip(bytes.chunks_exact(width.max(1))) {
                if !tx.is_draft {
                    tx.run(|edit| edit.set_row(tensor, *row, bytes))?;
                }
                tx.note(&Op::SetRow { tensor, row: *row, bytes })?;
            }
            Ok(())
        })
    }

    /// Rows of f32 (little-endian, one after the other) as the tensor stores them, for
    /// [`Transaction::set_rows`]: rounded to f16 or bf16, or to steps of the scales that were fixed
    /// when the tensor was imported. Values are never clamped: a value that does not fit is an
    /// error.
    ///
    /// # Errors
    /// [`UpdateError::Unsupported`] for a value out of range, and for a tensor of other elements;
    /// [`UpdateError::RowWidth`], [`UpdateError::Read`].
    pub fn encode_rows(
        &mut self,
        tensor: TensorRef,
        values: &[u8],
    ) -> Result<Vec<u8>, UpdateError> {
        let catalog = &self.edit()?.catalog;
        let what = || format!("tensor {tensor:?}");
        let meta =
            catalog.tensor(tensor).ok_or_else(|| ReadError::Missing { what: what() })?.clone();
        let (expected, found) = (4 * meta.num_columns(), values.len() as u64);
        if !found.is_multiple_of(expected) {
            return Err(UpdateError::RowWidth { tensor: meta.name, expected, found });
        }
        if !self.encoders.contains_key(&tensor) {
            let encoder = self.run(|edit| edit.encoder(&meta))?;
            self.encoders.insert(tensor, encoder);
        }
        let mut rows = Vec::new();
        match self.encoders.get(&tensor).map(|encoder| encoder.encode_rows(values, &mut rows)) {
            Some(Err(misfit)) => Err(out_of_range(&meta, &misfit)),
            _ => Ok(rows),
        }
    }

    /// The number that the transaction gets as a commit.
    pub fn next_lsn(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.version.lsn + 1)
    }

    /// What a transaction did that had this key, if the store remembers it.
    pub(crate) fn keyed(&mut self, key: &[u8]) -> Result<Option<KeyedCommit>, UpdateError> {
        let keys = self.edit()?.catalog.keys.as_ref();
        Ok(keys.and_then(|keys| keys.find(key)).cloned())
    }

    /// The newest commit whose key may have been forgotten.
    pub(crate) fn forgotten_to(&mut self) -> Result<u64, UpdateError> {
        Ok(self.edit()?.catalog.keys.as_ref().map_or(0, |keys| keys.forgotten_to()))
    }

    /// Stores the key of the transaction and a note for later readers. Both become durable with the
    /// commit. The store must have [taken up keys](crate::Store::write_keyed).
    ///
    /// # Errors
    /// [`UpdateError::Unsupported`] for a key that is empty, too long or known, and for a note that
    /// is too long.
    pub fn keep(&mut self, key: &[u8], note: &[u8]) -> Result<(), UpdateError> {
        check_key(key)?;
        if note.len() > KEY_NOTE_BYTES_MAX {
            let what = format!(
                "the note of the transaction key has {} bytes, more than {KEY_NOTE_BYTES_MAX}; \
                 commit the transaction in parts",
                note.len()
            );
            return Err(UpdateError::Unsupported { what });
        }
        let lsn = self.next_lsn();
        self.with_room(|tx| {
            if tx.keyed(key)?.is_some() {
                let what = "an earlier transaction has the same key".to_owned();
                return Err(UpdateError::Unsupported { what });
            }
            if !tx.is_draft {
                tx.run(|edit| edit.keep(lsn, key, note))?;
            }
            tx.note(&Op::Keep { lsn, key, note })
        })
    }

    /// Makes the transaction durable and visible; returns when it is. An empty transaction commits
    /// nothing.
    ///
    /// # Errors
    /// [`UpdateError::Broken`] if an operation failed half way, [`UpdateError::Write`] if there is
    /// no room for its record (then it alone is lost), [`UpdateError::Poisoned`].
    pub fn commit(mut self) -> Result<Commit, UpdateError> {
        let ops = std::mem::take(&mut self.ops);
        self.edit()?;
        let (Some(head), Some(edit)) = (self.head.take(), self.edit.take()) else {
            return Err(UpdateError::Broken { cause: "the transaction is closed".into() });
        };
        if ops.count == 0 {
            let (lsn, fingerprint) = (head.version.lsn, head.version.fingerprint);
            self.writer.give_back(head);
            return Ok(Commit { lsn, fingerprint, ops: 0 });
        }
        let count = ops.count;
        let (lsn, fingerprint) = match self.is_draft {
            true => self.writer.commit_draft(head, edit, ops)?,
            false => self.writer.commit(head, edit, ops)?,
        };
        Ok(Commit { lsn, fingerprint, ops: count })
    }
}

/// An error unless a transaction may have this key.
pub(crate) fn check_key(key: &[u8]) -> Result<(), UpdateError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(());
    }
    let what = format!(
        "a transaction key of {} bytes is not valid: expected 1 to {KEY_BYTES_MAX} bytes",
        key.len()
    );
    Err(UpdateError::Unsupported { what })
}

fn out_of_range(meta: &TensorMeta, misfit: &Misfit) -> UpdateError {
    let todo = if meta.is_scaled() {
        "which the scale of its column, fixed by the import, cannot represent; clip the value, or \
         import the store again with this row"
    } else {
        "which its type cannot represent; clip the value, or import the store again with a wider \
         type"
    };
    let what = format!("tensor {:?} is {}: {misfit}, {todo}", meta.name, meta.dtype);
    UpdateError::Unsupported { what }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(head) = self.head.take() {
            self.writer.give_back(head);
        }
    }
}
