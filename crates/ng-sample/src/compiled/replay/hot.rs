//! What a replay holds in memory: hot rows, read in one pass, and whole tensors.

use std::sync::Arc;

use ng_io::Region;
use ng_store::{Merge, Owner, Planned, RowPart, RowPlan, Snapshot, TensorMeta, TensorRef};
use ng_types::Reservation;

use super::Replay;
use super::gather::Loaded;
use crate::SampleError;
use crate::buffer::region;
use crate::compiled::hot::PackedTable;
use crate::compiled::memory::ORDERED_ROW_BYTES;
use crate::pipeline::{Gatherer, HotRows, ResidentTensor, Source};

/// Rows that are planned together.
const ROWS_TOGETHER: usize = 1 << 15;

/// Hot rows that follow each other in the file.
struct Part {
    plan: RowPlan,
    /// The place in memory of each.
    places: Vec<u32>,
}

impl Planned for Part {
    fn plan(&self) -> &RowPlan {
        &self.plan
    }
}

impl Replay {
    /// Reads what is held in memory.
    pub(super) fn load(&self) -> Result<Loaded, SampleError> {
        let snapshot = self.sampler.snapshot();
        let tables = &self.hot().tables;
        let hot = tables.iter().map(|table| self.load_hot(table)).collect::<Result<_, _>>()?;
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

    fn load_hot(&self, table: &PackedTable) -> Result<Region, SampleError> {
        let (snapshot, tensor) = (self.sampler.snapshot(), table.tensor);
        let (width, bytes) = (table.width as usize, table.hot.len() * table.width);
        let mut region = region(bytes as usize)?;
        let merge = Merge::Gaps(snapshot.disk_costs(tensor)?.gap_blocks());
        let memory = region.as_mut_slice();
        let (mut rows, _held) = in_file_order(snapshot, tensor, &table.hot)?;
        let mut failure = None;
        let mut next = || {
            let (part, places): (Vec<u64>, Vec<u32>) = rows.by_ref().take(ROWS_TOGETHER).unzip();
            if part.is_empty() || failure.is_some() || self.shared.is_stopping() {
                return None;
            }
            let plan = snapshot.plan_rows(tensor, &part, merge);
            let plan = plan.map_err(|error| failure = Some(error)).ok()?;
            Some(Arc::new(Part { plan, places }))
        };
        let mut take = |part: &Part, rows: &mut [RowPart<'_>]| {
            for RowPart { row, skip, bytes } in rows {
                let at = part.places[*row] as usize * width + *skip;
                memory[at..at + bytes.len()].copy_from_slice(bytes);
            }
        };
        snapshot.read_plans(&mut next, &mut take, &mut |_| ())?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(region),
        }
    }
}

/// Hot rows and their places in memory.
type RowsAndPlaces<'a> = Box<dyn Iterator<Item = (u64, u32)> + 'a>;

/// Hot rows with their places in memory, in the order in which they lie in the file, and what pays
/// for the list.
fn in_file_order<'a>(
    snapshot: &Snapshot,
    tensor: TensorRef,
    hot: &'a HotRows,
) -> Result<(RowsAndPlaces<'a>, Option<Reservation>), SampleError> {
    let order = match tensor.owner {
        Owner::Node(node_type) => snapshot.load_order(node_type)?,
        Owner::Edge(_) => None,
    };
    let places = hot.iter().zip(0_u32..);
    let Some(order) = order else { return Ok((Box::new(places), None)) };
    let held = snapshot.reserve(hot.len() * ORDERED_ROW_BYTES)?;
    let mut rows: Vec<(u64, u32)> = places.map(|(id, place)| (order.row(id), place)).collect();
    rows.sort_unstable();
    Ok((Box::new(rows.into_iter()), Some(held)))
}
