//! Writing a new store: [`StoreBuilder`] and what its callers fill in.
//!
//! The streaming writers that it hands out take their input in one pass with memory that does not
//! grow with it. Nothing is visible before [`StoreBuilder::commit`]: a directory without root slots
//! is not a store. Neither a clock nor a random number goes into a file, so the same calls in the
//! same order give the same bytes.

use std::path::Path;
use std::sync::Arc;

use ng_simd::RowDecoder;
use ng_types::{Dtype, EdgeTypeId, NODE_ID_BOUND, NodeId, NodeTypeId};

use crate::catalog::{
    CLASS_NAMES_MAX, Catalog, EdgeTypeMeta, LogMeta, NodeTypeMeta, Owner, SegmentMeta, SparseValue,
    TYPES_MAX, TensorMeta, TopologyMeta,
};
use crate::catalog_check::is_page_bytes;
use crate::dead_nodes::{DeadNodesPart, DeadNodesWriter};
use crate::dictionary::writer::{DictionaryPart, DictionaryWriter};
use crate::error::BuildError;
use crate::io::{Appender, Disk};
use crate::order::{OrderPart, OrderWriter};
use crate::root;
use crate::segment::{FIRST_EPOCH, FinishedSegment};
use crate::tensor::sparse_writer::SparseWriter;
use crate::tensor::writer::{TensorPart, TensorWriter, write_scales};
use crate::topology::entry::EntryLayout;
use crate::topology::writer::{TopologyPart, TopologySpec, TopologyTotals, TopologyWriter};
use crate::write::log::{LOG_STEP_BYTES, LOGS};

/// The file whose bytes are locked by writers and readers of epochs.
const PINS: &str = "pins";

/// Choices made when a store is created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildOptions {
    /// Size of topology pages: 4096, 8192, ... 65536.
    pub page_bytes: u32,
    /// How full an L-type page is made, 0.1 to 1.0.
    pub fill: f64,
    /// Ids of deleted nodes are given out again, the lowest first.
    pub reuse_ids: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { page_bytes: 4096, fill: 0.9, reuse_ids: false }
    }
}

/// What an edge type is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub struct EdgeTypeSpec {
    /// Node type that edges come from.
    pub source: NodeTypeId,
    /// Name of the relation.
    pub relation: String,
    /// Node type that edges go to.
    pub destination: NodeTypeId,
    /// Each edge is stored in both directions.
    pub undirected: bool,
    /// No parallel edges.
    pub unique: bool,
    /// Entries carry an edge id.
    pub has_edge_ids: bool,
    /// Entries carry a time.
    pub has_time: bool,
    /// Entries carry a weight.
    pub has_weight: bool,
}

/// What a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Unique in its owner.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions after the first.
    pub shape: Vec<u64>,
    /// See [`crate::TensorMeta::mask_width`].
    pub mask_width: Option<u32>,
}

/// One entry of a neighbour list. Columns that the edge type does not have are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// The neighbour.
    pub source: NodeId,
    /// Row in the user's edge list.
    pub edge_id: u64,
    /// Time of the edge.
    pub time: i64,
    /// Weight of the edge.
    pub weight: f32,
}

/// Anything that [`StoreBuilder::add`] takes.
#[derive(Debug)]
pub enum Part {
    /// From [`TopologyWriter::finish`].
    Topology(TopologyPart),
    /// From [`TensorWriter::finish`].
    Tensor(TensorPart),
    /// From [`DictionaryWriter::finish`].
    Dictionary(DictionaryPart),
}

impl From<TopologyPart> for Part {
    fn from(part: TopologyPart) -> Self {
        Self::Topology(part)
    }
}

impl From<TensorPart> for Part {
    fn from(part: TensorPart) -> Self {
        Self::Tensor(part)
    }
}

impl From<DictionaryPart> for Part {
    fn from(part: DictionaryPart) -> Self {
        Self::Dictionary(part)
    }
}

/// What [`StoreBuilder::commit`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildSummary {
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Entries of all edge types.
    pub num_edges: u64,
    /// Identifies the content; see [`crate::Snapshot::fingerprint`].
    pub fingerprint: u64,
}

