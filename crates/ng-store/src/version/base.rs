//! Versions of a store: what a checkpoint wrote, and what commits made of it since.
//!
//! A [`Version`] never changes; commits and checkpoints make new ones that share almost all of the
//! old. What is on disk below a version stays there as long as its [`Base`] is alive.

use std::sync::Arc;

use ng_io::Lock;
use ng_types::{EdgeTypeId, NodeTypeId};

use crate::catalog::{Catalog, EdgeTypeMeta, NodeTypeMeta, Owner, TensorMeta, TensorRef};
use crate::error::ReadError;
use crate::page::{Placed, Segment, segment_of};
use crate::tensor::layout::RowLayout;

/// A checkpoint on disk. While it is alive, no page that it reaches is overwritten.
#[derive(Debug)]
pub(crate) struct Base {
    /// Of the root.
    pub checkpoint_id: u64,
    /// Log records up to here are contained.
    pub lsn: u64,
    /// What its root says.
    pub catalog: Arc<Catalog>,
    /// Its files.
    pub placed: Vec<Arc<Placed>>,
    /// Of the content.
    pub fingerprint: u64,
    /// Tells writers in other processes that the checkpoint is in use.
    pub _pin: Option<Lock>,
}

impl Base {
    /// The version that is this checkpoint and nothing more.
    pub fn version(self: &Arc<Self>) -> Version {
        Version {
            base: Arc::clone(self),
            catalog: Arc::clone(&self.catalog),
            segments: self.placed.iter().map(Arc::clone).map(Segment::unchanged).collect(),
            lsn: self.lsn,
            fingerprint: self.fingerprint,
        }
    }
}

/// One version of a store.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub base: Arc<Base>,
    pub catalog: Arc<Catalog>,
    pub segments: Vec<Segment>,
    /// The last commit that is contained.
    pub lsn: u64,
    /// Identifies the content.
    pub fingerprint: u64,
}

impl Version {
    pub fn segment(&self, id: u32) -> Result<&Segment, ReadError> {
        segment_of(&self.segments, id)
    }

    pub fn node_type(&self, id: NodeTypeId) -> Result<&NodeTypeMeta, ReadError> {
        self.catalog.node_type(id)
    }

    pub fn edge_type(&self, id: EdgeTypeId) -> Result<&EdgeTypeMeta, ReadError> {
        self.catalog.edge_type(id)
    }

    /// An edge type with its page and index segments.
    pub fn topology(
        &self,
        id: EdgeTypeId,
    ) -> Result<(&EdgeTypeMeta, &Segment, &Segment), ReadError> {
        let meta = self.edge_type(id)?;
        Ok((meta, self.segment(meta.topology.pages)?, self.segment(meta.topology.index)?))
    }

    /// A tensor with its segment and layout.
    pub fn tensor(
        &self,
        tensor: TensorRef,
    ) -> Result<(&TensorMeta, &Segment, RowLayout), ReadError> {
        let tensors = match tensor.owner {
            Owner::Node(id) => &self.node_type(id)?.tensors,
            Owner::Edge(id) => &self.edge_type(id)?.tensors,
        };
        let missing = || ReadError::Missing { what: format!("tensor {tensor:?}") };
        let meta = tensors.get(usize::from(tensor.index)).ok_or_else(missing)?;
        let segment = self.segment(meta.segment)?;
        Ok((meta, segment, meta.layout()))
    }
}
