//! What a replay holds in memory: hot rows, read in one pass, and whole tensors.

use std::sync::Arc;

use ng_io::Region;
use ng_store::{Merge, Owner, Planned, RowPart, RowPlan, Snapshot, TensorMeta, TensorRef};
use ng_types::Reservation;

use super::{Engine, no_memory};
use crate::SampleError;
use crate::columns::Columns;
use crate::compiled::hot::HotRows;
use crate::compiled::memory::ORDERED_ROW_BYTES;
use crate::lookahead::ResidentTensor;

/// Rows that are planned together.
const ROWS_TOGETHER: usize = 1 << 15;

/// Rows in memory, by column of the sampler.
pub(super) struct Held {
    pub columns: Vec<HeldColumn>,
}

/// Where the rows of a column come from.
pub(super) enum HeldColumn {
    /// Hot rows of this table, one behind the other; the others come with each batch.
    Hot(usize, Region),
    /// All rows.
    Whole(ResidentTensor),
    /// The store's caches: rows of no fixed length.
    Store(Columns),
}

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

impl Engine {
    /// Reads what is held in memory; `None` if everything stops meanwhile.
    pub(super) fn load(&self) -> Result<Option<Held>, SampleError> {
        let mut columns = Vec::new();
        let (wanted, snapshot) = (self.sampler.columns(), self.sampler.snapshot());
        for (place, (tensor, decoder)) in wanted.tensors().enumerate() {
            let table = self.hot().tables.iter().position(|table| table.tensor == tensor);
            let is_sparse = snapshot.catalog().tensor(tensor).is_some_and(TensorMeta::is_sparse);
            columns.push(match (table, decoder) {
                (Some(table), Some(_)) => HeldColumn::Hot(table, self.load_hot(tensor, table)?),
                (None, Some(_)) if !is_sparse => {
                    HeldColumn::Whole(ResidentTensor::load(snapshot, tensor)?)
                }
                _ => HeldColumn::Store(wanted.only(&[place])),
            });
        }
        Ok((!self.is_stopping()).then_some(Held { columns }))
    }

    fn load_hot(&self, tensor: TensorRef, table: usize) -> Result<Region, SampleError> {
        let snapshot = self.sampler.snapshot();
        let table = &self.hot().tables[table];
        let (width, bytes) = (table.width as usize, table.hot.len() * table.width);
        let mut region = Region::with_huge_pages(bytes as usize).map_err(no_memory(bytes))?;
        let merge = Merge::Gaps(snapshot.disk_costs(tensor)?.gap_blocks());
        let memory = region.as_mut_slice();
        let (mut rows, _held) = in_file_order(snapshot, tensor, &table.hot)?;
        let mut failure = None;
        let mut next = || {
            let (part, places): (Vec<u64>, Vec<u32>) = rows.by_ref().take(ROWS_TOGETHER).unzip();
            if part.is_empty() || failure.is_some() || self.is_stopping() {
                return None;
            }
            let plan = snapshot.plan_rows(tensor, &part, merge);
            let plan = plan.map_err(|error| failure = Some(error)).ok()?;
            Some(Arc::new(Part { plan, places }))
        };
        let mut take = |part: &Part, rows: &mut [RowPart<'_>]| {
            for RowPart { row, skip, bytes } in rows {
                let at = part.places[*row] as usize * width + *skip;
                if let Some(place) = memory.get_mut(at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
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
    let held = snapshot.reserve(hot.len() * ORDERED_ROW_BYTES);
    let held = held.map_err(SampleError::from_budget)?;
    let mut rows: Vec<(u64, u32)> = places.map(|(id, place)| (order.row(id), place)).collect();
    rows.sort_unstable();
    Ok((Box::new(rows.into_iter()), Some(held)))
}
