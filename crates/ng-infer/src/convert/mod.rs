//! From model files to dataflow graphs, and back.
//!
//! What lives here: which operators of ONNX are which operations, functions of strangers in line,
//! weights as tensors, and the files of graphs (`to_onnx/`). What must not: checks of the file,
//! which its reader did. The invariant: what a file says is done, or the file is refused; nothing
//! of it is left out.

mod adapt;
mod batch_pre;
mod error;
mod inline;
mod narrow;
mod to_onnx;
mod weights;

use std::collections::BTreeMap;

use crate::dfg::{Dfg, DfgError, Dim, TensorType};
use crate::onnx::{self, Model, OnnxError, Tensor};
pub use batch_pre::BATCH_PRE_KEY;
use batch_pre::Note;
pub use error::ConvertError;
use inline::Scope;
pub use to_onnx::{ModelFiles, SaveError, has_counterpart};
pub use weights::widened;

/// Gives the elements of a tensor of the model, little-endian.
pub type ReadTensor<'a> = dyn FnMut(&Tensor) -> Result<Vec<u8>, OnnxError> + 'a;

impl Dfg {
    /// The graph of a model file; `read` gives the elements of its tensors, as
    /// [`onnx::ExternalFiles`] does.
    ///
    /// Narrow weights are widened: the engine computes in f32, and whole numbers are I64. Those
    /// stay narrow that the graph casts itself, and the steps of quantised products.
    ///
    /// # Errors
    ///
    /// An operator is not supported, a weight cannot be read, or types do not fit.
    pub fn from_onnx(model: &Model, read: &mut ReadTensor<'_>) -> Result<Self, ConvertError> {
        let mut dfg = Self::default();
        let note = Note::of(model)?;
        if let Some(note) = &note {
            note.create_in(&mut dfg)?;
        }
        let is_given = |name: &str| note.as_ref().is_some_and(|note| note.gives(name));
        for input in model.graph.inputs.iter().filter(|input| !is_given(&input.name)) {
            if model.graph.initializers.iter().any(|tensor| tensor.name == input.name) {
                continue; // A default that the caller cannot see: it is a weight.
            }
            dfg.create_in(&input.name, input_type(input)?)?;
        }
        let narrow = narrow::narrow(model);
        for tensor in &model.graph.initializers {
            let bytes = read(tensor)?;
            let constant = match narrow.contains(tensor.name.as_str()) {
                true => weights::as_stored(tensor, &bytes)?,
                false => widened(tensor, &bytes)?,
            };
            dfg.create_weight(&tensor.name, constant)?;
        }
        if let Some(note) = &note {
            note.create_op(&mut dfg)?;
        }
        let mut scope = Scope::new(model, read);
        scope.add(&mut dfg, &model.graph.nodes, "", &BTreeMap::new())?;
        for output in &model.graph.outputs {
            let value = dfg.value(&output.name).ok_or_else(|| DfgError::Undefined {
                node: format!("output {:?}", output.name),
                value: output.name.clone(),
            })?;
            dfg.create_out(&output.name, value)?;
        }
        Ok(dfg)
    }
}

/// `None` where the file does not say the shape.
fn input_type(input: &onnx::Value) -> Result<Option<TensorType>, ConvertError> {
    let dtype = weights::computed(&format!("input {:?}", input.name), input.dtype)?;
    let Some(dims) = &input.dims else { return Ok(None) };
    let dim = |(axis, dim): (usize, &onnx::Dim)| match dim {
        onnx::Dim::Fixed(len) => Dim::from(i64::try_from(*len).unwrap_or(i64::MAX)),
        onnx::Dim::Symbol(name) => Dim::symbol(name),
        onnx::Dim::Unknown => Dim::symbol(&format!("{}.{axis}", input.name)),
    };
    let shape = dims.iter().enumerate().map(dim).collect();
    Ok(Some(TensorType { dtype, shape }))
}
