//! From edges to the records of the two sorts of an edge type: its lists, and those of its reverse.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::edges::RawEdges;
use crate::sort::{BySource, Full, Layout, Record, Sizes, SlotFile, Sorter, pair, triple};
use crate::{EdgeTypeSpec, ImportError, SelfLoops};

/// Ids from here on need more than 32 bits.
const NARROW_BOUND: u64 = 1 << 32;

/// The lists of one direction, in the narrowest record that holds what the edge type needs.
#[derive(Debug)]
pub(crate) enum Lists {
    Pairs(Sorter<u64>),
    Triples(Sorter<u128>),
    Fulls(Sorter<Full>),
    BySource(Sorter<BySource>),
}

/// Which way an edge is turned into an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Forward,
    Backward,
    Both,
}

/// Takes the edges of one edge type in, from any thread.
#[derive(Debug)]
pub(crate) struct EdgeSink {
    forward: RwLock<Lists>,
    backward: Option<RwLock<Lists>>,
    undirected: bool,
    drop_loops: bool,
    slots: Arc<SlotFile>,
    sizes: Sizes,
    seen: Seen,
}

/// Bounds of the ids that came in (one more than the largest), and what was left out.
#[derive(Debug, Default)]
struct Seen {
    sources: AtomicU64,
    destinations: AtomicU64,
    edge_ids: AtomicU64,
    /// Of the smallest ids, how far they are from the largest that there could be.
    sources_below: AtomicU64,
    destinations_below: AtomicU64,
    loops_removed: AtomicU64,
}

impl EdgeSink {
    pub(crate) fn new(spec: &EdgeTypeSpec, slots: Arc<SlotFile>, sizes: Sizes) -> Self {
        let lists = || RwLock::new(Lists::new(spec, &slots, sizes));
        Self {
            forward: lists(),
            backward: (spec.reverse && !spec.undirected).then(lists),
            undirected: spec.undirected,
            drop_loops: spec.self_loops == SelfLoops::Remove,
            slots: Arc::clone(&slots),
            sizes,
            seen: Seen::default(),
        }
    }

    /// One more than the largest source.
    pub(crate) fn sources_bound(&self) -> u64 {
        self.seen.sources.load(Ordering::Relaxed)
    }

    /// One more than the largest destination.
    pub(crate) fn destinations_bound(&self) -> u64 {
        self.seen.destinations.load(Ordering::Relaxed)
    }

    /// The smallest source; `u64::MAX` before there is one.
    pub(crate) fn sources_min(&self) -> u64 {
        u64::MAX - self.seen.sources_below.load(Ordering::Relaxed)
    }

    /// The smallest destination; `u64::MAX` before there is one.
    pub(crate) fn destinations_min(&self) -> u64 {
        u64::MAX - self.seen.destinations_below.load(Ordering::Relaxed)
    }

    /// Self loops that were left out.
    pub(crate) fn loops_removed(&self) -> u64 {
        self.seen.loops_removed.load(Ordering::Relaxed)
    }

    /// One more than the largest edge id.
    pub(crate) fn edge_ids_bound(&self) -> u64 {
        self.seen.edge_ids.load(Ordering::Relaxed)
    }

    /// Takes edges in whose ids have been checked.
    pub(crate) fn push(&self, edges: &RawEdges) -> Result<(), ImportError> {
        let sources_max = edges.sources.iter().copied().max();
        let destinations_max = edges.destinations.iter().copied().max();
        let (Some(source), Some(destination)) = (sources_max, destinations_max) else {
            return Ok(());
        };
        let rows_end = edges.first_row + edges.len() as u64;
        let ids_end = edges.edge_ids.iter().max().map_or(rows_end, |id| id + 1);
        self.seen.sources.fetch_max(source + 1, Ordering::Relaxed);
        self.seen.destinations.fetch_max(destination + 1, Ordering::Relaxed);
        self.seen.edge_ids.fetch_max(ids_end, Ordering::Relaxed);
        let below = |ids: &[u64]| ids.iter().copied().min().map_or(0, |id| u64::MAX - id);
        self.seen.sources_below.fetch_max(below(&edges.sources), Ordering::Relaxed);
        self.seen.destinations_below.fetch_max(below(&edges.destinations), Ordering::Relaxed);
        if self.drop_loops {
            let ends = edges.sources.iter().zip(&edges.destinations);
            let loops = ends.filter(|(source, destination)| source == destination).count();
            self.seen.loops_removed.fetch_add(loops as u64, Ordering::Relaxed);
        }
        let wide = source.max(destination) >= NARROW_BOUND;
        let turn = if self.undirected { Turn::Both } else { Turn::Forward };
        self.push_into(&self.forward, edges, turn, wide)?;
        let backward = self.backward.as_ref();
        backward.map_or(Ok(()), |lists| self.push_into(lists, edges, Turn::Backward, wide))
    }

