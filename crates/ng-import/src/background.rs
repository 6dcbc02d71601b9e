//! Sorting and writing the topology on threads of its own, while the caller streams tensors
//! (the overlap of HolisticGNN's bulk update).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use ng_store::{Owner, Part, TopologyWriter};
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::failure::{panicked, store_error};
use crate::importer::{NodeType, Stage};
use crate::lists::{AddLoops, ListRules, Repeats, write_lists};
use crate::sink::Lists;
use crate::sort::SlotFile;
use crate::{ImportError, Importer, SelfLoops};

/// The thread that writes the topology.
pub(crate) struct TopologyJob {
    thread: Option<JoinHandle<Result<Topology, ImportError>>>,
    watch: Arc<Watch>,
    pub total: u64,
}

/// What the thread and the caller tell each other.
#[derive(Debug, Default)]
struct Watch {
    done: AtomicU64,
    stop: AtomicBool,
}

/// What came out.
pub(crate) struct Topology {
    pub parts: Vec<Part>,
    pub entries: u64,
    /// Records that were sorted.
    pub total: u64,
    /// What was repeated in each edge type, by its place among them.
    pub repeats: Vec<(usize, Repeats)>,
    pub span: (Instant, Instant),
}

/// One segment to write.
struct Piece {
    edge_type: usize,
    is_reverse: bool,
    lists: Lists,
    rules: ListRules,
    writer: TopologyWriter,
}

impl TopologyJob {
    /// Entries that have been sorted.
    pub(crate) fn done(&self) -> u64 {
        self.watch.done.load(Ordering::Relaxed)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the thread and waits for it.
    pub(crate) fn stop(&mut self) {
        self.watch.stop.store(true, Ordering::Relaxed);
        // The outcome does not matter: the import is being thrown away.
        drop(self.thread.take().map(JoinHandle::join));
    }

    /// Waits for the thread.
    pub(crate) fn join(&mut self) -> Result<Topology, ImportError> {
        let thread =
            self.thread.take().ok_or_else(|| ImportError::spec("the topology was built twice"))?;
        thread.join().unwrap_or_else(|_| Err(panicked("built the topology")))
    }
}

impl Importer {
    /// Sorts and writes the edges in the background while tensors are pushed. Call it after the
    /// last edge; later edges and types are rejected. For node types without a declared number of
    /// nodes, the ids and the rows of tensors so far determine the number.
    ///
    /// # Errors
    /// [`ImportError::Store`], [`ImportError::Io`]; errors of the work itself come from
    /// [`Importer::finish`].
    pub fn build_topology(&mut self) -> Result<(), ImportError> {
        self.check_collecting("build the topology again")?;
        let result = self.start_topology();
        self.note(result)
    }

    /// The number of nodes of a type: the declared one, or that of the input after the topology is
    /// built. `None` before that, and for undeclared types.
    pub fn num_nodes(&self, node_type: NodeTypeId) -> Option<u64> {
        let known = self.node_types.iter().find(|known| known.id == node_type)?;
        known.settled.or(known.declared)
    }

