//! The catalog: what a store holds, and where. It is the body of a root slot, as JSON.
//!
//! Nothing here does I/O. Invariant: a [`Catalog`] that [`Catalog::check`] has passed is consistent
//! in itself (ids refer to things that exist, sizes do not overflow), so readers need not ask.

pub(crate) mod check;
pub(crate) mod keys;

use ng_types::{Dtype, EdgeTypeId, NodeTypeId};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bytes::width_below;
pub use crate::catalog::keys::KeyedCommit;
use crate::catalog::keys::Keys;
use crate::error::ReadError;
use crate::limits::ROW_BYTES_MAX;
use crate::page::Located;
use crate::tensor::layout::{RowLayout, SPAN_BYTES};

/// A node type or an edge type, as the owner of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Rows are node ids.
    Node(NodeTypeId),
    /// Rows are edge ids.
    Edge(EdgeTypeId),
}

/// Names one tensor: its owner and its index in the owner's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorRef {
    /// Whose tensor.
    pub owner: Owner,
    /// Index in [`NodeTypeMeta::tensors`] or [`EdgeTypeMeta::tensors`].
    pub index: u16,
}

/// The catalog of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Page size of topology segments in bytes.
    pub page_bytes: u32,
    /// Node types; a [`NodeTypeId`] is an index here.
    pub node_types: Vec<NodeTypeMeta>,
    /// Edge types; an [`EdgeTypeId`] is an index here.
    pub edge_types: Vec<EdgeTypeMeta>,
    /// How full L-type pages are made, 0.1 to 1.0.
    #[serde(default = "default_fill")]
    pub fill: f64,
    /// Ids of deleted nodes are given out again.
    #[serde(default)]
    pub reuse_ids: bool,
    /// Where the log goes on after this root; `None` in stores of version 0, which have no log.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<LogMeta>,
    /// Keys of the last transactions that had one; `None` as long as none had.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<Keys>,
    /// The files.
    pub(crate) segments: Vec<SegmentMeta>,
}

fn default_fill() -> f64 {
    0.9
}

/// A member that is `null` where there is nothing, and never left out: serde would take an absent
/// one for `null`.
fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(value)
}

/// A member that is left out where there is nothing, and never `null`.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// Where the first record that a root does not contain stands, if it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogMeta {
    /// 0 for `wal.a`, 1 for `wal.b`.
    pub file: u8,
    pub offset: u64,
    /// Of the last record that the root contains.
    pub chain: u64,
}

impl Catalog {
    /// The tensor that `tensor` names.
    pub fn tensor(&self, tensor: TensorRef) -> Option<&TensorMeta> {
        self.tensors(tensor.owner)?.get(usize::from(tensor.index))
    }

    /// The tensor of `owner` that is called `name`.
    pub fn find_tensor(&self, owner: Owner, name: &str) -> Option<TensorRef> {
        let index = position(self.tensors(owner)?, name)?;
        Some(TensorRef { owner, index })
    }

    fn tensors(&self, owner: Owner) -> Option<&[TensorMeta]> {
        match owner {
            Owner::Node(id) => Some(&self.node_types.get(usize::from(id.0))?.tensors),
            Owner::Edge(id) => Some(&self.edge_types.get(usize::from(id.0))?.tensors),
        }
    }

    /// The tensors of all types.
    pub(crate) fn all_tensors(&self) -> impl Iterator<Item = &TensorMeta> {
        let of_nodes = self.node_types.iter().flat_map(|t| &t.tensors);
        of_nodes.chain(self.edge_types.iter().flat_map(|t| &t.tensors))
    }

    /// A node type by its number.
    ///
    /// # Errors
    /// [`ReadError::Missing`].
    pub fn node_type(&self, id: NodeTypeId) -> Result<&NodeTypeMeta, ReadError> {
        let missing = || ReadError::Missing { what: format!("node type {}", id.0) };
        self.node_types.get(usize::from(id.0)).ok_or_else(missing)
    }

