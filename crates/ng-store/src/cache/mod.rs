//! Caches inside the memory budget: blocks of topology, indexes and page tables, and rows of wide
//! tensors.
//!
//! Both are [`slots::SlotCache`]s: fixed-size slots in chunks that are reserved from the budget
//! before they are mapped and given back when a batch needs them. How memory is divided between
//! them is [`division`]'s. Invariant: what a cache hands out was verified when it came in.

pub(crate) mod division;
mod key_map;
pub(crate) mod rows;
mod shadow;
pub(crate) mod sieve;
pub(crate) mod slots;
