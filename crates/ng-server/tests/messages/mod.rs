//! Messages of every method, and what becomes of them on a bad way.

pub mod mutate;
pub mod seeds;
