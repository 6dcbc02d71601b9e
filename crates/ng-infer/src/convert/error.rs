//! Errors of converting a model file to a graph.

use ng_types::explain;
use thiserror::Error;

use crate::dfg::DfgError;
use crate::onnx::OnnxError;

/// Errors of converting a model file to a graph.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// Its weights cannot be read.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// Its graph is not valid.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// An operator, or a form of it, that the engine does not support.
    #[error("{node}: {op}: {problem}")]
    Unsupported {
        /// Which node.
        node: String,
        /// Its operator.
        op: String,
        /// The unsupported feature.
        problem: String,
    },
    /// A tensor of an unsupported type.
    #[error("{tensor} is {dtype}; the engine supports f32, f16, bf16, bool and integers")]
    Dtype {
        /// Which tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A metadata entry of the file is not valid.
    #[error("the metadata entry {key:?} is not valid; save the model again")]
    Metadata {
        /// Its key.
        key: &'static str,
    },
}

explain! {
    ConvertError {
        Unsupported | Dtype => UnsupportedModel [ExportAgain],
        Metadata => InvalidModel,
    }
    of Onnx.0, Dfg.0
}