/// Builds one store: declare types, stream topology, tensors and dictionaries, commit.
pub struct StoreBuilder {
    disk: Arc<dyn Disk>,
    options: BuildOptions,
    node_types: Vec<NodeTypeMeta>,
    edge_types: Vec<EdgeType>,
    segments: Vec<Option<SegmentMeta>>,
    /// Tensors handed out and whether they came back.
    tensors: Vec<(Owner, TensorMeta, bool)>,
    dictionaries_open: usize,
    root: RootOf,
}

/// What the root says of the history of the content: nothing for a new store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RootOf {
    pub epoch: u64,
    pub lsn: u64,
    pub chain: u64,
}

struct EdgeType {
    meta: EdgeTypeMeta,
    num_edge_ids: Option<u64>,
    started: bool,
    totals: Option<TopologyTotals>,
}

impl StoreBuilder {
    /// A builder in an empty directory, normally a staging directory that is published later.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for options outside of their range, or if the directory cannot be
    /// written.
    pub fn create(dir: &Path, options: BuildOptions) -> Result<Self, BuildError> {
        let disk = crate::io::open_for_writing(dir)
            .map_err(|what| BuildError::invalid(format!("{}: {what}", dir.display())))?;
        Self::on_disk(disk, options)
    }

    /// A builder on any disk.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for options outside of their range.
    pub fn on_disk(disk: Arc<dyn Disk>, options: BuildOptions) -> Result<Self, BuildError> {
        if !is_page_bytes(options.page_bytes) {
            let bytes = options.page_bytes;
            let what = format!("page size {bytes}: use 4096, 8192, 16384, 32768 or 65536");
            return Err(BuildError::invalid(what));
        }
        if !(0.1..=1.0).contains(&options.fill) {
            return Err(BuildError::invalid(format!("fill {}: use 0.1 to 1.0", options.fill)));
        }
        Ok(Self {
            disk,
            options,
            node_types: Vec::new(),
            edge_types: Vec::new(),
            segments: Vec::new(),
            tensors: Vec::new(),
            dictionaries_open: 0,
            root: RootOf { epoch: u64::from(FIRST_EPOCH), lsn: 0, chain: 0 },
        })
    }

    /// Declares a node type with ids `0..num_nodes`.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] if the name is taken or there are too many nodes or types.
    pub fn node_type(&mut self, name: &str, num_nodes: u64) -> Result<NodeTypeId, BuildError> {
        if self.node_types.iter().any(|t| t.name == name) {
            return Err(BuildError::invalid(format!("node type {name:?} is declared twice")));
        }
        let id = next_id(self.node_types.len(), "node types")?;
        self.node_types.push(NodeTypeMeta {
            name: name.into(),
            num_nodes: 0,
            num_nodes_live: 0,
            tensors: Vec::new(),
            dictionary: None,
            dead: None,
            order: None,
        });
        self.set_num_nodes(NodeTypeId(id), num_nodes)?;
        Ok(NodeTypeId(id))
    }

    /// Changes the number of nodes. Settle it before [`StoreBuilder::topology`]: source ids take
    /// 4 bytes where the source type has at most 2^32 nodes at that moment.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type or too many nodes.
    pub fn set_num_nodes(&mut self, id: NodeTypeId, num_nodes: u64) -> Result<(), BuildError> {
        let meta = self
            .node_types
            .get_mut(usize::from(id.0))
            .ok_or_else(|| BuildError::invalid(format!("node type {} is unknown", id.0)))?;
        if num_nodes > NODE_ID_BOUND {
            let what = format!("node type {:?}: {num_nodes} nodes; at most 2^40", meta.name);
            return Err(BuildError::invalid(what));
        }
        (meta.num_nodes, meta.num_nodes_live) = (num_nodes, num_nodes);
        Ok(())
    }

    /// Declares an edge type.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown node type, a declared triple or too many types.
    pub fn edge_type(&mut self, spec: EdgeTypeSpec) -> Result<EdgeTypeId, BuildError> {
        let known = |id: NodeTypeId| usize::from(id.0) < self.node_types.len();
        if !known(spec.source) || !known(spec.destination) {
            let what = format!("edge type {:?}: declare its node types first", spec.relation);
            return Err(BuildError::invalid(what));
        }
        let same = |other: &EdgeType| {
            let meta = &other.meta;
            (meta.source, meta.destination) == (spec.source, spec.destination)
                && meta.relation == spec.relation
        };
        if self.edge_types.iter().any(same) {
            let what = format!("edge type {:?} is declared twice", spec.relation);
            return Err(BuildError::invalid(what));
        }
        let id = next_id(self.edge_types.len(), "edge types")?;
        let meta = EdgeTypeMeta {
            source: spec.source,
            relation: spec.relation,
            destination: spec.destination,
            num_edges: 0,
            num_edge_ids: 0,
            undirected: spec.undirected,
            unique: spec.unique,
            reverse: None,
            has_edge_ids: spec.has_edge_ids,
            has_time: spec.has_time,
            has_weight: spec.has_weight,
            tensors: Vec::new(),
            topology: TopologyMeta::default(),
        };
        self.edge_types.push(EdgeType { meta, num_edge_ids: None, started: false, totals: None });
        Ok(EdgeTypeId(id))
    }

