//! Which entries of lists are edges inside subgraphs: those whose source is in the subgraph of
//! their destination, too.
//!
//! A list is gone through once for all subgraphs that have its node. What must not live here:
//! where lists come from, and what is done with edges. The invariant: edges of a destination are
//! told in the order of its list.

use ng_store::Expansion;
use ng_types::NodeId;

use crate::node_map::NodeMap;

/// Bits of a node's id; the subgraph is above them.
pub(super) const NODE_BITS: u32 = 40;
pub(super) const NODE: u64 = (1 << NODE_BITS) - 1;

/// Subgraphs of a node that can be looked at in the time of one lookup in a table.
const LOOKUP: usize = 16;

/// Groups of numbers, one after the other.
struct Grouped {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Grouped {
    /// The items of `groups` groups, from pairs (group, item); a group has its items in order.
    fn of(groups: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0_u32; groups + 1];
        for (group, _) in pairs.clone() {
            starts[group as usize + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[groups] as usize];
        for (group, item) in pairs {
            let at = &mut next[group as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { starts, items }
    }

    fn group(&self, group: usize) -> &[u32] {
        &self.items[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

/// The nodes of a type.
pub(super) struct Nodes<'a> {
    /// Of all subgraphs, (subgraph, node) in one number.
    pub all: &'a NodeMap<u64>,
    /// Each once.
    pub distinct: &'a NodeMap<u64>,
    /// Where each of all is among the distinct ones.
    pub places: &'a [u32],
}

/// What edges inside subgraphs are found by.
pub(super) struct Inside<'a> {
    /// Destinations, (subgraph, node) in one number.
    ids: &'a [u64],
    sources: Nodes<'a>,
    /// By place among the distinct sources: the subgraphs that have the node.
    members: Grouped,
    /// By list: the destinations that have it.
    destinations: Grouped,
    subgraphs: usize,
}

impl<'a> Inside<'a> {
    /// Bytes that it takes, by the numbers of sources, destinations and subgraphs.
    pub fn num_bytes(sources: usize, destinations: usize, subgraphs: usize) -> u64 {
        (4 * (3 * sources + 3 * destinations + 6 + subgraphs)) as u64
    }

    /// Destinations with the number of the list of each, of `num_lists`.
    pub fn new(
        (ids, lists): (&'a [u64], &[u32]),
        num_lists: usize,
        sources: Nodes<'a>,
        subgraphs: usize,
    ) -> Self {
        let all = sources.all.ids().iter();
        let members = sources.places.iter().zip(all).map(|(place, id)| (*place, subgraph_of(*id)));
        let of_lists = lists.iter().copied().zip(0..);
        Self {
            ids,
            members: Grouped::of(sources.distinct.len(), members),
            destinations: Grouped::of(num_lists, of_lists),
            sources,
            subgraphs,
        }
    }

    /// Tells of each edge: the number of its destination, and where its entry is.
    pub fn each(&self, found: &Expansion, mut tell: impl FnMut(usize, usize)) {
        const NONE: u32 = u32::MAX;
        let subgraph = |destination: u32| subgraph_of(self.ids[destination as usize]) as usize;
        let mut destination_in = vec![NONE; self.subgraphs];
        for (list, ends) in found.offsets.windows(2).enumerate() {
            let destinations = self.destinations.group(list);
            for destination in destinations {
                destination_in[subgraph(*destination)] = *destination;
            }
            for (at, source) in (ends[0]..).zip(&found.sources[ends[0]..ends[1]]) {
                let Some(place) = self.sources.distinct.find(*source) else { continue };
                let members = self.members.group(place as usize);
                if destinations.len() * LOOKUP < members.len() {
                    let is_edge = |d: &&u32| self.has(self.ids[**d as usize] & !NODE, *source);
                    destinations.iter().filter(is_edge).for_each(|d| tell(*d as usize, at));
                    continue;
                }
                let found = members.iter().map(|subgraph| destination_in[*subgraph as usize]);
                found.filter(|d| *d != NONE).for_each(|d| tell(d as usize, at));
            }
            for destination in destinations {
                destination_in[subgraph(*destination)] = NONE;
            }
        }
    }

    fn has(&self, subgraph: u64, node: NodeId) -> bool {
        self.sources.all.find(subgraph | node).is_some()
    }
}

fn subgraph_of(id: u64) -> u32 {
    (id >> NODE_BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_those_that_a_plain_search_finds() {
        // Subgraph g has the nodes whose numbers divide by g + 1; node 0 is in all of them.
        let in_subgraph = |g: u64, node: u64| node.is_multiple_of(g + 1);
        let (subgraphs, nodes) = (40_u64, 120_u64);
        let (mut known, mut distinct, mut places) =
            (NodeMap::default(), NodeMap::default(), Vec::new());
        for g in 0..subgraphs {
            for node in (0..nodes).filter(|node| in_subgraph(g, *node)) {
                known.number(g << NODE_BITS | node);
                places.push(distinct.number(node));
            }
        }
        let ids: Vec<u64> = known.ids().to_vec();
        // The list of node n: nodes 7 n + 3 i, some of which are in no subgraph, and one twice.
        let list = |node: u64| (0..node % 50).map(move |i| (7 * node + 3 * (i - i / 9)) % 150);
        let mut found = Expansion { offsets: vec![0], ..Expansion::default() };
        for node in distinct.ids() {
            found.sources.extend(list(*node));
            found.offsets.push(found.sources.len());
        }
        let mut expected: Vec<Vec<u64>> = Vec::new();
        for id in &ids {
            let (g, node) = (id >> NODE_BITS, id & NODE);
            expected.push(list(node).filter(|s| *s < nodes && in_subgraph(g, *s)).collect());
        }
        let nodes = Nodes { all: &known, distinct: &distinct, places: &places };
        let inside = Inside::new((&ids, &places), distinct.len(), nodes, subgraphs as usize);
        let mut edges = vec![Vec::new(); ids.len()];
        inside.each(&found, |destination, at| edges[destination].push(found.sources[at]));
        assert_eq!(edges, expected);
        assert!(edges.iter().map(Vec::len).sum::<usize>() > 1_000);
    }
}
