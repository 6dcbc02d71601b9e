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

    /// So many zeros; `None` if the type is not computed with, or memory is not there.
    pub(crate) fn zeros(dtype: Dtype, len: usize) -> Option<Self> {
        fn zeros<T: Clone>(zero: T, len: usize) -> Option<Vec<T>> {
            let mut all = Vec::new();
            all.try_reserve_exact(len).ok()?;
            all.resize(len, zero);
            Some(all)
        }
        match dtype {
            Dtype::F32 => zeros(0.0, len).map(Self::F32),
            Dtype::I64 => zeros(0, len).map(Self::I64),
            Dtype::Bool => zeros(false, len).map(Self::Bool),
            Dtype::F16 => zeros(0, len).map(Self::F16),
            Dtype::I8 => zeros(0, len).map(Self::I8),
            _ => None,
        }
    }

    /// Makes room for `len` elements, and says whether memory was needed; `None` if it is not
    /// there.
    pub(crate) fn grow(&mut self, len: usize) -> Option<bool> {
        fn grow<T: Clone>(all: &mut Vec<T>, filler: T, len: usize) -> Option<bool> {
            let grows = all.capacity() < len;
            if grows {
                all.try_reserve_exact(len - all.len()).ok()?;
            }
            if all.len() < len {
                all.resize(len, filler.clone());
            }
            // Whoever reads what nobody wrote is to be seen in tests.
            if cfg!(debug_assertions) {
                all[..len].fill(filler);
            }
            Some(grows)
        }
        match self {
            Self::F32(all) => grow(all, f32::NAN, len),
            Self::I64(all) => grow(all, i64::MIN, len),
            Self::Bool(all) => grow(all, true, len),
            Self::F16(all) => grow(all, 0x7E00, len),
            Self::I8(all) => grow(all, i8::MIN, len),
        }
    }

    /// Bytes of the memory that is held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::F32(all) => all.capacity() * 4,
            Self::I64(all) => all.capacity() * 8,
            Self::Bool(all) => all.capacity(),
            Self::F16(all) => all.capacity() * 2,
            Self::I8(all) => all.capacity(),
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

    /// A list of whole numbers.
    pub(crate) fn list(numbers: Vec<i64>) -> Self {
        Self { dims: vec![numbers.len()], elements: Arc::new(Elements::I64(numbers)) }
    }

    /// A whole number without dimensions.
    pub(crate) fn number(number: i64) -> Self {
        Self { dims: Vec::new(), elements: Arc::new(Elements::I64(vec![number])) }
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