    /// An edge type by its number.
    ///
    /// # Errors
    /// [`ReadError::Missing`].
    pub fn edge_type(&self, id: EdgeTypeId) -> Result<&EdgeTypeMeta, ReadError> {
        let missing = || ReadError::Missing { what: format!("edge type {}", id.0) };
        self.edge_types.get(usize::from(id.0)).ok_or_else(missing)
    }

    /// All tensors.
    pub fn tensor_refs(&self) -> impl Iterator<Item = TensorRef> + '_ {
        let of_nodes = self.node_types.iter().enumerate();
        let of_nodes = of_nodes.map(|(id, t)| (Owner::Node(NodeTypeId(id as u16)), &t.tensors));
        let of_edges = self.edge_types.iter().enumerate();
        let of_edges = of_edges.map(|(id, t)| (Owner::Edge(EdgeTypeId(id as u16)), &t.tensors));
        of_nodes.chain(of_edges).flat_map(|(owner, tensors)| {
            (0..tensors.len()).map(move |index| TensorRef { owner, index: index as u16 })
        })
    }

    /// Returns whether an edge type is the reverse index of another one, which finds its edges by
    /// source, and not a declared type.
    pub fn is_reverse_index(&self, edge_type: EdgeTypeId) -> bool {
        let meta = self.edge_types.get(usize::from(edge_type.0));
        meta.and_then(|meta| meta.reverse).is_some_and(|of| of < edge_type)
    }

    /// How many edge types the graph has, without those that are indexes of others.
    pub fn num_named_edge_types(&self) -> usize {
        let ids = (0..self.edge_types.len()).map(|id| EdgeTypeId(id as u16));
        ids.filter(|id| !self.is_reverse_index(*id)).count()
    }

    /// Returns the oldest format version whose readers can read the store.
    pub fn format_version(&self) -> u32 {
        let is_new = |t: &TensorMeta| t.is_scaled() || t.is_sparse();
        if self.keys.is_some() {
            return 5;
        }
        if self.all_tensors().any(|t| !t.class_names.is_empty()) {
            return 4;
        }
        if self.node_types.iter().any(|t| t.order.is_some()) {
            return 3;
        }
        if self.all_tensors().any(is_new) { 2 } else { u32::from(self.can_change()) }
    }

    /// Whether there is anything that a store of version 0, which never changes, cannot have.
    fn can_change(&self) -> bool {
        let is_default = self.fill.total_cmp(&default_fill()).is_eq() && !self.reuse_ids;
        self.log.is_some()
            || !is_default
            || self.node_types.iter().any(|t| t.dead.is_some())
            || self.segments.iter().any(|segment| segment.physical_pages.is_some())
    }

    /// The last transactions that had a key, oldest first.
    pub fn keyed_commits(&self) -> impl Iterator<Item = &KeyedCommit> {
        self.keys.iter().flat_map(Keys::iter)
    }

    /// Bytes of all pages and page tables.
    pub fn disk_bytes(&self) -> u64 {
        self.segments.iter().map(SegmentMeta::disk_bytes).sum()
    }
}

/// One node type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTypeMeta {
    /// Unique among node types.
    pub name: String,
    /// Ids are below this.
    pub num_nodes: u64,
    /// Nodes that are not deleted.
    pub num_nodes_live: u64,
    /// Node tensors, rows by node id.
    pub tensors: Vec<TensorMeta>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) dictionary: Option<DictionaryMeta>,
    /// Ids that were deleted.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) dead: Option<BitmapMeta>,
    /// Which row of its tensors each node has; `None` where that is the row of its number.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<OrderMeta>,
}

/// The rows of the first nodes of a type, laid out as rows of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderMeta {
    pub segment: u32,
    /// Nodes from this one on have the row of their number.
    pub num_nodes: u64,
}

impl OrderMeta {
    /// Where the row of each node stands.
    pub fn layout(&self) -> RowLayout {
        RowLayout::best(width_below(self.num_nodes) as u64)
    }
}

