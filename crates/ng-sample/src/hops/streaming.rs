//! Sampling without a barrier between hops: a list that arrives starts the hop of its entries at
//! once (BeaconGNN, section IV).
//!
//! Which hop a node belongs to is only known in the end, so a list may be drawn from with the
//! fanout of a later hop first, and more of it then. As the draws of a smaller fanout are the first
//! ones of a larger, a list that was expanded early is extended or cut, and never wrong. What comes
//! out is a store of lists: the hops are walked over it afterwards as over any other, which makes
//! the batch the same, byte for byte; a list that is missing then is read there. Nothing here
//! decides what a batch is.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ng_store::{Expansion, ListRequest, STREAM_BYTES_PER_REQUEST, Snapshot};
use ng_types::{EdgeTypeId, NodeId, NodeTypeId, Reservation};

use super::{Ends, append, pages};
use crate::draw::{BatchKey, Rule, Uniform};
use crate::{SampleError, SampleSpec};

/// How lists that are not in memory are read. The batches are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Streaming for batches of very few lists, where waiting for the last read of each hop would
    /// leave the disk idle for much of the time; hops for others, which share more reads.
    #[default]
    Auto,
    /// Hop by hop: all lists of a hop are read together, and neighbours on disk in one read.
    Hops,
    /// Each list starts the next hop of its entries when it arrives, where all fanouts are counts.
    Streaming,
}

/// Lists of a batch up to which [`Engine::Auto`] streams. Measured with `examples/engine_rate.rs`:
/// beyond, a hop keeps the disk busy as well, and finds more lists for each page that it reads.
const LISTS_MAX: u64 = 48;

/// Bytes that a list takes while a batch is streamed, beside its entries, in maps that have grown.
const BYTES_PER_LIST: u64 = STREAM_BYTES_PER_REQUEST + 256;

/// What the streaming engine did, over all batches of a sampler and its clones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamingStats {
    /// Batches that were streamed.
    pub batches: u64,
    /// Lists that were expanded.
    pub lists: u64,
    /// Those of which more had to be drawn, because their node turned out to belong to an earlier
    /// hop with a larger fanout.
    pub extended: u64,
    /// Those of which less was used than was drawn, for the same reason with a smaller one.
    pub cut: u64,
    /// Those that no hop used.
    pub unused: u64,
    /// Lists that had to be read when the batch was put together.
    pub late: u64,
}

/// The counters that all clones of a sampler share.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<StreamingStats>);

impl Counters {
    pub fn stats(&self) -> StreamingStats {
        *self.lock()
    }

    /// Adds what is known of the lists of a finished batch.
    pub fn count(&self, lists: &Lists) {
        let of = |what: fn(&List) -> bool| {
            lists.by_owner.values().filter(|list| what(list)).count() as u64
        };
        let mut stats = self.lock();
        stats.batches += 1;
        stats.lists += of(|list| list.times_asked > 0);
        stats.extended += of(|list| list.times_asked > 1);
        stats.cut += of(|list| list.is_cut);
        stats.unused += of(|list| !list.is_used);
        stats.late += of(|list| list.is_late);
    }

    fn lock(&self) -> MutexGuard<'_, StreamingStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a batch may ask for, at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    lists: u64,
    draws: u64,
}

impl Extent {
    /// Of a batch around so many seeds of each node type; `None` if there is a hop that takes all
    /// of a list.
    pub fn of(spec: &SampleSpec, ends: &[Ends], seeds: Vec<u64>) -> Option<Self> {
        let (mut frontier, mut extent) = (seeds, Self::default());
        for hop in 0..spec.fanouts.hops() {
            let mut found = vec![0_u64; frontier.len()];
            for (edge_type, ends) in ends.iter().enumerate() {
                let fanout = spec.fanouts.get(EdgeTypeId(edge_type as u16), hop);
                let fanout = u64::try_from(fanout).ok()?;
                let lists = if fanout == 0 { 0 } else { frontier[ends.destination] };
                let draws = lists.saturating_mul(fanout);
                extent.lists = extent.lists.saturating_add(lists);
                extent.draws = extent.draws.saturating_add(draws);
                found[ends.source] = found[ends.source].saturating_add(draws);
            }
            frontier = found;
        }
        Some(extent)
    }

