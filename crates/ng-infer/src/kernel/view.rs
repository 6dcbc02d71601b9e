//! Tensors as kernels see them: dimensions, and elements in row-major order.

use ng_types::Dtype;

use super::rows::TableRows;
use crate::dfg::Elements;

/// A tensor to read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The length of each dimension.
    pub dims: &'a [usize],
    /// As many elements as the lengths say.
    pub data: Data<'a>,
}

/// Elements to read.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Whole numbers.
    I64(&'a [i64]),
    /// Flags.
    Bool(&'a [bool]),
    /// Half precision, as bits.
    F16(&'a [u16]),
    /// Steps of quantised weights.
    I8(&'a [i8]),
    /// Single precision, in rows that lie elsewhere. Only kernels that say so by
    /// [`Kernel::takes_rows`](super::Kernel::takes_rows) see it.
    Rows(TableRows<'a>),
}

/// A tensor to fill. What is in it before has no meaning.
#[derive(Debug)]
pub struct ViewMut<'a> {
    /// The length of each dimension.
    pub dims: &'a [usize],
    /// As many elements as the lengths say.
    pub data: DataMut<'a>,
}

/// Elements to fill.
#[derive(Debug)]
pub enum DataMut<'a> {
    /// Single precision.
    F32(&'a mut [f32]),
    /// Whole numbers.
    I64(&'a mut [i64]),
    /// Flags.
    Bool(&'a mut [bool]),
    /// Half precision, as bits.
    F16(&'a mut [u16]),
    /// Steps of quantised weights.
    I8(&'a mut [i8]),
}

impl<'a> Data<'a> {
    /// The elements of a tensor of shape `dims` that begins at element `start`; the rows, if they
    /// lie elsewhere.
    pub(crate) fn part(self, start: usize, dims: &[usize]) -> Self {
        let len: usize = dims.iter().product();
        let end = start + len;
        match self {
            Self::F32(all) => Self::F32(&all[start..end]),
            Self::I64(all) => Self::I64(&all[start..end]),
            Self::Bool(all) => Self::Bool(&all[start..end]),
            Self::F16(all) => Self::F16(&all[start..end]),
            Self::I8(all) => Self::I8(&all[start..end]),
            Self::Rows(mut table) => {
                let (count, width) = (dims[0], dims[1..].iter().product());
                let first = start.checked_div(width).unwrap_or(0);
                table.rows = &table.rows[first..first + count];
                Self::Rows(table)
            }
        }
    }

    /// How many elements there are; rows, if they lie elsewhere.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(all) => all.len(),
            Self::I64(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::F16(all) => all.len(),
            Self::I8(all) => all.len(),
            Self::Rows(table) => table.rows.len(),
        }
    }
}

impl<'a> View<'a> {
    /// Of elements in the shape `dims`.
    pub fn new(dims: &'a [usize], elements: &'a Elements) -> Self {
        let data = match elements {
            Elements::F32(all) => Data::F32(all),
            Elements::I64(all) => Data::I64(all),
            Elements::Bool(all) => Data::Bool(all),
            Elements::F16(all) => Data::F16(all),
            Elements::I8(all) => Data::I8(all),
        };
        Self { dims, data }
    }

    /// The type of an element.
    pub fn dtype(&self) -> Dtype {
        match self.data {
            Data::F32(_) | Data::Rows(_) => Dtype::F32,
            Data::I64(_) => Dtype::I64,
            Data::Bool(_) => Dtype::Bool,
            Data::F16(_) => Dtype::F16,
            Data::I8(_) => Dtype::I8,
        }
    }

    /// The elements, which are F32 and lie here.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn f32(&self) -> &'a [f32] {
        match self.data {
            Data::F32(all) => all,
            _ => panic!("expected f32, found {}", self.dtype().name()),
        }
    }

    /// The elements, which are I64.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn i64(&self) -> &'a [i64] {
        match self.data {
            Data::I64(all) => all,
            _ => panic!("expected i64, found {}", self.dtype().name()),
        }
    }

    /// The elements, which are Bool.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn bool(&self) -> &'a [bool] {
        match self.data {
            Data::Bool(all) => all,
            _ => panic!("expected bool, found {}", self.dtype().name()),
        }
    }

    /// The elements, which are I8.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn i8(&self) -> &'a [i8] {
        match self.data {
            Data::I8(all) => all,
            _ => panic!("expected i8, found {}", self.dtype().name()),
        }
    }
}

impl<'a> ViewMut<'a> {
    /// Of elements in the shape `dims`.
    pub fn new(dims: &'a [usize], elements: &'a mut Elements) -> Self {
        let data = match elements {
            Elements::F32(all) => DataMut::F32(all),
            Elements::I64(all) => DataMut::I64(all),
            Elements::Bool(all) => DataMut::Bool(all),
            Elements::F16(all) => DataMut::F16(all),
            Elements::I8(all) => DataMut::I8(all),
        };
        Self { dims, data }
    }

    /// Of the first of elements, in the shape `dims`.
    pub(crate) fn first(dims: &'a [usize], elements: &'a mut Elements) -> Self {
        let len: usize = dims.iter().product();
        let data = match elements {
            Elements::F32(all) => DataMut::F32(&mut all[..len]),
            Elements::I64(all) => DataMut::I64(&mut all[..len]),
            Elements::Bool(all) => DataMut::Bool(&mut all[..len]),
            Elements::F16(all) => DataMut::F16(&mut all[..len]),
            Elements::I8(all) => DataMut::I8(&mut all[..len]),
        };
        Self { dims, data }
    }

    /// The elements, which are F32.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn f32(&mut self) -> &mut [f32] {
        match &mut self.data {
            DataMut::F32(all) => all,
            _ => panic!("f32 expected"),
        }
    }

    /// The elements, which are I64.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn i64(&mut self) -> &mut [i64] {
        match &mut self.data {
            DataMut::I64(all) => all,
            _ => panic!("i64 expected"),
        }
    }

    /// The elements, which are Bool.
    ///
    /// # Panics
    ///
    /// They are not: types are checked before a kernel runs.
    pub fn bool(&mut self) -> &mut [bool] {
        match &mut self.data {
            DataMut::Bool(all) => all,
            _ => panic!("bool expected"),
        }
    }
}
