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

    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        let (given, known) = (self.per_edge_type.len(), catalog.edge_types.len());
        if given == known {
            return Ok(());
        }
        Err(SampleError::Spec(format!("fanouts for {given} edge types, the store has {known}")))
    }
}

/// Everything that shapes a sample besides its seeds and stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSpec {
    /// Neighbours per hop.
    pub fanouts: Fanouts,
    /// Draw with replacement.
    pub replace: bool,
    /// The seed of all draws.
    pub seed: u64,
}
