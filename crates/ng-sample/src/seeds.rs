//! Which seeds stand in which batch.
//!
//! A plan is a pure function of (seed, epoch, batch): any batch is found without those before it,
//! so that a resumed epoch, a worker process and another rank agree. What must not live here:
//! drawing of neighbours. The invariant: global batches are the same for every world size, and a
//! rank takes its contiguous part of each.

use std::ops::Range;

use ng_store::{ReadError, RowOrder, Snapshot};
use ng_types::{NodeId, NodeTypeId, SeedOrder};

use crate::SampleError;

/// The seeds of one node type that batches are made around, by place.
#[derive(Debug)]
pub struct Inputs {
    /// The type of all of them.
    pub node_type: NodeTypeId,
    which: Which,
}

#[derive(Debug)]
enum Which {
    Listed(Vec<NodeId>),
    /// All nodes but the deleted ones: for each of these, how many live nodes come before it.
    Live(Vec<u64>),
    Clusters(Clusters),
}

/// The rows of a node type, cut into ranges that are equally long up to one row.
#[derive(Debug)]
struct Clusters {
    count: u64,
    num_nodes: u64,
    /// `None` where nodes lie in the order of their ids.
    nodes_of_rows: Option<RowOrder>,
    /// Ascending.
    deleted: Vec<NodeId>,
}

impl Clusters {
    /// The live nodes of a cluster in the order of their rows.
    fn nodes(&self, cluster: u64) -> impl Iterator<Item = NodeId> {
        let start = |cluster: u64| {
            let rows = u128::from(cluster) * u128::from(self.num_nodes);
            (rows / u128::from(self.count)) as u64
        };
        let node = |row| self.nodes_of_rows.as_ref().map_or(row, |nodes| nodes.row(row));
        let nodes = (start(cluster)..start(cluster + 1)).map(node);
        nodes.filter(|node| self.deleted.binary_search(node).is_err())
    }
}

impl Inputs {
    /// These nodes, in this order.
    pub fn listed(node_type: NodeTypeId, ids: Vec<NodeId>) -> Self {
        Self { node_type, which: Which::Listed(ids) }
    }

    /// All nodes in the order of their ids, without the deleted ones (ascending).
    pub fn live(node_type: NodeTypeId, deleted: &[NodeId]) -> Self {
        let before = (0..).zip(deleted).map(|(others, id)| id - others);
        Self { node_type, which: Which::Live(before.collect()) }
    }

    /// Clusters: a place stands for all live nodes in one of `count` ranges of rows, as they lie on
    /// disk.
    ///
    /// # Errors
    /// Those of reading the order of rows and the deleted nodes.
    pub fn clusters(
        snapshot: &Snapshot,
        node_type: NodeTypeId,
        count: u64,
    ) -> Result<Self, ReadError> {
        let nodes_of_rows = snapshot.load_nodes_of_rows(node_type)?;
        let num_nodes = snapshot.catalog().node_types[usize::from(node_type.0)].num_nodes;
        let deleted = snapshot.dead_nodes(node_type)?;
        let which = Which::Clusters(Clusters { count, num_nodes, nodes_of_rows, deleted });
        Ok(Self { node_type, which })
    }

    /// Whether these are the same seeds, of the same version of a store.
    pub fn are(&self, other: &Self) -> bool {
        let same = match (&self.which, &other.which) {
            (Which::Listed(a), Which::Listed(b)) => a == b,
            (Which::Live(a), Which::Live(b)) => a == b,
            // Rows lie in one order in a version of a store.
            (Which::Clusters(a), Which::Clusters(b)) => a.count == b.count,
            _ => false,
        };
        same && self.node_type == other.node_type
    }

    /// The nodes at some places, in their order; those of clusters in the order of rows.
    pub fn nodes(&self, mut places: Vec<u64>) -> Vec<NodeId> {
        match &self.which {
            Which::Listed(ids) => places.into_iter().map(|place| ids[place as usize]).collect(),
            Which::Live(before) => {
                let dead = |place: u64| before.partition_point(|live| *live <= place) as u64;
                places.into_iter().map(|place| place + dead(place)).collect()
            }
            Which::Clusters(clusters) => {
                places.sort_unstable();
                places.into_iter().flat_map(|place| clusters.nodes(place)).collect()
            }
        }
    }
}

/// The order of places and its cut into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SeedPlan {
    /// How many places there are.
    pub num_seeds: u64,
    /// Places of a global batch.
    pub batch_size: u64,
    /// Permute the places anew in every epoch.
    pub shuffle: bool,
    /// The seed of the permutations.
    pub seed: u64,
    /// Leave a smaller last batch out.
    pub drop_last: bool,
    /// Fill the last batch with repeated places, where several ranks share it.
    pub pad: bool,
    /// Which part of each global batch.
    pub rank: u64,
    /// Of how many parts.
    pub world_size: u64,
}

impl SeedPlan {
    /// All places in order, for one rank.
    pub fn in_order(num_seeds: u64, batch_size: u64) -> Self {
        let (shuffle, drop_last, pad) = (false, false, false);
        Self { num_seeds, batch_size, shuffle, seed: 0, drop_last, pad, rank: 0, world_size: 1 }
    }

