//! What a checked model file says, as plain owned types.
//!
//! What lives here: the types and their meaning. What must not: protobuf, checks. The invariant: a
//! [`Model`] that [`Model::decode`] returned has passed every check of this module, so that a front
//! end may rely on names that are unique and defined and on data that fits its shape.

use ng_types::Dtype;

/// A model file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Version of the file format, as the file states it.
    pub ir_version: i64,
    /// Version of the standard operators, 18 to 22.
    pub opset: i64,
    /// Versions of the other domains, in the order of the file.
    pub opsets: Vec<(String, i64)>,
    /// What is computed.
    pub graph: Graph,
    /// Functions that nodes may call, in the order of the file.
    pub functions: Vec<Function>,
    /// Keys and values of the one who made the file. Keys are unique.
    pub metadata: Vec<(String, String)>,
}

/// The graph of a model. Its nodes are in topological order.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Its name, which may be empty.
    pub name: String,
    /// Values that the caller gives.
    pub inputs: Vec<Value>,
    /// Values that the caller gets.
    pub outputs: Vec<Value>,
    /// Weights and other constants.
    pub initializers: Vec<Tensor>,
    /// Operations.
    pub nodes: Vec<Node>,
}

/// An input or an output of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape; `None` if the file does not even state the rank.
    pub dims: Option<Vec<Dim>>,
}

/// A dimension of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Known from the file.
    Fixed(u64),
    /// The same for all dimensions of this name.
    Symbol(String),
    /// Neither number nor name.
    Unknown,
}

/// A constant tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name; may be empty in attributes.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its shape; empty for a scalar.
    pub dims: Vec<u64>,
    /// Its elements in row-major order.
    pub data: Data,
}

impl Tensor {
    /// Bytes of all elements.
    pub fn bytes_len(&self) -> u64 {
        match &self.data {
            Data::Inline(bytes) => bytes.len() as u64,
            Data::External(range) => range.length,
        }
    }
}

/// Where the elements of a tensor are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Here, little-endian.
    Inline(Vec<u8>),
    /// In a file beside the model.
    External(Range),
}

/// A range of bytes of a file beside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// A plain file name: no directory, no separator.
    pub file: String,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; equal to the bytes of the tensor's shape.
    pub length: u64,
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, which may be empty.
    pub name: String,
    /// The domain of its operator; empty for the standard operators (also if the file says
    /// `ai.onnx`).
    pub domain: String,
    /// The operator.
    pub op_type: String,
    /// Names of the values it reads; an empty name is an optional input that is left out.
    pub inputs: Vec<String>,
    /// Names of the values it makes; an empty name is an optional output that nobody needs.
    pub outputs: Vec<String>,
    /// Constants with unique names.
    pub attributes: Vec<Attribute>,
}

/// A named constant of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f32),
    /// A text.
    Str(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Texts.
    Strs(Vec<String>),
    /// A tensor.
    Tensor(Tensor),
    /// The attribute of this name of the function whose body the node is in.
    Reference(String),
}

/// A function: nodes behind one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name, which nodes state as their operator.
    pub name: String,
    /// Its domain; never the standard one.
    pub domain: String,
    /// Names of its inputs inside the body.
    pub inputs: Vec<String>,
    /// Names of its outputs inside the body.
    pub outputs: Vec<String>,
    /// Attributes that a call must state.
    pub attributes: Vec<String>,
    /// Attributes that a call may state, with the values they have otherwise.
    pub defaults: Vec<Attribute>,
    /// The body, in topological order.
    pub nodes: Vec<Node>,
    /// Versions of the domains that the body uses, as the file states them.
    pub opsets: Vec<(String, i64)>,
}
