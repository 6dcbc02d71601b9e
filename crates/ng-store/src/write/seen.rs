//! Which versions of a store somebody may still look at, and which nodes were deleted since.
//!
//! It belongs to the open store and outlives its writers, as snapshots do. Invariant: an id that
//! was deleted is free only once no snapshot of this process shows its node, and so is a page that
//! one reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use ng_types::NodeTypeId;

use crate::version::{Base, Version};

/// Dead versions are looked for when there are so many.
const VERSIONS_MAX: usize = 1024;

/// Versions that were published, and deleted nodes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// With their last commit.
    versions: Vec<(u64, Weak<Version>)>,
    /// The checkpoints that they stand on, oldest first.
    bases: Vec<Weak<Base>>,
    /// With the commit that deleted them.
    deleted: BTreeMap<(NodeTypeId, u64), u64>,
}

impl Seen {
    /// Notes a version that new snapshots will see.
    pub fn publish(&mut self, version: &Arc<Version>) {
        if self.versions.len() >= VERSIONS_MAX {
            self.drop_dead();
        }
        self.versions.push((version.lsn, Arc::downgrade(version)));
        let base = Arc::downgrade(&version.base);
        if !self.bases.last().is_some_and(|last| last.ptr_eq(&base)) {
            self.bases.retain(|base| base.strong_count() > 0);
            self.bases.push(base);
        }
    }

    /// Whether a version that stands on an epoch below `epoch` may be read.
    pub fn is_read_below(&self, epoch: u64) -> bool {
        self.bases.iter().filter_map(Weak::upgrade).any(|base| base.epoch < epoch)
    }

    /// Notes nodes that commit `lsn` deletes.
    pub fn delete(&mut self, lsn: u64, nodes: impl Iterator<Item = (NodeTypeId, u64)>) {
        self.deleted.extend(nodes.map(|node| (node, lsn)));
    }

    fn drop_dead(&mut self) {
        self.versions.retain(|(_, version)| version.strong_count() > 0);
        let oldest = self.oldest();
        self.deleted.retain(|_, lsn| *lsn > oldest);
    }

    /// The last commit of the oldest version that is alive.
    fn oldest(&self) -> u64 {
        let alive = self.versions.iter().filter(|(_, version)| version.strong_count() > 0);
        alive.map(|(lsn, _)| *lsn).min().unwrap_or(u64::MAX)
    }

    /// Whether the id of a deleted node may be given out again.
    pub fn may_reuse(&mut self, node_type: NodeTypeId, id: u64) -> bool {
        let Some(lsn) = self.deleted.get(&(node_type, id)).copied() else {
            return true;
        };
        if lsn > self.oldest() {
            self.drop_dead();
            return false;
        }
        self.deleted.remove(&(node_type, id));
        true
    }
}
