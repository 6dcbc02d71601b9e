//! Rows of values that are stored: inputs in the store, tables in the folder of the run.

use std::ops::Range;
use std::sync::Arc;

use ng_infer::dfg::Elements;
use ng_infer::kernel::Data;
use ng_simd::f32_bytes_mut;
use ng_store::Snapshot;
use ng_types::Dtype;

use super::error::LayerwiseError;
use super::work::Work;
use crate::bind::RowsOf;
use crate::degrees::InDegrees;

/// Where the rows of a value are.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A tensor of the store.
    Tensor(RowsOf),
    /// A table of the run, by name.
    Table(String),
    /// In memory.
    InDegrees(Arc<InDegrees>),
}

/// How wide rows of a value are.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub place: Place,
    /// Lengths of a row's dimensions, as the model has them.
    pub dims: Vec<usize>,
    /// Bytes of a row where it is read.
    pub read_bytes: u64,
    /// Whether the rows of the file are not those of the nodes, or have no zeros: they are read one
    /// by one.
    pub is_scattered: bool,
}

impl Stored {
    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether its elements are of f32.
    pub fn is_f32(&self) -> bool {
        match &self.place {
            Place::Table(_) | Place::InDegrees(_) => true,
            Place::Tensor(of) => of.decoder.wanted() == Dtype::F32,
        }
    }

    /// Rows of consecutive nodes.
    pub fn read(
        &self,
        snapshot: &Snapshot,
        work: &Work,
        rows: Range<u64>,
    ) -> Result<Elements, LayerwiseError> {
        let count = (rows.end - rows.start) as usize;
        match &self.place {
            Place::Tensor(of) if of.decoder.wanted() != Dtype::F32 => {
                let mut decoded = vec![0; count * of.decoder.out_bytes()];
                self.read_tensor(of, snapshot, rows, &mut decoded)?;
                Ok(elements(of.decoder.wanted(), &decoded))
            }
            _ => {
                let mut all = vec![0.0; count * self.width()];
                self.read_f32(snapshot, work, rows, &mut all)?;
                Ok(Elements::F32(all))
            }
        }
    }

    /// Rows of f32 of consecutive nodes, to memory for them.
    pub fn read_f32(
        &self,
        snapshot: &Snapshot,
        work: &Work,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), LayerwiseError> {
        match &self.place {
            Place::Table(name) => match work.table(name) {
                Some(table) => work.read_rows_to(&table, rows, f32_bytes_mut(out)),
                None => Ok(()),
            },
            Place::Tensor(of) => self.read_tensor(of, snapshot, rows, f32_bytes_mut(out)),
            Place::InDegrees(all) => {
                out.iter_mut().zip(rows).for_each(|(out, node)| *out = all.of(node));
                Ok(())
            }
        }
    }

    fn read_tensor(
        &self,
        of: &RowsOf,
        snapshot: &Snapshot,
        rows: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), LayerwiseError> {
        let decoder = &of.decoder;
        let count = (rows.end - rows.start) as usize;
        if self.is_scattered {
            let ids: Vec<u64> = rows.collect();
            snapshot.gather_decoded(of.tensor, decoder, &ids, out)?;
        } else if decoder.is_copy() {
            snapshot.read_rows(of.tensor, rows, out)?;
        } else {
            let mut stored = vec![0; count * decoder.stored_bytes()];
            snapshot.read_rows(of.tensor, rows, &mut stored)?;
            decoder.decode_rows(&stored, out);
        }
        Ok(())
    }
}

/// Bytes of a decoded type as elements of the model's.
pub(super) fn elements(dtype: Dtype, bytes: &[u8]) -> Elements {
    fn all<const N: usize, T>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks::<N>().0.iter().map(|number| from(*number)).collect()
    }
    match dtype {
        Dtype::F32 => Elements::F32(all(bytes, f32::from_le_bytes)),
        Dtype::I64 => Elements::I64(all(bytes, i64::from_le_bytes)),
        Dtype::I32 => Elements::I64(all(bytes, |n| i64::from(i32::from_le_bytes(n)))),
        Dtype::I16 => Elements::I64(all(bytes, |n| i64::from(i16::from_le_bytes(n)))),
        Dtype::I8 => Elements::I64(all(bytes, |[n]| i64::from(n.cast_signed()))),
        Dtype::U8 => Elements::I64(all(bytes, |[n]| i64::from(n))),
        _ => Elements::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
    }
}

/// Rows of `from` at `places`, one after the other.
pub(super) fn gathered(
    from: &Elements,
    width: usize,
    places: impl ExactSizeIterator<Item = usize>,
) -> Elements {
    fn pick<T: Copy>(
        all: &[T],
        width: usize,
        places: impl ExactSizeIterator<Item = usize>,
    ) -> Vec<T> {
        let mut out = Vec::with_capacity(places.len() * width);
        places.for_each(|at| out.extend_from_slice(&all[at * width..(at + 1) * width]));
        out
    }
    match from {
        Elements::F32(all) => Elements::F32(pick(all, width, places)),
        Elements::I64(all) => Elements::I64(pick(all, width, places)),
        Elements::Bool(all) => Elements::Bool(pick(all, width, places)),
        Elements::F16(all) => Elements::F16(pick(all, width, places)),
        Elements::I8(all) => Elements::I8(pick(all, width, places)),
    }
}

/// A part of the rows.
pub(super) fn slice(from: &Elements, width: usize, rows: Range<usize>) -> Data<'_> {
    let range = rows.start * width..rows.end * width;
    match from {
        Elements::F32(all) => Data::F32(&all[range]),
        Elements::I64(all) => Data::I64(&all[range]),
        Elements::Bool(all) => Data::Bool(&all[range]),
        Elements::F16(all) => Data::F16(&all[range]),
        Elements::I8(all) => Data::I8(&all[range]),
    }
}
