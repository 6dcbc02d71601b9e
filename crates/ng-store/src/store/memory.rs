//! How the budget of a store goes to its caches and to batches.
//!
//! Batches come first: what they want is taken from the caches. What the caches may have moves by
//! and by to where it saves more reads ([`Division`]). What must not live here: what is kept. The
//! invariant: caches and batches together never pass the budget.

use std::sync::atomic::Ordering;
use std::sync::{PoisonError, Weak};
use std::time::{Duration, Instant};

use ng_types::{Budget, BudgetExceeded, MemoryUser, Reservation};

use crate::cache::division::Division;
use crate::cache::rows::ROW_BYTES_MIN;
use crate::catalog::{Catalog, SegmentMeta};
use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::rows::order::HeldOrders;
use crate::store::{Inner, MemoryShare};

/// The least that caches and one batch need beside the staging memory.
pub(crate) const WORKING_BYTES_MIN: u64 = 4 << 20;

/// How often a batch that waits for memory looks again. Such waits are rare and long.
const BATCH_POLL: Duration = Duration::from_millis(1);

/// How often memory is freed for a batch before another one, which took it, has to give some back.
const RECLAIMS: usize = 16;

/// Batches without shortage after which the row cache may grow again by a sixteenth, and memory may
/// move between the caches.
const CALM_BATCHES: u64 = 16;

/// What is set aside for what nobody can reserve: a share, and as much again, up to 2 MiB, for what
/// does not grow with the budget, such as stacks.
pub(super) fn slack_bytes(budget: &Budget) -> u64 {
    let share = budget.share(MemoryUser::Slack);
    share + share.min(2 << 20)
}

/// Divides `bytes` between the caches of a store and batches.
pub(crate) fn divide(catalog: &Catalog, bytes: u64) -> Division {
    let size = SegmentMeta::disk_bytes;
    let wide = catalog.all_tensors().filter(|t| t.layout().row_bytes() >= ROW_BYTES_MIN);
    let wide_bytes: u64 =
        wide.filter_map(|t| catalog.segments.get(t.segment as usize)).map(size).sum();
    let all_bytes: u64 = catalog.segments.iter().map(size).sum();
    // Shards fill unevenly and rows carry some bookkeeping, so allow more than the bare data.
    let (wide_bytes, other_bytes) = (wide_bytes / 2 * 3, (all_bytes - wide_bytes) / 2 * 3);
    let table_bytes = wide_bytes / 512;
    let other_bytes = other_bytes.saturating_add(table_bytes).max(WORKING_BYTES_MIN);
    Division::new(bytes, other_bytes, wide_bytes)
}

impl Inner {
    /// What a user may take of the budget, and has where that is known here.
    pub fn memory_of(&self, user: MemoryUser) -> MemoryShare {
        let held = |orders: &HeldOrders| {
            let orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.iter().filter_map(|(_, order)| order.upgrade()).map(|o| o.num_bytes()).sum()
        };
        let (blocks, rows) = self.division.lock().unwrap_or_else(PoisonError::into_inner).now();
        let (share, slack) = (self.budget.share(user), slack_bytes(&self.budget));
        let (share_bytes, held_bytes) = match user {
            MemoryUser::BlockCache => (blocks, Some(self.pages.share.used_bytes())),
            MemoryUser::RowCache => (rows, Some(self.rows.bytes())),
            MemoryUser::Metadata => (share, Some(self.metadata_bytes())),
            MemoryUser::DirectPages => (share, Some(self.direct_bytes())),
            MemoryUser::Resident => (share, Some(self.tables.bytes() + self.topologies.bytes())),
            MemoryUser::Orders => (share, Some(held(&self.orders))),
            MemoryUser::Changes => (share, Some(self.lock_changes().held_bytes())),
            MemoryUser::Staging => (share, Some(self.staging.bytes() - slack)),
            MemoryUser::Slack => (slack, Some(slack)),
            _ => (share, None),
        };
        MemoryShare { user, share_bytes, held_bytes }
    }

