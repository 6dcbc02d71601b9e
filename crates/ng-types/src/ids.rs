//! Identifiers. A node is a `u64` below [`NODE_ID_BOUND`]; types and pages have their own newtypes
//! so that one cannot be passed for another.

use serde::{Deserialize, Serialize};

/// A node id inside its node type, as users see it.
pub type NodeId = u64;

/// Node ids are below 2^40: on disk they take 4 or 5 bytes.
pub const NODE_ID_BOUND: u64 = 1 << 40;

/// Index of a node type in the catalog of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeTypeId(pub u16);

/// Index of an edge type (source, relation, destination) in the catalog of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EdgeTypeId(pub u16);

/// A logical page of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageId(pub u64);

/// The number of a checkpoint: 1 for an import, one more with each checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointId(pub u64);
