//! The list of deleted nodes of a node type: a bitmap in a segment of its own, written in one pass
//! and read as a whole.

use std::sync::Arc;

use ng_types::{NodeId, NodeTypeId};

use crate::catalog::BitmapMeta;
use crate::error::{BuildError, ReadError};
use crate::io::{BLOCK_BYTES, Disk};
use crate::page::{FinishedSegment, SegmentWriter};
use crate::store::Snapshot;
use crate::topology::GMAP_NODES;
use crate::tree::{BitmapWriter, TreeCursor, TreeKind, read_page, set_bits};

/// Writes the list; nodes ascend.
pub(crate) struct DeadNodesWriter {
    node_type: NodeTypeId,
    segment: u32,
    pages: SegmentWriter,
    bitmap: BitmapWriter,
    count: u64,
}

/// A finished list.
pub(crate) struct DeadNodesPart {
    pub node_type: NodeTypeId,
    pub meta: BitmapMeta,
    pub segment: FinishedSegment,
    pub count: u64,
}

impl DeadNodesWriter {
    pub fn create(
        disk: &Arc<dyn Disk>,
        node_type: NodeTypeId,
        segment: u32,
    ) -> Result<Self, BuildError> {
        let name = format!("n{}.dead", node_type.0);
        let pages = SegmentWriter::create(disk, segment, &name, BLOCK_BYTES as u32)?;
        Ok(Self { node_type, segment, pages, bitmap: BitmapWriter::new(), count: 0 })
    }

    pub fn push(&mut self, node: NodeId) -> Result<(), BuildError> {
        self.count += 1;
        self.bitmap.push(&mut self.pages, node)
    }

    pub fn finish(mut self) -> Result<DeadNodesPart, BuildError> {
        let root = self.bitmap.finish(&mut self.pages)?;
        let meta = BitmapMeta { segment: self.segment, root };
        let (node_type, count) = (self.node_type, self.count);
        Ok(DeadNodesPart { node_type, meta, segment: self.pages.finish()?, count })
    }
}

impl Snapshot {
    /// The ids of deleted nodes of a type, ascending.
    ///
    /// # Errors
    /// [`ReadError::Missing`], [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn dead_nodes(&self, node_type: NodeTypeId) -> Result<Vec<NodeId>, ReadError> {
        let Some(meta) = self.version.node_type(node_type)?.dead else {
            return Ok(Vec::new());
        };
        let (pages, segment) = (&self.inner.pages, self.version.segment(meta.segment)?);
        let mut cursor = TreeCursor::new(pages, segment, TreeKind::Gmap, meta.root);
        let mut found = Vec::new();
        while let Some(record) = cursor.next()? {
            let first = record.key * GMAP_NODES;
            let bits = read_page(pages, segment, record.page)?;
            found.extend(set_bits(&bits).map(|bit| first + bit));
        }
        Ok(found)
    }
}
