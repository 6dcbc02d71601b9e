//! As many nodes of each type as there is budget for (Hu et al., WWW 2020, algorithms 1 and 2): a
//! node that lists of the batch name is drawn with the square of how much they name it, where each
//! list spreads a weight of 1 over its entries.

use std::collections::HashMap;

use ng_store::Expansion;
use ng_types::{DrawKey, EdgeTypeId, NodeId, NodeTypeId, Purpose};

use super::Collected;
use crate::admission::{Admit, Growing};
use crate::draw::{Around, Rule, Uniform};
use crate::hops::{Wanted, num_bytes};
use crate::{Budgets, SampleError, Sampler};

/// Longer lists name this many sources, drawn at random, so that a hub does not fill the budget by
/// itself. As in PyG.
const ENTRIES_MAX: u32 = 50;

/// Memory for a node that is named.
const BYTES_PER_NODE: u64 = 96;

/// How much nodes of each type are named that are not in the batch.
struct Named(Vec<HashMap<NodeId, f64>>);

impl Named {
    fn num_bytes(&self) -> u64 {
        self.0.iter().map(|named| named.capacity() as u64 * BYTES_PER_NODE).sum()
    }
}

impl Sampler {
    /// Layers of nodes around seeds of one type.
    pub(crate) fn collect_budgets(
        &self,
        budgets: &Budgets,
        (node_type, seeds): (NodeTypeId, &[NodeId]),
        key: DrawKey,
        admit: &Admit<'_>,
    ) -> Result<Collected, SampleError> {
        self.snapshot().check_nodes(node_type, seeds)?;
        let types = self.snapshot().catalog().node_types.len();
        let mut collected = Collected::new(types);
        for seed in seeds {
            collected.push_seed(usize::from(node_type.0), *seed);
        }
        collected.end_hop();
        let (mut named, mut held) = (Named(vec![HashMap::new(); types]), Growing::default());
        for layer in 0..budgets.layers() {
            self.name_neighbours(budgets, (&collected, &mut named), key, &mut held, admit)?;
            for (at, named) in named.0.iter_mut().enumerate() {
                let key = key.apart(Purpose::Budget);
                let count = budgets.nodes[at][layer] as usize;
                for node in heaviest(named, (key, layer, at), count) {
                    named.remove(&node);
                    collected.number(at, node);
                }
            }
            collected.end_hop();
        }
        Ok(collected)
    }

    /// Adds what the lists of the newest nodes name.
    fn name_neighbours(
        &self,
        budgets: &Budgets,
        (collected, named): (&Collected, &mut Named),
        key: DrawKey,
        held: &mut Growing,
        admit: &Admit<'_>,
    ) -> Result<(), SampleError> {
        for (edge_type, ends) in self.ends().iter().enumerate() {
            let nodes = collected.newest(ends.destination);
            if !budgets.edge_types[edge_type] || nodes.is_empty() {
                continue;
            }
            let fanout = Some(ENTRIES_MAX);
            let edge_type_id = EdgeTypeId(edge_type as u16);
            let uniform = Uniform { key, edge_type: edge_type_id, fanout, replace: false };
            let wanted = Wanted { edge_type, nodes, until: None };
            let rule = (Rule::Positions(uniform), Around::nothing(""));
            let found: Expansion = self.read_lists(wanted, rule, None, admit)?;
            let more = num_bytes(&found) + found.sources.len() as u64 * 2 * BYTES_PER_NODE;
            held.grow(named.num_bytes() + collected.num_bytes() + more, admit)?;
            for range in found.offsets.windows(2) {
                let share = 1.0 / (range[1] - range[0]).max(1) as f64;
                for source in &found.sources[range[0]..range[1]] {
                    if !collected.has(ends.source, *source) {
                        *named.0[ends.source].entry(*source).or_insert(0.0) += share;
                    }
                }
            }
        }
        Ok(())
    }
}

/// `count` nodes drawn without replacement by the squares of their weights, in the order of the
/// draws: those with the smallest keys -ln(u) / w (Efraimidis and Spirakis, 2006), u being a number
/// of the node.
fn heaviest(
    named: &HashMap<NodeId, f64>,
    (key, layer, node_type): (DrawKey, usize, usize),
    count: usize,
) -> Vec<NodeId> {
    let of_type = EdgeTypeId(node_type as u16);
    let key_of = |(node, weight): (&NodeId, &f64)| {
        let bits = key.draws(of_type, *node).bits(layer as u32);
        (crate::draw::exponential(bits) / (weight * weight), *node)
    };
    let mut keys: Vec<(f64, NodeId)> = named.iter().map(key_of).collect();
    keys.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keys.truncate(count);
    keys.into_iter().map(|(_, node)| node).collect()
}
