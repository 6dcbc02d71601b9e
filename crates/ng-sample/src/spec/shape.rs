//! The shape of a batch: whether seeds share one subgraph, up to which time it reaches, and which
//! edges it has.
//!
//! What must not live here: how entries of a list are chosen. The invariant: a shape that the
//! store or the method does not fit is refused before anything is read.

use ng_store::{Catalog, Owner, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

use super::{Fanouts, Spread};
use crate::{Method, SampleError};

/// What a batch has beside the nodes that its hops reach.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// How a batch grows from its seeds.
    pub spread: Spread,
    /// Each seed has a subgraph of its own: a node that two of them reach is there twice.
    pub is_disjoint: bool,
    /// Nothing that is later than its seed is sampled. Only for disjoint subgraphs.
    pub time: Option<Temporal>,
    /// Which edges a batch has.
    pub edges: EdgeSet,
}

/// Sampling that looks into the past of each seed alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temporal {
    /// What has a time.
    pub times: TimesOf,
    /// The latest entries of a list are taken, instead of random ones.
    pub takes_last: bool,
}

/// What is not later than the seed that it is sampled for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimesOf {
    /// Edges of the types that keep times; others are drawn as if they were of all times.
    Edges,
    /// Nodes: by node type the tensor of times, an i64 for each node. Nodes of other types are of
    /// all times.
    Nodes(Vec<Option<TensorRef>>),
}

/// The edges of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EdgeSet {
    /// Those that were drawn.
    #[default]
    Drawn,
    /// Those that were drawn, and for each of them the edge in the other direction: under the
    /// edge type itself, or under another one, by edge type. Equal edges are there once.
    BothWays(Vec<Option<EdgeTypeId>>),
    /// All edges between the nodes, of the edge types that are marked.
    Induced(Vec<bool>),
}

impl Shape {
    /// Whether it is that of a batch of neighbourhoods and no more.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses what does not fit the store, the method or itself.
    ///
    /// # Errors
    /// [`SampleError::Spec`].
    pub(crate) fn check(
        &self,
        catalog: &Catalog,
        (method, fanouts): (Method, &Fanouts),
    ) -> Result<(), SampleError> {
        let refuse = |what: String| Err(SampleError::Spec(what));
        self.spread.check(catalog)?;
        if self.spread != Spread::Hops && (self.is_disjoint || fanouts.hops() > 0) {
            return refuse(
                "walks and sampling budgets (HGT) cannot be combined with fanouts or disjoint \
                 subgraphs"
                    .into(),
            );
        }
        if let Some(temporal) = &self.time {
            if !self.is_disjoint {
                return refuse(
                    "temporal sampling needs disjoint subgraphs, because each seed has its own \
                     time"
                        .into(),
                );
            }
            if !matches!(method, Method::Uniform { .. }) {
                return refuse(format!(
                    "{} sampling does not support times; sample uniformly",
                    method.row().name
                ));
            }
            temporal.check(catalog, fanouts)?;
        }
        match &self.edges {
            EdgeSet::Drawn => Ok(()),
            EdgeSet::BothWays(others) => check_reverse(catalog, others),
            EdgeSet::Induced(marked) if marked.len() == catalog.edge_types.len() => Ok(()),
            EdgeSet::Induced(marked) => refuse(format!(
                "got flags for {} edge types, but the store has {} edge types",
                marked.len(),
                catalog.edge_types.len()
            )),
        }
    }

    /// Whether lists of an edge type are read, beside those that fanouts draw from.
    pub(crate) fn reads(&self, edge_type: EdgeTypeId) -> bool {
        self.induces(edge_type) || self.spread.reads(edge_type)
    }

    /// Whether edges of a type are looked for after the hops.
    pub(crate) fn induces(&self, edge_type: EdgeTypeId) -> bool {
        let EdgeSet::Induced(marked) = &self.edges else { return false };
        marked.get(usize::from(edge_type.0)).copied().unwrap_or(false)
    }
}

impl Temporal {
    fn check(&self, catalog: &Catalog, fanouts: &Fanouts) -> Result<(), SampleError> {
        let TimesOf::Nodes(tensors) = &self.times else {
            let edge_types = (0..).map(EdgeTypeId).zip(&catalog.edge_types);
            let mut drawn = edge_types.filter(|(id, _)| fanouts.draws_from(*id));
            return if fanouts.hops() == 0 || drawn.any(|(_, meta)| meta.has_time) {
                Ok(())
            } else {
                let what = "no edge type with a fanout has times; import edges with times";
                Err(SampleError::Spec(what.into()))
            };
        };
        let of_types = (0..).map(NodeTypeId).zip(tensors);
        for (node_type, tensor) in of_types.filter_map(|(id, tensor)| Some((id, (*tensor)?))) {
            let meta = catalog.tensor(tensor);
            let fits = meta.is_some_and(|meta| {
                meta.dtype == Dtype::I64 && meta.row_bytes() == 8 && !meta.is_sparse()
            });
            if !fits || tensor.owner != Owner::Node(node_type) {
                let name = meta.map_or("", |meta| meta.name.as_str());
                return Err(SampleError::Spec(format!(
                    "tensor {name:?} cannot be used as times: expected one i64 per node"
                )));
            }
        }
        Ok(())
    }

    /// The tensor of the times of a node type.
    pub(crate) fn of_nodes(&self, node_type: usize) -> Option<TensorRef> {
        let TimesOf::Nodes(tensors) = &self.times else { return None };
        tensors.get(node_type).copied().flatten()
    }
}

/// Whether edges turned round are edges of the types that are named for them.
fn check_reverse(catalog: &Catalog, others: &[Option<EdgeTypeId>]) -> Result<(), SampleError> {
    for (meta, other) in catalog.edge_types.iter().zip(others) {
        let Some(other) = other else { continue };
        let turned = catalog.edge_types.get(usize::from(other.0));
        let fits =
            turned.is_some_and(|t| (t.source, t.destination) == (meta.destination, meta.source));
        if !fits {
            return Err(SampleError::Spec(format!(
                "edge type {} is not a valid reverse of edges {:?}: its ends differ",
                other.0, meta.relation
            )));
        }
    }
    Ok(())
}
