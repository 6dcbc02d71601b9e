//! [`GraphKernels`]: the face of the kernels that compute on sampled batches.

use crate::dispatch::{Kernels, Path};

/// The kernels that compute on sampled batches, dispatched to the processor. Cheap to copy.
///
/// A kernel works on a range of destinations or rows and starts no threads: the caller splits the
/// work. Its bytes do not depend on the split, nor on the [`Path`].
#[derive(Clone, Copy, Debug)]
pub struct GraphKernels {
    kernels: Kernels,
}

impl GraphKernels {
    /// The fastest that the processor has.
    pub fn best() -> Self {
        Self { kernels: Kernels::best() }
    }

    /// Those of `path`, or `None` where the processor lacks them.
    pub fn on(path: Path) -> Option<Self> {
        Some(Self { kernels: Kernels::of(path)? })
    }

    /// The kernels that run.
    pub fn path(&self) -> Path {
        self.kernels.path()
    }
}
