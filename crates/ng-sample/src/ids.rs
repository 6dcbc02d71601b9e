//! Node and edge ids, as narrow as their type allows: half of the memory, and half of the cache
//! lines, of a sample are ids.

/// An id inside a sample: `u32` where every node type has at most 2^32 nodes, else `u64`.
pub(crate) trait Id: Copy + Eq + Default + Send + Sync + 'static {
    /// Whether the low 32 bits say it all.
    const IS_NARROW: bool;
    fn new(id: u64) -> Self;
    fn get(self) -> u64;
    fn pack(ids: &[Self]) -> Ids;
}

impl Id for u32 {
    const IS_NARROW: bool = true;

    #[inline]
    fn new(id: u64) -> Self {
        id as Self
    }

    #[inline]
    fn get(self) -> u64 {
        u64::from(self)
    }

    fn pack(ids: &[Self]) -> Ids {
        Ids::Narrow(ids.to_vec())
    }
}

impl Id for u64 {
    const IS_NARROW: bool = false;

    #[inline]
    fn new(id: u64) -> Self {
        id
    }

    #[inline]
    fn get(self) -> u64 {
        self
    }

    fn pack(ids: &[Self]) -> Ids {
        Ids::Wide(ids.to_vec())
    }
}

/// A list of ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Below 2^32.
    Narrow(Vec<u32>),
    /// Any.
    Wide(Vec<u64>),
}

impl Default for Ids {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Ids {
    /// Ids below `bound` in the fewest bytes.
    pub(crate) fn below(bound: u64, ids: &[u64]) -> Self {
        if bound <= 1 << 32 {
            Self::Narrow(ids.iter().map(|id| *id as u32).collect())
        } else {
            Self::Wide(ids.to_vec())
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Narrow(ids) => ids.len(),
            Self::Wide(ids) => ids.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Id `at`; `None` past the end.
    pub fn get(&self, at: usize) -> Option<u64> {
        match self {
            Self::Narrow(ids) => ids.get(at).map(|id| u64::from(*id)),
            Self::Wide(ids) => ids.get(at).copied(),
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        (0..self.len()).map(|at| self.get(at).unwrap_or_default())
    }

    /// The same as 8-byte signed numbers, as PyTorch has them.
    pub(crate) fn widened(&self) -> Vec<i64> {
        match self {
            Self::Narrow(ids) => ids.iter().map(|id| i64::from(*id)).collect(),
            Self::Wide(ids) => ids.iter().map(|id| *id as i64).collect(),
        }
    }

    /// Bytes of the list.
    pub fn num_bytes(&self) -> u64 {
        match self {
            Self::Narrow(ids) => size_of_val(ids.as_slice()) as u64,
            Self::Wide(ids) => size_of_val(ids.as_slice()) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_however_wide_they_are_kept() {
        let all = [7, 0, u64::from(u32::MAX)];
        let (narrow, wide) = (Ids::below(1 << 32, &all), Ids::below((1 << 32) + 1, &all));
        assert_eq!((narrow.num_bytes(), wide.num_bytes()), (12, 24));
        for ids in [narrow, wide] {
            assert_eq!(ids.iter().collect::<Vec<_>>(), all);
            assert_eq!(ids.widened(), [7, 0, i64::from(u32::MAX)]);
            assert_eq!((ids.get(2), ids.get(3)), (Some(u64::from(u32::MAX)), None));
        }
        assert!(Ids::default().is_empty());
    }
}
