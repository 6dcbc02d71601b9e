//! A bound on the memory of decoding, found before anything is decoded.
//!
//! What lives here: one walk over the wire format that counts nodes and initializers and adds up
//! what the decoder will allocate. Two bytes of a file can become a message of hundreds of bytes,
//! so the size of the file alone is not a bound. What must not: meaning; what is malformed is left
//! to the decoder. The invariant: the walk recurses along the types of messages, of which none
//! contains itself.

use std::mem::size_of;

use super::error::OnnxError;
use super::proto;

/// Nodes of the graph and of all functions together.
pub const NODES_MAX: u64 = 100_000;
/// Initializers of the graph.
pub const INITIALIZERS_MAX: u64 = 65_536;
/// Bytes that the decoded messages may take for each byte that the file may have.
pub const EXPANSION_MAX: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Value,
    Type,
    TensorType,
    Shape,
    Dimension,
    Function,
    Opset,
    Entry,
}

/// What the bytes of a length-delimited field are.
enum Content {
    Message(Kind),
    Varints,
    Bytes,
}

impl Kind {
    /// Bytes of the decoded message, without what it points to.
    fn size(self) -> usize {
        match self {
            Self::Model => size_of::<proto::ModelProto>(),
            Self::Graph => size_of::<proto::GraphProto>(),
            Self::Node => size_of::<proto::NodeProto>(),
            Self::Attribute => size_of::<proto::AttributeProto>(),
            Self::Tensor => size_of::<proto::TensorProto>(),
            Self::Value => size_of::<proto::ValueInfoProto>(),
            Self::Type => size_of::<proto::TypeProto>(),
            Self::TensorType => size_of::<proto::TensorTypeProto>(),
            Self::Shape => size_of::<proto::TensorShapeProto>(),
            Self::Dimension => size_of::<proto::DimensionProto>(),
            Self::Function => size_of::<proto::FunctionProto>(),
            Self::Opset => size_of::<proto::OperatorSetIdProto>(),
            Self::Entry => size_of::<proto::StringStringEntryProto>(),
        }
    }

    /// What a field of this message holds.
    fn content(self, field: u64) -> Content {
        let kind = match (self, field) {
            (Self::Model, 7) => Self::Graph,
            (Self::Model, 8) | (Self::Function, 9) => Self::Opset,
            (Self::Model, 14) | (Self::Tensor, 13) => Self::Entry,
            (Self::Model, 25) => Self::Function,
            (Self::Graph, 1) | (Self::Function, 7) => Self::Node,
            (Self::Graph, 5) | (Self::Attribute, 5) => Self::Tensor,
            (Self::Graph, 11 | 12) => Self::Value,
            (Self::Node, 5) | (Self::Function, 11) => Self::Attribute,
            (Self::Value, 2) => Self::Type,
            (Self::Type, 1) => Self::TensorType,
            (Self::TensorType, 2) => Self::Shape,
            (Self::Shape, 1) => Self::Dimension,
            (Self::Tensor, 1 | 5 | 7 | 11) | (Self::Attribute, 8) => return Content::Varints,
            _ => return Content::Bytes,
        };
        Content::Message(kind)
    }
}

/// What one walk counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    nodes: u64,
    initializers: u64,
    bytes: u64,
}

/// A malformed message; the decoder says what is wrong with it.
struct Malformed;

/// Reads a varint and moves `bytes` behind it.
fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&first, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

/// Takes `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: u64) -> Result<&'a [u8], Malformed> {
    let len = usize::try_from(len).map_err(|_| Malformed)?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or(Malformed)?;
    *bytes = rest;
    Ok(taken)
}

impl Counts {
    fn message(&mut self, kind: Kind, mut bytes: &[u8]) -> Result<(), Malformed> {
        self.bytes += kind.size() as u64;
        self.nodes += u64::from(kind == Kind::Node);
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            match key & 7 {
                0 => drop(varint(&mut bytes)?),
                1 => drop(take(&mut bytes, 8)?),
                2 => {
                    let len = varint(&mut bytes)?;
                    let content = take(&mut bytes, len)?;
                    self.field(kind, key >> 3, content)?;
                }
                // A group is walked as if its fields were fields of the message: counts may only
                // come out too large.
                3 | 4 => {}
                5 => drop(take(&mut bytes, 4)?),
                _ => return Err(Malformed),
            }
            self.bytes += 8; // An unpacked number, at most.
        }
        Ok(())
    }

    fn field(&mut self, parent: Kind, field: u64, content: &[u8]) -> Result<(), Malformed> {
        match parent.content(field) {
            Content::Message(kind) => {
                self.initializers += u64::from(parent == Kind::Graph && kind == Kind::Tensor);
                return self.message(kind, content);
            }
            Content::Varints => {
                self.bytes += 8 * content.iter().filter(|byte| **byte < 0x80).count() as u64;
            }
            Content::Bytes => self.bytes += (size_of::<Vec<u8>>() + content.len()) as u64,
        }
        Ok(())
    }
}

/// Refuses a file whose messages are too many or too large once decoded.
pub(super) fn check_counts(bytes: &[u8], file_bytes_max: u64) -> Result<(), OnnxError> {
    let mut counts = Counts::default();
    // What stands before the malformed byte counts all the same: the decoder comes that far.
    let _ = counts.message(Kind::Model, bytes);
    let bounds = [
        ("nodes", counts.nodes, NODES_MAX),
        ("initializers", counts.initializers, INITIALIZERS_MAX),
        ("bytes of decoded protobuf messages", counts.bytes, file_bytes_max * EXPANSION_MAX),
    ];
    for (what, count, limit) in bounds {
        if count > limit {
            return Err(OnnxError::TooMany { what, count, limit });
        }
    }
    Ok(())
}
