//! Why a model file is refused.
//!
//! What lives here: the error of the reader and how it quotes names. What must not: checks. The
//! invariant: names of the file are quoted with escapes and cut, so that a message stays one short
//! line whatever the file holds.

use std::io;

use ng_types::explain;

/// Characters of a name that a message shows at most.
const SHOWN_CHARS_MAX: usize = 80;

/// A name of the file in quotes, with escapes, cut after 80 characters.
pub(super) fn quoted(name: &str) -> String {
    let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    let cut = if shown.len() < name.len() { "..." } else { "" };
    format!("{shown:?}{cut}")
}

/// Why a model file is refused. `place` is a node, a tensor, a value or a function, with its name.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum OnnxError {
    /// More bytes than the caller allows.
    #[error(
        "the model file has {bytes} bytes, more than the limit of {limit}; move its weights to \
         external data"
    )]
    TooLarge { bytes: u64, limit: u64 },
    /// The bytes are not what protobuf or ONNX makes.
    #[error("not an ONNX file: {reason}")]
    NotProtobuf { reason: String },
    /// More of something than the reader takes.
    #[error("the model has {count} {what}, more than the limit of {limit}")]
    TooMany { what: &'static str, count: u64, limit: u64 },
    /// A field that must be there.
    #[error("{place} has no {what}")]
    Missing { place: String, what: &'static str },
    /// Another version of the standard operators.
    #[error("{place} imports opset {found} of the standard operators; supported are 18 to 22")]
    Opset { place: String, found: i64 },
    /// A body with another version than the model.
    #[error("{place} imports opset {found}, but its model imports {model}")]
    FunctionOpset { place: String, found: i64, model: i64 },
    /// Operators that nobody defines.
    #[error(
        "{place} belongs to domain {domain}, which is neither standard, nor ai.neargraph, nor the \
         domain of a function in the file; remove the node or add its function"
    )]
    Domain { place: String, domain: String },
    /// A call of a function that is not there.
    #[error(
        "{place} calls a function of domain {domain}, and the file does not define this function; \
         add its definition"
    )]
    NoFunction { place: String, domain: String },
    /// Branches and loops.
    #[error("{place} contains {what}; control flow is not supported")]
    ControlFlow { place: String, what: String },
    /// A call with more values than its function has.
    #[error("{place} has {given} {what}, but its function has {taken}")]
    Call { place: String, what: &'static str, given: usize, taken: usize },
    /// Something else that the reader does not know.
    #[error("{place} has {what}, which is not supported")]
    Unsupported { place: String, what: String },
    /// An element type that the engine does not have.
    #[error("{place} has elements of type {dtype}, which is not supported; cast the tensor")]
    Dtype { place: String, dtype: String },
    /// A shape that cannot be.
    #[error("{place} has the shape {dims}, which is not valid: {reason}")]
    Dims { place: String, dims: String, reason: &'static str },
    /// Data that does not fit the shape.
    #[error("{place} has {found} {unit} of data, but its shape needs {expected}")]
    DataLength { place: String, unit: &'static str, found: u64, expected: u64 },
    /// Data in the wrong field, or in two.
    #[error("{place} has its data in {found}, expected {expected}")]
    DataField { place: String, found: String, expected: &'static str },
    /// An element that its type cannot hold.
    #[error("{place} has {value} at index {index}, which is not a valid {dtype}")]
    Element { place: String, index: u64, value: i64, dtype: &'static str },
    /// A weight is not finite.
    #[error("{place} has {value} at index {index}; weights must be finite")]
    NotFinite { place: String, index: u64, value: f64 },
    /// A name that may lead out of the model's directory.
    #[error(
        "{place} has its data in {file}, which is not a plain file name; the file must be in the \
         directory of the model"
    )]
    ExternalName { place: String, file: String },
    /// A range that cannot be.
    #[error("{place} has invalid external data: {reason}")]
    ExternalRange { place: String, reason: String },
    /// Two tensors that share bytes.
    #[error("the data of {first} and the data of {second} overlap in file {file}")]
    Overlap { first: String, second: String, file: String },
    /// A range behind the end of its file.
    #[error("the data of {place} ends at byte {end} of file {file}, which has {len} bytes")]
    OutsideFile { place: String, file: String, end: u64, len: u64 },
    /// The file beside the model cannot be read.
    #[error("{place} cannot be read from file {file}: {source}")]
    Read { place: String, file: String, source: io::Error },
    /// A name that must be unique.
    #[error("{place} defines {what} {name} twice; remove or rename one")]
    DefinedTwice { place: String, what: &'static str, name: String },
    /// A name without a definition.
    #[error("{place} uses {what} {name}, which is not defined")]
    Undefined { place: String, what: &'static str, name: String },
    /// Nodes that do not stand in topological order.
    #[error(
        "{place} uses {name} before {later} computes it; nodes must be in topological order, \
         without cycles"
    )]
    Order { place: String, name: String, later: String },
    /// An attribute that cannot be.
    #[error("{place} has attribute {name} {reason}")]
    Attribute { place: String, name: String, reason: String },
    /// A function that calls itself.
    #[error(
        "{place} calls itself through {through}; recursion is not supported; inline the function"
    )]
    Recursion { place: String, through: String },
    /// Functions in functions in functions.
    #[error(
        "{place} calls {callee}, which calls {deepest}; only one level of calls is supported; \
         inline one of the functions"
    )]
    CallDepth { place: String, callee: String, deepest: String },
}

explain! {
    OnnxError {
        TooLarge | TooMany | Domain | Dtype | CallDepth | Recursion => UnsupportedModel,
        Opset | ControlFlow | Unsupported => UnsupportedModel [ExportAgain],
        NotProtobuf | OutsideFile | Read => InvalidModel [CopyModel],
        NotFinite => InvalidModel [TrainAgain],
        Missing | FunctionOpset | Call | Dims | DataLength | DataField | Element | ExternalRange
            | Overlap | Undefined | Attribute => InvalidModel [ExportAgain],
        NoFunction | ExternalName | DefinedTwice | Order => InvalidModel,
    }
}
