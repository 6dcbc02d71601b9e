//! What an engine answers: a row for each node, pair or graph that was asked for.

use ng_infer::dfg::Elements;
use ng_infer::kernel::{Data, View};
use ng_types::{Dtype, Reservation};

use crate::EngineError;

/// Rows in the order of the request.
#[derive(Debug)]
pub struct Answer {
    /// Lengths of all dimensions; the first is that of the request.
    pub dims: Vec<usize>,
    /// Elements in row-major order.
    pub elements: Elements,
    /// What pays for them.
    pub held: Option<Reservation>,
}

impl PartialEq for Answer {
    /// Equal content; who pays does not count.
    fn eq(&self, other: &Self) -> bool {
        self.dims == other.dims && self.elements == other.elements
    }
}

/// Collects rows of the batches that a request is cut into.
pub(crate) struct Collected {
    dims: Vec<usize>,
    elements: Option<Elements>,
    rows: usize,
}

impl Collected {
    /// Has room for `rows` rows.
    pub fn new(rows: usize) -> Self {
        Self { dims: Vec::new(), elements: None, rows }
    }

    /// Takes row `from[i]` of a result as row `to[i]` of the answer.
    pub fn take(
        &mut self,
        result: View<'_>,
        pairs: impl Iterator<Item = (usize, usize)>,
    ) -> Result<(), EngineError> {
        let (first, row) = result.dims.split_first().ok_or_else(|| EngineError::Output {
            problem: "the model returns a single number, expected one row per target".to_owned(),
        })?;
        let width: usize = row.iter().product();
        if self.elements.is_none() {
            self.dims = [&[self.rows], row].concat();
            self.elements = Some(zeros(result.data, self.rows * width));
        }
        let Some(elements) = self.elements.as_mut().filter(|_| self.dims[1..] == *row) else {
            let problem = "the model returns rows of different lengths for parts of one request";
            return Err(EngineError::Output { problem: problem.to_owned() });
        };
        for (from, to) in pairs {
            if from >= *first {
                return Err(EngineError::Output {
                    problem: format!(
                        "the model returns {first} rows, but the request needs row {from} \
                         (counted from 0)"
                    ),
                });
            }
            copy_row(result.data, from, elements, to, width);
        }
        Ok(())
    }

    /// All rows. Where nothing was asked for, `row` says what they would have been.
    pub fn into_answer(self, row: Option<&(Dtype, Vec<usize>)>) -> Answer {
        let nothing = || match row.map(|(dtype, _)| dtype) {
            Some(Dtype::I64) => Elements::I64(Vec::new()),
            Some(Dtype::Bool) => Elements::Bool(Vec::new()),
            _ => Elements::F32(Vec::new()),
        };
        let dims = match self.elements {
            Some(_) => self.dims,
            None => [&[0][..], row.map_or(&[][..], |(_, dims)| dims)].concat(),
        };
        Answer { dims, elements: self.elements.unwrap_or_else(nothing), held: None }
    }
}

fn zeros(like: Data<'_>, len: usize) -> Elements {
    match like {
        // Outputs are never rows of a table.
        Data::F32(_) | Data::Rows(_) => Elements::F32(vec![0.0; len]),
        Data::I64(_) => Elements::I64(vec![0; len]),
        Data::Bool(_) => Elements::Bool(vec![false; len]),
        Data::F16(_) => Elements::F16(vec![0; len]),
        Data::I8(_) => Elements::I8(vec![0; len]),
    }
}

fn copy_row(from: Data<'_>, row: usize, to: &mut Elements, at: usize, width: usize) {
    fn copy<T: Copy>(from: &[T], row: usize, to: &mut [T], at: usize, width: usize) {
        to[at * width..(at + 1) * width].copy_from_slice(&from[row * width..(row + 1) * width]);
    }
    match (from, to) {
        (Data::F32(from), Elements::F32(to)) => copy(from, row, to, at, width),
        (Data::I64(from), Elements::I64(to)) => copy(from, row, to, at, width),
        (Data::Bool(from), Elements::Bool(to)) => copy(from, row, to, at, width),
        (Data::F16(from), Elements::F16(to)) => copy(from, row, to, at, width),
        (Data::I8(from), Elements::I8(to)) => copy(from, row, to, at, width),
        _ => {}
    }
}