    /// Declares that `reverse` holds the edges of `id` the other way round, and vice versa.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type.
    pub fn set_reverse(&mut self, id: EdgeTypeId, reverse: EdgeTypeId) -> Result<(), BuildError> {
        self.edge_type_mut(reverse)?.meta.reverse = Some(id);
        self.edge_type_mut(id)?.meta.reverse = Some(reverse);
        Ok(())
    }

    /// Edge ids are below `count`; without this call, below the largest that was pushed plus 1.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type, or one whose entries carry no edge ids.
    pub fn set_num_edge_ids(&mut self, id: EdgeTypeId, count: u64) -> Result<(), BuildError> {
        let edge_type = self.edge_type_mut(id)?;
        if !edge_type.meta.has_edge_ids || count > NODE_ID_BOUND {
            let relation = &edge_type.meta.relation;
            let what = format!("edge type {relation:?} cannot have {count} edge ids");
            return Err(BuildError::invalid(what));
        }
        edge_type.num_edge_ids = Some(count);
        Ok(())
    }

    /// The store continues another one.
    pub(crate) fn continue_from(&mut self, root: RootOf) {
        self.root = root;
    }

    /// Starts the list of deleted nodes of a type.
    pub(crate) fn dead_nodes(&mut self, id: NodeTypeId) -> Result<DeadNodesWriter, BuildError> {
        let segment = self.segment();
        DeadNodesWriter::create(&self.disk, id, segment)
    }

    /// Takes back a list of deleted nodes.
    pub(crate) fn add_dead_nodes(&mut self, part: DeadNodesPart) -> Result<(), BuildError> {
        let unknown = || BuildError::invalid("a part does not belong to this builder");
        let place = usize::from(part.node_type.0);
        let owner = self.node_types.get_mut(place).ok_or_else(unknown)?;
        owner.num_nodes_live = owner.num_nodes.saturating_sub(part.count);
        owner.dead = Some(part.meta);
        self.add_segment(part.segment)
    }

    /// Starts the order of the rows of a type, of its first `num_nodes` nodes.
    pub(crate) fn row_order(
        &mut self,
        id: NodeTypeId,
        num_nodes: u64,
    ) -> Result<OrderWriter, BuildError> {
        let segment = self.segment();
        OrderWriter::create(&self.disk, id, segment, num_nodes)
    }

    /// Takes back an order of rows.
    pub(crate) fn add_row_order(&mut self, part: OrderPart) -> Result<(), BuildError> {
        let unknown = || BuildError::invalid("a part does not belong to this builder");
        let owner = self.node_types.get_mut(usize::from(part.node_type.0)).ok_or_else(unknown)?;
        owner.order = Some(part.meta);
        self.add_segment(part.segment)
    }

    fn edge_type_mut(&mut self, id: EdgeTypeId) -> Result<&mut EdgeType, BuildError> {
        self.edge_types
            .get_mut(usize::from(id.0))
            .ok_or_else(|| BuildError::invalid(format!("edge type {} is unknown", id.0)))
    }

    fn segment(&mut self) -> u32 {
        self.segments.push(None);
        self.segments.len() as u32 - 1
    }

    /// Starts the topology of an edge type.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type or a second call, [`BuildError::Write`].
    pub fn topology(&mut self, id: EdgeTypeId) -> Result<TopologyWriter, BuildError> {
        let (pages_segment, index_segment) = (self.segment(), self.segment());
        let edge_type = self.edge_type_mut(id)?;
        if std::mem::replace(&mut edge_type.started, true) {
            let what = format!("topology of {:?} is written twice", edge_type.meta.relation);
            return Err(BuildError::invalid(what));
        }
        let mut layout = EntryLayout::of(&edge_type.meta);
        let source = usize::from(edge_type.meta.source.0);
        let num_sources = self.node_types.get(source).map_or(0, |t| t.num_nodes);
        layout.id_width = if num_sources <= 1 << 32 { 4 } else { 5 };
        let spec = TopologySpec {
            edge_type: id.0,
            name: format!("e{}", id.0),
            layout,
            page_bytes: self.options.page_bytes,
            fill: self.options.fill,
            pages_segment,
            index_segment,
        };
        TopologyWriter::create(&self.disk, spec)
    }