    /// What is left of the budget when the block cache has `block_bytes` and the row cache nothing.
    pub fn free_beside_blocks(&self, block_bytes: u64) -> u64 {
        let caches = self.rows.bytes()
            + self.direct_bytes()
            + self.topologies.bytes()
            + self.tables.bytes_to_spare()
            + self.pages.share.used_bytes();
        let others = self.budget.used_bytes().saturating_sub(caches);
        let blocks = block_bytes.min(self.pages.share.cap_bytes());
        self.budget.limit_bytes().saturating_sub(others + blocks)
    }

    fn metadata_bytes(&self) -> u64 {
        self.pages.metadata.as_ref().map_or(0, |metadata| metadata.held_bytes())
    }

    pub fn reclaim(&self, bytes: u64) -> u64 {
        let mut given = 0;
        while given < bytes {
            let mut chunk = self.drop_cached_chunk();
            if chunk == 0 && !self.tables.stay {
                chunk = self.topologies.drop_one();
            }
            if chunk == 0 {
                chunk = self.tables.drop_one();
            }
            if chunk == 0 {
                // The last: every other lookup begins there.
                chunk = self.pages.metadata.as_ref().map_or(0, |metadata| metadata.give_back());
            }
            if chunk == 0 {
                break;
            }
            given += chunk;
        }
        // What was taken for a batch must not be taken back by the next row.
        if given > 0 {
            self.rows.share().set_cap_bytes(self.rows.bytes());
            self.calm_batches.store(0, Ordering::Relaxed);
        }
        given
    }

    /// Gives back a piece of what is cheap to get again; returns its bytes.
    fn drop_cached_chunk(&self) -> u64 {
        let from_blocks = || {
            let cache = self.pages.cache.as_ref();
            cache.map_or(0, |cache| cache.drop_chunk(&self.pages.share))
        };
        let chunk = match self.tenants.drop_spare() {
            0 => self.rows.drop_chunk(),
            chunk => chunk,
        };
        let chunk = if chunk == 0 { self.drop_direct_chunk() } else { chunk };
        if chunk == 0 { from_blocks() } else { chunk }
    }

    /// Reserves from what is free, else from what [`Self::reclaim`] gives first; nothing that takes
    /// a pass to read goes for it.
    pub fn reserve_of_caches(&self, bytes: u64) -> Option<Reservation> {
        loop {
            if let Ok(held) = self.budget.reserve(bytes) {
                self.rows.share().set_cap_bytes(self.rows.bytes());
                return Some(held);
            }
            if self.drop_cached_chunk() == 0 {
                return None;
            }
        }
    }

    pub fn reserve_batch(&self, bytes: u64) -> Result<Reservation, ReadError> {
        let possible = bytes <= self.budget.limit_bytes() - self.staging.bytes();
        let deadline = Instant::now() + self.batch_timeout;
        loop {
            match self.try_reserve(bytes) {
                // Every look reclaims anew: readers may have cached into what was just freed.
                Err(_) if possible && Instant::now() < deadline => std::thread::sleep(BATCH_POLL),
                result => {
                    return Ok(result.map_err(|error| error.for_purpose("the requested rows"))?);
                }
            }
        }
    }

    /// Reserves from what is free, else from the caches, without waiting for anybody.
    pub fn try_reserve(&self, bytes: u64) -> Result<Reservation, BudgetExceeded> {
        match self.budget.reserve(bytes) {
            Ok(reservation) => {
                self.count_calm_batch();
                Ok(reservation)
            }
            Err(shortage) if bytes > self.budget.limit_bytes() - self.staging.bytes() => {
                // The caches stay, but they are not what is in the way.
                Err(BudgetExceeded { free_bytes: self.free_beside_blocks(0), ..shortage })
            }
            Err(mut shortage) => {
                // What was freed for one batch may go to another that lacks it at the same moment.
                for _ in 0..RECLAIMS {
                    let given = self.reclaim(bytes.saturating_sub(shortage.free_bytes));
                    match self.budget.reserve(bytes) {
                        Err(again) if given > 0 => shortage = again,
                        result => return result,
                    }
                }
                Err(shortage)
            }
        }
    }

