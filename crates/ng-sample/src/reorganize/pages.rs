//! What an order is worth: the blocks that batches touch, counted on sampled ones.

use std::sync::Arc;

use ng_store::{Owner, RowOrder, Snapshot, TensorRef};
use ng_types::{NodeTypeId, SeedOrder};

use super::{Batches, Progress, ReorganizeError};
use crate::{SampleScratch, SampleSpec, Sampler};

/// Batches that share their reads in the second count, as a look-ahead makes them.
pub const BATCHES_TOGETHER: usize = 16;

/// The streams of the batches that are counted, far from those of any training.
const FIRST_STREAM: u64 = 1 << 60;

/// 4 KiB blocks of a tensor that batches touch, in the order of the store and in a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct PageCounts {
    /// The tensor: the widest of its node type.
    pub tensor: String,
    /// Its node type.
    pub node_type: NodeTypeId,
    /// Sampled batches.
    pub batches: u64,
    /// Distinct rows a batch, of 4 KiB blocks at most.
    pub rows: f64,
    /// Blocks a batch, before and after.
    pub pages: [f64; 2],
    /// Blocks a batch where [`BATCHES_TOGETHER`] batches are read together, before and after.
    pub pages_together: [f64; 2],
}

/// Distinct blocks, one bit each.
struct Blocks {
    bits: Vec<u64>,
    count: u64,
    total: u64,
}

impl Blocks {
    fn new(blocks: u64) -> Self {
        Self { bits: vec![0; blocks.div_ceil(64) as usize], count: 0, total: 0 }
    }

    fn touch(&mut self, block: u64) {
        let Some(word) = self.bits.get_mut((block / 64) as usize) else { return };
        self.count += u64::from(*word & 1 << (block % 64) == 0);
        *word |= 1 << (block % 64);
    }

    fn end(&mut self) {
        self.total += std::mem::take(&mut self.count);
        self.bits.fill(0);
    }
}

/// The widest dense tensor of each node type.
pub(super) fn widest(snapshot: &Snapshot) -> Vec<TensorRef> {
    let catalog = snapshot.catalog();
    let of = |id: u16| {
        let owner = Owner::Node(NodeTypeId(id));
        let refs = catalog.tensor_refs().filter(|tensor| tensor.owner == owner);
        let dense = refs.filter_map(|t| Some((t, catalog.tensor(t).filter(|m| !m.is_sparse())?)));
        dense.max_by_key(|(tensor, meta)| (meta.row_bytes(), u16::MAX - tensor.index))
    };
    let types = 0..catalog.node_types.len() as u16;
    types.filter_map(of).map(|(tensor, _)| tensor).collect()
}

/// Samples `count` batches and counts, for each node type with a new order.
pub(super) fn count_pages(
    snapshot: &Arc<Snapshot>,
    batches: &Batches,
    count: u64,
    orders: &[(NodeTypeId, RowOrder)],
    progress: &mut Progress<'_>,
) -> Result<Vec<PageCounts>, ReorganizeError> {
    let spec = SampleSpec::uniform(batches.fanouts.clone(), 0);
    let sampler = Sampler::new(Arc::clone(snapshot), spec, Vec::new())?;
    let seeds = batches.num_seeds(snapshot);
    let shuffle = SeedOrder::new(seeds, 0, 0);
    let mut all = Vec::new();
    for tensor in widest(snapshot) {
        let Owner::Node(node_type) = tensor.owner else { continue };
        let Some((_, order)) = orders.iter().find(|(known, _)| *known == node_type) else {
            continue;
        };
        let last = order.num_nodes().saturating_sub(1);
        let blocks = snapshot.blocks_of_row(tensor, last)?.end;
        let old = snapshot.load_order(node_type)?;
        let sets = [1, 1, BATCHES_TOGETHER, BATCHES_TOGETHER].map(|_| Blocks::new(blocks));
        all.push((tensor, node_type, old, order, sets, 0_u64));
    }
    let mut scratch = SampleScratch::default();
    let per_batch = (batches.batch_size as u64).min(seeds);
    let count = count.min(seeds.checked_div(per_batch).unwrap_or(0).max(1));
    for index in 0..count {
        let places = (index * per_batch..(index + 1) * per_batch).filter(|at| *at < seeds);
        let ids: Vec<u64> = places.map(|at| batches.seed(shuffle.at(at))).collect();
        let groups = [(batches.node_type, ids.as_slice())];
        let sample = sampler.sample_compact(&groups, FIRST_STREAM + index, &mut scratch)?;
        for (tensor, node_type, old, order, sets, rows) in &mut all {
            let nodes = sample.node_ids(*node_type);
            *rows += nodes.len() as u64;
            for id in nodes.iter() {
                let before = old.as_ref().map_or(id, |old| old.row(id));
                for (row, which) in [(before, 0), (order.row(id), 1)] {
                    for block in snapshot.blocks_of_row(*tensor, row)? {
                        sets[which].touch(block);
                        sets[which + 2].touch(block);
                    }
                }
            }
            let is_end = (index + 1) % BATCHES_TOGETHER as u64 == 0 || index + 1 == count;
            let ended = if is_end { 4 } else { 2 };
            sets.iter_mut().take(ended).for_each(Blocks::end);
        }
        if !progress.step(1) {
            return Err(ReorganizeError::Stopped);
        }
    }
    let each = |total: u64| total as f64 / count as f64;
    let counts = all.into_iter().map(|(tensor, node_type, _, _, sets, rows)| PageCounts {
        tensor: snapshot.catalog().tensor(tensor).map_or(String::new(), |m| m.name.clone()),
        node_type,
        batches: count,
        rows: each(rows),
        pages: [each(sets[0].total), each(sets[1].total)],
        pages_together: [each(sets[2].total), each(sets[3].total)],
    });
    Ok(counts.collect())
}
