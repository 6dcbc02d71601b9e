//! A store on its way in: served as it is, or rewritten first.

use std::sync::Arc;

use ng_rpc::{Code, Problem, problem_of, v1};
use ng_sample::{Batches, By, Fanouts, Reorganization};
use ng_store::{OpenOptions, Store};
use ng_types::NodeTypeId;

use super::Catalogue;
use crate::graph::Graph;

/// The batches that an order of rows is made for, where nobody says which ones will be read.
const HOPS: [i64; 2] = [10, 10];
const BATCH_SIZE: usize = 256;
/// Batches whose reads are counted before and after.
const COUNTED_BATCHES: u64 = 4;

impl Catalogue {
    /// Serves a store of the served folder, rewritten if that is asked for. A crash leaves the old
    /// store or the new one.
    ///
    /// # Errors
    /// The name is taken, the store does not open, nothing may be changed; and those of rewriting.
    pub fn take_in_graph(&self, request: &v1::GraphRegisterRequest) -> Result<Arc<Graph>, Problem> {
        let path = self.place_of_graph(&request.graph, &request.path)?;
        if request.narrow() != v1::Narrow::Unspecified {
            let message = "this release does not narrow the rows of a store that is there";
            return Err(Problem::new(Code::Unimplemented, "UNIMPLEMENTED", message)
                .at("narrow")
                .remedy("import the graph with narrow rows"));
        }
        if request.reorganize {
            self.reorganize(&path)?;
        }
        self.serve_graph(&request.graph, path)
    }

    /// Puts rows that are read together beside each other.
    fn reorganize(&self, path: &std::path::Path) -> Result<(), Problem> {
        let path = self.place.folder.join(path);
        let options = OpenOptions { memory: self.place.memory, ..OpenOptions::default() };
        let wanted = {
            let store = Store::open(&path, &options).map_err(|e| problem_of(&e).at("path"))?;
            let snapshot = store.snapshot();
            let catalog = snapshot.catalog();
            let largest = (0_u16..).zip(&catalog.node_types).max_by_key(|(_, t)| t.num_nodes);
            let node_type = NodeTypeId(largest.map_or(0, |(id, _)| id));
            let fanouts = Fanouts::uniform(&HOPS, catalog.edge_types.len());
            let fanouts = fanouts.map_err(|e| problem_of(&e))?;
            let batches = Batches { node_type, seeds: None, batch_size: BATCH_SIZE, fanouts };
            let (by, dry_run) = (By::Locality, false);
            Reorganization { by, batches, counted_batches: COUNTED_BATCHES, dry_run }
        };
        let written = ng_sample::reorganize(&path, &options, &wanted, &mut |_, _, _| true);
        written.map(drop).map_err(|e| problem_of(&e).at("reorganize"))
    }
}
