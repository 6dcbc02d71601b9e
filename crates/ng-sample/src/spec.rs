//! What to sample: fanouts per edge type and hop, replacement, the seed.

use ng_store::Catalog;
use ng_types::EdgeTypeId;

use crate::SampleError;

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
                "fanouts need one number a hop for every edge type, found lists of {hops} and \
                 {found}"
            )));
        }
        let bad = |fanout: &i64| *fanout < -1 || *fanout > i64::from(u32::MAX);
        if let Some(fanout) = per_edge_type.iter().flatten().copied().find(bad) {
            return Err(SampleError::Spec(format!(
                "fanout {fanout} is neither -1 (all), 0 (none) nor a count below 2^32"
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
        Err(SampleError::Spec(format!("fanouts for {given} edge types, the store has {known}")))
    }
}

/// How entries of a list are chosen where there are more than the fanout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Each destination draws its own, as many as the fanout says.
    #[default]
    Uniform,
    /// LABOR-0 (Balin and Catalyurek, 2023): an entry is taken if the number of its source is at
    /// most fanout / degree. Destinations share the numbers, so that they choose the same sources
    /// where they can, and a batch has fewer nodes; each takes as many as the fanout says on
    /// average.
    Labor {
        /// Streams in a row that share the numbers, at least 1: their batches have rows in common.
        dependent: u32,
    },
}

/// Everything that shapes a sample besides its seeds and stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSpec {
    /// Neighbours per hop.
    pub fanouts: Fanouts,
    /// How they are chosen.
    pub method: Method,
    /// Draw with replacement.
    pub replace: bool,
    /// The seed of all draws.
    pub seed: u64,
}

impl SampleSpec {
    /// Uniform draws without replacement.
    pub fn uniform(fanouts: Fanouts, seed: u64) -> Self {
        Self { fanouts, method: Method::Uniform, replace: false, seed }
    }

    /// Whether draws are from the first edge type alone.
    pub(crate) fn draws_from_first_alone(&self) -> bool {
        let ids = 1..self.fanouts.per_edge_type.len();
        !ids.map(|id| EdgeTypeId(id as u16)).any(|id| self.fanouts.draws_from(id))
    }

    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        self.fanouts.check(catalog)?;
        match self.method {
            Method::Labor { dependent: 0 } => {
                Err(SampleError::Spec("dependent batches are counted from 1".into()))
            }
            Method::Labor { .. } if self.replace => Err(SampleError::Spec(
                "labor takes each entry once; sample uniformly to draw with replacement".into(),
            )),
            _ => Ok(()),
        }
    }
}
