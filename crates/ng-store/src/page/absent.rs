//! Reading pages without waiting: what is not in the cache is noted, and whoever keeps a queue of
//! reads going brings it in. Only the pass over a file that stays in memory (`metadata.rs`) is made
//! at once.
//!
//! Lookups are written once, for pages that are read where they are not cached. Over
//! [`Pages::without_waiting`] the same lookup ends with [`ReadError::NotYet`] at the first blocks
//! that are missing, and is begun anew when they have come.

use std::sync::{Mutex, PoisonError};

use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::page::{Located, Pages, Place, Placed, verify_blocks};

/// Adjacent blocks of one file that were asked for and are not in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Absent {
    pub segment: u32,
    pub place: Place,
    pub run: Vec<Located>,
}

/// What was asked for and is not in the cache.
#[derive(Debug, Default)]
pub(crate) struct AbsentBlocks(Mutex<Vec<Absent>>);

impl AbsentBlocks {
    pub fn note<'a>(
        &self,
        segment: &Placed,
        place: Place,
        runs: impl Iterator<Item = &'a [Located]>,
    ) {
        let mut absent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        absent.extend(runs.map(|run| Absent { segment: segment.id, place, run: run.to_vec() }));
    }
}

impl Pages {
    /// The same cache, but whoever asks for what is not there gets [`ReadError::NotYet`], and what
    /// that was comes out of [`Pages::take_absent`].
    pub fn without_waiting(&self) -> Self {
        Self { absent: Some(AbsentBlocks::default()), ..self.alike() }
    }

    /// What was asked for since the last call and was not there.
    pub fn take_absent(&self) -> Vec<Absent> {
        let Some(AbsentBlocks(absent)) = &self.absent else { return Vec::new() };
        std::mem::take(&mut *absent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies a run of data blocks to `out` if all of it is in the cache.
    pub fn copy_cached(&self, segment: &Placed, run: &[Located], out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some(cache) = &self.cache else { return false };
        let mut keys = run.iter().map(|located| segment.key(Place::Data, located.block));
        keys.all(|key| cache.with(key, |bytes| out.extend_from_slice(bytes)).is_some())
    }

    /// Checks blocks that were read and puts them into the cache.
    pub fn take_read(
        &self,
        segment: &Placed,
        place: Place,
        run: &[Located],
        bytes: &[u8],
    ) -> Result<(), ReadError> {
        verify_blocks(segment, &segment.file(place).1, run, bytes)?;
        for (located, block) in run.iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
            self.keep(segment.key(place, located.block), block);
        }
        Ok(())
    }
}
