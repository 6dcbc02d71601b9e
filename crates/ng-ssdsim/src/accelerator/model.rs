//! The widths of a model, and what its layers do.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a layer does with the rows of a node and its neighbours (HolisticGNN, section II.A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Sums neighbours; one product.
    #[default]
    Sage,
    /// Scales rows and sums them, the node's own among them; one product.
    Gcn,
    /// Sums neighbours and the weighted own row; a product for each of two layers of a perceptron.
    Gin,
    /// Sums the scaled rows of neighbours, and their products element by element with the node's
    /// own row; a product for each sum.
    Ngcf,
}

/// The widths of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Columns of a row of features.
    pub columns: u64,
    /// Columns in between.
    pub hidden: u64,
    /// Columns of the result.
    pub outputs: u64,
    /// Whether gradients are computed, too.
    pub backward: bool,
    /// What its layers do.
    #[serde(default)]
    pub layer: Layer,
}

/// The largest widths that can be simulated: of features (0 is allowed), and of all other rows.
const COLUMNS_MAX: u64 = 1 << 20;
const WIDTH_MAX: u64 = 1 << 16;

/// A width that no model has.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{what} is {value}; use {least} to {most}")]
pub struct WidthError {
    /// Which.
    pub what: &'static str,
    /// What was given.
    pub value: u64,
    least: u64,
    most: u64,
}

impl Model {
    /// Names the first width that cannot be simulated.
    pub fn check(&self) -> Result<(), WidthError> {
        let widths = [
            ("columns", self.columns, 0, COLUMNS_MAX),
            ("hidden", self.hidden, 1, WIDTH_MAX),
            ("outputs", self.outputs, 1, WIDTH_MAX),
        ];
        let is_out =
            |&&(_, value, least, most): &&(_, u64, u64, u64)| !(least..=most).contains(&value);
        match widths.iter().find(is_out) {
            None => Ok(()),
            Some(&(what, value, least, most)) => Err(WidthError { what, value, least, most }),
        }
    }
}
