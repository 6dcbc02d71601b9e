//! Which answers can differ between two snapshots.
//!
//! An answer is what [`Engine::run`] gives for one node alone. It depends on the lists that are
//! drawn from (of the node itself at hop 0, of those that are drawn there at hop 1, and so on), on
//! the rows of all nodes that are reached that way, hop `k` included, and on the in-degrees of the
//! same nodes where the model takes them, which are counted over whole lists. On nothing else:
//! draws depend on the seed, the node and its list.
//!
//! Say that the answer for `v` differs, and follow how it is made on both snapshots. Both read the
//! same lists, and reach the same nodes by the same entries, up to the first hop at which they read
//! a list that is not the same; if there is none, rows or degrees differ of a node that both reach.
//! Either way there is a node `u` with a changed list, `d < k` entries away from `v`, or one with a
//! changed row or degree, at most `k` entries away, and all lists on the way from `v` to `u` are
//! the same in both snapshots. So it suffices to walk in one of them, the newer one, from each such
//! `u` to the nodes whose lists contain it. No edge has to be followed that is only in the older
//! one: the list that it was taken out of has changed, so its owner is a `u` by itself. The same
//! holds for the neighbours of a node that was deleted.
//!
//! The walk goes from the last hop to the first. Draws are not looked at: whole lists are walked,
//! since any entry may have been drawn. Models that mix rows of a batch (a norm over its nodes,
//! say) need nothing more, since the batch of an answer is what its node alone reaches. A score of
//! a pair can differ if the answer of one of its ends can.

use ng_store::{Changes, Owner, Snapshot};
use ng_types::{EdgeTypeId, NodeId};
use thiserror::Error;

use crate::answers::walk::{Stopped, Walk};
use crate::bind::{Binding, Given};
use crate::{Engine, EngineError};

/// How far a search for answers that can differ goes, before all of them count as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkLimit {
    /// Lists that are read.
    pub lists: u64,
    /// Entries of them.
    pub entries: u64,
}

impl Default for WalkLimit {
    fn default() -> Self {
        Self { lists: 1 << 16, entries: 1 << 20 }
    }
}

/// What a search has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Changed lists, rows and nodes that it knew of.
    pub changes: u64,
    /// Lists that it read, against the direction of messages.
    pub lists: u64,
    /// Entries of these.
    pub entries: u64,
    /// Nodes that it found.
    pub nodes: u64,
}

/// Answers that can differ between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Which.
    pub answers: AffectedAnswers,
    /// What it took to find them.
    pub walked: Walked,
}

/// Which answers can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AffectedAnswers {
    /// Those of these nodes, by node type, ascending. Pairs are affected by either end.
    Of(Vec<Vec<NodeId>>),
    /// All of them, as far as is known.
    All(WhyAll),
}

impl AffectedAnswers {
    /// Whether the answer for a node can differ.
    pub fn contains(&self, node_type: ng_types::NodeTypeId, node: NodeId) -> bool {
        match self {
            Self::Of(nodes) => nodes
                .get(usize::from(node_type.0))
                .is_some_and(|nodes| nodes.binary_search(&node).is_ok()),
            Self::All(_) => true,
        }
    }
}

/// Why all answers have to be taken for different.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WhyAll {
    /// The store does not know what changed.
    #[error("what changed between the two snapshots is not known")]
    Unknown,
    /// It cannot be found out whose lists contain a node.
    #[error("edge type {edge_type:?} has no reverse index")]
    NoReverse {
        /// The edge type.
        edge_type: String,
    },
    /// The walk came to its limit.
    #[error("more than {lists} lists or {entries} entries would have to be read")]
    TooMany {
        /// The limit of lists.
        lists: u64,
        /// The limit of entries.
        entries: u64,
    },
    /// Rows of edges changed; which lists these edges are in is not indexed.
    #[error("rows of edges changed in tensor {tensor:?}, which the model takes")]
    EdgeRows {
        /// The tensor.
        tensor: String,
    },
    /// Answers are not those of nodes.
    #[error("the model answers for whole graphs")]
    Graphs,
    /// The walk did not get the memory that it needs.
    #[error("the memory budget has no room for the walk")]
    NoMemory,
}