    /// Gives a sample of the edges to come.
    pub(crate) fn hint(&self, edges: &RawEdges) {
        let turn = if self.undirected { Turn::Both } else { Turn::Forward };
        let lists = self.forward.read().unwrap_or_else(PoisonError::into_inner);
        lists.hint(edges, turn);
        if let Some(backward) = &self.backward {
            let lists = backward.read().unwrap_or_else(PoisonError::into_inner);
            lists.hint(edges, Turn::Backward);
        }
    }

    /// Gives buffers back because edges of another type come next.
    pub(crate) fn pause(&self) -> Result<(), ImportError> {
        for lists in [Some(&self.forward), self.backward.as_ref()].into_iter().flatten() {
            match &*lists.read().unwrap_or_else(PoisonError::into_inner) {
                Lists::Pairs(sorter) => sorter.pause()?,
                Lists::Triples(sorter) => sorter.pause()?,
                Lists::Fulls(sorter) => sorter.pause()?,
                Lists::BySource(sorter) => sorter.pause()?,
            }
        }
        Ok(())
    }

    /// Ends the input.
    pub(crate) fn into_lists(self) -> (Lists, Option<Lists>) {
        let inner =
            |lists: RwLock<Lists>| lists.into_inner().unwrap_or_else(PoisonError::into_inner);
        (inner(self.forward), self.backward.map(inner))
    }

    fn push_into(
        &self,
        lists: &RwLock<Lists>,
        edges: &RawEdges,
        turn: Turn,
        wide: bool,
    ) -> Result<(), ImportError> {
        loop {
            let guard = lists.read().unwrap_or_else(PoisonError::into_inner);
            if !(wide && matches!(*guard, Lists::Pairs(_))) {
                return guard.push(edges, turn, self.drop_loops);
            }
            drop(guard);
            lists.write().unwrap_or_else(PoisonError::into_inner).widen(&self.slots, self.sizes)?;
        }
    }
}

impl Lists {
    fn new(spec: &EdgeTypeSpec, slots: &Arc<SlotFile>, sizes: Sizes) -> Self {
        let slots = Arc::clone(slots);
        // Without an id, parallel edges of different weights could not be told apart in order.
        let edge_id = spec.edge_ids || spec.weight || (spec.time && spec.unique);
        let layout = Layout { edge_id, time: spec.time, weight: spec.weight };
        match (spec.time, spec.weight, edge_id) {
            (true, _, _) if spec.unique => Self::BySource(Sorter::new(slots, layout, sizes)),
            (true, _, _) | (_, true, _) => Self::Fulls(Sorter::new(slots, layout, sizes)),
            (_, _, true) => Self::Triples(Sorter::new(slots, layout, sizes)),
            _ => Self::Pairs(Sorter::new(slots, layout, sizes)),
        }
    }

    /// Turns pairs into triples, because an id does not fit in 32 bits.
    fn widen(&mut self, slots: &Arc<SlotFile>, sizes: Sizes) -> Result<(), ImportError> {
        if !matches!(self, Self::Pairs(_)) {
            return Ok(());
        }
        let triples = Sorter::new(Arc::clone(slots), Layout::default(), sizes);
        let Self::Pairs(pairs) = std::mem::replace(self, Self::Triples(triples)) else {
            return Ok(());
        };
        let Self::Triples(triples) = self else {
            return Ok(());
        };
        pairs.finish()?.for_each(&mut |slice| {
            triples.push(slice.iter().map(|p| triple(p >> 32, p & (NARROW_BOUND - 1), 0)))
        })
    }

