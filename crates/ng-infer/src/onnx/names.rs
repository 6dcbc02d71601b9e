//! Names that must be unique or present.
//!
//! What lives here: the checks that every other file of the reader needs. What must not: knowledge
//! of messages. The invariant: errors carry the place that the caller names.

use std::collections::HashSet;

use super::error::{OnnxError, quoted};

/// A field that must be there and not be empty.
pub(super) fn required(
    name: Option<String>,
    what: &'static str,
    place: impl FnOnce() -> String,
) -> Result<String, OnnxError> {
    match name {
        Some(name) if !name.is_empty() => Ok(name),
        Some(_) | None => Err(OnnxError::Missing { place: place(), what }),
    }
}

/// Refuses a name that stands twice.
pub(super) fn check_unique<'a>(
    names: impl IntoIterator<Item = &'a str>,
    what: &'static str,
    place: impl FnOnce() -> String,
) -> Result<(), OnnxError> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(OnnxError::DefinedTwice { place: place(), what, name: quoted(name) }),
        None => Ok(()),
    }
}
