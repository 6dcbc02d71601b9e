//! The rows of a batch: as stored, of nodes whose hop is over; as the batch has them at the end.
//!
//! Rows come with the lists, long before it is known how many nodes the batch will have. The
//! invariant: all of it is memory of the budget.

use std::ops::Range;

use ng_simd::RowDecoder;
use ng_store::{Primary, TensorRef};
use ng_types::Reservation;

use crate::admission::{Admit, Stage};
use crate::columns::Gathered;
use crate::{Buffer, Column, SampleError};

/// A column that the file serves.
pub(super) struct Own {
    /// Its place among the columns of a batch.
    pub column: usize,
    pub tensor: TensorRef,
    /// Which bytes of a node's rows.
    pub bytes: Range<usize>,
    pub decoder: RowDecoder,
}

/// Rows of a hop as they are stored: of each node all bytes up to the last that a column takes.
pub(super) struct Staged {
    rows: Buffer,
    /// Bytes of a node.
    width: usize,
    count: usize,
    _held: Reservation,
}

impl Staged {
    pub fn new(count: usize, own: &[Own], admit: &Admit<'_>) -> Result<Self, SampleError> {
        let width = own.iter().map(|own| own.bytes.end).max().unwrap_or(0);
        let bytes = count * width;
        let held = admit(Stage::Topology, bytes as u64)?;
        Ok(Self { rows: Buffer::new(bytes)?, width, count, _held: held })
    }

    /// Keeps the rows of a node.
    pub fn put(&mut self, place: usize, own: &[Own], primary: &Primary<'_>) {
        let row = &mut self.rows.as_mut_slice()[place * self.width..(place + 1) * self.width];
        for own in own {
            row[own.bytes.clone()].copy_from_slice(primary.row(own.bytes.clone()));
        }
    }

    /// Lends the rows in order.
    pub fn each_row(&self, mut visit: impl FnMut(&[u8])) {
        let rows = self.rows.as_slice();
        (0..self.count).for_each(|at| visit(&rows[at * self.width..(at + 1) * self.width]));
    }
}

/// The columns of a batch while they are filled.
pub(super) struct Rows {
    columns: Vec<Gathered>,
    _passing: Reservation,
}

impl Rows {
    /// Memory for all columns of `count` nodes at once, and `passing` bytes until they are filled.
    pub fn new(
        count: usize,
        own: &[Own],
        passing: u64,
        admit: &Admit<'_>,
    ) -> Result<Self, SampleError> {
        let sum: u64 = own.iter().map(|own| (own.decoder.out_bytes() * count) as u64).sum();
        let mut held = admit(Stage::Columns, sum + passing)?;
        let mut columns = Vec::with_capacity(own.len());
        for own in own {
            let len = own.decoder.out_bytes() * count;
            let (tensor, dtype, bytes) = (own.tensor, own.decoder.wanted(), Buffer::new(len)?);
            let column = Column { tensor, dtype, sparse: None, bytes };
            let held = Some(held.split(len as u64));
            columns.push(Gathered { place: own.column, column, held });
        }
        Ok(Self { columns, _passing: held })
    }

    /// Fills in the rows of a node.
    pub fn put<'a>(&mut self, at: usize, row: impl Fn(&Own) -> &'a [u8], own: &[Own]) {
        for (Gathered { column, .. }, own) in self.columns.iter_mut().zip(own) {
            let width = own.decoder.out_bytes();
            let out = &mut column.bytes.as_mut_slice()[at * width..(at + 1) * width];
            if own.decoder.is_copy() {
                out.copy_from_slice(row(own));
            } else {
                own.decoder.decode(row(own), out);
            }
        }
    }

    /// The filled columns; what was passing is given back.
    pub fn finish(self) -> Vec<Gathered> {
        self.columns
    }
}
