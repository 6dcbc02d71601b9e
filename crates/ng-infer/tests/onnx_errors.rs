//! What the messages of the ONNX reader have in common.

use std::io;

use ng_infer::onnx::OnnxError;
use ng_testing::{assert_for_every_face, every_variant};

fn text() -> String {
    "something".to_owned()
}

#[test]
fn messages_name_nothing_of_a_face() {
    assert_for_every_face(&every_variant!(OnnxError {
        TooLarge { bytes: 2, limit: 1 },
        NotProtobuf { reason: text() },
        TooMany { what: "nodes", count: 2, limit: 1 },
        Missing { place: text(), what: "name" },
        Opset { place: text(), found: 7 },
        FunctionOpset { place: text(), found: 20, model: 21 },
        Domain { place: text(), domain: text() },
        NoFunction { place: text(), domain: text() },
        Call { place: text(), what: "inputs", given: 2, taken: 1 },
        ControlFlow { place: text(), what: text() },
        Unsupported { place: text(), what: text() },
        Dtype { place: text(), dtype: text() },
        Dims { place: text(), dims: text(), reason: "a negative dimension" },
        DataLength { place: text(), unit: "bytes", found: 1, expected: 2 },
        DataField { place: text(), found: text(), expected: "raw_data" },
        Element { place: text(), index: 0, value: 2, dtype: "bool" },
        NotFinite { place: text(), index: 0, value: f64::NAN },
        ExternalName { place: text(), file: text() },
        ExternalRange { place: text(), reason: text() },
        Overlap { first: text(), second: text(), file: text() },
        OutsideFile { place: text(), file: text(), end: 2, len: 1 },
        Read { place: text(), file: text(), source: io::Error::other("broken") },
        DefinedTwice { place: text(), what: "the value", name: text() },
        Undefined { place: text(), what: "the value", name: text() },
        Order { place: text(), name: text(), later: text() },
        Attribute { place: text(), name: text(), reason: text() },
        Recursion { place: text(), through: text() },
        CallDepth { place: text(), callee: text(), deepest: text() },
    }));
}
