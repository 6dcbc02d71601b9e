//! The messages of `onnx.proto3` that the reader understands, with the field numbers of ONNX.
//!
//! What lives here: plain messages, for the reader and for tests that write models. What must not:
//! checks. The invariant: no message contains itself. Fields that would nest (graphs in attributes,
//! sparse tensors, training information) are kept as bytes, because the reader only refuses them;
//! so a hostile file cannot make the decoder recurse.
//!
//! Names and meanings are those of `onnx.proto3`, release 1.23; fields that are missing here are
//! skipped. The messages are written with a macro instead of prost's own derive, which needs a
//! second version of `syn`.
#![allow(missing_docs)] // The fields are documented by ONNX.

use prost::bytes::{Buf, BufMut};
use prost::encoding::{
    DecodeContext, WireType, bytes, double, float, int32, int64, message, skip_field, string,
    uint64,
};
use prost::{DecodeError, Message};

/// Merges a field that is there once (`one`), a list of messages or texts (`many`), or a list of
/// numbers (`packed`).
macro_rules! merge {
    (one $of:ident, $field:expr, $wire:expr, $from:expr, $context:expr) => {
        $of::merge($wire, $field.get_or_insert_with(Default::default), $from, $context)
    };
    ($list:ident $of:ident, $field:expr, $wire:expr, $from:expr, $context:expr) => {
        $of::merge_repeated($wire, &mut $field, $from, $context)
    };
}

/// Writes a field.
macro_rules! encode {
    (one $of:ident, $number:literal, $field:expr, $into:expr) => {
        if let Some(value) = &$field {
            $of::encode($number, value, $into);
        }
    };
    (many $of:ident, $number:literal, $field:expr, $into:expr) => {
        $of::encode_repeated($number, &$field, $into)
    };
    (packed $of:ident, $number:literal, $field:expr, $into:expr) => {
        $of::encode_packed($number, &$field, $into)
    };
}

/// Bytes of a field.
macro_rules! length {
    (one $of:ident, $number:literal, $field:expr) => {
        $field.as_ref().map_or(0, |value| $of::encoded_len($number, value))
    };
    (many $of:ident, $number:literal, $field:expr) => {
        $of::encoded_len_repeated($number, &$field)
    };
    (packed $of:ident, $number:literal, $field:expr) => {
        $of::encoded_len_packed($number, &$field)
    };
}

/// A message: each field with its type, how often it is there, its kind and its number.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident {
        $($field:ident: $type:ty = $often:ident $of:ident $number:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl Message for $name {
            fn encode_raw(&self, into: &mut impl BufMut) {
                $(encode!($often $of, $number, self.$field, into);)*
            }

            fn merge_field(
                &mut self,
                number: u32,
                wire: WireType,
                from: &mut impl Buf,
                context: DecodeContext,
            ) -> Result<(), DecodeError> {
                match number {
                    $($number => merge!($often $of, self.$field, wire, from, context)
                        .map_err(|mut error| {
                            error.push(stringify!($name), stringify!($field));
                            error
                        }),)*
                    _ => skip_field(wire, number, from, context),
                }
            }

            fn encoded_len(&self) -> usize {
                0 $(+ length!($often $of, $number, self.$field))*
            }

            fn clear(&mut self) {
                *self = Self::default();
            }
        }
    };
}

message! {
    /// A model file.
    ModelProto {
        ir_version: Option<i64> = one int64 1,
        graph: Option<GraphProto> = one message 7,
        opset_import: Vec<OperatorSetIdProto> = many message 8,
        metadata_props: Vec<StringStringEntryProto> = many message 14,
        training_info: Vec<Vec<u8>> = many bytes 20,
        functions: Vec<FunctionProto> = many message 25,
    }
}

message! {
    /// A key with its value.
    StringStringEntryProto {
        key: Option<String> = one string 1,
        value: Option<String> = one string 2,
    }
}

