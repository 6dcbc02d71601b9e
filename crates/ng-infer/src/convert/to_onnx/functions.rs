//! The functions of the domain `ai.neargraph`, with bodies of standard operators.
//!
//! `functions.onnx` holds them: a model of functions alone, which `tools/function_bodies.py` makes
//! of the texts in `python/neargraph/modelfile/functions.py`. The invariant: exports and graphs
//! that are saved have the same bodies.

use std::sync::LazyLock;

use prost::Message;

use crate::dfg::Op;
use crate::onnx::proto::{FunctionProto, ModelProto};

/// The domain of operations on graphs.
pub(crate) const DOMAIN: &str = "ai.neargraph";
/// Its version.
pub(super) const DOMAIN_VERSION: i64 = 1;

/// Behind the name of a product whose edges have weights: a body takes all of its inputs.
const WEIGHTED: &str = "Weighted";

static BODIES: LazyLock<Vec<FunctionProto>> = LazyLock::new(|| {
    // The test below decodes the same bytes.
    ModelProto::decode(&include_bytes!("functions.onnx")[..]).unwrap_or_default().functions
});

/// The function of a name.
pub(super) fn body(name: &str) -> Option<FunctionProto> {
    BODIES.iter().find(|function| function.name.as_deref() == Some(name)).cloned()
}

/// The name of the function that an operation on so many values is.
pub(super) fn name_of(op: &Op, inputs: usize) -> Option<String> {
    let mut name = op.name();
    if matches!(op, Op::Spmm(_)) && inputs > 2 {
        name += WEIGHTED;
    }
    body(&name).map(|_| name)
}

/// The name of the operation that a function is.
pub(crate) fn op_of(function: &str) -> Option<String> {
    let plain = match function.strip_suffix(WEIGHTED) {
        Some(product) if product.starts_with("SpMM_") => product,
        _ => function,
    };
    Op::names().find(|name| name == plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn each_function_is_an_operation_that_takes_as_many_values() {
        let file = &include_bytes!("functions.onnx")[..];
        let file = ModelProto::decode(file).expect("is a model");
        assert_eq!(file.functions, *BODIES);
        assert_eq!(BODIES.len(), 5 + 1 + 7 + 10 + 9);
        for function in BODIES.iter() {
            let name = function.name.as_deref().expect("has a name");
            let op = op_of(name).expect("is an operation");
            let eight = |name: &String| (name.clone(), crate::dfg::Attribute::Int(8));
            let declared = function.attribute.iter().map(eight).collect();
            let attributes = crate::dfg::Attributes::new("", &op, declared);
            let op = Op::from_name(attributes).expect("needs no other attributes");
            let (least, most) = op.inputs();
            assert!((least..=most).contains(&function.input.len()), "{name}");
            assert_eq!(function.output.len(), op.outputs(), "{name}");
            assert_eq!(name_of(&op, function.input.len()).as_deref(), Some(name));
        }
    }
}
