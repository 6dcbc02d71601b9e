//! [`Importer`]: declares types, takes edges and tensors in, and ends in a published store.
//!
//! What lives here: the state of one import and what may follow what. The work is done by the
//! modules beside it. The invariant: until [`Importer::finish`] returns, nothing is visible at the
//! place of the store; an import that is dropped, aborted or killed leaves nothing behind.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ng_io::ScratchFile;
use ng_store::{BuildOptions, StoreBuilder};
use ng_types::{EdgeTypeId, NODE_ID_BOUND, NodeTypeId};

use crate::background::{Topology, TopologyJob};
use crate::failure::{scratch_error, store_error};
use crate::place::Place;
use crate::plan::MemoryPlan;
use crate::sink::EdgeSink;
use crate::sort::SlotFile;
use crate::strings::{NUMBER_BOUND, NameKind, StringEdges, StringTable};
use crate::tensors::Tensors;
use crate::text::Bounds;
use crate::{EdgeTypeSpec, ImportError, ImportOptions, Note, SelfLoops};

/// Builds one store from edges and tensors, in bounded memory.
///
/// Declare node types, then edge types. Push edges, then call [`Importer::build_topology`]. Push
/// tensors before, during or after that. Call [`Importer::finish`] at the end.
///
/// ```no_run
/// use ng_import::{EdgeTypeSpec, IdSlice, ImportOptions, Importer};
/// let mut import = Importer::new("cora.ng".as_ref(), ImportOptions::default())?;
/// import.node_type("node", Some(3), false)?;
/// let spec = EdgeTypeSpec { undirected: true, ..EdgeTypeSpec::between("node", "edge", "node") };
/// let edges = import.edge_type(spec)?;
/// import.push_edges(edges, IdSlice::I64(&[0, 1]), IdSlice::I64(&[1, 2]), None, None, None)?;
/// let report = import.finish(&mut |_| true)?;
/// assert_eq!(report.entries, 4);
/// # Ok::<(), ng_import::ImportError>(())
/// ```
pub struct Importer {
    pub(crate) options: ImportOptions,
    pub(crate) plan: MemoryPlan,
    pub(crate) node_types: Vec<NodeType>,
    pub(crate) edge_types: Vec<EdgeType>,
    pub(crate) tensors: Tensors,
    pub(crate) slots: Arc<SlotFile>,
    pub(crate) scratch_dir: PathBuf,
    pub(crate) stage: Stage,
    pub(crate) started: Instant,
    /// The edge type that has buffers in memory.
    active: Option<usize>,
    failed: Option<String>,
    pub(crate) notes: Vec<Note>,
    pub(crate) builder: Option<StoreBuilder>,
    pub(crate) place: Option<Place>,
}

/// How far the import is.
pub(crate) enum Stage {
    /// Edges come in.
    Edges,
    /// The topology is written in the background.
    Topology(TopologyJob),
    /// The topology is written, and the runs of the sort are gone from the disk.
    Built(Topology),
}

/// A declared node type.
#[derive(Debug)]
pub(crate) struct NodeType {
    pub id: NodeTypeId,
    pub name: String,
    pub declared: Option<u64>,
    /// The number of nodes, once the topology is built.
    pub settled: Option<u64>,
    pub strings: bool,
    pub kind: NameKind,
    /// The names, while edges come in.
    pub names: Option<Mutex<StringTable>>,
}

/// A declared edge type.
#[derive(Debug)]
pub(crate) struct EdgeType {
    pub id: EdgeTypeId,
    pub reverse_id: Option<EdgeTypeId>,
    pub spec: EdgeTypeSpec,
    pub source: usize,
    pub destination: usize,
    pub sink: Option<EdgeSink>,
    /// The edges, where nodes are named by strings.
    pub named: Option<StringEdges>,
    /// Rows of the user's list so far.
    pub rows: u64,
    /// Whether edge ids were given, once edges came.
    pub given_ids: Option<bool>,
}

impl EdgeType {
    /// Where edges between names wait for the ranks of these: there once the type was activated.
    pub fn named_edges(&self) -> &StringEdges {
        self.named.as_ref().unwrap_or_else(|| panic!("no place for edges {:?}", self.spec.relation))
    }
}

