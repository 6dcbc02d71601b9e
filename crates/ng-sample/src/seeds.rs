//! Which seeds stand in which batch.
//!
//! A plan is a pure function of (seed, epoch, batch): any batch is found without those before it,
//! so that a resumed epoch, a worker process and another rank agree. What must not live here:
//! drawing of neighbours. The invariant: global batches are the same for every world size, and a
//! rank takes its contiguous part of each.

use std::ops::Range;

use ng_store::{ReadError, RowOrder, Snapshot};
use ng_types::{NodeId, NodeTypeId, SeedOrder};

use crate::{Job, SampleError, Seeds};

/// What batches are made around, by place: nodes of one type, or links of one edge type.
#[derive(Debug)]
pub struct Inputs {
    which: Which,
    /// By place; empty where seeds have no times of their own.
    times: Vec<i64>,
}

#[derive(Debug)]
enum Which {
    Nodes(NodeTypeId, Nodes),
    /// The source and the destination of each.
    Links(Vec<NodeId>, Vec<NodeId>),
    /// All edges of a type, by their numbers, or those with these.
    Edges(Option<Vec<u64>>),
    /// Nodes that the sampler draws: a place is a batch.
    Drawn,
}

#[derive(Debug)]
enum Nodes {
    Listed(Vec<NodeId>),
    /// All nodes but the deleted ones: for each of these, how many live nodes come before it.
    Live(Vec<u64>),
    Clusters(Clusters),
    /// A place stands for all nodes of a group.
    Groups(Groups),
}

/// Nodes in groups: small graphs, or parts of a large one.
#[derive(Debug, PartialEq, Eq)]
struct Groups {
    /// Where each group begins, and where the last one ends.
    ends: Vec<u64>,
    /// Their nodes; `None` where these are numbered in that order.
    nodes: Option<Vec<NodeId>>,
}

impl Groups {
    fn nodes(&self, group: u64) -> Vec<NodeId> {
        let (start, end) = (self.ends[group as usize], self.ends[group as usize + 1]);
        match &self.nodes {
            Some(nodes) => nodes[start as usize..end as usize].to_vec(),
            None => (start..end).collect(),
        }
    }
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
    fn new(which: Which) -> Self {
        Self { which, times: Vec::new() }
    }

    /// These nodes, in this order.
    pub fn listed(node_type: NodeTypeId, ids: Vec<NodeId>) -> Self {
        Self::new(Which::Nodes(node_type, Nodes::Listed(ids)))
    }

    /// All nodes in the order of their ids, without the deleted ones (ascending).
    pub fn live(node_type: NodeTypeId, deleted: &[NodeId]) -> Self {
        let before = (0..).zip(deleted).map(|(others, id)| id - others);
        Self::new(Which::Nodes(node_type, Nodes::Live(before.collect())))
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
        let clusters = Clusters { count, num_nodes, nodes_of_rows, deleted };
        Ok(Self::new(Which::Nodes(node_type, Nodes::Clusters(clusters))))
    }

    /// Groups of nodes: a place stands for those between two of `ends` (ascending, from 0 on),
    /// among `nodes` or by number.
    ///
    /// # Panics
    /// If `ends` do not ascend from 0 to the number of `nodes`.
    pub fn groups(node_type: NodeTypeId, ends: Vec<u64>, nodes: Option<Vec<NodeId>>) -> Self {
        assert!(ends.is_sorted() && ends.first() == Some(&0), "groups follow each other");
        if let (Some(nodes), Some(last)) = (&nodes, ends.last()) {
            assert_eq!(nodes.len() as u64, *last, "each node is of a group");
        }
        Self::new(Which::Nodes(node_type, Nodes::Groups(Groups { ends, nodes })))
    }

    /// Links from `sources` to `destinations`, in this order.
    ///
    /// # Panics
    /// If there are more of one than of the other.
    pub fn links(sources: Vec<NodeId>, destinations: Vec<NodeId>) -> Self {
        assert_eq!(sources.len(), destinations.len(), "a link has two ends");
        Self::new(Which::Links(sources, destinations))
    }

    /// All edges of the type whose links the sampler scores: a place is the number of an edge; or
    /// those with these `numbers`.
    pub fn edges(numbers: Option<Vec<u64>>) -> Self {
        Self::new(Which::Edges(numbers))
    }

    /// Nodes that the sampler draws for each place anew.
    pub fn drawn() -> Self {
        Self::new(Which::Drawn)
    }

    /// The same seeds, each with a time of its own, by place.
    pub fn with_times(self, times: Vec<i64>) -> Self {
        Self { times, ..self }
    }

