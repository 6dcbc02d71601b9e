//! What changed between two snapshots that answers can be made of.
//!
//! An answer is what [`Engine::run`] gives for one node alone. It depends on the lists that are
//! drawn from (of the node itself at hop 0, of those that are drawn there at hop 1, and so on), on
//! the rows of all nodes that are reached that way, the last hop included, and on the in-degrees of
//! the same nodes where the model takes them, which are counted over whole lists. On nothing else:
//! draws depend on the seed, the node and its list.
//!
//! Say that an answer was made on one snapshot, and that none of the lists and rows that it was
//! made of differs in another one. Then it is made there of the same ones: the list of the node is
//! the same, so the same entries are drawn, their lists are the same, and so on to the last hop;
//! and then the rows and degrees are the same. So an answer that has not ended needs no look at the
//! graph, only one at the nodes that it was made of ([`crate::Reach`]), and is right even where it
//! was not asked for all the while. Models that mix rows of a batch (a norm over its nodes, say)
//! need nothing more, since the batch of an answer is what its node alone reaches.

use ng_store::{Owner, Snapshot};
use ng_types::{EdgeTypeId, NodeId, NodeTypeId};

use crate::Engine;
use crate::answers::changed::{ChangedNodes, WhyAll};
use crate::bind::Given;

impl Engine {
    /// What changed between two snapshots of the engine's store, of which `newer` is the later one,
    /// as far as answers can be made of it. Neither has to be the one that the engine answers from.
    ///
    /// # Errors
    /// All answers count as different, for the reason that is given.
    pub fn changed(&self, newer: &Snapshot, older: &Snapshot) -> Result<ChangedNodes, WhyAll> {
        let binding = &self.server.binding;
        if binding.has(|given| matches!(given, Given::GraphOf(_) | Given::NumGraphs)) {
            return Err(WhyAll::Graphs);
        }
        let changes = newer.changes_since(older).ok_or(WhyAll::Unknown)?;
        let catalog = newer.catalog();
        let mut changed = ChangedNodes::of(catalog.node_types.len());
        let take = |all: &mut [Vec<NodeId>], of: NodeTypeId, nodes: &[NodeId]| {
            if let Some(all) = all.get_mut(usize::from(of.0)) {
                all.extend_from_slice(nodes);
            }
        };
        for input in &binding.inputs {
            match &input.given {
                Given::Rows(of) => {
                    let Some(rows) = changes.rows.get(&of.tensor) else { continue };
                    match of.tensor.owner {
                        Owner::Node(id) => take(&mut changed.rows, id, rows),
                        // An edge that is new can only be reached through a list that changed.
                        Owner::Edge(id) => {
                            let known = older.catalog().edge_types.get(usize::from(id.0));
                            let bound = known.map_or(0, |meta| meta.num_edge_ids);
                            if rows.iter().any(|edge| *edge < bound) {
                                let name = catalog.tensor(of.tensor).map(|meta| meta.name.clone());
                                return Err(WhyAll::EdgeRows { tensor: name.unwrap_or_default() });
                            }
                        }
                    }
                }
                Given::InDegrees(id, edge_type) => {
                    let lists = changes.lists.get(edge_type).map_or(&[][..], Vec::as_slice);
                    take(&mut changed.rows, *id, lists);
                }
                _ => {}
            }
        }
        let is_drawn = |id: EdgeTypeId| {
            let fanouts = self.fanouts();
            (0..fanouts.hops()).any(|hop| fanouts.get(id, hop) != 0)
        };
        for (id, lists) in changes.lists.iter().filter(|(id, _)| is_drawn(**id)) {
            let meta = catalog.edge_types.get(usize::from(id.0)).ok_or(WhyAll::Unknown)?;
            take(&mut changed.lists, meta.destination, lists);
        }
        // Nobody shall be told of what is gone. An id that was given out again was deleted before.
        for (id, nodes) in &changes.deleted {
            take(&mut changed.rows, *id, nodes);
        }
        Ok(changed)
    }
}