impl Importer {
    /// Starts an import of the store `out`, which must not exist unless `overwrite` is set.
    ///
    /// # Errors
    /// [`ImportError::Place`], [`ImportError::BudgetTooSmall`], [`ImportError::Spec`] for a page
    /// size or fill out of range, [`ImportError::Io`].
    pub fn new(out: &Path, options: ImportOptions) -> Result<Self, ImportError> {
        let plan = MemoryPlan::new(&options)?;
        let page_bytes = u32::try_from(options.page_bytes).unwrap_or(u32::MAX);
        let place = Place::create(out, options.overwrite)?;
        let build = BuildOptions { page_bytes, fill: options.fill, reuse_ids: options.reuse_ids };
        let builder = StoreBuilder::create(place.path(), build).map_err(store_error)?;
        let scratch_dir = options.scratch_dir.clone();
        let scratch_dir = scratch_dir.unwrap_or_else(|| place.path().to_owned());
        let scratch = ScratchFile::create_in(&scratch_dir).map_err(scratch_error)?;
        let slots = Arc::new(SlotFile::new(scratch, plan.slot_bytes()));
        Ok(Self {
            options,
            plan,
            node_types: Vec::new(),
            edge_types: Vec::new(),
            tensors: Tensors::default(),
            slots,
            scratch_dir,
            stage: Stage::Edges,
            started: Instant::now(),
            active: None,
            failed: None,
            notes: Vec::new(),
            builder: Some(builder),
            place: Some(place),
        })
    }

    /// Declares a node type. Without `num_nodes`, the largest id or the tensors determine the
    /// number of nodes. With `strings`, its nodes have string ids.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for a name that is in use, or more than 2^40 nodes.
    pub fn node_type(
        &mut self,
        name: &str,
        num_nodes: Option<u64>,
        strings: bool,
    ) -> Result<NodeTypeId, ImportError> {
        self.check_collecting("declare node types")?;
        if self.node_types.iter().any(|known| known.name == name) {
            return Err(ImportError::spec(format!("node type {name:?} is declared twice")));
        }
        if num_nodes.is_some_and(|count| count > NODE_ID_BOUND) {
            return Err(ImportError::spec(format!("node type {name:?} has more than 2^40 nodes")));
        }
        if strings && num_nodes.is_some() {
            return Err(ImportError::spec(format!(
                "node type {name:?} has string ids, which determine the number of nodes; leave \
                 out the number of nodes"
            )));
        }
        let builder = self.builder()?;
        let id = builder.node_type(name, num_nodes.unwrap_or(0)).map_err(store_error)?;
        let names = strings.then(|| self.names_table()).transpose()?.map(Mutex::new);
        let name = name.to_owned();
        self.node_types.push(NodeType {
            id,
            name,
            declared: num_nodes,
            settled: None,
            strings,
            kind: NameKind::Text,
            names,
        });
        Ok(id)
    }

    /// Declares a node type whose ids are integers below 2^63. Only ids that occur become nodes, in
    /// ascending order; the dictionary stores the integers as decimal text.
    ///
    /// # Errors
    /// As [`Importer::node_type`].
    pub fn relabelled_node_type(&mut self, name: &str) -> Result<NodeTypeId, ImportError> {
        let id = self.node_type(name, None, true)?;
        self.node_types.iter_mut().filter(|known| known.id == id).for_each(|known| {
            known.kind = NameKind::Number;
        });
        Ok(id)
    }

    /// Declares an edge type between two declared node types.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for unknown node types and options that contradict each other.
    pub fn edge_type(&mut self, spec: EdgeTypeSpec) -> Result<EdgeTypeId, ImportError> {
        self.check_collecting("declare edge types")?;
        let source = self.find_node_type(&spec.source)?;
        let destination = self.find_node_type(&spec.destination)?;
        self.check_spec(&spec, source == destination)?;
        let (source_id, destination_id) =
            (self.node_types[source].id, self.node_types[destination].id);
        let builder = self.builder()?;
        let mut stored = ng_store::EdgeTypeSpec {
            source: source_id,
            relation: spec.relation.clone(),
            destination: destination_id,
            undirected: spec.undirected,
            unique: spec.unique,
            has_edge_ids: spec.edge_ids,
            has_time: spec.time,
            has_weight: spec.weight,
        };
        let id = builder.edge_type(stored.clone()).map_err(store_error)?;
        let mut reverse_id = None;
        if spec.undirected {
            builder.set_reverse(id, id).map_err(store_error)?;
        } else if spec.reverse {
            stored.relation = format!("rev_{}", spec.relation);
            std::mem::swap(&mut stored.source, &mut stored.destination);
            let reverse = builder.edge_type(stored).map_err(store_error)?;
            builder.set_reverse(id, reverse).map_err(store_error)?;
            reverse_id = Some(reverse);
        }
        self.edge_types.push(EdgeType {
            id,
            reverse_id,
            spec,
            source,
            destination,
            sink: None,
            named: None,
            rows: 0,
            given_ids: None,
        });
        Ok(id)
    }

    /// Records the key under which the store is created, with a note, in
    /// [`ng_store::Catalog::keyed_commits`].
    ///
    /// # Errors
    /// [`ImportError::Store`] for a key or a note that is too long.
    pub fn keep(&mut self, key: &[u8], note: &[u8]) -> Result<(), ImportError> {
        self.check_sound()?;
        self.builder()?.keep(key, note).map_err(store_error)
    }

    fn names_table(&self) -> Result<StringTable, ImportError> {
        let bytes_max = self.plan.sizes(1 + self.node_types.len(), 1).collect_bytes;
        StringTable::create(&self.scratch_dir, bytes_max)
    }

