//! What a store and its snapshots share: files, caches, budget, costs of reads.
//!
//! What must not live here: versions of the store (all see the same), and who uses it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_io::NamedDir;
use ng_types::{Budget, MemoryUser, Reservation};

use crate::cache::division::Division;
use crate::cache::rows::{ROW_BYTES_MIN, RowCache, RowPool};
use crate::costs::DiskCosts;
use crate::costs::kept::KeptCosts;
use crate::direct::PageCaches;
use crate::error::ReadError;
use crate::page::{Pages, Placed};
use crate::rows::order::HeldOrders;
use crate::store::Tenants;
use crate::tensor::held::HeldTables;
use crate::tensor::layout::RowLayout;
use crate::topology::HeldTopologies;
use crate::version::base::Version;
use crate::version::changes::ChangeLog;
use crate::write::seen::Seen;

/// What a store and its snapshots share.
pub(crate) struct Inner {
    /// For messages.
    pub path: String,
    pub budget: Budget,
    pub pages: Pages,
    pub rows: RowCache,
    /// Pages of files of the direct layout.
    pub direct: PageCaches,
    /// Of tensors, by their segment.
    pub row_layouts: Vec<Option<RowLayout>>,
    pub rows_served: AtomicU64,
    pub rows_cached: AtomicU64,
    pub seen: Mutex<Seen>,
    /// What the last commits through this handle changed.
    pub changes: Mutex<ChangeLog>,
    /// What reads cost, once somebody has asked or said so.
    pub costs: Mutex<Option<DiskCosts>>,
    /// Where they are kept for other handles, if anywhere.
    pub kept_costs: Option<KeptCosts>,
    /// Orders of rows that somebody holds in memory.
    pub orders: HeldOrders,
    /// Topologies that it holds for whoever samples.
    pub topologies: HeldTopologies,
    /// Rows that it holds for whoever reads them.
    pub tables: HeldTables,
    pub tenants: Tenants,
    pub note: String,
    /// The directory; a disk of tests has none.
    pub place: Option<Arc<NamedDir>>,
    pub batch_timeout: Duration,
    pub go_on: fn() -> bool,
    pub division: Mutex<Division>,
    pub calm_batches: AtomicU64,
    /// Staging frames of the back end and slack, held as long as the store is open.
    pub staging: Reservation,
    /// Staging frames of one reading thread.
    pub staging_per_thread: u64,
}

impl Inner {
    /// The name of the back end that reads, or `memory` where everything is held there.
    pub fn backend(&self) -> &'static str {
        if self.tables.stay { "memory" } else { self.pages.reader.disk().backend() }
    }

    /// The cache of rows of a tensor; narrow ones have none.
    pub fn row_pool(&self, segment: &Placed, layout: RowLayout) -> Option<RowPool<'_>> {
        let width = layout.row_bytes();
        (width >= ROW_BYTES_MIN).then(|| self.rows.pool(segment.id as usize, width)).flatten()
    }

    /// Notes a version that new snapshots will see.
    pub fn see(&self, version: &Arc<Version>) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).publish(version);
    }

    pub fn lock_changes(&self) -> MutexGuard<'_, ChangeLog> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes memory for what the next commits change. Without it they go unnoted.
    pub fn pay_changes(&self) {
        let wants = self.lock_changes().wants(self.budget.share(MemoryUser::Changes));
        if let Some(held) = wants.and_then(|bytes| self.try_reserve(bytes).ok()) {
            self.lock_changes().pay(held);
        }
    }

    /// Whether anybody, here or in another process, may read what lies below `checkpoint_id`.
    pub fn is_read_below(&self, checkpoint_id: u64) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_read_below(checkpoint_id)
            || (!ng_types::canary::planted("ignore_other_pins")
                && self.pages.reader.disk().is_pinned_below(checkpoint_id).unwrap_or(true))
    }

    /// What reads cost, where that is known.
    pub fn known_costs(&self) -> Option<DiskCosts> {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on reads cost this.
    pub fn set_costs(&self, costs: DiskCosts) {
        *self.costs.lock().unwrap_or_else(PoisonError::into_inner) = Some(costs);
    }

    /// What reads cost, as it was kept or else measured on the file of a segment; a common disk's
    /// costs if that is too short to tell, so that plans for small stores are the same everywhere.
    pub fn kept_or_measured(&self, segment: &Placed) -> Result<DiskCosts, ReadError> {
        if !DiskCosts::are_measurable(segment) {
            return Ok(DiskCosts::default());
        }
        if let Some(kept) = self.kept_costs.as_ref().and_then(KeptCosts::read) {
            return Ok(kept);
        }
        let measured = DiskCosts::measure(&self.pages.reader, segment)?;
        if let Some(costs) = &measured {
            self.keep_costs(costs);
        }
        Ok(measured.unwrap_or_default())
    }

    pub fn keep_costs(&self, costs: &DiskCosts) {
        if let Some(kept) = &self.kept_costs {
            kept.write(costs);
        }
    }
}
