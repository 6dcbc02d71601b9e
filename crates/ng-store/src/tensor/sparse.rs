//! Rows without their zeros: what says where the entries of a row are, and what an entry is.
//!
//! Two segments of narrow rows of equal width: the tensor's own has 8 bytes for each row, the other
//! the entries of all rows. Nothing here does I/O. Invariant: a [`Span`] that [`Span::decode`]
//! gave lies inside of the entries that there are, and an entry that [`EntryForm::decode`] gave has
//! a column of the row.

use crate::bytes::{le_u16, le_u32, put};
use crate::catalog::{SparseMeta, SparseValue};
use crate::error::Damage;
use crate::limits::SPARSE_ENTRIES_MAX;
use crate::tensor::layout::RowLayout;

/// Rows without their zeros, as compressed sparse rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseRows {
    /// Row `i` has entries `indptr[i]..indptr[i + 1]`.
    pub indptr: Vec<usize>,
    /// Columns, ascending in each row.
    pub columns: Vec<u32>,
    /// What stands there; never 0.
    pub values: Vec<f32>,
}

/// The entries of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub count: u64,
}

impl Span {
    pub fn encode(self) -> [u8; 8] {
        (self.count << 40 | self.start).to_le_bytes()
    }

    /// Types what says where the entries of a row are, of `num_entries`, at most one for each of
    /// `columns`.
    pub fn decode(bytes: [u8; 8], num_entries: u64, columns: u64) -> Result<Self, Damage> {
        let bits = u64::from_le_bytes(bytes);
        let span = Self { start: bits & (SPARSE_ENTRIES_MAX - 1), count: bits >> 40 };
        if span.start + span.count > num_entries || span.count > columns {
            let Self { start, count } = span;
            let what = format!(
                "a row has {count} entries from entry {start}, but there are {num_entries}"
            );
            return Err(Damage::new(what));
        }
        Ok(span)
    }

    pub fn end(self) -> u64 {
        self.start + self.count
    }
}

/// What an entry looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryForm {
    pub column_bytes: u8,
    pub value: SparseValue,
    /// Columns of a row.
    columns: u64,
}

impl EntryForm {
    /// The narrowest for rows of `columns`.
    pub fn new(columns: u64, value: SparseValue) -> Self {
        let column_bytes = if columns <= 1 << 16 { 2 } else { 4 };
        Self { column_bytes, value, columns }
    }

    /// What the catalog says, if that is possible.
    pub fn of(meta: &SparseMeta, columns: u64) -> Option<Self> {
        let form = Self { column_bytes: meta.column_bytes, value: meta.value, columns };
        let is_possible = match form.column_bytes {
            2 => columns <= 1 << 16,
            4 => columns <= 1 << 32,
            _ => false,
        };
        is_possible.then_some(form)
    }

    pub fn entry_bytes(self) -> usize {
        usize::from(self.column_bytes) + self.value.size_bytes()
    }

    /// Where entries are: they are rows of equal width, too.
    pub fn layout(self) -> RowLayout {
        RowLayout::best(self.entry_bytes() as u64)
    }

    /// Appends an entry; false where the value does not fit.
    pub fn encode(self, column: u32, value: f32, out: &mut Vec<u8>) -> bool {
        match self.column_bytes {
            2 => out.extend_from_slice(&(column as u16).to_le_bytes()),
            _ => out.extend_from_slice(&column.to_le_bytes()),
        }
        match self.value {
            SparseValue::One => value == 1.0,
            SparseValue::U8 => {
                out.push(value as u8);
                value >= 1.0 && f32::from(value as u8) == value
            }
            SparseValue::F32 => {
                out.extend_from_slice(&value.to_le_bytes());
                value != 0.0
            }
        }
    }

    /// The column and the value of an entry.
    #[inline]
    pub fn decode(self, entry: &[u8]) -> Result<(u32, f32), Damage> {
        let width = usize::from(self.column_bytes);
        let column = if width == 2 { u32::from(le_u16(entry, 0)) } else { le_u32(entry, 0) };
        let value = match self.value {
            SparseValue::One => 1.0,
            SparseValue::U8 => f32::from(entry.get(width).copied().unwrap_or(0)),
            SparseValue::F32 => f32::from_bits(le_u32(entry, width)),
        };
        if u64::from(column) >= self.columns {
            return Err(Damage::new(format!(
                "an entry has column {column}, but there are {} columns",
                self.columns
            )));
        }
        if value == 0.0 {
            return Err(Damage::new(format!("an entry of column {column} has the value 0")));
        }
        Ok((column, value))
    }
}

/// Puts a value into a row of f32.
#[inline]
pub(crate) fn put_value(row: &mut [u8], column: u32, value: f32) {
    put(row, column as usize * 4, &value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SPARSE_ROW_ENTRIES_MAX;

    #[test]
    fn a_span_says_what_was_put_into_it_and_nothing_past_the_end() {
        let span = Span { start: SPARSE_ENTRIES_MAX - 5, count: 5 };
        assert_eq!(Span::decode(span.encode(), SPARSE_ENTRIES_MAX, 5).ok(), Some(span));
        assert!(Span::decode(span.encode(), SPARSE_ENTRIES_MAX - 1, 5).is_err());
        assert!(Span::decode(span.encode(), SPARSE_ENTRIES_MAX, 4).is_err());
        let most = Span { start: 0, count: SPARSE_ROW_ENTRIES_MAX };
        assert_eq!(Span::decode(most.encode(), 1 << 30, 1 << 28).ok(), Some(most));
        assert_eq!(Span::decode([0; 8], 0, 1).ok(), Some(Span::default()));
    }

    #[test]
    fn entries_of_every_form_decode_to_what_was_encoded() {
        for columns in [1, 65_536, 65_537, 1 << 28] {
            for (value, fits, bad) in [
                (SparseValue::One, vec![1.0], vec![0.0, 2.0, f32::NAN]),
                (SparseValue::U8, vec![1.0, 2.0, 255.0], vec![0.0, 256.0, 1.5, -1.0, f32::NAN]),
                (SparseValue::F32, vec![-1.5, f32::INFINITY, 1e-40], vec![0.0, -0.0]),
            ] {
                let form = EntryForm::new(columns, value);
                for number in fits {
                    let mut bytes = Vec::new();
                    assert!(form.encode((columns - 1) as u32, number, &mut bytes));
                    assert_eq!(bytes.len(), form.entry_bytes());
                    assert_eq!(form.decode(&bytes).ok(), Some(((columns - 1) as u32, number)));
                }
                for number in bad {
                    assert!(!form.encode(0, number, &mut Vec::new()), "{value:?} {number}");
                }
            }
        }
        let narrow = EntryForm::new(10, SparseValue::One);
        assert!(narrow.decode(&[10, 0]).is_err());
        assert!(EntryForm::new(10, SparseValue::U8).decode(&[9, 0, 0]).is_err());
        let minus_zero = [9, 0, 0, 0, 0, 0x80];
        assert!(EntryForm::new(10, SparseValue::F32).decode(&minus_zero).is_err());
    }
}