    fn start_topology(&mut self) -> Result<(), ImportError> {
        for index in 0..self.edge_types.len() {
            self.activate(index)?;
        }
        let names = self.settle_names()?;
        let num_nodes = self.settle_num_nodes(&names)?;
        let mut pieces = Vec::new();
        let mut total = 0;
        for index in 0..self.edge_types.len() {
            self.note_edges(index);
            let edge_type = &mut self.edge_types[index];
            let Some(sink) = edge_type.sink.take() else {
                continue;
            };
            let given = edge_type.given_ids == Some(true);
            let num_ids = if given { sink.edge_ids_bound() } else { edge_type.rows };
            let spec = edge_type.spec.clone();
            let nodes = num_nodes[edge_type.destination];
            let add_loops = (spec.self_loops == SelfLoops::Add)
                .then_some(AddLoops { num_nodes: nodes, first_edge_id: num_ids });
            let has_columns = spec.edge_ids || spec.time || spec.weight;
            let rules = ListRules { unique: spec.unique, add_loops, has_columns };
            let (forward, backward) = sink.into_lists();
            let directions = 1 + u64::from(spec.undirected || backward.is_some());
            total += edge_type.rows * directions;
            let num_ids = num_ids + add_loops.map_or(0, |loops| loops.num_nodes);
            let edge_type_ids = [Some(edge_type.id), edge_type.reverse_id];
            let lists = [Some(forward), backward];
            for (id, lists) in edge_type_ids.into_iter().zip(lists) {
                if let (Some(id), Some(lists)) = (id, lists) {
                    let writer = self.topology_writer(id, spec.edge_ids.then_some(num_ids))?;
                    let is_reverse = Some(id) == edge_type_ids[1];
                    pieces.push(Piece { edge_type: index, is_reverse, lists, rules, writer });
                }
            }
        }
        let watch = Arc::<Watch>::default();
        let theirs = Arc::clone(&watch);
        let slots = Arc::clone(&self.slots);
        let spawned = std::thread::Builder::new()
            .name("ng-topology".to_owned())
            .spawn(move || write_pieces(pieces, total, &theirs, &slots));
        let thread = spawned.map_err(|error| ImportError::Failed {
            reason: format!("cannot start a thread: {error}"),
        })?;
        self.stage = Stage::Topology(TopologyJob { thread: Some(thread), watch, total });
        Ok(())
    }

    fn topology_writer(
        &mut self,
        id: EdgeTypeId,
        num_edge_ids: Option<u64>,
    ) -> Result<TopologyWriter, ImportError> {
        let builder = self.builder()?;
        if let Some(count) = num_edge_ids {
            builder.set_num_edge_ids(id, count).map_err(store_error)?;
        }
        builder.topology(id).map_err(store_error)
    }

    /// Fixes the number of nodes of every type.
    fn settle_num_nodes(&mut self, names: &[Option<u64>]) -> Result<Vec<u64>, ImportError> {
        let mut counts: Vec<u64> =
            self.node_types.iter().map(|known| known.declared.unwrap_or(0)).collect();
        for edge_type in &self.edge_types {
            let Some(sink) = &edge_type.sink else {
                continue;
            };
            let ends = [
                (edge_type.source, sink.sources_bound()),
                (edge_type.destination, sink.destinations_bound()),
            ];
            for (node_type, bound) in ends {
                if self.node_types[node_type].declared.is_none() {
                    counts[node_type] = counts[node_type].max(bound);
                }
            }
        }
        for index in 0..counts.len() {
            let NodeType { id, declared, .. } = &self.node_types[index];
            let (id, declared) = (*id, *declared);
            let rows = self.tensors.open.iter().filter(|t| t.owner == Owner::Node(id));
            if let Some(names) = names[index] {
                counts[index] = names;
            } else if declared.is_none() {
                let rows = rows.map(|tensor| tensor.rows).max().unwrap_or(0);
                if rows < counts[index] {
                    self.note_sparse_ids(index, counts[index]);
                }
                counts[index] = counts[index].max(rows);
            }
            self.builder()?.set_num_nodes(id, counts[index]).map_err(store_error)?;
            self.node_types[index].settled = Some(counts[index]);
        }
        Ok(counts)
    }
}

fn write_pieces(
    pieces: Vec<Piece>,
    total: u64,
    watch: &Watch,
    slots: &SlotFile,
) -> Result<Topology, ImportError> {
    let started = Instant::now();
    let mut parts = Vec::with_capacity(pieces.len());
    let (mut entries, mut repeats) = (0, Vec::new());
    for Piece { edge_type, is_reverse, lists, rules, mut writer } in pieces {
        let (count, repeated) = write_lists(lists, rules, &mut writer, &mut |count| {
            watch.done.fetch_add(count, Ordering::Relaxed);
            if watch.stop.load(Ordering::Relaxed) { Err(ImportError::Cancelled) } else { Ok(()) }
        })?;
        entries += count;
        if !is_reverse {
            repeats.push((edge_type, repeated));
        }
        parts.push(writer.finish().map_err(store_error)?);
    }
    slots.clear();
    Ok(Topology { parts, entries, total, repeats, span: (started, Instant::now()) })
}
