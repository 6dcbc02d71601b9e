//! [`Reach`]: the nodes that an answer was made of, in few bytes.
//!
//! What must not live here: what changed. The invariant: a reach has every node whose list was
//! drawn from, as inner ones, and every node whose row was read.
//!
//! The bytes are, for each node type that has nodes: its number, how many inner nodes there are and
//! how many others, then both lists, ascending, each id as the difference to the one before. All
//! numbers have 7 bits in a byte, lowest first; the highest bit says that there are more.

use ng_sample::CompactSample;
use ng_types::{NodeId, NodeTypeId};

/// Nodes of an answer at most. What is made of more is made anew after each commit.
const NODES_MAX: usize = 1 << 12;

/// A node and its type in one number.
pub(super) type Key = u64;

pub(super) fn key_of(node_type: u16, node: u64) -> Key {
    u64::from(node_type) << 48 ^ node
}

/// The nodes that an answer was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach(Box<[u8]>);

impl Reach {
    /// Of nodes by their type: those whose lists were drawn from, and those of which the rows alone
    /// count. `None` if there are too many to be kept.
    pub fn new(all: &mut [(NodeTypeId, Vec<NodeId>, Vec<NodeId>)]) -> Option<Self> {
        let nodes: usize = all.iter().map(|(_, inner, outer)| inner.len() + outer.len()).sum();
        if nodes > NODES_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(2 * nodes + 8);
        let has_nodes =
            |(_, inner, outer): &&mut (_, Vec<_>, Vec<_>)| !inner.is_empty() || !outer.is_empty();
        for (node_type, inner, outer) in all.iter_mut().filter(has_nodes) {
            put(&mut bytes, u64::from(node_type.0));
            put(&mut bytes, inner.len() as u64);
            put(&mut bytes, outer.len() as u64);
            for ids in [inner, outer] {
                ids.sort_unstable();
                let mut last = 0;
                for id in ids {
                    put(&mut bytes, *id - last);
                    last = *id;
                }
            }
        }
        Some(Self(bytes.into()))
    }

    /// What it takes, and its allocation.
    pub fn num_bytes(&self) -> u64 {
        self.0.len() as u64 + 32
    }

    /// Those of `count` subgraphs of a sample of `hops` hops. `subgraphs` tells by node type which
    /// one a node is of, if there are several.
    pub(crate) fn of_all(
        sample: &CompactSample,
        (hops, count): (usize, usize),
        subgraphs: Option<&[Vec<u32>]>,
    ) -> Vec<Option<Self>> {
        let types = sample.nodes.len() as u16;
        let none = || (0..types).map(|id| (NodeTypeId(id), Vec::new(), Vec::new())).collect();
        let mut all: Vec<Vec<_>> = (0..count).map(|_| none()).collect();
        let fewer = usize::from(ng_types::canary::planted("answers_a_hop_too_few"));
        for (at, nodes) in sample.nodes.iter().enumerate() {
            let num_inner = nodes.per_hop.iter().take(hops.saturating_sub(fewer)).sum::<usize>();
            for (place, id) in nodes.ids.iter().enumerate() {
                let of = &mut all[subgraphs.map_or(0, |of| of[at][place] as usize)][at];
                if place < num_inner { &mut of.1 } else { &mut of.2 }.push(id);
            }
        }
        all.iter_mut().map(|nodes| Self::new(nodes)).collect()
    }

    /// Whether `is_wanted` says so of one of the nodes, whose second argument tells inner ones.
    pub(super) fn any(&self, mut is_wanted: impl FnMut(Key, bool) -> bool) -> bool {
        let mut rest = self.0.iter().copied();
        while let Some(node_type) = number(&mut rest) {
            let counts = [number(&mut rest), number(&mut rest)].map(Option::unwrap_or_default);
            for (count, is_inner) in counts.into_iter().zip([true, false]) {
                let mut id = 0;
                for _ in 0..count {
                    id += number(&mut rest).unwrap_or_default();
                    if is_wanted(key_of(node_type as u16, id), is_inner) {
                        return true;
                    }
                }
            }
        }
        false
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 1 << 7 {
        bytes.push(number as u8 | 1 << 7);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 1 << 7 {
            return Some(number);
        }
        shift += 7;
    }
}
