//! [`Finish`]: what follows a product before it is stored.

use crate::lists::{ShapeError, check_length};

/// What is done to a product in the same pass, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Finish<'a> {
    /// Added to each row, if any: as many elements as the product has columns.
    pub bias: Option<&'a [f32]>,
    /// Whether what stands in the result is added.
    pub is_added: bool,
    /// Whether what is negative then becomes 0.
    pub is_rectified: bool,
}

impl<'a> Finish<'a> {
    /// With a bias alone.
    pub fn with(bias: Option<&'a [f32]>) -> Self {
        Self { bias, ..Self::default() }
    }

    /// That the bias fits a product of `width` columns.
    pub(crate) fn check(&self, width: usize) -> Result<(), ShapeError> {
        self.bias.map_or(Ok(()), |bias| check_length("bias", bias.len(), &[width]))
    }
}
