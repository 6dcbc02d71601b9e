//! The columns of one record batch.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::flat::{Outside, Table};
use super::schema::{ArrowField, Elements};
use super::{ArrowError, schema};
use crate::IdSlice;

/// Rows of a batch: their numbers are in memory anyway, rows without columns are not.
const ROWS_MAX: u64 = 1 << 40;

/// A record batch: all rows have all values.
#[derive(Clone, Debug)]
pub struct ArrowBatch {
    fields: Arc<[ArrowField]>,
    /// Its number, from 0.
    pub number: u64,
    /// Its rows.
    pub rows: u64,
    body: Vec<u8>,
    /// Where the numbers of each column are.
    values: Vec<Range<usize>>,
}

/// Integers of a column, as ids are.
#[derive(Clone, Debug)]
pub enum OwnedIds {
    /// Signed 32 bits.
    I32(Vec<i32>),
    /// Signed 64 bits.
    I64(Vec<i64>),
    /// Unsigned 32 bits.
    U32(Vec<u32>),
    /// Unsigned 64 bits.
    U64(Vec<u64>),
}

impl OwnedIds {
    /// As 64 bits; negative ones become huge.
    pub fn into_u64(self) -> Vec<u64> {
        match self {
            Self::I32(ids) => ids.into_iter().map(|id| i64::from(id) as u64).collect(),
            Self::I64(ids) => ids.into_iter().map(|id| id as u64).collect(),
            Self::U32(ids) => ids.into_iter().map(u64::from).collect(),
            Self::U64(ids) => ids,
        }
    }

    /// Borrowed.
    pub fn slice(&self) -> IdSlice<'_> {
        match self {
            Self::I32(ids) => IdSlice::I32(ids),
            Self::I64(ids) => IdSlice::I64(ids),
            Self::U32(ids) => IdSlice::U32(ids),
            Self::U64(ids) => IdSlice::U64(ids),
        }
    }
}

impl ArrowBatch {
    /// Types what a message says of its body; what is given out of it has at most `limit` bytes.
    pub(super) fn decode(
        fields: &Arc<[ArrowField]>,
        (number, limit): (u64, usize),
        batch: Table<'_>,
        body: &[u8],
    ) -> Result<Self, ArrowError> {
        let damaged = |what| ArrowError::Damaged { batch: number, what };
        let outside = |Outside| damaged("it is truncated, or an offset is out of range");
        if batch.table(3).map_err(outside)?.is_some() {
            return Err(ArrowError::Compressed { batch: number });
        }
        let rows = batch.long(0).map_err(outside)?;
        let rows = u64::try_from(rows).ok().filter(|rows| *rows <= ROWS_MAX);
        let rows = rows.ok_or_else(|| damaged("the number of rows is out of range"))?;
        let mut parts = Parts {
            nodes: batch.elements(1, 16).map_err(outside)?,
            buffers: batch.elements(2, 16).map_err(outside)?,
            node: 0,
            buffer: 0,
            body,
            number,
        };
        let (mut values, mut spread) = (Vec::with_capacity(fields.len()), 0_u64);
        for field in fields.iter() {
            values.push(parts.column(field, rows)?);
            // Each bit becomes a byte.
            let is_bits = field.elements == Elements::Bool;
            spread = spread.saturating_add(if is_bits { rows * field.columns() } else { 0 });
        }
        if spread > limit as u64 {
            let (batch, bytes, limit) = (number, spread, limit as u64);
            return Err(ArrowError::TooLarge { batch, bytes, limit });
        }
        if (parts.node, parts.buffer) != (parts.nodes.count, parts.buffers.count) {
            return Err(damaged("it has more buffers than its columns need"));
        }
        Ok(Self { fields: Arc::clone(fields), number, rows, body: body.to_vec(), values })
    }

    /// The columns, in the order of the schema.
    pub fn fields(&self) -> &[ArrowField] {
        &self.fields
    }

    /// Bytes that it holds.
    pub fn num_bytes(&self) -> u64 {
        self.body.len() as u64
    }

    fn values(&self, column: usize) -> &[u8] {
        self.values.get(column).and_then(|range| self.body.get(range.clone())).unwrap_or_default()
    }

