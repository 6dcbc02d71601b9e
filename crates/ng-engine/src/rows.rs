//! The rows of a batch: from tables in memory, from the store, and read ahead while the next hop is
//! drawn.
//!
//! Invariant: what is in memory decides how a row comes, and never which bytes it has.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use ng_infer::kernel::Context;
use ng_store::{Owner, ReadError};
use ng_types::{NodeId, NodeTypeId};
use rayon::prelude::*;

use crate::bind::{Binding, RowsOf};
use crate::helper::Helper;
use crate::pinned::Pinned;
use crate::table::RowTable;

/// Rows that one thread copies at a time; fewer than two of these are copied by the caller.
const TOGETHER: usize = 256;

/// How many rows ahead their place, and then their bytes, are brought near.
const PLACES_AHEAD: usize = 24;
const ROWS_AHEAD: usize = 6;

/// Rows that were asked for before the batch was known.
struct Ahead {
    /// Their places in the batch.
    places: Vec<usize>,
    rows: Receiver<Result<Vec<u8>, ReadError>>,
}

/// What is under way for a batch.
pub(crate) struct Gathering<'a> {
    pinned: &'a Arc<Pinned>,
    binding: &'a Binding,
    helper: &'a Helper,
    /// By input.
    ahead: Vec<Vec<Ahead>>,
    /// By node type, how many nodes were looked at.
    heard: Vec<usize>,
    /// Rows so far, and those that were copied from tables.
    pub rows: u64,
    pub rows_prepared: u64,
}

impl<'a> Gathering<'a> {
    pub fn new(pinned: &'a Arc<Pinned>, binding: &'a Binding, helper: &'a Helper) -> Self {
        let ahead = binding.inputs.iter().map(|_| Vec::new()).collect();
        let heard = vec![0; pinned.snapshot.catalog().node_types.len()];
        Self { pinned, binding, helper, ahead, heard, rows: 0, rows_prepared: 0 }
    }

    /// Has the rows of nodes that a hop has added read, beside the next hop.
    pub fn hear(&mut self, node_type: NodeTypeId, ids: &[NodeId]) {
        let first = self.heard[usize::from(node_type.0)];
        self.heard[usize::from(node_type.0)] += ids.len();
        for (input, rows) in self.binding.rows() {
            if rows.tensor.owner != Owner::Node(node_type) {
                continue;
            }
            let table = self.pinned.tables[input].get();
            let is_here = |id: &NodeId| table.is_some_and(|table| table.row(*id).is_some());
            let missing = || (first..).zip(ids).filter(|(_, id)| !is_here(id));
            let places: Vec<usize> = missing().map(|(place, _)| place).collect();
            if places.is_empty() {
                continue;
            }
            let wanted: Vec<u64> = missing().map(|(_, id)| *id).collect();
            let (pinned, of) = (Arc::clone(self.pinned), rows.clone());
            let rows = self.helper.begin(move || {
                let mut bytes = vec![0; wanted.len() * of.decoder.out_bytes()];
                read(&pinned, &of, &wanted, &mut bytes)?;
                Ok(bytes)
            });
            self.ahead[input].push(Ahead { places, rows });
        }
    }

    /// Counts rows that stay where they lie.
    pub fn count(&mut self, rows: usize) {
        self.rows += rows as u64;
        self.rows_prepared += rows as u64;
    }

    /// Fills `out` with the rows of all of `ids`, which are those of the batch in their order.
    pub fn finish(
        &mut self,
        input: usize,
        of: &RowsOf,
        ids: &[u64],
        out: &mut [u8],
        context: &Context,
    ) -> Result<(), ReadError> {
        let width = of.decoder.out_bytes();
        let known = match of.tensor.owner {
            Owner::Node(id) => self.heard[usize::from(id.0)],
            Owner::Edge(_) => 0,
        };
        let missing = match self.pinned.tables[input].get() {
            Some(table) => copy_all((table, of), ids, known, out, context),
            None => (known..ids.len()).collect(),
        };
        self.rows += ids.len() as u64;
        let ahead: usize = self.ahead[input].iter().map(|ahead| ahead.places.len()).sum();
        self.rows_prepared += (ids.len() - missing.len()).saturating_sub(ahead) as u64;
        let is_run = missing.last().is_some_and(|last| last + 1 - missing[0] == missing.len());
        if is_run {
            let run = missing[0]..missing[0] + missing.len();
            read(self.pinned, of, &ids[run.clone()], &mut out[run.start * width..run.end * width])?;
        } else if !missing.is_empty() {
            let wanted: Vec<u64> = missing.iter().map(|place| ids[*place]).collect();
            let mut bytes = vec![0; wanted.len() * width];
            read(self.pinned, of, &wanted, &mut bytes)?;
            put(&missing, &bytes, out, width);
        }
        for Ahead { places, rows } in self.ahead[input].drain(..) {
            let lost = |_| ReadError::Missing { what: "a thread that reads rows".to_owned() };
            let bytes = rows.recv().map_err(lost)??;
            put(&places, &bytes, out, width);
        }
        Ok(())
    }
}

fn put(places: &[usize], bytes: &[u8], out: &mut [u8], width: usize) {
    for (place, row) in places.iter().zip(bytes.chunks_exact(width.max(1))) {
        out[place * width..(place + 1) * width].copy_from_slice(row);
    }
}

/// Rows of the store, in the order of `ids`.
fn read(pinned: &Pinned, of: &RowsOf, ids: &[u64], out: &mut [u8]) -> Result<(), ReadError> {
    pinned.snapshot.gather_once(of.tensor, &of.decoder, ids, out).map(drop)
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
    let mut missing = match context.pool().filter(|_| ids.len() >= 2 * TOGETHER) {
        None => copy(what, ids, 0, out),
        Some(pool) => pool.install(|| {
            let parts = out.par_chunks_mut(TOGETHER * width).zip(ids.par_chunks(TOGETHER));
            let copied =
                parts.enumerate().map(|(at, (out, ids))| copy(what, ids, at * TOGETHER, out));
            copied.collect::<Vec<_>>().concat()
        }),
    };
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
    let (width, is_copy) = (of.decoder.out_bytes(), of.decoder.is_copy());
    ids.iter().take(PLACES_AHEAD).for_each(|id| table.foresee_slot(*id));
    ids.iter().take(ROWS_AHEAD).for_each(|id| table.foresee(*id));
    for (at, (id, out)) in ids.iter().zip(out.chunks_exact_mut(width.max(1))).enumerate() {
        ids.get(at + PLACES_AHEAD).into_iter().for_each(|id| table.foresee_slot(*id));
        ids.get(at + ROWS_AHEAD).into_iter().for_each(|id| table.foresee(*id));
        match table.row(*id) {
            Some(row) if is_copy => out.copy_from_slice(row),
            Some(row) => of.decoder.decode(row, out),
            None => missing.push(first + at),
        }
    }
    missing
}