    /// Whether streaming pays.
    pub fn is_small(&self) -> bool {
        self.lists <= LISTS_MAX
    }

    /// Bytes of the lists, and of what it takes to read them.
    pub fn num_bytes(&self) -> u64 {
        // Entries are kept twice while the arrays grow.
        let per_draw = 2 * size_of::<[u64; 4]>() as u64;
        let lists = self.lists.saturating_mul(BYTES_PER_LIST);
        lists.saturating_add(self.draws.saturating_mul(per_draw))
    }
}

/// A list that was asked for.
#[derive(Debug, Default)]
struct List {
    /// The largest fanout that was asked for.
    asked: u32,
    times_asked: u32,
    /// What has arrived: the fanout, and where its entries are.
    arrived: Option<(u32, Range<usize>)>,
    is_used: bool,
    is_cut: bool,
    is_late: bool,
}

/// Lists that were expanded before anybody knew which of their entries a batch needs.
#[derive(Debug)]
pub(crate) struct Lists {
    by_owner: HashMap<(EdgeTypeId, NodeId), List>,
    /// By edge type, as columns differ.
    entries: Vec<Expansion>,
    _held: Reservation,
}

impl Lists {
    /// Takes entries that were drawn with `fanout`.
    fn keep(
        &mut self,
        owner: (EdgeTypeId, NodeId),
        fanout: u32,
        found: &Expansion,
        at: Range<usize>,
    ) {
        let list = self.by_owner.entry(owner).or_default();
        if list.arrived.as_ref().is_some_and(|(known, _)| *known >= fanout) {
            return;
        }
        let entries = &mut self.entries[usize::from(owner.0.0)];
        let start = entries.sources.len();
        append(entries, found, at);
        list.arrived = Some((fanout, start..entries.sources.len()));
    }

    /// The entries that `rule` draws from the lists of `nodes`, as [`Snapshot::expand`] gives them.
    pub fn expand(
        &mut self,
        snapshot: &Snapshot,
        rule: Uniform,
        nodes: &[NodeId],
    ) -> Result<Expansion, SampleError> {
        let fanout = rule.fanout.unwrap_or(u32::MAX);
        let has = |list: &List| list.arrived.as_ref().is_some_and(|(known, _)| *known >= fanout);
        let is_late =
            |node: &&NodeId| !self.by_owner.get(&(rule.edge_type, **node)).is_some_and(has);
        let late: Vec<NodeId> = nodes.iter().filter(is_late).copied().collect();
        if !late.is_empty() {
            let found = pages::draw(snapshot, rule, &late, None)?;
            for (node, ends) in late.iter().zip(found.offsets.windows(2)) {
                let owner = (rule.edge_type, *node);
                self.keep(owner, fanout, &found, ends[0]..ends[1]);
                self.by_owner.entry(owner).or_default().is_late = true;
            }
        }
        let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
        for node in nodes {
            if let Some(list) = self.by_owner.get_mut(&(rule.edge_type, *node))
                && let Some((_, range)) = list.arrived.clone()
            {
                list.is_used = true;
                list.is_cut = range.len() > fanout as usize;
                let end = range.end.min(range.start.saturating_add(fanout as usize));
                let entries = &self.entries[usize::from(rule.edge_type.0)];
                append(&mut out, entries, range.start..end);
            }
            out.offsets.push(out.sources.len());
        }
        Ok(out)
    }
}

/// The subgraph as far as it is known, while lists arrive.
struct Spread<'a> {
    spec: &'a SampleSpec,
    ends: &'a [Ends],
    /// The smallest hop that has reached each node so far.
    hop_of: HashMap<(usize, NodeId), usize>,
    lists: Lists,
    pending: Vec<ListRequest>,
}

