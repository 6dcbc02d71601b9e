//! What batches are asked for that grow otherwise than by hops of neighbours.

use ng_store::Catalog;
use ng_types::EdgeTypeId;

use super::HeldOut;
use crate::SampleError;

/// Steps of a walk are numbered in 16 bits.
const LENGTH_MAX: u32 = 1 << 16;

/// How a batch grows from its seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Spread {
    /// By hops of neighbours, as fanouts and method say.
    #[default]
    Hops,
    /// By a walk from each seed: the nodes are those that walks come by.
    Walks(Walks),
    /// By the nodes that short walks from each node visit most often.
    Visits(Visits),
    /// By as many nodes of each type and layer as there is budget for.
    Budgets(Budgets),
}

impl Spread {
    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        match self {
            Self::Hops => Ok(()),
            Self::Walks(walks) => walks.check(catalog),
            Self::Visits(visits) => visits.check(catalog),
            Self::Budgets(budgets) => budgets.check(catalog),
        }
    }

    /// Whether lists of an edge type are read.
    pub(crate) fn reads(&self, edge_type: EdgeTypeId) -> bool {
        match self {
            Self::Hops => false,
            Self::Walks(walks) => walks.path.contains(&edge_type),
            Self::Visits(visits) => visits.path.contains(&edge_type),
            Self::Budgets(budgets) => budgets.draws_from(edge_type),
        }
    }
}

/// What walks are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Walks {
    /// The edge types of the steps, over and over: a step goes from a node to one of the sources of
    /// its list.
    pub path: Vec<EdgeTypeId>,
    /// Steps of a walk.
    pub length: u32,
    /// The parameters p and q of node2vec; `None` for uniform walks.
    pub bias: Option<(f64, f64)>,
}

impl Walks {
    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        check_path(catalog, &self.path)?;
        let refuse = |what: String| Err(SampleError::Spec(what));
        if !(1..LENGTH_MAX).contains(&self.length) {
            return refuse(format!(
                "a walk of {} steps is not valid: expected 1 to 65535",
                self.length
            ));
        }
        if let Some((p, q)) = self.bias {
            if !(p > 0.0 && q > 0.0 && p.is_finite() && q.is_finite()) {
                return refuse(format!(
                    "p = {p} and q = {q} are not valid: expected finite numbers above 0"
                ));
            }
            let meta = &catalog.edge_types[usize::from(self.path[0].0)];
            if self.path.len() > 1 || meta.source != meta.destination {
                let what =
                    "biased walks need a single edge type that joins a node type with itself";
                return refuse(what.into());
            }
        }
        Ok(())
    }

    /// The edge type of a step.
    pub(crate) fn at(&self, step: u32) -> EdgeTypeId {
        self.path[step as usize % self.path.len()]
    }
}

/// What neighbours by importance are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Visits {
    /// The edge types of a walk's steps from a node back to its type, such as item, user, item.
    pub path: Vec<EdgeTypeId>,
    /// Walks from each node.
    pub walks: u32,
    /// How often the path is walked in each of them.
    pub length: u32,
    /// The chance to begin again at the start before the path is walked once more.
    pub restart: f64,
    /// Neighbours that are kept of each node, by hop.
    pub neighbors: Vec<u32>,
    /// Edges that no walk takes.
    pub held_out: Option<HeldOut>,
}

impl Visits {
    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        check_path(catalog, &self.path)?;
        let steps = u64::from(self.length) * self.path.len() as u64 * 2;
        let what = if self.walks == 0 || self.length == 0 || self.neighbors.contains(&0) {
            "the numbers of walks, of steps and of neighbours must be at least 1"
        } else if steps * self.neighbors.len() as u64 >= 1 << 16 {
            "a walk must have fewer than 32768 steps"
        } else if !(0.0..1.0).contains(&self.restart) {
            "the restart probability must be at least 0 and below 1"
        } else {
            return Ok(());
        };
        Err(SampleError::Spec(what.into()))
    }
}

/// Nodes that each layer adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// By node type and layer.
    pub nodes: Vec<Vec<u32>>,
    /// By edge type, whether its lists name nodes.
    pub edge_types: Vec<bool>,
}

impl Budgets {
    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        let layers = self.nodes.first().map_or(0, Vec::len);
        let what = if self.nodes.len() != catalog.node_types.len()
            || self.edge_types.len() != catalog.edge_types.len()
        {
            "sampling budgets (HGT) need a list for every node type and a flag for every edge type"
                .into()
        } else if layers == 0 || self.nodes.iter().any(|list| list.len() != layers) {
            "sampling budgets (HGT) need one number per layer for every node type".to_string()
        } else {
            return Ok(());
        };
        Err(SampleError::Spec(what))
    }

    pub(crate) fn draws_from(&self, edge_type: EdgeTypeId) -> bool {
        self.edge_types.get(usize::from(edge_type.0)).copied().unwrap_or(false)
    }

    /// How many layers there are.
    pub(crate) fn layers(&self) -> usize {
        self.nodes.first().map_or(0, Vec::len)
    }
}

/// Refuses a path of edge types that cannot be walked: each step begins where the last one ended,
/// and the last one ends where the first one began.
fn check_path(catalog: &Catalog, path: &[EdgeTypeId]) -> Result<(), SampleError> {
    let meta = |id: EdgeTypeId| {
        let found = catalog.edge_types.get(usize::from(id.0));
        found.ok_or_else(|| {
            SampleError::Spec(format!("edge type {} does not exist in the store", id.0))
        })
    };
    let Some(last) = path.last() else {
        return Err(SampleError::Spec("a walk needs at least 1 edge type".into()));
    };
    // A step goes from the destination of a list to one of its sources.
    let mut at = meta(*last)?.source;
    for id in path {
        let step = meta(*id)?;
        if step.destination != at {
            let name = |id: ng_types::NodeTypeId| &catalog.node_types[usize::from(id.0)].name;
            return Err(SampleError::Spec(format!(
                "a walk cannot continue from a node of type {:?}: edges {:?} lead to nodes of \
                 type {:?}",
                name(at),
                step.relation,
                name(step.destination)
            )));
        }
        at = step.source;
    }
    Ok(())
}