    fn find_node_type(&self, name: &str) -> Result<usize, ImportError> {
        let found = self.node_types.iter().position(|known| known.name == name);
        found.ok_or_else(|| {
            ImportError::spec(format!("node type {name:?} is not declared: declare it first"))
        })
    }

    fn check_spec(&self, spec: &EdgeTypeSpec, same_ends: bool) -> Result<(), ImportError> {
        let name = format!("({}, {}, {})", spec.source, spec.relation, spec.destination);
        let taken = self.edge_types.iter().any(|known| {
            let known = &known.spec;
            (&known.source, &known.relation, &known.destination)
                == (&spec.source, &spec.relation, &spec.destination)
        });
        let strings = |name: &str| {
            let found = self.node_types.iter().find(|known| known.name == name);
            found.map(|known| (known.strings, known.kind == NameKind::Number))
        };
        let wrong = if taken {
            "it is declared twice"
        } else if strings(&spec.source) != strings(&spec.destination) {
            "the nodes of one end have string ids, but those of the other do not"
        } else if spec.undirected && !same_ends {
            "it cannot be undirected, because its ends have different node types"
        } else if spec.self_loops != SelfLoops::Keep && !same_ends {
            "it has no self loops to add or remove, because its ends have different node types"
        } else if spec.self_loops == SelfLoops::Add && spec.time {
            "self loops cannot be added, because they would have no time"
        } else {
            return Ok(());
        };
        Err(ImportError::spec(format!("edge type {name}: {wrong}")))
    }

    /// The place of an edge type in [`Importer::edge_types`].
    pub(crate) fn edge_index(&self, id: EdgeTypeId) -> Result<usize, ImportError> {
        self.check_sound()?;
        let found = self.edge_types.iter().position(|known| known.id == id);
        found.ok_or_else(|| ImportError::spec(format!("edge type {} does not exist", id.0)))
    }

    /// The ids that the ends of an edge type may have.
    pub(crate) fn bounds(&self, edge_type: &EdgeType) -> Bounds {
        let bound = |nt: usize| match &self.node_types[nt] {
            NodeType { kind: NameKind::Number, .. } => NUMBER_BOUND,
            node_type => node_type.declared.unwrap_or(NODE_ID_BOUND),
        };
        Bounds { source: bound(edge_type.source), destination: bound(edge_type.destination) }
    }

    /// Makes the sink of an edge type, and takes the memory of the one before it.
    pub(crate) fn activate(&mut self, index: usize) -> Result<(), ImportError> {
        self.check_collecting("push edges")?;
        if let Some(before) = self.active.filter(|before| *before != index) {
            let before = &self.edge_types[before];
            before.sink.as_ref().map_or(Ok(()), EdgeSink::pause)?;
            before.named.as_ref().map_or(Ok(()), StringEdges::pause)?;
        }
        self.active = Some(index);
        if self.named_kind(index).is_some() {
            if self.edge_types[index].named.is_none() {
                self.edge_types[index].named = Some(self.string_edges(index));
            }
            return Ok(());
        }
        let types = self.edge_types.len();
        let edge_type = &mut self.edge_types[index];
        if edge_type.sink.is_none() {
            let sorters = 1 + usize::from(edge_type.reverse_id.is_some());
            let sizes = self.plan.sizes(types, sorters);
            edge_type.sink = Some(EdgeSink::new(&edge_type.spec, Arc::clone(&self.slots), sizes));
        }
        Ok(())
    }

    pub(crate) fn builder(&mut self) -> Result<&mut StoreBuilder, ImportError> {
        self.builder
            .as_mut()
            .ok_or_else(|| ImportError::spec("the import has ended; start a new one"))
    }

    pub(crate) fn check_collecting(&self, what: &str) -> Result<(), ImportError> {
        self.check_sound()?;
        match self.stage {
            Stage::Edges => Ok(()),
            Stage::Topology(_) | Stage::Built(_) => Err(ImportError::spec(format!(
                "it is too late to {what}: the topology is being built"
            ))),
        }
    }

    pub(crate) fn check_sound(&self) -> Result<(), ImportError> {
        let failed = |reason: &String| ImportError::Failed { reason: reason.clone() };
        self.failed.as_ref().map_or(Ok(()), |reason| Err(failed(reason)))
    }

    /// Remembers an error after which the import has lost data, and removes what was written.
    pub(crate) fn note<T>(&mut self, result: Result<T, ImportError>) -> Result<T, ImportError> {
        if let Err(error) = &result
            && !matches!(error, ImportError::Spec(_) | ImportError::Failed { .. })
        {
            self.failed.get_or_insert_with(|| error.to_string());
            self.discard();
        }
        result
    }

    fn discard(&mut self) {
        if let Stage::Topology(job) = &mut self.stage {
            job.stop();
        }
        self.edge_types.clear();
        self.tensors = Tensors::default();
        self.builder = None;
        self.place = None;
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        self.discard();
    }
}