    fn count_calm_batch(&self) {
        let calm = self.calm_batches.fetch_add(1, Ordering::Relaxed) + 1;
        if calm.is_multiple_of(CALM_BATCHES) {
            self.pages.metadata.iter().for_each(|metadata| metadata.take_back());
            let most = self.rebalance();
            let share = self.rows.share();
            share.set_cap_bytes((share.cap_bytes() + most / 16).min(most));
        }
    }

    /// Moves memory between the caches once it is clear where it saves more; returns what rows may
    /// have.
    fn rebalance(&self) -> u64 {
        let mut division = self.division.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(cache) = &self.pages.cache else { return division.now().1 };
        let costs = self.known_costs().unwrap_or_default();
        let blocks = cache.take_worth(costs.seconds(BLOCK_BYTES as u64));
        division.note(blocks, self.rows.take_worth(&costs));
        let (most, _) = self.room_for_topologies(&division);
        while self.topologies.bytes() > most && self.topologies.drop_one() > 0 {}
        let (blocks, rows) = self.beside_topologies(&division, self.topologies.bytes());
        let all = blocks + rows;
        let (of_blocks, of_rows) = (&self.pages.share, self.rows.share());
        of_rows.set_cap_bytes(of_rows.cap_bytes().min(rows));
        // Parts that somebody reads now cannot go, so one side grows as far as the other shrank.
        while of_rows.used_bytes() > rows && self.rows.drop_chunk() > 0 {}
        self.shrink_blocks(blocks.min(all.saturating_sub(of_rows.used_bytes())));
        rows.min(all.saturating_sub(of_blocks.used_bytes()))
    }

    fn shrink_blocks(&self, bytes: u64) {
        let share = &self.pages.share;
        share.set_cap_bytes(bytes);
        let Some(cache) = &self.pages.cache else { return };
        while share.used_bytes() > bytes && cache.drop_chunk(share) > 0 {}
    }

    /// What topologies that are held may take: what cached blocks of lists took before, and the
    /// share of the row cache as long as nobody reads rows. Then what the latter is.
    fn room_for_topologies(&self, division: &Division) -> (u64, u64) {
        let most = self.budget.share(MemoryUser::Topology);
        if self.tables.bytes() > 0 {
            // Where rows are held, the caches serve hardly anything.
            return (self.budget.limit_bytes(), self.budget.limit_bytes());
        }
        if self.pages.cache.is_none() {
            return (most, most);
        }
        let unused = if self.rows.bytes() == 0 { division.now().1 } else { 0 };
        let of_blocks = division.blocks.start - division.blocks.start / 8;
        (most.min(of_blocks + unused), unused)
    }

    /// What blocks, such as those of indexes and page tables, and rows have beside topologies of
    /// `held` bytes.
    fn beside_topologies(&self, division: &Division, held: u64) -> (u64, u64) {
        let (blocks, rows) = division.now();
        let (_, unused) = self.room_for_topologies(division);
        let least = blocks.min(division.blocks.start / 8);
        let left = blocks.saturating_sub(held.saturating_sub(unused)).max(least);
        (left, rows.min((blocks + rows).saturating_sub(held + left)))
    }

    /// Makes room for a topology of `bytes`; whether there is some. Older ones go for it, and
    /// blocks, which it makes superfluous, but no rows.
    pub fn make_room_for_topology(&self, bytes: u64) -> bool {
        let division = self.division.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, _) = self.room_for_topologies(&division);
        if bytes > most {
            return false;
        }
        while self.topologies.bytes() > most - bytes && self.topologies.drop_one() > 0 {}
        self.shrink_blocks(self.beside_topologies(&division, self.topologies.bytes() + bytes).0);
        true
    }
}

impl Inner {
    /// Bytes that files of the direct layout hold in memory.
    pub fn direct_bytes(&self) -> u64 {
        let caches = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        caches.iter().filter_map(Weak::upgrade).map(|cache| cache.bytes()).sum()
    }

    /// Gives one chunk of the largest of these caches back; returns its bytes.
    pub fn drop_direct_chunk(&self) -> u64 {
        let mut caches = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.strong_count() > 0);
        let largest = caches.iter().filter_map(Weak::upgrade).max_by_key(|cache| cache.bytes());
        drop(caches);
        largest.map_or(0, |cache| cache.drop_chunk())
    }
}
