//! The links that batches are made around, and the negative links beside them.

use std::sync::Arc;

use ng_store::{Catalog, ReadError, Snapshot};
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::edge_places::no_type;
use crate::{EdgePlaces, Inputs, SampleError};

/// What links are scored, and with which others beside them.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// The type of the edges that links are, or would be.
    pub edge_type: EdgeTypeId,
    /// What is scored beside the links.
    pub negatives: Negatives,
    /// Where edges are by their number, if links are given so.
    pub places: Option<Arc<EdgePlaces>>,
    /// The nodes that ends of negative links are drawn from, and how many there are: sources and
    /// destinations.
    pub(crate) nodes: [(Arc<Inputs>, u64); 2],
}

impl PartialEq for LinkSpec {
    fn eq(&self, other: &Self) -> bool {
        // The rest follows from the version of the store.
        (self.edge_type, self.negatives) == (other.edge_type, other.negatives)
    }
}

/// Pairs of nodes that no edge joins, for each link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Negatives {
    /// None.
    None,
    /// So many for each link, rounded up over a batch, with both ends drawn.
    Binary(f64),
    /// So many for each link: its source with other destinations.
    Triplet(u32),
}

impl LinkSpec {
    /// Links of an edge type; with `by_number` they may be given as the numbers of edges.
    ///
    /// # Errors
    /// Those of reading the deleted nodes and the degrees; [`SampleError::Budget`].
    pub fn new(
        snapshot: &Snapshot,
        edge_type: EdgeTypeId,
        negatives: Negatives,
        by_number: bool,
    ) -> Result<Self, SampleError> {
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type.0));
        let meta = meta.ok_or_else(|| no_type(edge_type))?;
        let live = |node_type: NodeTypeId| -> Result<(Arc<Inputs>, u64), ReadError> {
            let live = snapshot.catalog().node_types[usize::from(node_type.0)].num_nodes_live;
            Ok((Arc::new(Inputs::live(node_type, &snapshot.dead_nodes(node_type)?)), live))
        };
        let nodes = [live(meta.source)?, live(meta.destination)?];
        let places = by_number.then(|| EdgePlaces::new(snapshot, edge_type)).transpose()?;
        Ok(Self { edge_type, negatives, places: places.map(Arc::new), nodes })
    }

    pub(crate) fn check(&self, catalog: &Catalog) -> Result<(), SampleError> {
        if usize::from(self.edge_type.0) >= catalog.edge_types.len() {
            return Err(no_type(self.edge_type));
        }
        match self.negatives {
            Negatives::Binary(amount) if !(amount > 0.0 && amount.is_finite()) => {
                let what = format!(
                    "{amount} is not a valid number of negative links for each link: expected a \
                     finite number above 0"
                );
                Err(SampleError::Spec(what))
            }
            Negatives::Triplet(0) => {
                Err(SampleError::Spec("a triplet needs at least 1 negative destination".into()))
            }
            _ => Ok(()),
        }
    }

    /// The number of negative links beside `links` links.
    pub(crate) fn num_negatives(&self, links: usize) -> usize {
        match self.negatives {
            Negatives::None => 0,
            Negatives::Binary(amount) => (links as f64 * amount).ceil() as usize,
            Negatives::Triplet(amount) => links.saturating_mul(amount as usize),
        }
    }
}