    /// Starts a tensor. Rows are node ids or edge ids; their number is checked at commit. Tensors
    /// keep the order of these calls in the catalog.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown owner, a taken name or a row of no or too many bytes,
    /// [`BuildError::Write`].
    pub fn tensor(&mut self, owner: Owner, spec: TensorSpec) -> Result<TensorWriter, BuildError> {
        let (slot, meta) = self.declare_tensor(owner, spec)?;
        TensorWriter::create(&self.disk, owner, slot, meta)
    }

    /// As [`StoreBuilder::tensor`], for i8 rows whose elements are steps of `scales`, one for each
    /// column.
    ///
    /// # Errors
    /// As [`StoreBuilder::tensor`], and [`BuildError::Invalid`] for scales that are none, or not as
    /// many as columns.
    pub fn scaled_tensor(
        &mut self,
        owner: Owner,
        spec: TensorSpec,
        scales: &[f32],
    ) -> Result<TensorWriter, BuildError> {
        let (slot, mut meta) = self.declare_tensor(owner, spec)?;
        let wrong = |what: String| BuildError::invalid(format!("tensor {:?}: {what}", meta.name));
        let columns = usize::try_from(meta.num_columns()).unwrap_or(usize::MAX);
        RowDecoder::new(meta.dtype, columns, Some(scales.into()), Dtype::F32)
            .map_err(|error| wrong(error.to_string()))?;
        let segment = self.segment();
        meta.scales = Some(segment);
        let scales = write_scales(&self.disk, &meta, segment, scales)?;
        Ok(TensorWriter::create(&self.disk, owner, slot, meta)?.with_scales(scales))
    }

    /// As [`StoreBuilder::tensor`], for i64 elements that stand for classes: 0 for the first of
    /// `class_names`, and so on; a negative one for none.
    ///
    /// # Errors
    /// As [`StoreBuilder::tensor`], and [`BuildError::Invalid`] for another dtype or more than
    /// 65,536 names.
    pub fn class_tensor(
        &mut self,
        owner: Owner,
        spec: TensorSpec,
        class_names: Vec<String>,
    ) -> Result<TensorWriter, BuildError> {
        if spec.dtype != Dtype::I64 || class_names.len() > CLASS_NAMES_MAX {
            let (name, dtype, count) = (&spec.name, spec.dtype, class_names.len());
            let what = format!("tensor {name:?} ({dtype}): {count} names of classes");
            return Err(BuildError::invalid(what));
        }
        let (slot, meta) = self.declare_tensor(owner, spec)?;
        TensorWriter::create(&self.disk, owner, slot, TensorMeta { class_names, ..meta })
    }

    /// As [`StoreBuilder::tensor`], for rows of f32 that are stored without their zeros; each other
    /// value fits `value`. Such rows cannot be changed later.
    ///
    /// # Errors
    /// As [`StoreBuilder::tensor`], and [`BuildError::Invalid`] for another dtype.
    pub fn sparse_tensor(
        &mut self,
        owner: Owner,
        spec: TensorSpec,
        value: SparseValue,
    ) -> Result<SparseWriter, BuildError> {
        if spec.dtype != Dtype::F32 {
            let what = format!("tensor {:?}: only f32 rows can be sparse", spec.name);
            return Err(BuildError::invalid(what));
        }
        let (slot, meta) = self.declare_tensor(owner, spec)?;
        let entries = self.segment();
        SparseWriter::create(&self.disk, owner, slot, meta, (entries, value))
    }

