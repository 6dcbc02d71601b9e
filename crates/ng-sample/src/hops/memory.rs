//! Expanding a frontier from a topology in memory.
//!
//! The lists of all destinations are looked up first, then positions are drawn and entries loaded,
//! some destinations at a time: every loop has loads that do not wait for each other, which is what
//! hides the latency of memory. Draws are those of the path that reads pages.

use ng_store::{Packed, ResidentTopology, from_three};
use ng_types::{DrawKey, EdgeTypeId};

use super::{Edges, EntryData, Step, count};
use crate::SampleError;
use crate::ids::Id;

/// Destinations whose positions are held at a time.
const DESTINATIONS_TOGETHER: usize = 128;

/// How the lists of one edge type are drawn from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub key: DrawKey,
    pub edge_type: EdgeTypeId,
    /// `None` takes all.
    pub fanout: Option<u32>,
    pub replace: bool,
}

impl Rule {
    /// How many entries are drawn from a list.
    #[inline]
    pub fn count(&self, degree: u64) -> Result<u32, SampleError> {
        match self.fanout {
            None => count(degree),
            Some(fanout) if self.replace => Ok(if degree == 0 { 0 } else { fanout }),
            Some(fanout) => Ok(degree.min(u64::from(fanout)) as u32),
        }
    }

    /// Draws positions of the list of `destination`.
    #[inline]
    pub fn draw(&self, destination: u64, degree: u64, emit: impl FnMut(u64)) {
        let draws = self.key.draws(self.edge_type, destination);
        match self.fanout {
            None => (0..degree).for_each(emit),
            Some(fanout) if self.replace => draws.with_replacement(degree, fanout, emit),
            Some(fanout) => draws.without_replacement(degree, fanout, emit),
        }
    }

    /// Positions that are held at a time, at most.
    pub fn places(&self, draws: u64) -> u64 {
        let together = DESTINATIONS_TOGETHER as u64;
        self.fanout.map_or(draws, |fanout| draws.min(together * u64::from(fanout)))
    }
}

/// Appends where the list of each of `ids` begins, and how long it is.
pub(crate) fn find_lists<I: Id>(
    topology: &ResidentTopology,
    ids: &[I],
    lists: &mut Vec<(u64, u64)>,
) {
    let offsets = topology.offsets();
    lists.extend(ids.iter().map(|id| {
        let node = id.get() as usize;
        let start = offsets.get(node);
        (start, offsets.get(node + 1) - start)
    }));
}

/// Looks up the lists of `ids` and counts what will be drawn of them.
pub(crate) fn plan<I: Id>(
    topology: &ResidentTopology,
    rule: Rule,
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) -> Result<(), SampleError> {
    find_lists(topology, ids, &mut step.lists);
    edges.counts.reserve(ids.len());
    for (_, degree) in &step.lists {
        let count = rule.count(*degree)?;
        edges.counts.push(count);
        step.draws += u64::from(count);
    }
    Ok(())
}

/// Draws what was planned.
pub(crate) fn draw<I: Id>(
    topology: &ResidentTopology,
    rule: Rule,
    ids: &[I],
    step: &mut Step<I>,
    data: &mut EntryData,
) {
    let Step { draws, sources, lists, places, .. } = step;
    sources.reserve(*draws as usize);
    places.reserve(rule.places(*draws) as usize);
    let chunks = ids.chunks(DESTINATIONS_TOGETHER);
    for (ids, lists) in chunks.zip(lists.chunks(DESTINATIONS_TOGETHER)) {
        places.clear();
        for (id, (start, degree)) in ids.iter().zip(lists) {
            rule.draw(id.get(), *degree, |position| places.push(start + position));
        }
        load(topology, places, sources, data);
    }
}

/// Appends the entries at `places` to the columns.
pub(crate) fn load<I: Id>(
    topology: &ResidentTopology,
    places: &[u64],
    sources: &mut Vec<I>,
    data: &mut EntryData,
) {
    let places = || places.iter().map(|place| *place as usize);
    match topology.sources() {
        Packed::Three(packed) => {
            sources.extend(places().map(|at| I::new(from_three(packed[at]))));
        }
        Packed::Four(packed) => {
            sources.extend(places().map(|at| I::new(u64::from(u32::from_le_bytes(packed[at])))));
        }
        wide @ Packed::Five(_) => sources.extend(places().map(|at| I::new(wide.get(at)))),
    }
    if let Some(packed) = topology.edge_ids() {
        data.edge_ids.extend(places().map(|at| packed.get(at)));
    }
    if let Some(times) = topology.times() {
        data.times.extend(places().map(|at| i64::from_le_bytes(times[at])));
    }
    if let Some(weights) = topology.weights() {
        data.weights.extend(places().map(|at| f32::from_le_bytes(weights[at])));
    }
}
