//! Which versions of a store somebody may still look at, and which nodes were deleted since.
//!
//! It belongs to the open store and outlives its writers, as snapshots do. Invariant: an id that
//! was deleted is free only once no snapshot of this process shows its node, and so is a page that
//! one reads.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Weak};

use ng_types::NodeTypeId;

use crate::version::base::{Base, Version};

/// Dead versions between living ones are looked for when there are so many.
const VERSIONS_MAX: usize = 1024;

/// Versions that were published, and deleted nodes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// With their last commit, oldest first.
    versions: VecDeque<(u64, Weak<Version>)>,
    /// The checkpoints that they stand on, oldest first.
    bases: Vec<Weak<Base>>,
    /// Nodes that a version may still show, with the commit that deleted them, oldest first.
    deleted: VecDeque<(u64, (NodeTypeId, u64))>,
    /// The same nodes.
    shown: HashSet<(NodeTypeId, u64)>,
}

impl Seen {
    /// Notes a version that new snapshots will see.
    pub fn publish(&mut self, version: &Arc<Version>) {
        if self.versions.len() >= VERSIONS_MAX {
            self.versions.retain(|(_, version)| version.strong_count() > 0);
        }
        self.versions.push_back((version.lsn, Arc::downgrade(version)));
        self.drop_dead();
        let base = Arc::downgrade(&version.base);
        if !self.bases.last().is_some_and(|last| last.ptr_eq(&base)) {
            self.bases.retain(|base| base.strong_count() > 0);
            self.bases.push(base);
        }
    }

    /// Whether a version that stands on a checkpoint below `checkpoint_id` may be read.
    pub fn is_read_below(&self, checkpoint_id: u64) -> bool {
        self.bases.iter().filter_map(Weak::upgrade).any(|base| base.checkpoint_id < checkpoint_id)
    }

    /// Notes nodes that commit `lsn`, the newest one, deletes.
    pub fn delete(&mut self, lsn: u64, nodes: impl Iterator<Item = (NodeTypeId, u64)>) {
        for node in nodes.filter(|node| self.shown.insert(*node)) {
            self.deleted.push_back((lsn, node));
        }
    }

    /// Forgets the oldest versions, up to one that is alive, and nodes that no version shows.
    fn drop_dead(&mut self) {
        let is_dead = |(_, version): &(u64, Weak<Version>)| version.strong_count() == 0;
        while self.versions.front().is_some_and(is_dead) {
            self.versions.pop_front();
        }
        let oldest = self.versions.front().map_or(u64::MAX, |(lsn, _)| *lsn);
        while let Some((_, node)) = self.deleted.front().filter(|(lsn, _)| *lsn <= oldest) {
            self.shown.remove(node);
            self.deleted.pop_front();
        }
    }

    /// Whether the id of a deleted node may be given out again.
    pub fn may_reuse(&mut self, node_type: NodeTypeId, id: u64) -> bool {
        self.drop_dead();
        !self.shown.contains(&(node_type, id))
    }
}
