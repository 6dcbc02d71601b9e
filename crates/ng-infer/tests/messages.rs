//! Each variant of the errors of this crate is explained, in words that every face can show.

use std::io;

use ng_infer::convert::{ConvertError, SaveError};
use ng_infer::dfg::DfgError;
use ng_infer::kernel::KernelError;
use ng_infer::onnx::OnnxError;
use ng_infer::run::{RegisterError, RunError};
use ng_testing::{assert_for_every_face, every_variant};
use ng_types::{ErrorKind, Explain, Remedy};

fn text() -> String {
    "text".to_owned()
}

/// Errors of a kind, with the remedies of each.
fn of_kind(errors: &[impl Explain], kind: ErrorKind) -> Vec<Vec<Remedy>> {
    let explained = errors.iter().map(Explain::explain);
    explained.filter(|(of, _)| *of == kind).map(|(_, remedies)| remedies).collect()
}

fn no_type() -> DfgError {
    DfgError::NoType { name: text() }
}

#[test]
fn graphs() {
    let errors = every_variant!(DfgError {
        UnknownOp { node: text(), name: text() },
        Attribute { node: text(), op: text(), attribute: text(), problem: text() },
        Arity { node: text(), op: text(), problem: text() },
        Undefined { node: text(), value: text() },
        Twice { name: text() },
        Cycle { nodes: vec![text()] },
        NoOutput,
        NoType { name: text() },
        Type { node: text(), op: text(), problem: text() },
        Text { line: 1, problem: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedModel).len(), 1);
    assert_eq!(of_kind(&errors[7..8], ErrorKind::InvalidModel), [[Remedy::TypeInputs]]);
    let errors = every_variant!(SaveError {
        Dfg(no_type()),
        NoCounterpart { node: text(), op: text(), problem: text() },
        Name { name: text() },
        NoName { what: "a value" },
        NotFinite { name: text(), index: 0, value: text() },
        TooLarge { bytes: 1 },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedModel).len(), 2);
    let errors = every_variant!(ConvertError {
        Onnx(OnnxError::NotProtobuf { reason: text() }),
        Dfg(no_type()),
        Unsupported { node: text(), op: text(), problem: text() },
        Dtype { tensor: text(), dtype: text() },
        Metadata { key: "key" },
    });
    assert_for_every_face(&errors);
    let again = vec![vec![Remedy::ExportAgain]; 2];
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedModel), again);
}

#[test]
fn runs() {
    let errors = every_variant!(RunError {
        Graph(DfgError::NoOutput),
        Hops { nodes: text(), problem: text() },
        MissingInput { name: text() },
        UnknownInput { name: text() },
        WrongInput { name: text(), problem: text() },
        NoKernel { node: text(), op: text() },
        Kernel { node: text(), op: text(), source: KernelError::NotServed(text()) },
        Model { device: text(), problem: text() },
        TooLarge { node: text(), op: text(), dims: vec![1], bytes: 2, limit: 1 },
        Memory { node: text(), dims: vec![1] },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::WrongInput).len(), 6);
    assert_eq!(of_kind(&errors, ErrorKind::InvalidModel).len(), 1);
    assert_eq!(of_kind(&errors, ErrorKind::BudgetTooSmall), [[Remedy::SmallerBatches]; 2]);
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedModel), [[Remedy::GiveKernel]]);
    let errors = every_variant!(RegisterError {
        NoDevice { device: text() },
        NoOp { op: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedArgument).len(), 2);
}

#[test]
fn files() {
    let place = text;
    let errors = every_variant!(OnnxError {
        TooLarge { bytes: 2, limit: 1 },
        NotProtobuf { reason: text() },
        TooMany { what: "nodes", count: 2, limit: 1 },
        Missing { place: place(), what: "name" },
        Opset { place: place(), found: 17 },
        FunctionOpset { place: place(), found: 19, model: 20 },
        Domain { place: place(), domain: text() },
        NoFunction { place: place(), domain: text() },
        ControlFlow { place: place(), what: text() },
        Call { place: place(), what: "inputs", given: 2, taken: 1 },
        Unsupported { place: place(), what: text() },
        Dtype { place: place(), dtype: text() },
        Dims { place: place(), dims: text(), reason: "too many" },
        DataLength { place: place(), unit: "bytes", found: 1, expected: 2 },
        DataField { place: place(), found: text(), expected: "raw_data" },
        Element { place: place(), index: 0, value: 2, dtype: "bool" },
        NotFinite { place: place(), index: 0, value: f64::NAN },
        ExternalName { place: place(), file: text() },
        ExternalRange { place: place(), reason: text() },
        Overlap { first: text(), second: text(), file: text() },
        OutsideFile { place: place(), file: text(), end: 2, len: 1 },
        Read { place: place(), file: text(), source: io::Error::other("cause") },
        DefinedTwice { place: place(), what: "name", name: text() },
        Undefined { place: place(), what: "value", name: text() },
        Order { place: place(), name: text(), later: text() },
        Attribute { place: place(), name: text(), reason: text() },
        Recursion { place: place(), through: text() },
        CallDepth { place: place(), callee: text(), deepest: text() },
    });
    assert_for_every_face(&errors);
    assert_eq!(of_kind(&errors, ErrorKind::UnsupportedModel).len(), 9);
    assert_eq!(of_kind(&errors, ErrorKind::InvalidModel).len(), 19);
}
