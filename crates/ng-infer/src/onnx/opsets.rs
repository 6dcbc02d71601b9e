//! Domains of operators and their versions.
//!
//! What lives here: which version of the standard operators a model or a function uses. What must
//! not: operators. The invariant: `ai.onnx` and the empty domain are one.

use super::error::{OnnxError, quoted};
use super::names::check_unique;
use super::proto::OperatorSetIdProto;

/// The oldest version of the standard operators that is read.
pub const OPSET_MIN: i64 = 18;
/// The newest version of the standard operators that is read.
pub const OPSET_MAX: i64 = 22;
/// The domain of the functions of this project.
pub(super) const OWN_DOMAIN: &str = "ai.neargraph";

/// The domain as the reader keeps it: empty for the standard operators.
pub(super) fn canonical(domain: Option<String>) -> String {
    domain.filter(|domain| domain != "ai.onnx").unwrap_or_default()
}

/// Domains with their versions.
pub(super) fn read_opsets(
    imports: Vec<OperatorSetIdProto>,
    place: impl Fn() -> String,
) -> Result<Vec<(String, i64)>, OnnxError> {
    let imports = imports.into_iter();
    let opsets: Vec<_> =
        imports.map(|opset| (canonical(opset.domain), opset.version.unwrap_or(0))).collect();
    check_unique(opsets.iter().map(|(domain, _)| domain.as_str()), "the opset of domain", place)?;
    Ok(opsets)
}

/// The version of the standard operators.
pub(super) fn standard_opset(
    opsets: &[(String, i64)],
    place: impl Fn() -> String,
) -> Result<i64, OnnxError> {
    let Some((_, found)) = opsets.iter().find(|(domain, _)| domain.is_empty()) else {
        return Err(OnnxError::Missing { place: place(), what: "opset of the standard operators" });
    };
    if !(OPSET_MIN..=OPSET_MAX).contains(found) {
        return Err(OnnxError::Opset { place: place(), found: *found });
    }
    Ok(*found)
}

/// The function as messages name it.
pub(super) fn function_place(domain: &str, name: &str) -> String {
    format!("function {} of domain {}", quoted(name), quoted(domain))
}
