//! Writing a new store: [`StoreBuilder`] and what its callers fill in.
//!
//! The streaming writers that it hands out take their input in one pass with memory that does not
//! grow with it. Nothing is visible before [`StoreBuilder::commit`]: a directory without root slots
//! is not a store. Neither a clock nor a random number goes into a file, so the same calls in the
//! same order give the same bytes.

use std::path::Path;
use std::sync::Arc;

use ng_simd::RowDecoder;
use ng_types::{Dtype, EdgeTypeId, NODE_ID_BOUND, NodeTypeId};

use crate::build::spec::{BuildOptions, EdgeTypeSpec, TensorSpec};
use crate::catalog::keys::Keys;
use crate::catalog::{
    EdgeTypeMeta, KeyedCommit, NodeTypeMeta, Owner, SegmentMeta, SparseValue, TensorMeta,
    TopologyMeta,
};
use crate::dictionary::writer::DictionaryWriter;
use crate::error::BuildError;
use crate::io::Disk;
use crate::limits::{CLASS_NAMES_MAX, PAGE_SIZES, TYPES_MAX, is_page_bytes};
use crate::rows::dead_nodes::{DeadNodesPart, DeadNodesWriter};
use crate::rows::order_file::{OrderPart, OrderWriter};
use crate::tensor::sparse_writer::SparseWriter;
use crate::tensor::writer::{TensorWriter, write_scales};
use crate::topology::{EntryLayout, TopologySpec, TopologyTotals, TopologyWriter};
use crate::version::root::FIRST_CHECKPOINT;

/// Builds one store: declare types, stream topology, tensors and dictionaries, commit.
pub struct StoreBuilder {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: BuildOptions,
    pub(super) node_types: Vec<NodeTypeMeta>,
    pub(super) edge_types: Vec<EdgeType>,
    pub(super) segments: Vec<Option<SegmentMeta>>,
    /// Tensors handed out and whether they came back.
    pub(super) tensors: Vec<(Owner, TensorMeta, bool)>,
    pub(super) dictionaries_open: usize,
    pub(super) root: RootOf,
}

/// What the root says of the history of the content: nothing for a new store.
#[derive(Clone, Debug)]
pub(crate) struct RootOf {
    pub checkpoint_id: u64,
    pub lsn: u64,
    pub chain: u64,
    /// Of the batches before.
    pub keys: Option<Keys>,
}

pub(super) struct EdgeType {
    pub(super) meta: EdgeTypeMeta,
    pub(super) num_edge_ids: Option<u64>,
    pub(super) started: bool,
    pub(super) totals: Option<TopologyTotals>,
}

impl StoreBuilder {
    /// A builder in an empty directory, normally a staging directory that is published later.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for options outside of their range, or if the directory cannot be
    /// written.
    pub fn create(dir: &Path, options: BuildOptions) -> Result<Self, BuildError> {
        let disk = crate::io::open_without_queue(dir)
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
            let what = format!("page size {bytes} is not valid: expected one of {PAGE_SIZES:?}");
            return Err(BuildError::invalid(what));
        }
        if !(0.1..=1.0).contains(&options.fill) {
            return Err(BuildError::invalid(format!(
                "fill {} is not valid: expected 0.1 to 1.0",
                options.fill
            )));
        }
        Ok(Self {
            disk,
            options,
            node_types: Vec::new(),
            edge_types: Vec::new(),
            segments: Vec::new(),
            tensors: Vec::new(),
            dictionaries_open: 0,
            root: RootOf {
                checkpoint_id: u64::from(FIRST_CHECKPOINT),
                lsn: 0,
                chain: 0,
                keys: None,
            },
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

    /// Changes the number of nodes. Call it before [`StoreBuilder::topology`]: source ids take 4
    /// bytes if the source type has at most 2^32 nodes at that moment.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type or too many nodes.
    pub fn set_num_nodes(&mut self, id: NodeTypeId, num_nodes: u64) -> Result<(), BuildError> {
        let meta = self
            .node_types
            .get_mut(usize::from(id.0))
            .ok_or_else(|| BuildError::invalid(format!("there is no node type {}", id.0)))?;
        if num_nodes > NODE_ID_BOUND {
            let what = format!("node type {:?} has {num_nodes} nodes, more than 2^40", meta.name);
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

    /// Sets the bound of edge ids to `count`. Without this call, it is the largest pushed id plus
    /// 1.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for an unknown type, or one whose entries carry no edge ids.
    pub fn set_num_edge_ids(&mut self, id: EdgeTypeId, count: u64) -> Result<(), BuildError> {
        let edge_type = self.edge_type_mut(id)?;
        if !edge_type.meta.has_edge_ids || count > NODE_ID_BOUND {
            let relation = &edge_type.meta.relation;
            let what = format!(
                "edge type {relation:?} cannot have {count} edge ids: its entries have no ids, or \
                 the number exceeds 2^40"
            );
            return Err(BuildError::invalid(what));
        }
        edge_type.num_edge_ids = Some(count);
        Ok(())
    }

    /// Notes a key with the new store, as [`crate::Transaction::keep`] does with a transaction: the
    /// store remembers that it was made under this key.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for a key or a note that is too long, or a key that is empty.
    pub fn keep(&mut self, key: &[u8], note: &[u8]) -> Result<(), BuildError> {
        let made = KeyedCommit { lsn: self.root.lsn, key: key.into(), note: note.into() };
        made.check().map_err(|damage| BuildError::invalid(damage.to_string()))?;
        self.root.keys.get_or_insert_default().push(made);
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

    pub(super) fn edge_type_mut(&mut self, id: EdgeTypeId) -> Result<&mut EdgeType, BuildError> {
        self.edge_types
            .get_mut(usize::from(id.0))
            .ok_or_else(|| BuildError::invalid(format!("there is no edge type {}", id.0)))
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
            let what = format!("the topology of {:?} is written twice", edge_type.meta.relation);
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
    /// As [`StoreBuilder::tensor`], and [`BuildError::Invalid`] for invalid scales, or a number of
    /// scales that differs from the columns.
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
        let mut writer = TensorWriter::create(&self.disk, owner, slot, meta)?;
        writer.scales = Some(scales);
        Ok(writer)
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
            let what = format!(
                "tensor {name:?}: class names need dtype i64 and at most {CLASS_NAMES_MAX} names, \
                 got {dtype} and {count}"
            );
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
            let what =
                format!("tensor {name:?}: its node type does not exist, or its edges have no ids");
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
            return Err(BuildError::invalid(format!("there is no node type {}", id.0)));
        }
        let segments = [self.segment(), self.segment(), self.segment()];
        self.dictionaries_open += 1;
        DictionaryWriter::create(&self.disk, id.0, segments)
    }
}

fn next_id(count: usize, what: &str) -> Result<u16, BuildError> {
    u16::try_from(count)
        .ok()
        .filter(|id| usize::from(*id) < TYPES_MAX)
        .ok_or_else(|| BuildError::invalid(format!("a store has at most {TYPES_MAX} {what}")))
}
