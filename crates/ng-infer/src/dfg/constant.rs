//! Tensors that belong to a model.

use std::sync::Arc;

use ng_types::Dtype;

/// Elements in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Single precision.
    F32(Vec<f32>),
    /// Whole numbers.
    I64(Vec<i64>),
    /// Flags.
    Bool(Vec<bool>),
    /// Half precision, as bits: weights that are kept narrow until a cast widens them.
    F16(Vec<u16>),
    /// Steps of quantised weights.
    I8(Vec<i8>),
}

impl Elements {
    /// The type of an element.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::I64(_) => Dtype::I64,
            Self::Bool(_) => Dtype::Bool,
            Self::F16(_) => Dtype::F16,
            Self::I8(_) => Dtype::I8,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(all) => all.len(),
            Self::I64(all) => all.len(),
            Self::Bool(all) => all.len(),
            Self::F16(all) => all.len(),
            Self::I8(all) => all.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A tensor that belongs to a model. Copies share the elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    dims: Vec<usize>,
    elements: Arc<Elements>,
}

impl Constant {
    /// A tensor of `dims`; `None` if there are more or fewer elements.
    pub fn new(dims: Vec<usize>, elements: Elements) -> Option<Self> {
        let count = dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim));
        (count == Some(elements.len())).then(|| Self { dims, elements: Arc::new(elements) })
    }

    /// The length of each dimension.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The elements in row-major order.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }
}
