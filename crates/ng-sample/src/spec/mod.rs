//! What to sample: fanouts per edge type and hop, the method, the seed.

mod held_out;
mod links;
mod roots;
mod shape;
mod spread;

use ng_store::Catalog;
use ng_types::{EdgeTypeId, NodeTypeId};

pub use self::held_out::HeldOut;
pub use self::links::{LinkSpec, Negatives};
pub use self::roots::{Roots, RootsOf};
pub use self::shape::{EdgeSet, Shape, Temporal, TimesOf};
pub use self::spread::{Budgets, Spread, Visits, Walks};
use crate::draw::Needs;
use crate::{Method, SampleError};

/// How many neighbours each hop draws per edge type; -1 takes all, 0 none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fanouts {
    per_edge_type: Vec<Vec<i64>>,
    hops: usize,
}

impl Fanouts {
    /// Fanouts by edge type id; all lists are of one length, the number of hops.
    pub fn new(per_edge_type: Vec<Vec<i64>>) -> Result<Self, SampleError> {
        let hops = per_edge_type.first().map_or(0, Vec::len);
        if let Some(other) = per_edge_type.iter().find(|list| list.len() != hops) {
            let found = other.len();
            return Err(SampleError::Spec(format!(
                "fanouts need one number per hop for every edge type, found lists of length \
                 {hops} and {found}"
            )));
        }
        let bad = |fanout: &i64| *fanout < -1 || *fanout > i64::from(u32::MAX);
        if let Some(fanout) = per_edge_type.iter().flatten().copied().find(bad) {
            return Err(SampleError::Spec(format!(
                "fanout {fanout} is not valid: expected -1 (all), 0 (none) or a count below 2^32"
            )));
        }
        Ok(Self { per_edge_type, hops })
    }

    /// The same fanouts for each of `edge_types` edge types.
    pub fn uniform(fanouts: &[i64], edge_types: usize) -> Result<Self, SampleError> {
        Self::new(vec![fanouts.to_vec(); edge_types])
    }

    /// The number of hops.
    pub fn hops(&self) -> usize {
        self.hops
    }

    /// The fanout of an edge type at a hop.
    pub fn get(&self, edge_type: EdgeTypeId, hop: usize) -> i64 {
        let list = self.per_edge_type.get(usize::from(edge_type.0));
        list.and_then(|list| list.get(hop)).copied().unwrap_or(0)
    }

    /// Whether any hop draws from an edge type.
    pub(crate) fn draws_from(&self, edge_type: EdgeTypeId) -> bool {
        (0..self.hops).any(|hop| self.get(edge_type, hop) != 0)
    }

    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        let (given, known) = (self.per_edge_type.len(), catalog.edge_types.len());
        if given == known {
            return Ok(());
        }
        Err(SampleError::Spec(format!(
            "got fanouts for {given} edge types, but the store has {known}"
        )))
    }
}

/// Everything that shapes a sample besides its seeds and stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleSpec {
    /// Neighbours per hop.
    pub fanouts: Fanouts,
    /// How they are chosen.
    pub method: Method,
    /// The seed of all draws.
    pub seed: u64,
    /// What a batch has beside the nodes that its hops reach.
    pub shape: Shape,
    /// What links are scored, where seeds are links.
    pub links: Option<LinkSpec>,
    /// What is drawn, where seeds are.
    pub roots: Option<Roots>,
}

impl SampleSpec {
    /// Neighbourhoods of nodes, by a method.
    pub fn new(fanouts: Fanouts, method: Method, seed: u64) -> Self {
        Self { fanouts, method, seed, shape: Shape::default(), links: None, roots: None }
    }

    /// Uniform draws without replacement.
    pub fn uniform(fanouts: Fanouts, seed: u64) -> Self {
        Self::new(fanouts, Method::Uniform { replace: false }, seed)
    }

    /// Whether batches are neighbourhoods of nodes and no more.
    pub(crate) fn is_plain(&self) -> bool {
        self.shape.is_plain() && self.links.is_none() && self.roots.is_none()
    }

    /// Whether lists of an edge type are read.
    pub(crate) fn reads(&self, edge_type: EdgeTypeId, catalog: &Catalog) -> bool {
        self.fanouts.draws_from(edge_type)
            || self.shape.reads(edge_type)
            || self.roots.as_ref().is_some_and(|roots| roots.reads(edge_type, catalog))
            || self.links.as_ref().is_some_and(|links| links.edge_type == edge_type)
    }

    /// Whether draws are from the first edge type alone.
    pub(crate) fn draws_from_first_alone(&self) -> bool {
        let ids = 1..self.fanouts.per_edge_type.len();
        !ids.map(|id| EdgeTypeId(id as u16)).any(|id| self.fanouts.draws_from(id))
    }

    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        self.fanouts.check(catalog)?;
        self.shape.check(catalog, (self.method, &self.fanouts))?;
        if let Some(links) = &self.links {
            links.check(catalog)?;
        }
        match self.method {
            Method::Labor { dependent: 0 } => Err(SampleError::Spec(
                "0 is not a valid number of dependent batches: expected 1 or more".into(),
            )),
            Method::Induced => self.check_induced(catalog),
            method if method.row().needs == Needs::Weights => self.check_weights(catalog),
            _ => Ok(()),
        }
    }

    /// Refuses to induce what is no subgraph of the seeds.
    fn check_induced(&self, catalog: &Catalog) -> Result<(), SampleError> {
        for (edge_type, meta) in (0..).map(EdgeTypeId).zip(&catalog.edge_types) {
            if !self.fanouts.draws_from(edge_type) {
                continue;
            }
            let (hops, fanout) = (self.fanouts.hops(), self.fanouts.get(edge_type, 0));
            if (hops, fanout) != (1, -1) {
                return Err(SampleError::Spec(format!(
                    "an induced subgraph needs one hop of fanout -1, got {hops} hops and fanout \
                     {fanout}"
                )));
            }
            if meta.source != meta.destination {
                return Err(SampleError::Spec(format!(
                    "an induced subgraph cannot contain edges {:?}, which join two node types; \
                     give this edge type a fanout of 0",
                    meta.relation
                )));
            }
        }
        Ok(())
    }

    /// Refuses to choose by weights that an edge type does not have.
    fn check_weights(&self, catalog: &Catalog) -> Result<(), SampleError> {
        for (edge_type, meta) in (0..).map(EdgeTypeId).zip(&catalog.edge_types) {
            let is_chosen_from =
                (0..self.fanouts.hops).any(|hop| self.fanouts.get(edge_type, hop) > 0);
            if is_chosen_from && !meta.has_weight {
                let name = |id: NodeTypeId| &catalog.node_types[usize::from(id.0)].name;
                return Err(SampleError::Spec(format!(
                    "edges ({}, {}, {}) have no weights for sampling; import them with weights, \
                     give their type fanouts of 0 or -1, or sample uniformly",
                    name(meta.source),
                    meta.relation,
                    name(meta.destination)
                )));
            }
        }
        Ok(())
    }
}