message! {
    /// The version of a set of operators.
    OperatorSetIdProto {
        domain: Option<String> = one string 1,
        version: Option<i64> = one int64 2,
    }
}

message! {
    /// The graph of a model.
    GraphProto {
        node: Vec<NodeProto> = many message 1,
        name: Option<String> = one string 2,
        initializer: Vec<TensorProto> = many message 5,
        input: Vec<ValueInfoProto> = many message 11,
        output: Vec<ValueInfoProto> = many message 12,
        sparse_initializer: Vec<Vec<u8>> = many bytes 15,
    }
}

message! {
    /// One operation.
    NodeProto {
        input: Vec<String> = many string 1,
        output: Vec<String> = many string 2,
        name: Option<String> = one string 3,
        op_type: Option<String> = one string 4,
        attribute: Vec<AttributeProto> = many message 5,
        domain: Option<String> = one string 7,
        overload: Option<String> = one string 8,
    }
}

message! {
    /// A named constant of a node.
    AttributeProto {
        name: Option<String> = one string 1,
        f: Option<f32> = one float 2,
        i: Option<i64> = one int64 3,
        s: Option<Vec<u8>> = one bytes 4,
        t: Option<Box<TensorProto>> = one message 5,
        g: Option<Vec<u8>> = one bytes 6,
        floats: Vec<f32> = packed float 7,
        ints: Vec<i64> = packed int64 8,
        strings: Vec<Vec<u8>> = many bytes 9,
        graphs: Vec<Vec<u8>> = many bytes 11,
        r#type: Option<i32> = one int32 20,
        ref_attr_name: Option<String> = one string 21,
        sparse_tensor: Option<Vec<u8>> = one bytes 22,
        sparse_tensors: Vec<Vec<u8>> = many bytes 23,
    }
}

message! {
    /// A tensor with its values, or with the place of them in another file.
    TensorProto {
        dims: Vec<i64> = packed int64 1,
        data_type: Option<i32> = one int32 2,
        segment: Option<Vec<u8>> = one bytes 3,
        float_data: Vec<f32> = packed float 4,
        int32_data: Vec<i32> = packed int32 5,
        string_data: Vec<Vec<u8>> = many bytes 6,
        int64_data: Vec<i64> = packed int64 7,
        name: Option<String> = one string 8,
        raw_data: Option<Vec<u8>> = one bytes 9,
        double_data: Vec<f64> = packed double 10,
        uint64_data: Vec<u64> = packed uint64 11,
        external_data: Vec<StringStringEntryProto> = many message 13,
        data_location: Option<i32> = one int32 14,
    }
}

message! {
    /// An input or an output of a graph.
    ValueInfoProto {
        name: Option<String> = one string 1,
        r#type: Option<TypeProto> = one message 2,
    }
}

message! {
    /// The type of a value: of the kinds of ONNX, tensors alone.
    TypeProto {
        tensor_type: Option<TensorTypeProto> = one message 1,
    }
}

message! {
    /// Element type and shape of a tensor.
    TensorTypeProto {
        elem_type: Option<i32> = one int32 1,
        shape: Option<TensorShapeProto> = one message 2,
    }
}

message! {
    /// A shape, one dimension after the other.
    TensorShapeProto {
        dim: Vec<DimensionProto> = many message 1,
    }
}

message! {
    /// A dimension: a number, a symbol, or neither.
    DimensionProto {
        dim_value: Option<i64> = one int64 1,
        dim_param: Option<String> = one string 2,
    }
}

message! {
    /// A function: a node with a body of nodes.
    FunctionProto {
        name: Option<String> = one string 1,
        input: Vec<String> = many string 4,
        output: Vec<String> = many string 5,
        attribute: Vec<String> = many string 6,
        node: Vec<NodeProto> = many message 7,
        opset_import: Vec<OperatorSetIdProto> = many message 9,
        domain: Option<String> = one string 10,
        attribute_proto: Vec<AttributeProto> = many message 11,
        overload: Option<String> = one string 13,
    }
}
