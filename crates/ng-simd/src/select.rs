//! [`SourceSelector`]: which entries of a neighbour list have sources with small numbers.

use ng_types::SourceKey;

use crate::dispatch::{Kernels, Path};

/// Finds the sources whose number under a key is below a bound. Cheap to copy.
///
/// ```
/// use ng_simd::SourceSelector;
/// use ng_types::{NodeTypeId, SourceKey};
/// let key = SourceKey::new(7, 0, NodeTypeId(0));
/// let mut places = Vec::new();
/// let bound = key.number(20) + 1;
/// SourceSelector::new(key).of_four(&[10_u32, 20].map(u32::to_le_bytes), bound, &mut places);
/// assert!(places.contains(&1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SourceSelector {
    key: SourceKey,
    kernels: Kernels,
}

impl SourceSelector {
    /// By the numbers of `key`.
    pub fn new(key: SourceKey) -> Self {
        Self { key, kernels: Kernels::best() }
    }

    /// The same by kernels of one family, or `None` where the processor lacks them.
    pub fn on(key: SourceKey, path: Path) -> Option<Self> {
        Some(Self { key, kernels: Kernels::of(path)? })
    }

    /// The key.
    pub fn key(&self) -> SourceKey {
        self.key
    }

    /// Appends the places, in ascending order, of sources of three bytes below `bound`. There are
    /// fewer than 2^32.
    #[inline]
    pub fn of_three(&self, sources: &[[u8; 3]], bound: u32, places: &mut Vec<u32>) {
        self.kernels.below_of_three(self.key, sources, bound, places);
    }

    /// The same of sources of four bytes.
    #[inline]
    pub fn of_four(&self, sources: &[[u8; 4]], bound: u32, places: &mut Vec<u32>) {
        self.kernels.below_of_four(self.key, sources, bound, places);
    }
}
