//! Fixed point with a static search of fraction bits, as GLIST quantises (section 5.3).
//!
//! Scales are powers of two. Each weight, and each value that is multiplied, gathered or given, has
//! a width and a number of fraction bits of its own. What the search finds is a graph of whole
//! numbers, which has the same bits wherever it runs.

mod formats;
mod kinds;
mod loss;
mod lower;
mod search;

pub use loss::{Calibration, Target};
pub use lower::{fixed_point, fixed_values};
pub use search::{Found, Search};
