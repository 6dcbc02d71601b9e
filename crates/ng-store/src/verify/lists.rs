//! The entries of neighbour lists: ids that exist, order of time, no parallels where none may be.

use ng_types::{MemoryUser, Reservation};

use crate::catalog::EdgeTypeMeta;
use crate::error::ReadError;
use crate::topology::EntryLayout;
use crate::verify::Run;
use crate::verify::dead::DeadSet;

/// Sources of a list that are compared with each other, at most: of a longer list on a `unique`
/// type only parallels in the same stretch are found.
const STRETCH_MAX: u64 = 1 << 20;

/// Sees all lists of an edge type, entry by entry.
pub(super) struct ListCheck<'a> {
    meta: &'a EdgeTypeMeta,
    layout: EntryLayout,
    num_sources: u64,
    num_destinations: u64,
    dead_sources: Option<DeadSet<'a>>,
    dead_destinations: Option<DeadSet<'a>>,
    last_time: Option<i64>,
    /// Sources of the open list, where the type is `unique`.
    sources: Vec<u64>,
    stretch: usize,
    /// Entries seen.
    pub num_edges: u64,
    _held: Reservation,
}

impl<'a> ListCheck<'a> {
    pub fn new(run: &Run<'a>, meta: &'a EdgeTypeMeta) -> Result<Self, ReadError> {
        let nodes = |id| run.version.node_type(id).map_or(0, |owner| owner.num_nodes);
        let most = if meta.unique { meta.num_edges.clamp(1, STRETCH_MAX) } else { 0 };
        let few = most.min(run.inner.budget.share(MemoryUser::VerifiedList) / 8);
        let held = run.inner.reserve_batch(few * 8)?;
        Ok(Self {
            meta,
            layout: EntryLayout::of(meta),
            num_sources: nodes(meta.source),
            num_destinations: nodes(meta.destination),
            dead_sources: run.dead_set(meta.source),
            dead_destinations: run.dead_set(meta.destination),
            last_time: None,
            sources: Vec::with_capacity(few as usize),
            stretch: few as usize,
            num_edges: 0,
            _held: held,
        })
    }

    /// Begins the list of `node`; says what is wrong with it.
    pub fn begin(&mut self, node: u64) -> Result<Option<String>, ReadError> {
        self.last_time = None;
        self.sources.clear();
        if node >= self.num_destinations {
            return Ok(Some(format!(
                "destination {node} is out of range: there are {} nodes",
                self.num_destinations
            )));
        }
        if is_dead(&mut self.dead_destinations, node)? {
            return Ok(Some(format!("node {node} was deleted but has neighbours")));
        }
        Ok(None)
    }

    /// Takes the next entries of the list of `node`; says what is wrong with them.
    pub fn entries(&mut self, node: u64, raw: &[u8]) -> Result<Option<String>, ReadError> {
        let (layout, meta) = (self.layout, self.meta);
        for bytes in raw.chunks_exact(layout.entry_bytes()) {
            let entry = layout.decode(bytes);
            let source = entry.source;
            self.num_edges += 1;
            if source >= self.num_sources {
                let what = format!(
                    "node {node} has source {source}, but there are {} nodes",
                    self.num_sources
                );
                return Ok(Some(what));
            }
            if is_dead(&mut self.dead_sources, source)? {
                return Ok(Some(format!("node {node} has source {source}, which was deleted")));
            }
            if meta.has_edge_ids && entry.edge_id >= meta.num_edge_ids {
                let (id, bound) = (entry.edge_id, meta.num_edge_ids);
                return Ok(Some(format!(
                    "node {node} has edge id {id}, but edge ids are below {bound}"
                )));
            }
            if meta.has_time && self.last_time.replace(entry.time) > Some(entry.time) {
                return Ok(Some(format!("the list of node {node} is not sorted by time")));
            }
            if meta.unique {
                if self.sources.len() == self.stretch
                    && let Some(what) = self.end(node)
                {
                    return Ok(Some(what));
                }
                self.sources.push(source);
            }
        }
        Ok(None)
    }

    /// Ends the list of `node`, or a stretch of it.
    pub fn end(&mut self, node: u64) -> Option<String> {
        self.sources.sort_unstable();
        let twice = self.sources.windows(2).any(|pair| pair.first() == pair.last());
        self.sources.clear();
        twice.then(|| {
            format!("node {node} has parallel edges, but its edge type does not allow them")
        })
    }
}

fn is_dead(set: &mut Option<DeadSet<'_>>, node: u64) -> Result<bool, ReadError> {
    set.as_mut().map_or(Ok(false), |set| set.contains(node))
}