    fn declare_tensor(
        &mut self,
        owner: Owner,
        spec: TensorSpec,
    ) -> Result<(u16, TensorMeta), BuildError> {
        let known = match owner {
            Owner::Node(id) => usize::from(id.0) < self.node_types.len(),
            Owner::Edge(id) => self.edge_type_mut(id)?.meta.has_edge_ids,
        };
        let name = &spec.name;
        if !known {
            let what = format!("tensor {name:?}: unknown node type, or edges without edge ids");
            return Err(BuildError::invalid(what));
        }
        if self.tensors.iter().any(|(other, meta, _)| *other == owner && meta.name == *name) {
            return Err(BuildError::invalid(format!("tensor {name:?} is declared twice")));
        }
        let slot = next_id(self.tensors.len(), "tensors")?;
        let meta = TensorMeta {
            name: spec.name,
            dtype: spec.dtype,
            shape: spec.shape,
            num_rows: 0,
            mask_width: spec.mask_width,
            segment: self.segment(),
            scales: None,
            sparse: None,
            class_names: Vec::new(),
        };
        self.tensors.push((owner, meta.clone(), false));
        Ok((slot, meta))
    }

    /// Starts the string ids of a node type.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type or a second call, [`BuildError::Write`].
    pub fn dictionary(&mut self, id: NodeTypeId) -> Result<DictionaryWriter, BuildError> {
        if usize::from(id.0) >= self.node_types.len() {
            return Err(BuildError::invalid(format!("node type {} is unknown", id.0)));
        }
        let segments = [self.segment(), self.segment(), self.segment()];
        self.dictionaries_open += 1;
        DictionaryWriter::create(&self.disk, id.0, segments)
    }

    /// Takes back what a finished writer wrote.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for a part of another builder, [`BuildError::RowCount`].
    pub fn add(&mut self, part: impl Into<Part>) -> Result<(), BuildError> {
        match part.into() {
            Part::Topology(part) => self.add_topology(part),
            Part::Tensor(part) => self.add_tensor(part),
            Part::Dictionary(part) => self.add_dictionary(part),
        }
    }

    fn add_segment(&mut self, segment: FinishedSegment) -> Result<(), BuildError> {
        match self.segments.get_mut(segment.id as usize) {
            Some(place @ None) => *place = Some(segment.meta),
            _ => {
                return Err(BuildError::invalid("a part does not belong to this builder"));
            }
        }
        Ok(())
    }

    fn add_topology(&mut self, part: TopologyPart) -> Result<(), BuildError> {
        for segment in part.segments {
            self.add_segment(segment)?;
        }
        let edge_type = self.edge_type_mut(EdgeTypeId(part.edge_type))?;
        edge_type.meta.topology = part.meta;
        edge_type.meta.num_edges = part.totals.num_edges;
        edge_type.totals = Some(part.totals);
        Ok(())
    }

    fn add_tensor(&mut self, part: TensorPart) -> Result<(), BuildError> {
        self.add_segment(part.segment)?;
        part.beside.map_or(Ok(()), |segment| self.add_segment(segment))?;
        match self.tensors.get_mut(usize::from(part.slot)) {
            Some((owner, meta, done)) if *owner == part.owner => {
                (*meta, *done) = (part.meta, true);
                Ok(())
            }
            _ => Err(BuildError::invalid("a part does not belong to this builder")),
        }
    }

    fn add_dictionary(&mut self, part: DictionaryPart) -> Result<(), BuildError> {
        for segment in part.segments {
            self.add_segment(segment)?;
        }
        self.dictionaries_open -= 1;
        let owner = self
            .node_types
            .get_mut(usize::from(part.node_type))
            .filter(|owner| owner.dictionary.is_none())
            .ok_or_else(|| BuildError::invalid("a node type has two dictionaries"))?;
        if part.num_names != owner.num_nodes {
            return Err(BuildError::RowCount {
                what: format!("dictionary of {:?}", owner.name),
                expected: owner.num_nodes,
                found: part.num_names,
            });
        }
        owner.dictionary = Some(part.meta);
        Ok(())
    }

