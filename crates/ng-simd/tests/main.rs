//! The tests of ng-simd in one program: one for each file would be linked for minutes.

mod aggregate;
mod conversions;
mod edges;
mod matrix;
mod quantised;
mod select;