    fn push(&self, edges: &RawEdges, turn: Turn, drop_loops: bool) -> Result<(), ImportError> {
        match self {
            Self::Pairs(sorter) => push_ends(sorter, edges, turn, drop_loops, |_, d, s| pair(d, s)),
            Self::Triples(sorter) if edges.edge_ids.is_empty() => {
                let first = edges.first_row;
                let id = if sorter.layout().edge_id { u64::MAX } else { 0 };
                let record = |i, d, s| triple(d, s, (first + i as u64) & id);
                push_ends(sorter, edges, turn, drop_loops, record)
            }
            Self::Triples(sorter) => {
                let record = |i: usize, d, s| triple(d, s, edges.edge_ids[i]);
                push_ends(sorter, edges, turn, drop_loops, record)
            }
            Self::Fulls(sorter) => {
                let full = full(edges, sorter.layout());
                push_ends(sorter, edges, turn, drop_loops, full)
            }
            Self::BySource(sorter) => {
                let full = full(edges, sorter.layout());
                push_ends(sorter, edges, turn, drop_loops, |i, d, s| BySource(full(i, d, s)))
            }
        }
    }

    fn hint(&self, edges: &RawEdges, turn: Turn) {
        match self {
            Self::Pairs(sorter) => {
                let narrow = |id: &u64| *id < NARROW_BOUND;
                if edges.sources.iter().chain(&edges.destinations).all(narrow) {
                    hint_ends(sorter, edges, turn, |_, d, s| pair(d, s));
                }
            }
            Self::Triples(sorter) => hint_ends(sorter, edges, turn, |_, d, s| triple(d, s, 0)),
            Self::Fulls(sorter) => {
                hint_ends(sorter, edges, turn, full(edges, sorter.layout()));
            }
            Self::BySource(sorter) => {
                let full = full(edges, sorter.layout());
                hint_ends(sorter, edges, turn, |i, d, s| BySource(full(i, d, s)));
            }
        }
    }
}

fn full(edges: &RawEdges, layout: Layout) -> impl Fn(usize, u64, u64) -> Full + Copy + '_ {
    move |i, destination, source| {
        let edge_id = if layout.edge_id { edges.edge_id(i) } else { 0 };
        let (time, weight) = edges.time_and_weight(i);
        Full { destination, source, edge_id, time, weight }
    }
}

/// Pushes `record(index, destination, source)` for each entry of each edge.
fn push_ends<R: Record>(
    sorter: &Sorter<R>,
    edges: &RawEdges,
    turn: Turn,
    drop_loops: bool,
    record: impl Fn(usize, u64, u64) -> R + Copy,
) -> Result<(), ImportError> {
    let ends = edges.sources.iter().zip(&edges.destinations).enumerate();
    let kept = ends.filter(move |(_, (s, d))| !drop_loops || s != d);
    if turn != Turn::Backward {
        sorter.push(kept.clone().map(move |(i, (s, d))| record(i, *d, *s)))?;
    }
    match turn {
        Turn::Forward => Ok(()),
        Turn::Backward => sorter.push(kept.map(move |(i, (s, d))| record(i, *s, *d))),
        Turn::Both => {
            let proper = kept.filter(|(_, (s, d))| s != d);
            sorter.push(proper.map(move |(i, (s, d))| record(i, *s, *d)))
        }
    }
}

fn hint_ends<R: Record>(
    sorter: &Sorter<R>,
    edges: &RawEdges,
    turn: Turn,
    record: impl Fn(usize, u64, u64) -> R,
) {
    let mut sample = Vec::with_capacity(2 * edges.len());
    for (i, (s, d)) in edges.sources.iter().zip(&edges.destinations).enumerate() {
        if turn != Turn::Backward {
            sample.push(record(i, *d, *s));
        }
        if turn != Turn::Forward {
            sample.push(record(i, *s, *d));
        }
    }
    sorter.hint(&sample);
}
