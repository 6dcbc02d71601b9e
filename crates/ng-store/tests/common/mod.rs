//! What the tests of this crate share: a plain model of a graph, and a store built from it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

pub mod changing;
pub mod child;
pub mod compare;
pub mod graph;
pub mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use ng_testing::{MemDisk, Random};

/// The files of a store by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A generator whose seed is printed, so that a failure can be replayed.
pub fn seeded(seed: u64) -> Random {
    println!("seed {seed}");
    Random::new(seed)
}

/// A disk that holds `files`.
pub fn disk_of(files: Files) -> Arc<MemDisk> {
    Arc::new(MemDisk::from_image(files))
}