    /// Whether these are the same seeds, of the same version of a store.
    pub fn are(&self, other: &Self) -> bool {
        let same = match (&self.which, &other.which) {
            (Which::Nodes(a, nodes), Which::Nodes(b, others)) => a == b && nodes.are(others),
            (Which::Links(a, b), Which::Links(c, d)) => (a, b) == (c, d),
            (Which::Edges(a), Which::Edges(b)) => a == b,
            (Which::Drawn, Which::Drawn) => true,
            _ => false,
        };
        same && self.times == other.times
    }

    /// The nodes at some places, in their order; those of clusters in the order of rows. None where
    /// the seeds are links.
    pub fn nodes(&self, places: Vec<u64>) -> Vec<NodeId> {
        match &self.which {
            Which::Nodes(_, nodes) => nodes.at(places),
            Which::Links(..) | Which::Edges(_) | Which::Drawn => Vec::new(),
        }
    }

    /// One batch of all of them, unless they are all nodes of a type or all edges.
    pub fn whole(&self, stream: u64) -> Job {
        self.part(stream, 0, 1)
    }

    /// The same as a part of a global batch of `batch_size` seeds, from place `first` on.
    pub fn part(&self, stream: u64, first: u64, batch_size: u64) -> Job {
        let count = match &self.which {
            Which::Nodes(_, Nodes::Listed(ids)) => ids.len(),
            Which::Links(sources, _) => sources.len(),
            Which::Edges(Some(numbers)) => numbers.len(),
            Which::Nodes(..) | Which::Edges(None) | Which::Drawn => 0,
        };
        self.job((0..count as u64).collect(), (stream, first, batch_size))
    }

    /// The batch of the seeds at some places, which are part of a global batch.
    fn job(&self, places: Vec<u64>, (stream, first, batch_size): (u64, u64, u64)) -> Job {
        // Ranks draw their seeds for themselves, so each has a stream of its own.
        let own = stream.wrapping_mul(batch_size).wrapping_add(first);
        let stream = if matches!(self.which, Which::Drawn) { own } else { stream };
        let at = |all: &[u64]| places.iter().map(|place| all[*place as usize]).collect();
        let times = match self.times.as_slice() {
            [] => Vec::new(),
            times => places.iter().map(|place| times[*place as usize]).collect(),
        };
        let seeds = match &self.which {
            Which::Nodes(node_type, nodes) => {
                Seeds::Nodes { node_type: *node_type, ids: nodes.at(places), times }
            }
            Which::Links(sources, destinations) => {
                Seeds::Links { sources: at(sources), destinations: at(destinations), times }
            }
            Which::Edges(None) => Seeds::Edges { numbers: places, times },
            Which::Edges(Some(numbers)) => Seeds::Edges { numbers: at(numbers), times },
            Which::Drawn => Seeds::Drawn,
        };
        Job { seeds, stream, first }
    }
}

impl Nodes {
    fn are(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Listed(a), Self::Listed(b)) => a == b,
            (Self::Live(a), Self::Live(b)) => a == b,
            // Rows lie in one order in a version of a store.
            (Self::Clusters(a), Self::Clusters(b)) => a.count == b.count,
            (Self::Groups(a), Self::Groups(b)) => a == b,
            _ => false,
        }
    }

    fn at(&self, mut places: Vec<u64>) -> Vec<NodeId> {
        match self {
            Self::Listed(ids) => places.into_iter().map(|place| ids[place as usize]).collect(),
            Self::Live(before) => {
                let dead = |place: u64| before.partition_point(|live| *live <= place) as u64;
                places.into_iter().map(|place| place + dead(place)).collect()
            }
            Self::Clusters(clusters) => {
                places.sort_unstable();
                places.into_iter().flat_map(|place| clusters.nodes(place)).collect()
            }
            Self::Groups(groups) => {
                places.into_iter().flat_map(|place| groups.nodes(place)).collect()
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
            format!(
                "rank {rank} is not valid: expected a rank below the number of ranks, {world_size}"
            )
        } else if !batch_size.is_multiple_of(world_size) {
            format!(
                "a global batch of {batch_size} seeds cannot be divided evenly among {world_size} \
                 ranks; use a multiple of the number of ranks"
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

    /// The place in a global batch at which this rank's part of it begins.
    pub fn first(&self, batch: u64) -> u64 {
        self.rank * self.global(batch).1.div_ceil(self.world_size)
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
        let places = plan.places(place.epoch, place.batch..place.batch + 1);
        let stream = plan.stream(place.epoch, place.batch);
        inputs.job(places, (stream, plan.first(place.batch), plan.batch_size))
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
