//! Whether a node is among those of a batch, asked of far more nodes than there are in it.
//!
//! A few bits for each node of the batch lie in front of its table and stay in the nearest cache,
//! so that nearly all nodes that are not in it cost no look at the table. What must not live here:
//! numbers of nodes. The invariant: the answer is that of the table.

use ng_types::{NodeId, Reservation};

use crate::SampleError;
use crate::admission::{Admit, Stage};
use crate::draw::{ByEntry, Rule};
use crate::ids::Id;
use crate::node_map::NodeMap;

/// One node in 16 that is not there has its bit set by another, at most.
const BITS_PER_NODE: usize = 16;

/// The nodes of a table, to be asked for.
pub(crate) struct NodeFilter<'a, I> {
    nodes: &'a NodeMap<I>,
    bits: Vec<u64>,
    /// What is left of a product of 64 bits are as many bits as it takes to number those of `bits`.
    shift: u32,
    _held: Option<Reservation>,
}

impl<'a, I: Id> NodeFilter<'a, I> {
    /// For a rule that takes the entries whose sources are among `nodes`.
    pub fn of(
        rule: Rule,
        nodes: &'a NodeMap<I>,
        admit: &Admit<'_>,
    ) -> Result<Option<Self>, SampleError> {
        if !matches!(rule, Rule::Entries(ByEntry::Among)) {
            return Ok(None);
        }
        let held = admit(Stage::Topology, num_bits(nodes.len()) as u64 / 8)?;
        Ok(Some(Self { _held: Some(held), ..Self::new(nodes) }))
    }

    fn new(nodes: &'a NodeMap<I>) -> Self {
        let num_bits = num_bits(nodes.len());
        let mut filter = Self {
            nodes,
            bits: vec![0; num_bits / 64],
            shift: u64::BITS - num_bits.trailing_zeros(),
            _held: None,
        };
        for id in nodes.ids() {
            let bit = filter.bit(id.get());
            filter.bits[bit / 64] |= 1 << (bit % 64);
        }
        filter
    }

    #[inline]
    pub fn has(&self, id: NodeId) -> bool {
        let bit = self.bit(id);
        self.bits[bit / 64] >> (bit % 64) & 1 != 0 && self.nodes.find(I::new(id)).is_some()
    }

    /// Another multiplier than that of the table: nodes that meet there do not meet here.
    #[inline]
    fn bit(&self, id: u64) -> usize {
        (id.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> self.shift) as usize
    }
}

fn num_bits(nodes: usize) -> usize {
    (nodes * BITS_PER_NODE).next_power_of_two().max(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_table() {
        for count in [0_u64, 1, 5, 1_000] {
            let mut nodes = NodeMap::<u32>::default();
            for node in 0..count {
                nodes.number((node * node) as u32);
            }
            let filter = NodeFilter::new(&nodes);
            assert_eq!(filter.bits.len() * 64, num_bits(nodes.len()));
            for node in 0..=count * count {
                let is_square = node.isqrt().pow(2) == node && node.isqrt() < count;
                assert_eq!(filter.has(node), is_square, "{node} of {count}");
            }
        }
    }

    #[test]
    fn few_of_the_others_reach_the_table() {
        let mut nodes = NodeMap::<u32>::default();
        for node in 0..10_000 {
            nodes.number(node * 400);
        }
        let filter = NodeFilter::new(&nodes);
        let is_set = |node: &u64| {
            let bit = filter.bit(*node);
            filter.bits[bit / 64] >> (bit % 64) & 1 != 0
        };
        let others = (0..4_000_000_u64).filter(|node| !node.is_multiple_of(400));
        let passed = others.filter(is_set).count();
        assert!(passed < 4_000_000 / BITS_PER_NODE, "{passed}");
    }
}