/// A bitmap of nodes: a directory tree and bitmap pages, in a segment of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BitmapMeta {
    pub segment: u32,
    #[serde(deserialize_with = "nullable")]
    pub root: Option<TreeRoot>,
}

impl NodeTypeMeta {
    /// Whether rows lie in another order than nodes.
    pub fn has_order(&self) -> bool {
        self.order.is_some()
    }

    /// Whether nodes have string ids.
    pub fn has_dictionary(&self) -> bool {
        self.dictionary.is_some()
    }

    /// The index of the tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<u16> {
        position(&self.tensors, name)
    }
}

/// One edge type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)]
pub struct EdgeTypeMeta {
    /// Node type that edges come from.
    pub source: NodeTypeId,
    /// Name of the relation.
    pub relation: String,
    /// Node type that edges go to; topology is stored by destination.
    pub destination: NodeTypeId,
    /// Entries in the neighbour lists (an undirected edge has two).
    pub num_edges: u64,
    /// Edge ids are below this; rows of edge tensors. 0 where entries carry no id.
    pub num_edge_ids: u64,
    /// Each edge is stored in both directions, with one id.
    pub undirected: bool,
    /// No parallel edges.
    pub unique: bool,
    /// The edge type that holds the same edges the other way round.
    #[serde(deserialize_with = "nullable")]
    pub reverse: Option<EdgeTypeId>,
    /// Entries carry an edge id.
    pub has_edge_ids: bool,
    /// Entries carry a time (i64) and lists are ordered by it.
    pub has_time: bool,
    /// Entries carry a weight (f32).
    pub has_weight: bool,
    /// Edge tensors, rows by edge id.
    pub tensors: Vec<TensorMeta>,
    pub(crate) topology: TopologyMeta,
}

impl EdgeTypeMeta {
    /// The index of the tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<u16> {
        position(&self.tensors, name)
    }
}

fn position(tensors: &[TensorMeta], name: &str) -> Option<u16> {
    tensors.iter().position(|t| t.name == name).and_then(|i| u16::try_from(i).ok())
}

/// One tensor of fixed-width rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMeta {
    /// Unique in its owner.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions after the first; empty for one element per row.
    pub shape: Vec<u64>,
    /// Rows: `num_nodes` of the node type or `num_edge_ids` of the edge type.
    pub num_rows: u64,
    /// For a split that came from masks: 0 for masks `[N]`, k for masks `[N, k]`.
    #[serde(deserialize_with = "nullable")]
    pub mask_width: Option<u32>,
    pub(crate) segment: u32,
    /// The segment that holds a scale for each column; `None` where elements are what they are.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) scales: Option<u32>,
    /// Where the entries of sparse rows are; `segment` then says which are whose.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) sparse: Option<SparseMeta>,
    /// The class names of the integers 0, 1, 2, ... of an i64 tensor; empty if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub class_names: Vec<String>,
}

/// The entries of the sparse rows of a tensor: what is not 0, with its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SparseMeta {
    pub entries: u32,
    pub num_entries: u64,
    /// Of a column in an entry, 2 or 4.
    pub column_bytes: u8,
    pub value: SparseValue,
}

/// The value of an entry of a sparse row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SparseValue {
    /// Nothing: every value is 1.
    One,
    /// An integer from 1 to 255.
    U8,
    /// Any f32 but 0.
    F32,
}

impl SparseValue {
    /// Every kind, the narrowest first.
    pub const ALL: [Self; 3] = [Self::One, Self::U8, Self::F32];

    /// The name in catalogs.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::U8 => "u8",
            Self::F32 => "f32",
        }
    }

    /// Bytes of a value.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::One => 0,
            Self::U8 => 1,
            Self::F32 => 4,
        }
    }
}

impl TensorMeta {
    /// Bytes of one row, zeros included where rows are sparse.
    pub fn row_bytes(&self) -> u64 {
        row_bytes(self.dtype, &self.shape).unwrap_or(0)
    }

