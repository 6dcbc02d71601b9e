//! Where the lists of a group are: the step that may have to be begun anew.

use ng_types::NodeId;

use super::{LongList, Stream};
use crate::error::ReadError;
use crate::page::Located;
use crate::topology::reader::{HubEntry, Lists, Wanted};
use crate::tree::Hit;

/// What a group has to read, and where that is.
pub(super) struct Plan {
    pub lists: Lists,
    /// The lists that are long, with the entries that were drawn of each.
    pub long: Vec<(LongList, Vec<HubEntry>)>,
    /// Logical blocks in ascending order, and their places; without those that were changed.
    blocks: Vec<u64>,
    located: Vec<Located>,
}

impl Plan {
    /// The places of `span` blocks from `first` on; none where the page was changed, or where no
    /// file has such a block.
    pub fn run(&self, first: u64, span: usize) -> &[Located] {
        match self.blocks.binary_search(&first) {
            Ok(at) => &self.located[at..at + span],
            Err(_) => &[],
        }
    }
}

impl Stream<'_> {
    /// Looks a group up, and draws from its long lists.
    pub(super) fn plan(&mut self, index: usize, hasty: bool) -> Result<Plan, ReadError> {
        let Some(group) = self.groups.get_mut(index) else { return Err(ReadError::NotYet) };
        let pages = if hasty { &self.hasty } else { self.patient };
        let reader = self.snapshot.topology_reader(pages, group.edge_type)?;
        let topo = reader.topo;
        let nodes: Vec<NodeId> = group.requests.iter().map(|request| request.node).collect();
        self.snapshot.check_nodes(reader.meta.destination, &nodes)?;
        let wanted = nodes.iter().enumerate().map(|(place, node)| Wanted { node: *node, place });
        let lists = reader.locate(&wanted.collect::<Vec<_>>())?;
        let mut long = Vec::new();
        for hit in &lists.long_hits {
            for wanted in &lists.long[hit.keys.clone()] {
                let Some(request) = group.requests.get(wanted.place) else { continue };
                let mut arrivals = reader.arrivals(1);
                let mut entries = Vec::new();
                let mut draw = |_: usize, degree: u64, positions: &mut Vec<u64>| {
                    (self.draw)(request, degree, positions);
                };
                let wanted = Wanted { node: wanted.node, place: 0 };
                reader.draw_hub(hit, wanted, &mut draw, &mut arrivals, &mut entries)?;
                entries.sort_unstable_by_key(|entry| (entry.block, entry.arrival));
                long.push((LongList { request: *request, arrivals, missing: 0 }, entries));
            }
        }
        let span = topo.blocks_per_page();
        let first = |hit: &Hit| hit.record.page.saturating_mul(span);
        let short =
            lists.short_hits.iter().flat_map(|hit| first(hit)..first(hit).saturating_add(span));
        let in_long = long.iter().flat_map(|(_, entries)| entries.iter().map(|entry| entry.block));
        let mut blocks: Vec<u64> = short.chain(in_long).collect();
        if !topo.changed.is_empty() {
            blocks.retain(|block| topo.changed.get(block / span).is_none());
        }
        blocks.sort_unstable();
        blocks.dedup();
        let located = pages.resolve(topo, &blocks)?;
        let nowhere = blocks.iter().zip(&located).find(|(_, place)| **place == Located::NOWHERE);
        if let Some((block, _)) = nowhere {
            return Err(topo.nowhere(block / span));
        }
        Ok(Plan { lists, long, blocks, located })
    }
}
