//! Why a model file does not become a graph.

use ng_types::explain;
use thiserror::Error;

use crate::dfg::DfgError;
use crate::onnx::OnnxError;

/// Why a model file does not become a graph.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// Its weights cannot be read.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// Its graph is not one.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// An operator, or a form of it, that the engine does not have.
    #[error("{node}: {op}: {problem}")]
    Unsupported {
        /// Which node.
        node: String,
        /// Its operator.
        op: String,
        /// What is not supported.
        problem: String,
    },
    /// A tensor of a type that the engine does not compute with.
    #[error("{tensor} is {dtype}; the engine supports f32, f16, bf16, bool and integers")]
    Dtype {
        /// Which tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },
    /// A note of the file that cannot be read.
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