impl WhyAll {
    /// One word for each reason, to count by.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NoReverse { .. } => "no_reverse",
            Self::TooMany { .. } => "too_many",
            Self::EdgeRows { .. } => "edge_rows",
            Self::Graphs => "graphs",
            Self::NoMemory => "no_memory",
        }
    }
}

impl Engine {
    /// The nodes whose answers can differ between two snapshots of the engine's store, of which
    /// `newer` is the later one: all that differ are among them. Neither has to be the one that the
    /// engine answers from.
    ///
    /// # Errors
    /// [`EngineError::Read`] if lists of `newer` cannot be read.
    pub fn affected(
        &self,
        newer: &Snapshot,
        older: &Snapshot,
        limit: WalkLimit,
    ) -> Result<Affected, EngineError> {
        let binding = &self.server.binding;
        let all = |why, walked| Ok(Affected { answers: AffectedAnswers::All(why), walked });
        let is_of_graphs = |given: &Given| matches!(given, Given::GraphOf(_) | Given::NumGraphs);
        if binding.has(is_of_graphs) {
            return all(WhyAll::Graphs, Walked::default());
        }
        let Some(changes) = newer.changes_since(older) else {
            return all(WhyAll::Unknown, Walked::default());
        };
        let mut walk = Walk::new(newer, limit);
        walk.walked.changes = changes.len();
        match self.walk(&mut walk, &changes, older) {
            Ok(()) => {
                let (nodes, walked) = walk.into_nodes();
                Ok(Affected { answers: AffectedAnswers::Of(nodes), walked })
            }
            Err(Stopped::Because(why)) => all(why, walk.walked),
            Err(Stopped::Read(error)) => Err(error.into()),
        }
    }

    fn walk(
        &self,
        walk: &mut Walk<'_>,
        changes: &Changes,
        older: &Snapshot,
    ) -> Result<(), Stopped> {
        let catalog = walk.snapshot.catalog();
        take_rows(walk, &self.server.binding, changes, older)?;
        let drawn = |hop: usize| {
            let ids = (0..catalog.edge_types.len() as u16).map(EdgeTypeId);
            ids.filter(move |id| self.fanouts().get(*id, hop) != 0)
        };
        let hops = self.fanouts().hops();
        let fewer = usize::from(ng_types::canary::planted("answers_a_hop_too_few"));
        for hop in (0..hops.saturating_sub(fewer)).rev() {
            // A node that stands at `hop + 1` in a batch is one of those found so far.
            walk.step(&drawn(hop).collect::<Vec<_>>())?;
            for (edge_type, destinations) in drawn(hop)
                .filter_map(|id| changes.lists.get(&id).map(|destinations| (id, destinations)))
            {
                walk.add(catalog.edge_type(edge_type)?.destination, destinations)?;
            }
        }
        // Nobody shall be told of what is gone. An id that was given out again was deleted before.
        for (node_type, nodes) in &changes.deleted {
            walk.add(*node_type, nodes)?;
        }
        Ok(())
    }
}

/// Nodes whose own rows or degrees changed, as far as the model takes them.
fn take_rows(
    walk: &mut Walk<'_>,
    binding: &Binding,
    changes: &Changes,
    older: &Snapshot,
) -> Result<(), Stopped> {
    let catalog = walk.snapshot.catalog();
    for input in &binding.inputs {
        match &input.given {
            Given::Rows(of) => {
                let Some(rows) = changes.rows.get(&of.tensor) else { continue };
                match of.tensor.owner {
                    // A node that is new can only be reached through lists that changed.
                    Owner::Node(id) => {
                        let bound = older.catalog().node_type(id)?.num_nodes;
                        walk.add(id, below(rows, bound))?;
                    }
                    Owner::Edge(id) => {
                        let bound = older.catalog().edge_type(id)?.num_edge_ids;
                        if !below(rows, bound).is_empty() {
                            let name = catalog.tensor(of.tensor).map(|meta| meta.name.clone());
                            let tensor = name.unwrap_or_default();
                            return Err(Stopped::Because(WhyAll::EdgeRows { tensor }));
                        }
                    }
                }
            }
            Given::InDegrees(id, edge_type) => {
                walk.add(*id, changes.lists.get(edge_type).map_or(&[], Vec::as_slice))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Those of `ids`, which are ascending, that are below `bound`.
fn below(ids: &[u64], bound: u64) -> &[u64] {
    &ids[..ids.partition_point(|id| *id < bound)]
}
