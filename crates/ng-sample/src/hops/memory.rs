//! Expanding a frontier from a topology in memory.
//!
//! The lists of all destinations are looked up first. Then positions are drawn and entries loaded,
//! some destinations at a time: every loop has loads that do not wait for each other, which is what
//! hides the latency of memory. Rules that look at whole lists choose at once, and bring the next
//! lists near meanwhile. Draws are those of the path that reads pages.

use std::ops::Range;

use ng_simd::prefetch;
use ng_store::{Packed, ResidentTopology, from_three};

use super::{Edges, Step};
use crate::SampleError;
use crate::draw::{
    Around, ByEntry, Choice, Needs, Piece, Rule, Sources, Times, Uniform, Weights, count,
};
use crate::ids::Id;

/// Destinations whose positions are held at a time.
const DESTINATIONS_TOGETHER: usize = 128;

/// How many lists ahead of the one that is looked at are brought near, and how many entries of
/// each.
const AHEAD: usize = 2;
const NEAR: u64 = 512;

/// Positions that are held at a time, at most.
fn places(uniform: &Uniform, draws: u64) -> u64 {
    let together = DESTINATIONS_TOGETHER as u64;
    uniform.fanout.map_or(draws, |fanout| draws.min(together * u64::from(fanout)))
}

/// Appends where the list of each of `ids` begins, and how long it is.
pub(super) fn find_lists<I: Id>(
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

/// Looks up the lists of `ids`, and counts what will be drawn of them, or chooses it. Says how
/// many places will be held beside those that are.
pub(super) fn plan<I: Id>(
    topology: &ResidentTopology,
    (rule, around): (Rule, Around<'_>),
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) -> Result<u64, SampleError> {
    find_lists(topology, ids, &mut step.lists);
    plan_found(topology, (rule, around), ids, step, edges)
}

/// The same for parts of lists that were looked up.
pub(super) fn plan_found<I: Id>(
    topology: &ResidentTopology,
    (rule, around): (Rule, Around<'_>),
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) -> Result<u64, SampleError> {
    edges.counts.reserve(ids.len());
    match rule {
        Rule::Positions(uniform) => {
            for (_, degree) in &step.lists {
                let count = uniform.count(*degree)?;
                edges.counts.push(count);
                step.draws += u64::from(count);
            }
            Ok(places(&uniform, step.draws))
        }
        Rule::Entries(rule) => {
            choose(topology, (rule, around), ids, step, edges)?;
            step.draws = step.places.len() as u64;
            Ok(0)
        }
    }
}

/// Chooses from the lists that were looked up; the places of what is chosen are kept.
fn choose<I: Id>(
    topology: &ResidentTopology,
    (rule, around): (ByEntry, Around<'_>),
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) -> Result<(), SampleError> {
    let mut choice = Choice::new(rule, around);
    let (all_sources, all_weights) = (topology.sources(), topology.weights().unwrap_or_default());
    let all_times = topology.times().unwrap_or_default();
    for (at, (id, (start, degree))) in ids.iter().zip(&step.lists).enumerate() {
        if let Some((start, degree)) = step.lists.get(at + AHEAD) {
            let near = *start as usize..(start + degree.min(&NEAR)) as usize;
            match rule.needs() {
                Needs::Degree => {}
                Needs::Sources => prefetch(bytes(slice(all_sources, near))),
                Needs::Weights => prefetch(all_weights[near].as_flattened()),
            }
        }
        let list = *start as usize..(start + degree) as usize;
        let weights = if all_weights.is_empty() { &[] } else { &all_weights[list.clone()] };
        let times = if all_times.is_empty() { &[] } else { &all_times[list.clone()] };
        let whole = Piece {
            first: 0,
            sources: Sources::Packed(slice(all_sources, list)),
            weights: Weights::Packed(weights),
            times: Times::Packed(times),
        };
        let chosen = choice.of_whole(at, (id.get(), count(*degree)?), whole)?;
        step.places.extend(chosen.iter().map(|at| start + u64::from(*at)));
        edges.counts.push(chosen.len() as u32);
    }
    Ok(())
}

fn slice(all: Packed<'_>, at: Range<usize>) -> Packed<'_> {
    match all {
        Packed::Three(all) => Packed::Three(&all[at]),
        Packed::Four(all) => Packed::Four(&all[at]),
        Packed::Five(all) => Packed::Five(&all[at]),
    }
}

fn bytes(packed: Packed<'_>) -> &[u8] {
    match packed {
        Packed::Three(packed) => packed.as_flattened(),
        Packed::Four(packed) => packed.as_flattened(),
        Packed::Five(packed) => packed.as_flattened(),
    }
}

/// Loads what was planned.
pub(super) fn take<I: Id>(
    topology: &ResidentTopology,
    rule: Rule,
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) {
    match rule {
        Rule::Positions(uniform) => draw(topology, uniform, ids, step, edges),
        Rule::Entries(_) => load(topology, &step.places, &mut step.sources, edges),
    }
}

/// Draws what was counted, and loads it.
fn draw<I: Id>(
    topology: &ResidentTopology,
    uniform: Uniform,
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) {
    let Step { draws, sources, lists, places: held, .. } = step;
    sources.reserve(*draws as usize);
    held.reserve(places(&uniform, *draws) as usize);
    let chunks = ids.chunks(DESTINATIONS_TOGETHER);
    for (ids, lists) in chunks.zip(lists.chunks(DESTINATIONS_TOGETHER)) {
        held.clear();
        for (id, (start, degree)) in ids.iter().zip(lists) {
            uniform.draw(id.get(), *degree, |position| held.push(start + position));
        }
        load(topology, held, sources, edges);
    }
}

/// Appends the entries at `places` to the columns.
fn load<I: Id>(
    topology: &ResidentTopology,
    places: &[u64],
    sources: &mut Vec<I>,
    edges: &mut Edges,
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
        edges.edge_ids.extend(places().map(|at| packed.get(at)));
    }
    if let Some(times) = topology.times() {
        edges.times.extend(places().map(|at| i64::from_le_bytes(times[at])));
    }
    if let Some(weights) = topology.weights() {
        edges.weights.extend(places().map(|at| f32::from_le_bytes(weights[at])));
    }
}
