//! [`Rows`]: the rows of an answer, as bytes.

use ng_engine::Answer;
use ng_infer::dfg::Elements;
use ng_rpc::v1;

/// Consecutive rows of little-endian numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The type of the numbers.
    pub dtype: v1::Dtype,
    /// The shape of a row.
    pub row: Vec<u64>,
    /// The number of rows.
    pub count: u64,
    /// All numbers.
    pub data: Vec<u8>,
}

impl Rows {
    /// Rows of zeros with the same type and shape.
    pub fn like(&self, count: usize) -> Self {
        let data = vec![0; count * self.row_bytes()];
        Self { dtype: self.dtype, row: self.row.clone(), count: count as u64, data }
    }

    /// The size of a row in bytes.
    pub fn row_bytes(&self) -> usize {
        let width = match self.dtype {
            v1::Dtype::I64 => 8,
            v1::Dtype::F16 | v1::Dtype::Bf16 | v1::Dtype::I16 => 2,
            v1::Dtype::I8 | v1::Dtype::U8 | v1::Dtype::Bool => 1,
            _ => 4,
        };
        width * self.row.iter().product::<u64>() as usize
    }

    /// A row.
    pub fn get(&self, at: usize) -> &[u8] {
        let width = self.row_bytes();
        &self.data[at * width..(at + 1) * width]
    }

    /// Replaces a row.
    pub fn set(&mut self, at: usize, row: &[u8]) {
        let width = self.row_bytes();
        self.data[at * width..(at + 1) * width].copy_from_slice(row);
    }

    /// The dot products of pairs of rows, equal to those of the engine. `None` unless the rows are
    /// f32 vectors.
    pub fn dots(&self, pairs: impl ExactSizeIterator<Item = (usize, usize)>) -> Option<Self> {
        if self.dtype != v1::Dtype::F32 || self.row.len() != 1 {
            return None;
        }
        let floats = |at: usize| {
            let all = self.get(at).chunks_exact(4);
            all.map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let count = pairs.len() as u64;
        let dot = |(a, b)| floats(a).zip(floats(b)).map(|(a, b)| a * b).sum::<f32>();
        let data = pairs.flat_map(|pair| dot(pair).to_le_bytes()).collect();
        Some(Self { dtype: v1::Dtype::F32, row: Vec::new(), count, data })
    }
}

impl From<&Answer> for Rows {
    fn from(answer: &Answer) -> Self {
        fn bytes<const N: usize, T: Copy>(all: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
            let mut out = Vec::with_capacity(N * all.len());
            out.extend(all.iter().flat_map(|one| to(*one)));
            out
        }
        let (dtype, data) = match &answer.elements {
            Elements::F32(all) => (v1::Dtype::F32, bytes(all, f32::to_le_bytes)),
            Elements::I64(all) => (v1::Dtype::I64, bytes(all, i64::to_le_bytes)),
            Elements::Bool(all) => (v1::Dtype::Bool, bytes(all, |flag| [u8::from(flag)])),
            Elements::F16(all) => (v1::Dtype::F16, bytes(all, u16::to_le_bytes)),
            Elements::I8(all) => (v1::Dtype::I8, bytes(all, i8::to_le_bytes)),
        };
        let (count, row) = answer.dims.split_first().map_or((0, &[][..]), |(n, row)| (*n, row));
        let row = row.iter().map(|len| *len as u64).collect();
        Self { dtype, row, count: count as u64, data }
    }
}

impl From<Rows> for v1::Tensor {
    fn from(rows: Rows) -> Self {
        let shape = [&[rows.count], rows.row.as_slice()].concat();
        Self { dtype: rows.dtype.into(), shape, data: rows.data.into() }
    }
}
