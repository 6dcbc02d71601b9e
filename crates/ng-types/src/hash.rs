//! [`IdHasher`]: for tables of ids and page numbers, which are looked up for every entry of a list.

use std::hash::{BuildHasherDefault, Hasher};

/// The hasher for tables of ids that the store assigns. Clients cannot choose ids that collide.
///
/// ```
/// let mut known = std::collections::HashSet::<u64, ng_types::IdHash>::default();
/// assert!(known.insert(7) && !known.insert(7));
/// ```
pub type IdHash = BuildHasherDefault<IdHasher>;

/// A multiplication, and the highest bits mixed into the lowest: tables look at both.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
