//! What a replay holds in memory: hot rows, read from the file of the set's first epoch, and whole
//! tensors.

use ng_io::AnonMap;
use ng_simd::{copy_streaming, finish_streaming};
use ng_store::{TensorMeta, TensorRef};

use super::Replay;
use super::gather::Loaded;
use crate::SampleError;
use crate::buffer::region;
use crate::compiled::hot::PackedTable;
use crate::pipeline::{Gatherer, ResidentTensor, Source};

impl Replay {
    /// Reads what is held in memory.
    pub(super) fn load(&self) -> Result<Loaded, SampleError> {
        let snapshot = self.sampler.snapshot();
        let tables = &self.hot().tables;
        let hot = self.load_hot()?;
        let mut pools = self.pools.iter().cloned();
        let mut source = |tensor: TensorRef| {
            if let Some(at) = tables.iter().position(|table| table.tensor == tensor) {
                return Ok(pools.next().map(|pool| Source::Table(at, pool)));
            }
            let is_sparse = snapshot.catalog().tensor(tensor).is_some_and(TensorMeta::is_sparse);
            if is_sparse {
                return Ok(None);
            }
            ResidentTensor::load(snapshot, tensor).map(Source::Resident).map(Some)
        };
        let columns = self.sampler.columns();
        let gatherer = Gatherer::new(snapshot, &self.shared.clock, columns, &mut source)?;
        if self.shared.is_stopping() {
            Err(SampleError::Stopped)
        } else {
            Ok(Loaded { gatherer, hot })
        }
    }

    /// Reads the hot rows, table by table one behind the other.
    fn load_hot(&self) -> Result<Vec<AnonMap>, SampleError> {
        let bytes = |table: &PackedTable| (table.hot.len() * table.width) as usize;
        let regions = self.hot().tables.iter().map(|table| region(bytes(table)));
        let mut regions: Vec<AnonMap> = regions.collect::<Result<_, _>>()?;
        let file = self.files.iter().find(|file| file.id().has_hot_rows());
        let Some(file) = file.filter(|_| self.hot().num_rows() > 0) else {
            return match self.hot().num_rows() {
                0 => Ok(regions),
                _ => Err(SampleError::Spec("no file of the replay contains the hot rows".into())),
            };
        };
        let before = file.reader.stats().counts();
        let read = file.read_hot(|| !self.shared.is_stopping(), &mut |table, at, bytes| {
            copy_streaming(bytes, &mut regions[table].as_mut_slice()[at..at + bytes.len()]);
        });
        finish_streaming();
        let counts = file.reader.stats().counts().since(&before);
        self.sampler.snapshot().io_stats().add(&counts);
        if read? { Ok(regions) } else { Err(SampleError::Stopped) }
    }
}