    /// The numbers of a column, row after row, little-endian; those of bits are bytes of 0 and 1.
    pub fn bytes(&self, column: usize) -> Cow<'_, [u8]> {
        let values = self.values(column);
        let field = self.fields.get(column);
        if field.is_none_or(|field| field.elements != Elements::Bool) {
            return Cow::Borrowed(values);
        }
        let count = self.rows * field.map_or(0, ArrowField::columns);
        let bit = |at: u64| values.get((at / 8) as usize).map_or(0, |byte| byte >> (at % 8) & 1);
        Cow::Owned((0..count).map(bit).collect())
    }

    /// A column as ids.
    ///
    /// # Errors
    /// [`ArrowError::Type`] if it has others than integers of 32 or 64 bits.
    pub fn ids(&self, column: usize) -> Result<OwnedIds, ArrowError> {
        let bytes = self.values(column);
        let field = self.field(column)?;
        Ok(match field.elements {
            _ if !field.shape.is_empty() => return Err(other(field)),
            Elements::Int(32) => OwnedIds::I32(numbers(bytes, i32::from_le_bytes)),
            Elements::Int(64) => OwnedIds::I64(numbers(bytes, i64::from_le_bytes)),
            Elements::Uint(32) => OwnedIds::U32(numbers(bytes, u32::from_le_bytes)),
            Elements::Uint(64) => OwnedIds::U64(numbers(bytes, u64::from_le_bytes)),
            _ => return Err(other(field)),
        })
    }

    /// A column as times.
    ///
    /// # Errors
    /// [`ArrowError::Type`] if it has others than int64 or timestamps.
    pub fn times(&self, column: usize) -> Result<Vec<i64>, ArrowError> {
        let field = self.field(column)?;
        match field.elements {
            Elements::Int(64) | Elements::Timestamp if field.shape.is_empty() => {
                Ok(numbers(self.values(column), i64::from_le_bytes))
            }
            _ => Err(other(field)),
        }
    }

    /// A column as weights.
    ///
    /// # Errors
    /// [`ArrowError::Type`] if it has others than float32.
    pub fn weights(&self, column: usize) -> Result<Vec<f32>, ArrowError> {
        let field = self.field(column)?;
        match field.elements {
            Elements::Float(32) if field.shape.is_empty() => {
                Ok(numbers(self.values(column), f32::from_le_bytes))
            }
            _ => Err(other(field)),
        }
    }

    fn field(&self, column: usize) -> Result<&ArrowField, ArrowError> {
        let missing = ArrowError::Damaged { batch: self.number, what: "it lacks a column" };
        self.fields.get(column).ok_or(missing)
    }
}

fn numbers<T, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect()
}

fn other(field: &schema::ArrowField) -> ArrowError {
    let elements = field.elements.name();
    let found = if field.shape.is_empty() { elements } else { format!("lists of {elements}") };
    ArrowError::Type { column: field.name.clone(), found }
}

/// What is left of the nodes and buffers of a batch.
struct Parts<'a> {
    nodes: super::flat::Elements<'a>,
    buffers: super::flat::Elements<'a>,
    node: usize,
    buffer: usize,
    body: &'a [u8],
    number: u64,
}

impl Parts<'_> {
    fn damaged(&self, what: &'static str) -> ArrowError {
        ArrowError::Damaged { batch: self.number, what }
    }

    /// Where the numbers of a column are.
    fn column(&mut self, field: &ArrowField, rows: u64) -> Result<Range<usize>, ArrowError> {
        let (mut len, mut of_row) = (rows, 1_u64);
        for level in 0..=field.shape.len() {
            self.validity(field, len, of_row)?;
            let Some(list) = field.shape.get(level) else { break };
            let grown = len.checked_mul(*list).zip(of_row.checked_mul(*list));
            (len, of_row) = grown.ok_or_else(|| self.damaged("lists are too long"))?;
        }
        let bits = len.checked_mul(field.elements.bits());
        let bytes = bits.and_then(|bits| usize::try_from(bits.div_ceil(8)).ok());
        let bytes = bytes.ok_or_else(|| self.damaged("a column is too long"))?;
        let found = self.buffer()?;
        if found.len() < bytes {
            return Err(self.damaged("a column is shorter than its rows"));
        }
        Ok(found.start..found.start + bytes)
    }

    /// Takes a node and its validity, of `len` values, of which a row has `of_row`.
    fn validity(&mut self, field: &ArrowField, len: u64, of_row: u64) -> Result<(), ArrowError> {
        let node = self.nodes.pair(self.node);
        let (count, nulls) = node.map_err(|Outside| self.damaged("a column is missing"))?;
        self.node += 1;
        if u64::try_from(count) != Ok(len) {
            return Err(self.damaged("a column does not have as many rows as its batch"));
        }
        let found = self.buffer()?;
        let bits = self.body.get(found).unwrap_or_default();
        let is_null =
            |at: &u64| bits.get((at / 8) as usize).is_some_and(|byte| byte >> (at % 8) & 1 == 0);
        let checked = len.min(bits.len() as u64 * 8);
        let whole = (checked / 8) as usize;
        let all_set = bits.get(..whole).is_some_and(|bits| bits.iter().all(|byte| *byte == 0xff));
        let from = if all_set { whole as u64 * 8 } else { 0 };
        let first = (from..checked).find(is_null);
        if nulls == 0 && first.is_none() {
            return Ok(());
        }
        let (batch, column) = (self.number, field.name.clone());
        let row = first.unwrap_or(0) / of_row.max(1);
        Err(ArrowError::Null { batch, column, row })
    }

    fn buffer(&mut self) -> Result<Range<usize>, ArrowError> {
        let place = self.buffers.pair(self.buffer);
        let (start, len) = place.map_err(|Outside| self.damaged("a buffer is missing"))?;
        self.buffer += 1;
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let range = range.filter(|range| range.end <= self.body.len());
        range.ok_or_else(|| self.damaged("a buffer is outside its batch"))
    }
}
