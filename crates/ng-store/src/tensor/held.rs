//! Tables of rows that a store holds for whoever reads them: another of its caches.
//!
//! As with topologies (`topology/held.rs`), rows that are read one by one cost a request each, and
//! all of them at once cost one pass. When as much has been read as the pass would, it is made.
//! What must not live here: loading. The invariant: what is held here goes when a batch lacks the
//! memory, unless the whole store shall be held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::page::Placed;
use crate::tensor::table::ResidentTable;

/// How often a table that others have is looked at again, a millisecond apart.
const LOOKS: u32 = 20;

/// What is known of the tables of a store.
pub(crate) struct HeldTables {
    all: Mutex<Vec<Held>>,
    /// Tables stay, whoever lacks memory.
    pub stay: bool,
}

/// A tensor as one checkpoint left it.
struct Held {
    placed: Arc<Placed>,
    /// Bytes of the blocks that its rows were read from since it was held the last time.
    read_bytes: u64,
    table: Option<Arc<ResidentTable>>,
}

impl HeldTables {
    /// None yet; with `stay` they are held whoever lacks memory.
    pub fn new(stay: bool) -> Self {
        Self { all: Mutex::default(), stay }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.lock().iter().filter_map(|held| held.table.as_ref()).map(|t| t.num_bytes()).sum()
    }

    /// The same of those that go when others lack the memory.
    pub fn bytes_to_spare(&self) -> u64 {
        if self.stay { 0 } else { self.bytes() }
    }

    /// Bytes of all but those of some segments.
    pub fn bytes_beside(&self, segments: &[u32]) -> u64 {
        let all = self.lock();
        let others = all.iter().filter(|held| !segments.contains(&held.placed.id));
        others.filter_map(|held| held.table.as_ref()).map(|table| table.num_bytes()).sum()
    }

    /// The one of `placed`, if it is held or being loaded.
    pub fn get(&self, placed: &Arc<Placed>) -> Option<Arc<ResidentTable>> {
        self.with(placed, |held| held.table.clone())
    }

    /// Counts bytes that rows were read from; whether that is as much as `bytes`, which all take.
    /// Counting then begins at 0.
    pub fn count(&self, placed: &Arc<Placed>, read_bytes: u64, bytes: u64) -> bool {
        self.with(placed, |held| {
            held.read_bytes = held.read_bytes.saturating_add(read_bytes);
            let pays = held.table.is_none() && held.read_bytes >= bytes;
            if pays {
                held.read_bytes = 0;
            }
            pays
        })
    }

    /// Holds a table from now on, unless there is one; whether it does.
    pub fn keep(&self, table: &Arc<ResidentTable>) -> bool {
        self.with(table.placed(), |held| {
            let is_new = held.table.is_none();
            held.read_bytes = 0;
            held.table.get_or_insert_with(|| Arc::clone(table));
            is_new
        })
    }

    /// Lets go of the tables of other versions of a tensor.
    pub fn drop_others(&self, placed: &Arc<Placed>) {
        for held in self.lock().iter_mut() {
            if held.placed.id == placed.id
                && !Arc::ptr_eq(&held.placed, placed)
                && let Some(table) = held.table.take()
            {
                table.stop();
            }
        }
    }

    /// Lets go of the one that was met first; the bytes that come free by that, which are none as
    /// long as a batch uses it. One that is being loaded is waited for: that ends with a chunk.
    pub fn drop_one(&self) -> u64 {
        if self.stay {
            return 0;
        }
        let table = self.lock().iter_mut().find_map(|held| held.table.take());
        table.map_or(0, |table| {
            table.stop();
            table.wait_for_end();
            // The thread that loaded it lets go of it next.
            for _ in 0..LOOKS {
                if Arc::strong_count(&table) == 1 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Arc::into_inner(table).map_or(0, |table| table.num_bytes())
        })
    }

    fn with<R>(&self, placed: &Arc<Placed>, look: impl FnOnce(&mut Held) -> R) -> R {
        let mut all = self.lock();
        let at = all.iter().position(|held| Arc::ptr_eq(&held.placed, placed));
        let at = at.unwrap_or_else(|| {
            // Other versions are of interest for what they hold alone.
            all.retain(|held| held.placed.id != placed.id || held.table.is_some());
            all.push(Held { placed: Arc::clone(placed), read_bytes: 0, table: None });
            all.len() - 1
        });
        look(&mut all[at])
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
