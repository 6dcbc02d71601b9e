//! What the callers of a builder fill in, and what they get back.

use ng_types::{Dtype, NodeTypeId};

use crate::dictionary::writer::DictionaryPart;
use crate::limits::PAGE_SIZES;
use crate::tensor::writer::TensorPart;
use crate::topology::TopologyPart;

/// Choices made when a store is created.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BuildOptions {
    /// Size of topology pages, one of [`PAGE_SIZES`].
    pub page_bytes: u32,
    /// How full an L-type page is made, 0.1 to 1.0.
    pub fill: f64,
    /// Ids of deleted nodes are given out again, the lowest first.
    pub reuse_ids: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { page_bytes: PAGE_SIZES[0], fill: 0.9, reuse_ids: false }
    }
}

/// The declaration of an edge type.
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

/// The declaration of a tensor.
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

/// Anything that [`crate::StoreBuilder::add`] takes.
#[derive(Debug)]
pub enum Part {
    /// From [`crate::TopologyWriter::finish`].
    Topology(TopologyPart),
    /// From [`crate::TensorWriter::finish`].
    Tensor(TensorPart),
    /// From [`crate::DictionaryWriter::finish`].
    Dictionary(DictionaryPart),
}

/// A summary of what [`crate::StoreBuilder::commit`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildSummary {
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Entries of all edge types.
    pub num_edges: u64,
    /// Identifies the content; see [`crate::Snapshot::fingerprint`].
    pub fingerprint: u64,
}
