//! Writing a new store: declaring what it holds, and the commit that makes it one.
//!
//! The streaming writers that a builder hands out live beside the formats that they write.

pub(crate) mod builder;
pub(crate) mod finish;
pub(crate) mod spec;