    /// Checks that all is there, writes both root slots and makes the directory durable.
    ///
    /// # Errors
    /// [`BuildError::TopologyMissing`], [`BuildError::RowCount`], [`BuildError::IdOutOfRange`],
    /// [`BuildError::Invalid`] if a part was not added, [`BuildError::Write`].
    pub fn commit(self) -> Result<BuildSummary, BuildError> {
        let disk = Arc::clone(&self.disk);
        let RootOf { epoch, lsn, .. } = self.root;
        let catalog = self.into_catalog()?;
        catalog.check().map_err(|damage| BuildError::invalid(damage.to_string()))?;
        let slot = root::encode(&catalog, epoch, lsn)?;
        for name in root::SLOTS {
            let mut file = Appender::create(Arc::clone(&disk), name)?;
            file.write(&slot)?;
            file.finish()?;
        }
        for name in LOGS {
            let mut file = Appender::create(Arc::clone(&disk), name)?;
            file.write(&[0; LOG_STEP_BYTES as usize])?;
            file.finish()?;
        }
        Appender::create(Arc::clone(&disk), PINS)?.finish()?;
        crate::io::sync_dir(disk.as_ref())?;
        Ok(BuildSummary {
            disk_bytes: catalog.disk_bytes() + 2 * (slot.len() as u64 + LOG_STEP_BYTES),
            num_edges: catalog.edge_types.iter().map(|t| t.num_edges).sum(),
            fingerprint: root::fingerprint(&slot),
        })
    }

    fn into_catalog(mut self) -> Result<Catalog, BuildError> {
        for place in 0..self.edge_types.len() {
            self.settle_edge_type(place)?;
        }
        for (owner, meta, done) in std::mem::take(&mut self.tensors) {
            if !done {
                let what = format!("tensor {:?} was started but not added", meta.name);
                return Err(BuildError::invalid(what));
            }
            self.place_tensor(owner, meta)?;
        }
        let segments: Option<Vec<SegmentMeta>> = self.segments.into_iter().collect();
        Ok(Catalog {
            page_bytes: self.options.page_bytes,
            fill: self.options.fill,
            reuse_ids: self.options.reuse_ids,
            log: Some(LogMeta { chain: self.root.chain, ..LogMeta::default() }),
            node_types: self.node_types,
            edge_types: self.edge_types.into_iter().map(|t| t.meta).collect(),
            segments: segments
                .ok_or_else(|| BuildError::invalid("a dictionary was started but not added"))?,
        })
    }

    fn settle_edge_type(&mut self, place: usize) -> Result<(), BuildError> {
        let Some(edge_type) = self.edge_types.get_mut(place) else {
            return Ok(());
        };
        let meta = &mut edge_type.meta;
        let Some(totals) = edge_type.totals else {
            return Err(BuildError::TopologyMissing { edge_type: meta.relation.clone() });
        };
        if meta.has_edge_ids {
            meta.num_edge_ids = edge_type.num_edge_ids.unwrap_or(totals.edge_id_bound);
        }
        let nodes = |id: NodeTypeId| {
            let owner = self.node_types.get(usize::from(id.0));
            owner.map_or((0, String::new()), |t| (t.num_nodes, format!("node type {:?}", t.name)))
        };
        let (edge_bound, edge_owner) =
            (meta.num_edge_ids, format!("edge type {:?}", meta.relation));
        for (kind, bound, (allowed, owner)) in [
            ("source", totals.source_bound, nodes(meta.source)),
            ("destination", totals.destination_bound, nodes(meta.destination)),
            ("edge id", totals.edge_id_bound, (edge_bound, edge_owner)),
        ] {
            if bound > allowed {
                return Err(BuildError::IdOutOfRange {
                    kind,
                    id: bound - 1,
                    owner,
                    bound: allowed,
                });
            }
        }
        Ok(())
    }

    fn place_tensor(&mut self, owner: Owner, meta: TensorMeta) -> Result<(), BuildError> {
        let missing = || BuildError::invalid("a tensor lost its owner");
        let (tensors, expected) = match owner {
            Owner::Node(id) => {
                let owner = self.node_types.get_mut(usize::from(id.0)).ok_or_else(missing)?;
                (&mut owner.tensors, owner.num_nodes)
            }
            Owner::Edge(id) => {
                let owner = self.edge_types.get_mut(usize::from(id.0)).ok_or_else(missing)?;
                (&mut owner.meta.tensors, owner.meta.num_edge_ids)
            }
        };
        if meta.num_rows != expected {
            let (what, found) = (format!("tensor {:?}", meta.name), meta.num_rows);
            return Err(BuildError::RowCount { what, expected, found });
        }
        tensors.push(meta);
        Ok(())
    }
}

fn next_id(count: usize, what: &str) -> Result<u16, BuildError> {
    u16::try_from(count)
        .ok()
        .filter(|id| usize::from(*id) < TYPES_MAX)
        .ok_or_else(|| BuildError::invalid(format!("more than {TYPES_MAX} {what}")))
}