    /// The same plan if its numbers fit together.
    ///
    /// # Errors
    /// [`SampleError::Spec`].
    pub fn checked(self) -> Result<Self, SampleError> {
        let Self { batch_size, rank, world_size, .. } = self;
        let what = if batch_size == 0 {
            "a batch must have at least 1 seed".into()
        } else if rank >= world_size {
            format!("there is no rank {rank} among {world_size}: the first is rank 0")
        } else if !batch_size.is_multiple_of(world_size) {
            format!(
                "a batch is shared by all ranks: {batch_size} seeds cannot be divided evenly among \
                 {world_size} ranks"
            )
        } else {
            return Ok(self);
        };
        Err(SampleError::Spec(what))
    }

    /// Places of one rank in a full batch.
    pub fn local_batch_size(&self) -> u64 {
        self.batch_size / self.world_size
    }

    /// Batches of one epoch, the same on every rank.
    pub fn steps(&self) -> u64 {
        let keeps_tail = !self.drop_last && (self.world_size == 1 || self.pad);
        let has_tail = !self.num_seeds.is_multiple_of(self.batch_size);
        self.num_seeds / self.batch_size + u64::from(has_tail && keeps_tail)
    }

    /// The random stream of a global batch; it does not depend on rank or tail.
    pub fn stream(&self, epoch: u64, batch: u64) -> u64 {
        let steps = self.num_seeds.div_ceil(self.batch_size);
        epoch.wrapping_mul(steps).wrapping_add(batch)
    }

    /// This rank's places in some batches, one batch after the other.
    pub fn places(&self, epoch: u64, batches: Range<u64>) -> Vec<u64> {
        let order = self.shuffle.then(|| SeedOrder::new(self.num_seeds, self.seed, epoch));
        let at = |place| order.as_ref().map_or(place, |order| order.at(place));
        let mut places = Vec::new();
        for batch in batches {
            let (start, size) = self.global(batch);
            let filled = size.next_multiple_of(self.world_size);
            let repeated = (filled - size).min(self.num_seeds);
            let part = filled / self.world_size;
            let of_rank = self.rank * part..(self.rank + 1) * part;
            places.extend(of_rank.map(|k| match k.checked_sub(size) {
                None => at(start + k),
                Some(beyond) => at(beyond % repeated),
            }));
        }
        places
    }

    /// How many places at the end of this rank's part of a batch are repeats that only fill.
    pub fn padding(&self, batch: u64) -> u64 {
        let size = self.global(batch).1;
        let part = size.div_ceil(self.world_size);
        ((self.rank + 1) * part).saturating_sub(size).min(part)
    }

    /// Where a global batch begins, and how many places it has.
    fn global(&self, batch: u64) -> (u64, u64) {
        let start = batch.saturating_mul(self.batch_size).min(self.num_seeds);
        (start, self.batch_size.min(self.num_seeds - start))
    }
}

/// The seeds of a batch and its random stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The type of its seeds.
    pub node_type: NodeTypeId,
    /// The seeds.
    pub seeds: Vec<NodeId>,
    /// What its draws are keyed by, beside the seed of the sampler.
    pub stream: u64,
}

/// Batches that are made one after the other, by number.
///
/// After an epoch of their own seeds may come passes over other seeds, such as a validation, and
/// then the next epoch.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// The seeds.
    pub inputs: std::sync::Arc<Inputs>,
    /// Their order.
    pub plan: SeedPlan,
    /// The epoch and the batch in it that job 0 is.
    pub first: (u64, u64),
    /// After an epoch the next one follows.
    pub goes_on: bool,
    /// Batches of an epoch before the next one follows, where that is not all of them.
    pub cut: Option<u64>,
    /// What comes between two epochs.
    pub passes: Vec<Pass>,
}

/// Batches of other seeds, once in each epoch.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The seeds.
    pub inputs: std::sync::Arc<Inputs>,
    /// Their order.
    pub plan: SeedPlan,
    /// The epoch of the first pass.
    pub epoch: u64,
    /// The epoch of a pass less that of the one before it.
    pub step: u64,
    /// Batches of a pass.
    pub batches: u64,
}

/// A job by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the passes it is part of; `None` for the jobs' own seeds.
    pub pass: Option<usize>,
    /// The epoch.
    pub epoch: u64,
    /// The batch of that epoch.
    pub batch: u64,
}

impl Jobs {
    /// Batches of one kind of seeds.
    pub fn new(
        inputs: std::sync::Arc<Inputs>,
        plan: SeedPlan,
        first: (u64, u64),
        goes_on: bool,
    ) -> Self {
        Self { inputs, plan, first, goes_on, cut: None, passes: Vec::new() }
    }

    /// The batches of one epoch of seeds in the order given.
    pub fn once(node_type: NodeTypeId, seeds: Vec<NodeId>, batch_size: u64) -> Self {
        let plan = SeedPlan::in_order(seeds.len() as u64, batch_size);
        let inputs = std::sync::Arc::new(Inputs::listed(node_type, seeds));
        Self::new(inputs, plan, (0, 0), false)
    }

