//! Dividing the memory that the user allowed.

use crate::sort::Sizes;
use crate::{ImportError, ImportOptions};

/// The least memory that an import works with.
pub const MEMORY_BYTES_MIN: u64 = 8 << 20;
const THREADS_MAX: usize = 64;

/// Who may take how much memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryPlan {
    pub threads: usize,
    /// What the import allocates; the rest of the user's bound is left to code, stacks, the
    /// interpreter and the writers of the store.
    work_bytes: usize,
}

impl MemoryPlan {
    pub(crate) fn new(options: &ImportOptions) -> Result<Self, ImportError> {
        let wanted_bytes = options.memory.unwrap_or_else(default_memory_bytes);
        if wanted_bytes < MEMORY_BYTES_MIN {
            let minimum_bytes = MEMORY_BYTES_MIN;
            return Err(ImportError::BudgetTooSmall { wanted_bytes, minimum_bytes });
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = options.threads.unwrap_or_else(cores).clamp(1, THREADS_MAX);
        let work_bytes = usize::try_from(wanted_bytes / 4 * 3).unwrap_or(usize::MAX);
        Ok(Self { threads, work_bytes })
    }

    /// The bound that the user gave, or the default.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.work_bytes as u64 / 3 * 4
    }

    /// Bytes of a block of spilled records: large enough to be written and read efficiently, small
    /// enough that each partition can have one in memory.
    pub(crate) fn slot_bytes(&self) -> usize {
        (self.work_bytes / 2048).next_power_of_two().clamp(8 << 10, 64 << 10)
    }

    /// Memory of the sorters of one edge type, out of `types` with `sorters` each.
    pub(crate) fn sizes(&self, types: usize, sorters: usize) -> Sizes {
        Sizes {
            collect_bytes: self.work_bytes / 4 / (types * sorters).max(1),
            lanes_bytes: self.work_bytes / 4 / sorters.max(1),
            partition_bytes_max: self.work_bytes / 2 / (2 * self.threads + 2),
            threads: self.threads,
        }
    }
}

/// A quarter of the memory of the machine or of the container.
pub(crate) fn default_memory_bytes() -> u64 {
    (ng_io::usable_memory_bytes() / 4).max(MEMORY_BYTES_MIN)
}
