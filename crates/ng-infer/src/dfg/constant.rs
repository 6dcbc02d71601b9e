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
}

impl Elements {
    /// The type of an element.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::I64(_) => Dtype::I64,
            Self::Bool(_) => Dtype::Bool,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(all) => all.len(),
            Self::I64(all) => all.len(),
            Self::Bool(all) => all.len(),
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

    /// The elements, for their memory to be used again; `None` where a copy shares them.
    pub fn into_elements(self) -> Option<Elements> {
        Arc::into_inner(self.elements)
    }

    /// The elements in row-major order.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }
}
