//! The tests of ng-simd in one program: one for each file would be linked for minutes.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod aggregate;
mod conversions;
mod edges;
mod matrix;
mod quantised;
mod select;
