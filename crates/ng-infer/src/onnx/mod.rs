//! The reader of ONNX model files that strangers made.
//!
//! What lives here: the messages of ONNX, the checks, and the plain types that come out of them.
//! What must not: what an operator means, and file access: [`Model::decode`] takes bytes, and
//! [`ExternalFiles`] reads weights through closures of the caller, who must open files without
//! following symbolic links. The invariant: whatever the bytes are, the reader returns a model that
//! has passed every check, or one [`OnnxError`]; it does not panic, does not recurse along the
//! input, and allocates at most a fixed multiple of the bytes that the caller allows.

mod attributes;
mod dtypes;
mod error;
mod external;
mod functions;
mod model;
mod names;
mod nodes;
mod opsets;
pub mod proto;
mod read;
mod scan;
mod tensors;
mod values;

pub use error::OnnxError;
pub use external::ExternalFiles;
pub use model::{
    Attribute, AttributeValue, Data, Dim, Function, Graph, Model, Node, Range, Tensor, Value,
};
pub use opsets::{OPSET_MAX, OPSET_MIN};
pub use read::{FILE_BYTES, FILE_BYTES_MAX};
pub use scan::{EXPANSION_MAX, INITIALIZERS_MAX, NODES_MAX};
