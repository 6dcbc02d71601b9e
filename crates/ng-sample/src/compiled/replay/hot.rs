//! What a replay holds in memory: hot rows, read in one pass, and whole tensors.

use std::sync::Arc;

use ng_io::Region;
use ng_store::{Merge, Planned, RowPlan, TensorMeta, TensorRef};

use super::{Engine, no_memory};
use crate::SampleError;
use crate::columns::Columns;
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

/// Hot rows that follow each other in memory.
struct Part {
    plan: RowPlan,
    /// The place of the first of them.
    first: usize,
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
        let (mut rows, mut first, mut failure) = (table.hot.iter(), 0, None);
        let mut next = || {
            let part: Vec<u64> = rows.by_ref().take(ROWS_TOGETHER).collect();
            if part.is_empty() || failure.is_some() || self.is_stopping() {
                return None;
            }
            let plan = snapshot.plan_rows(tensor, &part, merge);
            let plan = plan.map_err(|error| failure = Some(error)).ok()?;
            let part_of = Arc::new(Part { plan, first });
            first += part.len();
            Some(part_of)
        };
        let mut take = |part: &Part, row: usize, skip: usize, bytes: &[u8]| {
            let at = (part.first + row) * width + skip;
            if let Some(place) = memory.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        snapshot.read_plans(&mut next, &mut take, &mut |_| ())?;
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(region),
        }
    }
}
