//! Counts NaN and infinite values as rows come in.

use ng_store::Owner;
use ng_types::{Dtype, Remedy};

use crate::tensors::OpenTensor;
use crate::{Importer, Note};

/// How many elements of a tensor are NaN or infinite.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NotFinite {
    nan: u64,
    infinite: u64,
    rows: u64,
    first_row: u64,
}

impl NotFinite {
    /// Looks at rows of `row_bytes` bytes, of which `first` is the first.
    pub(crate) fn add(&mut self, dtype: Dtype, rows: &[u8], row_bytes: u64, first: u64) {
        let is_float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
        if !is_float || all_finite(dtype, rows) {
            return;
        }
        for (row, bytes) in rows.chunks_exact(row_bytes.max(1) as usize).enumerate() {
            let (nan, infinite) = count(dtype, bytes);
            self.add_row(nan, infinite, first + row as u64);
        }
    }

    /// As [`NotFinite::add`], for the values of one row.
    pub(crate) fn add_values(&mut self, values: &[f32], row: u64) {
        let count = |odd: fn(f32) -> bool| values.iter().filter(|value| odd(**value)).count();
        if values.iter().any(|value| !value.is_finite()) {
            self.add_row(count(f32::is_nan) as u64, count(f32::is_infinite) as u64, row);
        }
    }

    fn add_row(&mut self, nan: u64, infinite: u64, row: u64) {
        if nan + infinite == 0 {
            return;
        }
        if self.rows == 0 {
            self.first_row = row;
        }
        self.rows += 1;
        self.nan += nan;
        self.infinite += infinite;
    }
}

/// Whether no element is NaN or infinite. The largest magnitude tells it, and a vector unit finds
/// that many elements at a time.
fn all_finite(dtype: Dtype, bytes: &[u8]) -> bool {
    let largest = || {
        let bits = bytes.as_chunks().0.iter().map(|b| i16::from_le_bytes(*b) & i16::MAX);
        bits.fold(0, i16::max)
    };
    match dtype {
        Dtype::F16 => largest() < 0x7C00,
        Dtype::Bf16 => largest() < 0x7F80,
        Dtype::F32 => {
            let bits = bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b) & i32::MAX);
            bits.fold(0, i32::max) < 0x7F80_0000
        }
        _ => count(dtype, bytes) == (0, 0),
    }
}

/// (NaN, infinite) elements of little-endian floats.
fn count(dtype: Dtype, bytes: &[u8]) -> (u64, u64) {
    match dtype {
        Dtype::F16 => count_bits(bytes, |b| u16::from_le_bytes(b).into(), 0x7C00, 0x03FF),
        Dtype::Bf16 => count_bits(bytes, |b| u16::from_le_bytes(b).into(), 0x7F80, 0x007F),
        Dtype::F32 => count_bits(bytes, |b| u32::from_le_bytes(b).into(), 0x7F80_0000, 0x007F_FFFF),
        _ => count_bits(bytes, u64::from_le_bytes, 0x7FF << 52, (1 << 52) - 1),
    }
}

fn count_bits<const N: usize>(
    bytes: &[u8],
    bits: impl Fn([u8; N]) -> u64,
    exponent: u64,
    fraction: u64,
) -> (u64, u64) {
    let elements = bytes.as_chunks().0.iter();
    elements.fold((0, 0), |(nan, infinite), element| {
        let bits = bits(*element);
        let (special, odd) = (bits & exponent == exponent, bits & fraction != 0);
        (nan + u64::from(special & odd), infinite + u64::from(special & !odd))
    })
}

impl Importer {
    /// Notes what was odd about the elements of a tensor, once all its rows are in.
    pub(crate) fn note_tensor(&mut self, tensor: &OpenTensor) {
        let owner = match tensor.owner {
            Owner::Node(id) => {
                let known = self.node_types.iter().find(|known| known.id == id);
                known.map(|known| format!("node type {:?}", known.name))
            }
            Owner::Edge(id) => {
                let known = self.edge_types.iter().find(|known| known.id == id);
                known.map(crate::importer::EdgeType::place)
            }
        };
        let name = &tensor.spec.name;
        let place = format!("tensor {name:?} of {}", owner.unwrap_or_default());
        let NotFinite { nan, infinite, rows, first_row } = tensor.not_finite;
        if name == "y" && nan > 0 && infinite == 0 {
            let message = format!(
                "{nan} labels are NaN and count as unlabelled, the first in row {first_row}"
            );
            self.add_note(Note::new("labels-missing", nan, place.clone(), message));
        } else if rows > 0 {
            let message = format!(
                "{nan} elements are NaN and {infinite} are infinite, in {rows} rows, the first in \
                 row {first_row}; training on them gives NaN, so replace them"
            );
            self.add_note(Note::new("not-finite", nan + infinite, place.clone(), message));
        }
        if tensor.spec.dtype == Dtype::F64 {
            let message = format!(
                "{} rows are stored as f64, but models compute in f32, which needs half the bytes",
                tensor.rows
            );
            let remedy = (name == "x").then_some(Remedy::NarrowFeatures);
            let note = Note::new("wide-floats", tensor.rows, place, message);
            self.add_note(Note { remedy, ..note });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whether_all_is_finite_is_what_counting_says() {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
            let width = dtype.size_bytes();
            // Every pattern of the two highest bytes, at each place of a row with others beside it.
            for high in 0..=u16::MAX {
                let mut bytes = vec![0; 5 * width];
                let at = usize::from(high) % 5 * width + width - 2;
                bytes[at..at + 2].copy_from_slice(&high.to_le_bytes());
                assert_eq!(all_finite(dtype, &bytes), count(dtype, &bytes) == (0, 0), "{high:x}");
            }
        }
    }
}
