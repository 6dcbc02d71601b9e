//! LABOR-0 (Balin and Catalyurek, 2023): destinations choose by numbers that belong to sources.
//!
//! Entry t of a list of `degree` is taken if the number of t is below fanout / degree. All entries
//! have to be looked at, so those in memory are, eight at a time, and from pages all are read, some
//! lists at a time. What must not live here: hops. Invariant: what is taken of a list depends on
//! the list, the fanout and the key, and comes in the order of the list, from memory and from
//! pages.

use ng_simd::{SourceSelector, prefetch};
use ng_store::{Expansion, Packed, ResidentTopology, Snapshot};
use ng_types::{EdgeTypeId, NodeId, Reservation};

use crate::SampleError;
use crate::hops::memory as resident;
use crate::hops::{Edges, EntryData, Step, append, count};
use crate::ids::Id;

/// Entries that are read together at most, and how many lists at a time if they are short.
const ENTRIES_TOGETHER: u64 = 1 << 15;
const LISTS_TOGETHER: usize = 64;
const SHORT_MAX: u64 = ENTRIES_TOGETHER / LISTS_TOGETHER as u64;

/// Memory for what is read together.
pub(crate) const READ_BYTES: u64 = ENTRIES_TOGETHER * 112;

/// How many lists ahead of the one that is looked at are brought near, and how many entries of
/// each.
const AHEAD: usize = 2;
const NEAR: u64 = 512;

/// How the lists of one edge type are chosen from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labor {
    pub selector: SourceSelector,
    pub edge_type: EdgeTypeId,
    /// At least 1.
    pub fanout: u32,
}

impl Labor {
    /// Entries whose number is below this are taken; `None` takes all.
    #[inline]
    fn bound(self, degree: u64) -> Option<u32> {
        let fanout = u64::from(self.fanout);
        // Below 2^32, as the fanout is below the degree; at most 2^-32 less than it should be.
        (degree > fanout).then(|| (u128::from(fanout << 32) / u128::from(degree)) as u32)
    }
}

/// Looks up the lists of `ids` and chooses from them; what is chosen is in `step.places`.
pub(crate) fn plan<I: Id>(
    topology: &ResidentTopology,
    labor: Labor,
    ids: &[I],
    step: &mut Step<I>,
    edges: &mut Edges,
) -> Result<(), SampleError> {
    resident::find_lists(topology, ids, &mut step.lists);
    edges.counts.reserve(ids.len());
    let sources = topology.sources();
    let mut chosen = Vec::new();
    for (at, (start, degree)) in step.lists.iter().enumerate() {
        if let Some((start, degree)) = step.lists.get(at + AHEAD) {
            let list = *start as usize..(start + degree.min(&NEAR)) as usize;
            match sources {
                Packed::Three(all) => prefetch(all[list].as_flattened()),
                Packed::Four(all) => prefetch(all[list].as_flattened()),
                Packed::Five(all) => prefetch(all[list].as_flattened()),
            }
        }
        count(*degree)?;
        let before = step.places.len();
        if let Some(bound) = labor.bound(*degree) {
            let list = *start as usize..(start + degree) as usize;
            chosen.clear();
            match sources {
                Packed::Three(all) => {
                    labor.selector.of_three(&all[list], bound, &mut chosen);
                }
                Packed::Four(all) => labor.selector.of_four(&all[list], bound, &mut chosen),
                wide @ Packed::Five(_) => {
                    let key = labor.selector.key();
                    let taken =
                        |at: &u32| key.number(wide.get(*start as usize + *at as usize)) < bound;
                    chosen.extend((0..*degree as u32).filter(taken));
                }
            }
            step.places.extend(chosen.iter().map(|at| start + u64::from(*at)));
        } else {
            step.places.extend(*start..start + degree);
        }
        edges.counts.push(count((step.places.len() - before) as u64)?);
    }
    step.draws = step.places.len() as u64;
    Ok(())
}

/// Loads what was chosen.
pub(crate) fn take<I: Id>(topology: &ResidentTopology, step: &mut Step<I>, data: &mut EntryData) {
    resident::load(topology, &step.places, &mut step.sources, data);
}

/// The same from pages. `_held` is memory of [`READ_BYTES`].
pub(crate) fn read(
    snapshot: &Snapshot,
    labor: Labor,
    nodes: &[NodeId],
    _held: &Reservation,
) -> Result<Expansion, SampleError> {
    let mut chosen = Chosen { entries: Expansion::default(), lists: vec![(0, 0); nodes.len()] };
    let mut long = Vec::new();
    for (part, some) in nodes.chunks(LISTS_TOGETHER).enumerate() {
        let mut degrees = vec![0; some.len()];
        let mut found = Expansion::default();
        let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
            degrees[at] = degree;
            if degree <= SHORT_MAX {
                positions.extend(0..degree);
            }
        };
        snapshot.expand(labor.edge_type, some, &mut draw, &mut found)?;
        for (at, degree) in degrees.into_iter().enumerate() {
            let index = part * LISTS_TOGETHER + at;
            if degree <= SHORT_MAX {
                chosen.choose(labor, (index, degree), &found, at);
            } else {
                long.push((index, degree));
            }
        }
    }
    // Long lists piece by piece; a piece of one ends what is read together.
    let mut at = (0, 0);
    while at.0 < long.len() {
        let (mut pieces, mut room) = (Vec::new(), ENTRIES_TOGETHER);
        while room > 0 && at.0 < long.len() {
            let (index, degree) = long[at.0];
            let end = degree.min(at.1 + room);
            pieces.push((index, degree, at.1..end));
            room -= end - at.1;
            at = if end == degree { (at.0 + 1, 0) } else { (at.0, end) };
        }
        let some: Vec<NodeId> = pieces.iter().map(|(index, ..)| nodes[*index]).collect();
        let mut found = Expansion::default();
        let mut draw = |at: usize, _: u64, positions: &mut Vec<u64>| {
            positions.extend(pieces[at].2.clone());
        };
        snapshot.expand(labor.edge_type, &some, &mut draw, &mut found)?;
        for (at, (index, degree, _)) in pieces.iter().enumerate() {
            chosen.choose(labor, (*index, *degree), &found, at);
        }
    }
    Ok(chosen.into_request_order())
}

/// Entries that were chosen, and where those of each destination are.
struct Chosen {
    entries: Expansion,
    lists: Vec<(usize, usize)>,
}

impl Chosen {
    /// Chooses from entries of one destination, all of which are list `at` of `found`. Pieces of
    /// one list come one after the other.
    fn choose(
        &mut self,
        labor: Labor,
        (index, degree): (usize, u64),
        found: &Expansion,
        at: usize,
    ) {
        let key = labor.selector.key();
        let bound = labor.bound(degree);
        let (start, taken) = &mut self.lists[index];
        if *taken == 0 {
            *start = self.entries.sources.len();
        }
        for entry in found.offsets[at]..found.offsets[at + 1] {
            if bound.is_none_or(|bound| key.number(found.sources[entry]) < bound) {
                append(&mut self.entries, found, entry..entry + 1);
                *taken += 1;
            }
        }
    }

    fn into_request_order(self) -> Expansion {
        let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
        for (start, taken) in self.lists {
            append(&mut out, &self.entries, start..start + taken);
            out.offsets.push(out.sources.len());
        }
        out
    }
}