impl Spread<'_> {
    /// A node of a type was reached by a draw of hop `hop` - 1, or as a seed.
    fn reach(&mut self, node_type: usize, node: NodeId, hop: usize) {
        if hop >= self.spec.fanouts.hops() {
            return;
        }
        match self.hop_of.entry((node_type, node)) {
            Entry::Occupied(known) if *known.get() <= hop => return,
            Entry::Occupied(mut known) => drop(known.insert(hop)),
            Entry::Vacant(place) => drop(place.insert(hop)),
        }
        for (index, ends) in self.ends.iter().enumerate() {
            let edge_type = EdgeTypeId(index as u16);
            let fanout = self.spec.fanouts.get(edge_type, hop);
            let Ok(fanout) = u32::try_from(fanout) else { continue };
            if ends.destination != node_type || fanout == 0 {
                continue;
            }
            let list = self.lists.by_owner.entry((edge_type, node)).or_default();
            if list.asked < fanout {
                list.asked = fanout;
                list.times_asked += 1;
                self.pending.push(ListRequest { edge_type, node, tag: u64::from(fanout) });
            }
            // What is there of it belongs to this hop now.
            self.reach_entries((edge_type, node), fanout, hop);
        }
    }

    /// The entries of a list that have arrived were reached by hop `hop`, as far as its fanout
    /// goes.
    fn reach_entries(&mut self, owner: (EdgeTypeId, NodeId), fanout: u32, hop: usize) {
        let arrived = self.lists.by_owner.get(&owner).and_then(|list| list.arrived.clone());
        let Some((_, range)) = arrived else { return };
        let edge_type = usize::from(owner.0.0);
        for at in range.take(fanout as usize) {
            let source = self.lists.entries[edge_type].sources[at];
            self.reach(self.ends[edge_type].source, source, hop + 1);
        }
    }

    /// Takes a list that has arrived.
    fn take(&mut self, request: &ListRequest, found: &Expansion) {
        let owner = (request.edge_type, request.node);
        self.lists.keep(owner, request.tag as u32, found, 0..found.sources.len());
        let node_type = self.ends[usize::from(owner.0.0)].destination;
        let Some(hop) = self.hop_of.get(&(node_type, request.node)).copied() else { return };
        let fanout = u32::try_from(self.spec.fanouts.get(request.edge_type, hop)).unwrap_or(0);
        self.reach_entries(owner, fanout, hop);
    }
}

/// Reads the lists of a batch around `seeds`, starting each as soon as anything has reached it;
/// `held` pays for them.
pub(crate) fn read_lists(
    snapshot: &Snapshot,
    (spec, ends): (&SampleSpec, &[Ends]),
    key: BatchKey,
    seeds: &[(NodeTypeId, &[NodeId])],
    held: Reservation,
) -> Result<Lists, SampleError> {
    let entries = vec![Expansion::default(); ends.len()];
    let lists = Lists { by_owner: HashMap::new(), entries, _held: held };
    let (hop_of, pending) = (HashMap::new(), Vec::new());
    let mut spread = Spread { spec, ends, hop_of, lists, pending };
    for (node_type, ids) in seeds {
        ids.iter().for_each(|id| spread.reach(usize::from(node_type.0), *id, 0));
    }
    let spread = RefCell::new(spread);
    snapshot.expand_stream(
        &mut |out| out.append(&mut spread.borrow_mut().pending),
        &mut |request, degree, positions| {
            let source = NodeTypeId(ends[usize::from(request.edge_type.0)].source as u16);
            let how = (spec.method, request.tag as i64);
            if let Some(rule) = Rule::new(how, key, request.edge_type, source) {
                rule.by_position().draw(request.node, degree, |at| positions.push(at));
            }
        },
        &mut |request, found| {
            spread.borrow_mut().take(request, found);
            Ok(())
        },
    )?;
    Ok(spread.into_inner().lists)
}
