//! The rows of a batch: from tables in memory, and from the store, where they are asked for as soon
//! as a hop is known and read with the lists of the next one.
//!
//! Invariant: what is in memory decides how a row comes, and never which bytes it has.

use std::sync::Arc;

use ng_infer::kernel::Context;
use ng_store::{Owner, ReadError, RowQueue, Ticket};
use ng_types::{NodeId, NodeTypeId};

use crate::bind::{Binding, RowsOf};
use crate::pinned::Pinned;
use crate::table::RowTable;

/// Rows that one thread copies at a time; fewer than two of these are copied by the caller.
const TOGETHER: usize = 256;

/// How many rows ahead their place, and then their bytes, are brought near.
const PLACES_AHEAD: usize = 24;
const ROWS_AHEAD: usize = 6;

/// Rows that the store was asked for.
struct Asked {
    /// Their places in the batch.
    places: Vec<usize>,
    ticket: Ticket,
}

/// What is under way for a batch.
pub(crate) struct Gathering<'a> {
    pub pinned: &'a Arc<Pinned>,
    binding: &'a Binding,
    queue: Arc<RowQueue>,
    /// By input.
    asked: Vec<Vec<Asked>>,
    /// By node type, how many nodes were looked at.
    heard: Vec<usize>,
    failure: Option<ReadError>,
    /// Rows so far, those of them that were prepared, and those of these that stay where they lie.
    pub rows: u64,
    pub rows_prepared: u64,
    pub rows_in_place: u64,
}

impl<'a> Gathering<'a> {
    pub fn new(pinned: &'a Arc<Pinned>, binding: &'a Binding) -> Self {
        Self {
            pinned,
            binding,
            queue: RowQueue::new(&pinned.snapshot),
            asked: binding.inputs.iter().map(|_| Vec::new()).collect(),
            heard: vec![0; pinned.snapshot.catalog().node_types.len()],
            failure: None,
            rows: 0,
            rows_prepared: 0,
            rows_in_place: 0,
        }
    }

    /// What is asked for and has not been read.
    pub fn queue(&self) -> Arc<RowQueue> {
        Arc::clone(&self.queue)
    }

    /// Asks for the rows of nodes that a hop has added, to be read beside the next hop.
    pub fn hear(&mut self, node_type: NodeTypeId, ids: &[NodeId]) {
        let first = self.heard[usize::from(node_type.0)];
        self.heard[usize::from(node_type.0)] += ids.len();
        let binding = self.binding;
        for (input, rows) in binding.rows() {
            if rows.tensor.owner != Owner::Node(node_type) {
                continue;
            }
            let table = self.pinned.tables[input].get();
            let is_here = |id: &NodeId| table.is_some_and(|table| table.row(*id).is_some());
            let missing = || (first..).zip(ids).filter(|(_, id)| !is_here(id));
            let wanted: Vec<u64> = missing().map(|(_, id)| *id).collect();
            let places: Vec<usize> = missing().map(|(place, _)| place).collect();
            if let Err(error) = self.ask((input, rows), places, &wanted) {
                self.failure.get_or_insert(error);
            }
        }
    }

    fn ask(
        &mut self,
        (input, of): (usize, &RowsOf),
        places: Vec<usize>,
        ids: &[u64],
    ) -> Result<(), ReadError> {
        if !ids.is_empty() {
            let ticket = self.queue.ask(of.tensor, ids)?;
            self.asked[input].push(Asked { places, ticket });
        }
        Ok(())
    }

    /// Counts rows that stay where they lie.
    pub fn count(&mut self, rows: usize) {
        self.rows += rows as u64;
        self.rows_prepared += rows as u64;
        self.rows_in_place += rows as u64;
    }

    /// Copies to `out` what is in tables of the rows of `ids`, which are those of the batch in
    /// their order, and asks for the others.
    pub fn copy(
        &mut self,
        (input, of): (usize, &RowsOf),
        ids: &[u64],
        out: &mut [u8],
        context: &Context,
    ) -> Result<(), ReadError> {
        let known = match of.tensor.owner {
            Owner::Node(id) => self.heard[usize::from(id.0)],
            Owner::Edge(_) => 0,
        };
        let missing = match self.pinned.tables[input].get() {
            Some(table) => copy_all((table, of), ids, known, out, context),
            None => (known..ids.len()).collect(),
        };
        self.rows += ids.len() as u64;
        let ahead: usize = self.asked[input].iter().map(|asked| asked.places.len()).sum();
        self.rows_prepared += (ids.len() - missing.len()).saturating_sub(ahead) as u64;
        let wanted: Vec<u64> = missing.iter().map(|place| ids[*place]).collect();
        self.ask((input, of), missing, &wanted)
    }

    /// Reads all that was asked for and is not there yet.
    pub fn read(&mut self) -> Result<(), ReadError> {
        self.failure.take().map_or(Ok(()), Err)?;
        self.queue.read()
    }

    /// Puts what was read of an input into `out`.
    pub fn put(&mut self, (input, of): (usize, &RowsOf), out: &mut [u8]) {
        let (width, stored) = (of.decoder.out_bytes(), of.decoder.stored_bytes().max(1));
        for Asked { places, ticket } in self.asked[input].drain(..) {
            let rows = self.queue.take(ticket);
            for (place, row) in places.iter().zip(rows.chunks_exact(stored)) {
                take((row, of), &mut out[place * width..(place + 1) * width]);
            }
        }
    }
}

/// Makes a row of a stored one.
#[inline]
fn take((row, of): (&[u8], &RowsOf), out: &mut [u8]) {
    if of.decoder.is_copy() { out.copy_from_slice(row) } else { of.decoder.decode(row, out) }
}

/// Copies rows that are in a table; returns the places of those that are not, from `known` on.
fn copy_all(
    what: (&RowTable, &RowsOf),
    ids: &[u64],
    known: usize,
    out: &mut [u8],
    context: &Context,
) -> Vec<usize> {
    let width = what.1.decoder.out_bytes();
    let together = if ids.len() < 2 * TOGETHER { ids.len().max(1) } else { TOGETHER };
    let mut missing = vec![Vec::new(); ids.len().div_ceil(together)];
    let parts = out.chunks_mut((together * width).max(1)).zip(ids.chunks(together));
    let done = context.each(parts.zip(&mut missing).enumerate(), |(at, ((out, ids), missing))| {
        *missing = copy(what, ids, at * together, out);
        Ok(())
    });
    debug_assert!(done.is_ok(), "{done:?}");
    let mut missing = missing.concat();
    missing.retain(|place| *place >= known);
    missing
}

fn copy(
    (table, of): (&RowTable, &RowsOf),
    ids: &[u64],
    first: usize,
    out: &mut [u8],
) -> Vec<usize> {
    let mut missing = Vec::new();
    let width = of.decoder.out_bytes();
    ids.iter().take(PLACES_AHEAD).for_each(|id| table.foresee_slot(*id));
    ids.iter().take(ROWS_AHEAD).for_each(|id| table.foresee(*id));
    for (at, (id, out)) in ids.iter().zip(out.chunks_exact_mut(width.max(1))).enumerate() {
        ids.get(at + PLACES_AHEAD).into_iter().for_each(|id| table.foresee_slot(*id));
        ids.get(at + ROWS_AHEAD).into_iter().for_each(|id| table.foresee(*id));
        match table.row(*id) {
            Some(row) => take((row, of), out),
            None => missing.push(first + at),
        }
    }
    missing
}
