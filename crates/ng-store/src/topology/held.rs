//! Topologies that a store holds for whoever samples from it: another of its caches.
//!
//! Lists that are read one by one cost a block each, and all of them at once cost one pass. When as
//! much has been read as the pass would take, it is made. Whatever follows, that costs at most
//! twice as much as the better of both would have (ski rental). The invariant: what is held here
//! goes as soon as a batch lacks the memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_types::EdgeTypeId;

use crate::topology::resident::ResidentTopology;

/// An edge type of the version with a fingerprint.
pub(crate) type Key = (EdgeTypeId, u64);

/// What is known of the topologies of a store.
#[derive(Default)]
pub(crate) struct HeldTopologies(Mutex<Vec<Held>>);

struct Held {
    key: Key,
    /// Bytes of the blocks that its lists were read from, since it was held the last time.
    read_bytes: u64,
    /// Somebody reads it, or it cannot be read.
    is_closed: bool,
    topology: Option<Arc<ResidentTopology>>,
}

impl HeldTopologies {
    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().filter_map(|held| held.topology.as_ref()).map(|t| t.num_bytes()).sum()
    }

    /// The one of `key`, if it is held.
    pub fn get(&self, key: Key) -> Option<Arc<ResidentTopology>> {
        self.with(key, |held| held.topology.clone())
    }

    /// The same, which is then held no longer.
    pub fn take(&self, key: Key) -> Option<Arc<ResidentTopology>> {
        self.with(key, |held| held.topology.take())
    }

    /// Counts bytes that lists were read from; whether it is time to read all, which takes `bytes`,
    /// and then the caller does.
    pub fn count(&self, key: Key, read_bytes: u64, bytes: u64) -> bool {
        self.with(key, |held| {
            held.read_bytes = held.read_bytes.saturating_add(read_bytes);
            let pays = !held.is_closed && held.topology.is_none() && held.read_bytes >= bytes;
            held.is_closed |= pays;
            pays
        })
    }

    /// Whether it is neither held nor being read by somebody; then the caller reads it.
    pub fn claim(&self, key: Key) -> bool {
        self.with(key, |held| {
            let is_free = !held.is_closed && held.topology.is_none();
            held.is_closed |= is_free;
            is_free
        })
    }

    /// Holds what was read. `None` where it was not: it is tried again when as much has been read
    /// once more, if it `may_come`.
    pub fn keep(&self, key: Key, topology: Option<Arc<ResidentTopology>>, may_come: bool) {
        self.with(key, |held| {
            held.is_closed = topology.is_none() && !may_come;
            held.read_bytes = 0;
            held.topology = topology;
        });
    }

    /// Lets go of the one that was met first; the bytes that come free by that, which are none as
    /// long as a batch uses it.
    pub fn drop_one(&self) -> u64 {
        let held = self.lock().iter_mut().find_map(|held| held.topology.take());
        held.and_then(Arc::into_inner).map_or(0, |topology| topology.num_bytes())
    }

    fn with<R>(&self, key: Key, look: impl FnOnce(&mut Held) -> R) -> R {
        let mut all = self.lock();
        let at = all.iter().position(|held| held.key == key).unwrap_or_else(|| {
            // Other versions are of interest for what they hold alone.
            all.retain(|held| held.key.0 != key.0 || held.topology.is_some());
            all.push(Held { key, read_bytes: 0, is_closed: false, topology: None });
            all.len() - 1
        });
        look(&mut all[at])
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
