//! A store on its way in: served as it is, or rewritten first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_rpc::{Code, Problem, problem_of, v1};
use ng_sample::{Batches, By, Fanouts, Reorganization};
use ng_store::{OpenOptions, Store};
use ng_types::{Dtype, NodeTypeId};

use super::Catalogue;
use super::files::{not_written, own_graph, own_graphs};
use crate::graph::{Graph, bulk, named};

/// The batches that an order of rows is made for, where nobody says which ones will be read.
const HOPS: [i64; 2] = [10, 10];
const BATCH_SIZE: usize = 256;
/// The share of the memory of the machine that a graph has where nothing is set.
const DEFAULT_SHARE: u64 = 4;
/// The share of a graph's memory that making one takes.
const BULK_SHARE: u64 = 4;
/// Batches whose reads are counted before and after.
const COUNTED_BATCHES: u64 = 4;

/// Whether rewriting goes on, and why not.
pub type GoOn<'a> = dyn Fn() -> Result<(), Problem> + 'a;

impl Catalogue {
    /// Serves a store of the served folder, rewritten if that is asked for. A crash leaves the old
    /// store or the new one.
    ///
    /// # Errors
    /// The name is taken, the store does not open, nothing may be changed; those of rewriting; and
    /// that of `go_on`, which rewriting asks from time to time. Nothing has changed then.
    pub fn take_in_graph(
        &self,
        request: &v1::GraphRegisterRequest,
        go_on: &GoOn<'_>,
    ) -> Result<Arc<Graph>, Problem> {
        let (name, path) = (&request.graph, &request.path);
        let narrow = match v1::Narrow::try_from(request.narrow) {
            Ok(v1::Narrow::Unspecified) => None,
            Ok(v1::Narrow::F16) => Some(Dtype::F16),
            Ok(v1::Narrow::Bf16) => Some(Dtype::Bf16),
            Ok(v1::Narrow::Int8) => Some(Dtype::I8),
            Err(_) => {
                let message = format!("narrow={} is not valid", request.narrow);
                let problem = Problem::argument("narrow", message);
                return Err(problem.remedy("use NARROW_F16, NARROW_BF16 or NARROW_INT8"));
            }
        };
        let Some(to) = narrow else {
            let path = self.place_of_graph(name, path)?;
            if request.reorganize {
                self.reorganize(&path, go_on)?;
            }
            return self.serve_graph(name, path);
        };
        let path = self.narrowed(name, &self.place_of_source(name, path)?, to, go_on)?;
        if request.reorganize {
            self.reorganize(&path, go_on).inspect_err(|_| self.remove_made(&path))?;
        }
        self.serve_made(name, &path)
    }

    /// Makes a copy of a store that is the server's own, with narrower rows. Where the store is
    /// served, the copy has its newest commit.
    fn narrowed(
        &self,
        name: &str,
        source: &Path,
        to: Dtype,
        go_on: &GoOn<'_>,
    ) -> Result<PathBuf, Problem> {
        self.remove_strays()?;
        let served = self.graphs().into_iter().find(|graph| graph.path == source);
        let snapshot = match served {
            Some(graph) => graph.store.snapshot(),
            None => {
                let options = OpenOptions { memory: self.place.memory, ..OpenOptions::default() };
                let store = Store::open(&self.place.folder.join(source), &options);
                store.map_err(|e| problem_of(&e).at("path"))?.snapshot()
            }
        };
        let path = own_graph(name);
        for folder in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let folder = self.place.folder.join(folder);
            ng_io::ensure_folder(&folder).map_err(|error| not_written(&folder, &error))?;
        }
        let target = self.place.folder.join(&path);
        let made = ng_store::narrow(&snapshot, &target, to, &mut |_, _| go_on().is_ok());
        made.map_err(|e| stopped(problem_of(&e), go_on).at("narrow"))?;
        Ok(path)
    }

    /// Removes copies that a crash has left before they were registered.
    fn remove_strays(&self) -> Result<(), Problem> {
        // From here on no other server registers in this folder.
        self.keep(|_| {})?;
        let folder = self.place.folder.join(own_graphs());
        let left = |ending| ng_io::names_in(&folder, ending).unwrap_or_default();
        let kept = self.keeper().kept().graphs.clone();
        let is_kept = |name: &Path| kept.values().any(|path| *path == own_graphs().join(name));
        let strays = left("ng").into_iter().filter(|name| !is_kept(name)).chain(left("partial"));
        for stray in strays {
            let stray = folder.join(stray);
            if let Err(error) = ng_io::remove_folder(&stray) {
                tracing::warn!(folder = %stray.display(), %error, "cannot remove a copied graph");
            }
        }
        Ok(())
    }

    /// Makes a new graph of columns and serves it, or adds them to one that is served.
    ///
    /// # Errors
    /// Those of [`bulk::make`] and [`Graph::add_columns`], and a name that is taken.
    pub fn update_graph(
        &self,
        head: &v1::UpdateGraphHead,
        columns: bulk::Columns<'_>,
    ) -> Result<v1::UpdateGraphResponse, Problem> {
        let in_head = |problem: Problem| problem.at("head.graph");
        if head.existing {
            let graph = self.graph(&head.graph).map_err(in_head)?;
            return graph.add_columns(head, columns).map_err(|problem| graph.blamed(problem));
        }
        let key = head.idempotency_key.as_slice();
        if let Ok(graph) = self.graph(&head.graph)
            && graph.name == head.graph
            && let Some(known) = graph.made_under(key)
        {
            return bulk::repeated(&known, &columns.skip()?);
        }
        let path = self.place_of_graph(&head.graph, "").map_err(in_head)?;
        // What cannot be registered is not made.
        self.keep(|_| {})?;
        let making = bulk::Making {
            path: &self.place.folder.join(&path),
            memory: self.graph_memory() / BULK_SHARE,
            threads: self.place.lanes.max(1),
        };
        let made = bulk::make(&making, head, columns)?;
        let graph = self.serve_made(&head.graph, &path).map_err(|problem| {
            let is_of_name = problem.field == "graph";
            if is_of_name { in_head(problem) } else { problem }
        })?;
        let snapshot = Some(named(&graph.store.snapshot()));
        Ok(v1::UpdateGraphResponse { snapshot, ..made })
    }

    /// The memory of a graph.
    fn graph_memory(&self) -> u64 {
        self.place.memory.unwrap_or_else(|| ng_io::usable_memory_bytes() / DEFAULT_SHARE)
    }

    /// Puts rows that are read together beside each other.
    fn reorganize(&self, path: &Path, go_on: &GoOn<'_>) -> Result<(), Problem> {
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
        let mut phases = |_: &'static str, _: u64, _: u64| go_on().is_ok();
        let written = ng_sample::reorganize(&path, &options, &wanted, &mut phases);
        written.map(drop).map_err(|e| stopped(problem_of(&e), go_on).at("reorganize"))
    }
}

/// A problem of rewriting; that of `go_on` where it was stopped.
fn stopped(problem: Problem, go_on: &GoOn<'_>) -> Problem {
    match go_on() {
        Err(why) if problem.code == Code::Cancelled => why,
        _ => problem,
    }
}