    /// Whether rows are stored without their zeros.
    pub fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    pub(crate) fn check_rows(&self, ids: &[u64]) -> Result<(), ReadError> {
        let num_rows = self.num_rows;
        let Some(row) = ids.iter().find(|id| **id >= num_rows) else {
            return Ok(());
        };
        Err(ReadError::RowOutOfRange { tensor: self.name.clone(), row: *row, num_rows })
    }

    /// Elements of one row.
    pub fn num_columns(&self) -> u64 {
        self.row_bytes() / self.dtype.size_bytes() as u64
    }

    /// Whether elements are steps of a scale: i8 that stands for floats.
    pub fn is_scaled(&self) -> bool {
        self.scales.is_some()
    }

    /// Returns the default dtype of rows that are read: f32 for scaled elements and for narrow
    /// floats of a tensor named `x`, otherwise the stored dtype.
    pub fn read_dtype(&self) -> Dtype {
        let is_narrow = matches!(self.dtype, Dtype::F16 | Dtype::Bf16) && self.name == "x";
        if self.is_scaled() || is_narrow { Dtype::F32 } else { self.dtype }
    }

    /// Where the scales are: one row of f32.
    pub(crate) fn scales_layout(&self) -> Option<RowLayout> {
        Some(RowLayout::best(row_bytes(Dtype::F32, &self.shape)?))
    }

    /// Bytes that a new row of zeros takes.
    pub(crate) fn new_row_bytes(&self) -> u64 {
        self.layout().row_bytes() as u64
    }

    /// Where its rows are; of sparse rows, what says where their entries are.
    pub(crate) fn layout(&self) -> RowLayout {
        let is_sparse = self.sparse.is_some();
        RowLayout::best(if is_sparse { SPAN_BYTES } else { self.row_bytes().max(1) })
    }
}

/// Bytes of one row, or `None` where that is 0 or above [`ROW_BYTES_MAX`].
pub(crate) fn row_bytes(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    let start = dtype.size_bytes() as u64;
    let bytes = shape.iter().try_fold(start, |product, dim| product.checked_mul(*dim))?;
    (1..=ROW_BYTES_MAX).contains(&bytes).then_some(bytes)
}

/// Where the topology of an edge type is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyMeta {
    /// Bytes of a source id in an entry, 4 or 5.
    pub id_width: u8,
    pub pages: u32,
    pub index: u32,
    #[serde(deserialize_with = "nullable")]
    pub l_root: Option<TreeRoot>,
    #[serde(deserialize_with = "nullable")]
    pub h_root: Option<TreeRoot>,
    #[serde(deserialize_with = "nullable")]
    pub gmap_root: Option<TreeRoot>,
    pub num_l_pages: u64,
    pub num_h_lists: u64,
}

/// The root page of a static tree inside an index segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TreeRoot {
    pub page: u64,
    /// 0 where the root is a leaf.
    pub level: u8,
}

/// Where a dictionary is: one segment of names by id, one of keys in byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DictionaryMeta {
    pub names: u32,
    #[serde(deserialize_with = "nullable")]
    pub names_root: Option<TreeRoot>,
    pub names_index: u32,
    pub keys: u32,
    #[serde(deserialize_with = "nullable")]
    pub keys_root: Option<TreeRoot>,
}

/// Two files: `NAME.dat` with pages and `NAME.map` with their table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentMeta {
    pub name: String,
    pub page_bytes: u32,
    /// Logical pages.
    pub num_pages: u64,
    /// Pages that the data file holds; `None` as long as every logical page is the physical page of
    /// the same number.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub physical_pages: Option<u64>,
    /// Blocks of the `.map` file.
    pub map_blocks: u64,
    /// The inner blocks of the page table, in order.
    pub table: Vec<Located>,
}

impl SegmentMeta {
    /// Pages that the data file holds.
    pub fn physical_pages(&self) -> u64 {
        self.physical_pages.unwrap_or(self.num_pages)
    }

    /// Bytes of both files.
    pub fn disk_bytes(&self) -> u64 {
        let table = self.map_blocks * ng_io::BLOCK_BYTES as u64;
        self.physical_pages() * u64::from(self.page_bytes) + table
    }
}