    /// How many there are; `u64::MAX` where epoch follows epoch.
    pub fn len(&self) -> u64 {
        let steps = self.steps();
        if self.goes_on && steps > 0 { u64::MAX } else { steps.saturating_sub(self.first.1) }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Batches of an epoch of the jobs' own seeds.
    fn steps(&self) -> u64 {
        let steps = self.plan.steps();
        self.cut.filter(|cut| self.first.1 < *cut).map_or(steps, |cut| steps.min(cut))
    }

    /// Batches between two epochs.
    pub fn between(&self) -> u64 {
        self.passes.iter().map(|pass| pass.batches).sum()
    }

    /// What job number `job` is.
    pub fn place(&self, job: u64) -> Place {
        let (steps, between) = (self.steps(), self.between());
        // As if the first epoch had begun with its first batch.
        let at = self.first.1 + job;
        let (round, mut batch) = (at / (steps + between), at % (steps + between));
        if batch < steps {
            return Place { pass: None, epoch: self.first.0 + round, batch };
        }
        batch -= steps;
        for (index, pass) in self.passes.iter().enumerate() {
            if batch < pass.batches {
                return Place { pass: Some(index), epoch: pass.epoch + round * pass.step, batch };
            }
            batch -= pass.batches;
        }
        unreachable!("a place is in its epoch or in one of the passes after it")
    }

    /// The first job from `from` on that is at `place`, `most` jobs later at most.
    pub fn find(&self, place: Place, from: u64, most: u64) -> Option<u64> {
        let end = self.len().min(from.saturating_add(most).saturating_add(1));
        (from..end).find(|job| self.place(*job) == place)
    }

    /// The job with a number below [`Jobs::len`].
    pub fn job(&self, job: u64) -> Job {
        let place = self.place(job);
        let (inputs, plan) = self.seeds_of(place.pass);
        let seeds = inputs.nodes(plan.places(place.epoch, place.batch..place.batch + 1));
        let stream = plan.stream(place.epoch, place.batch);
        Job { node_type: inputs.node_type, seeds, stream }
    }

    fn seeds_of(&self, pass: Option<usize>) -> (&Inputs, &SeedPlan) {
        match pass.map(|index| &self.passes[index]) {
            Some(pass) => (&pass.inputs, &pass.plan),
            None => (&self.inputs, &self.plan),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn jobs(first: (u64, u64), cut: Option<u64>, passes: &[(u64, u64, u64)]) -> Jobs {
        let seeds = |count| Arc::new(Inputs::listed(NodeTypeId(0), (0..count).collect()));
        let pass = |(epoch, step, batches): &(u64, u64, u64)| Pass {
            inputs: seeds(100),
            plan: SeedPlan::in_order(100, 10),
            epoch: *epoch,
            step: *step,
            batches: *batches,
        };
        let passes = passes.iter().map(pass).collect();
        Jobs { cut, passes, ..Jobs::new(seeds(40), SeedPlan::in_order(40, 10), first, true) }
    }

    fn places(jobs: &Jobs, count: u64) -> Vec<(Option<usize>, u64, u64)> {
        let plain = |place: Place| (place.pass, place.epoch, place.batch);
        (0..count).map(|job| plain(jobs.place(job))).collect()
    }

    #[test]
    fn passes_over_other_seeds_come_between_epochs() {
        let jobs = jobs((5, 2), None, &[(7, 1, 2), (3, 0, 1)]);
        let (own, val, test) = (None, Some(0), Some(1));
        let expected = [
            vec![(own, 5, 2), (own, 5, 3), (val, 7, 0), (val, 7, 1), (test, 3, 0)],
            vec![(own, 6, 0), (own, 6, 1), (own, 6, 2), (own, 6, 3)],
            vec![(val, 8, 0), (val, 8, 1), (test, 3, 0), (own, 7, 0)],
        ];
        assert_eq!(places(&jobs, 13), expected.concat());
        assert_eq!(jobs.len(), u64::MAX);
        let place = |pass, epoch, batch| Place { pass, epoch, batch };
        assert_eq!(jobs.find(place(own, 6, 0), 2, 3), Some(5), "three jobs are left out");
        assert_eq!(jobs.find(place(own, 6, 0), 2, 2), None, "too many would be left out");
        assert_eq!(jobs.find(place(val, 7, 0), 3, 9), None, "it is over");
    }

    #[test]
    fn an_epoch_that_is_cut_short_is_followed_by_the_next_one() {
        let jobs = jobs((0, 0), Some(2), &[]);
        let own = None;
        assert_eq!(places(&jobs, 4), [(own, 0, 0), (own, 0, 1), (own, 1, 0), (own, 1, 1)]);
        // Who begins beyond the cut takes the whole epoch.
        let jobs = Jobs { first: (0, 2), ..jobs };
        assert_eq!(places(&jobs, 3), [(own, 0, 2), (own, 0, 3), (own, 1, 0)]);
    }
}
