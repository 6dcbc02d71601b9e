//! How entries of a list are chosen: one rule for each sampling method.

pub(crate) mod labor;
