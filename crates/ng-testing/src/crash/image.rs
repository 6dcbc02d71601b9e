//! What a loss of power leaves: the images, their kinds, and which of them to try.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::mem_disk::MemDisk;

/// What became of the changes that were not durable: writes since the last sync of their file, and
/// creations, renames and removals since the last sync of the directory. A number in a variant is
/// that of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ImageKind {
    /// None of them is there.
    Nothing,
    /// All are.
    Everything,
    /// One alone is.
    Only(usize),
    /// All but one are.
    AllBut(usize),
    /// Of one write only the sectors before some place are there, and the file ends with them if
    /// the write would have made it longer; all other changes are there.
    TornPrefix(usize),
    /// Of one write some sectors are there, zeros or older bytes stand for the others; a random
    /// half of the other changes is there.
    TornSectors(usize),
    /// All are, but no file is longer than at its last sync.
    NotLengthened,
    /// All are, but what lies behind the length of a file at its last sync is zeros.
    ZeroFilled,
    /// A random half of them is, and one write in eight of it is torn.
    Random,
}

/// One thing that could be on the disk after a loss of power.
#[derive(Clone, Debug)]
pub struct CrashImage {
    /// How many operations had happened.
    pub boundary: usize,
    /// The last marker before the loss.
    pub mark: Option<u64>,
    /// What is left of that which was not durable.
    pub kind: ImageKind,
    /// The bytes of each file. Files that no operation changed share theirs with other images.
    pub files: BTreeMap<String, Arc<Vec<u8>>>,
}

impl CrashImage {
    /// A disk that holds the image, all of it durable.
    pub fn disk(&self) -> MemDisk {
        MemDisk::from_shared(self.files.clone())
    }
}

impl fmt::Display for CrashImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { boundary, mark, kind, .. } = self;
        write!(f, "power lost after {boundary} operations, mark {mark:?}, {kind:?} left")
    }
}

/// Which images to try. The same choice gives the same images of the same record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageChoice {
    /// Replays a run.
    pub seed: u64,
    /// The first boundary to try.
    pub from_operation: usize,
    /// Images of kind [`ImageKind::Random`] at each boundary where something is not durable.
    pub random: usize,
    /// The most images at one boundary. Where there are more, [`ImageKind::Nothing`],
    /// [`ImageKind::Everything`] and a random choice of the others are tried.
    pub most: usize,
}

impl Default for ImageChoice {
    /// Every kind at every boundary, and 4 random images.
    fn default() -> Self {
        Self { seed: 1, from_operation: 0, random: 4, most: usize::MAX }
    }
}
