//! Users of an open store that hold its memory beyond the moment, and give it back when others lack
//! it.
//!
//! What must not live here: what the memory is for. The invariant: nobody is asked for the memory
//! of another store.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How a tenant gives its memory back, if it is not using it right now; with `true` for good.
/// Returns whether there was any.
type GiveWay = dyn Fn(bool) -> bool + Send + Sync;

/// Somebody who holds memory of a store.
pub struct Tenant {
    owner: Weak<dyn Any + Send + Sync>,
    give_way: Box<GiveWay>,
    is_reading: AtomicBool,
}

impl Tenant {
    /// A tenant for `owner` that is asked by `give_way`: for good where its argument is `true`. It
    /// returns whether there was anything to give back, and nothing is given back that is in use.
    pub fn new(
        owner: Weak<dyn Any + Send + Sync>,
        give_way: impl Fn(bool) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (give_way, is_reading) = (Box::new(give_way), AtomicBool::new(false));
        Arc::new(Self { owner, give_way, is_reading })
    }

    /// Says whether somebody takes batches from it.
    pub fn set_reading(&self, is_reading: bool) {
        self.is_reading.store(is_reading, Ordering::Relaxed);
    }
}

/// Memory that somebody keeps for its next use and that holds nothing.
pub struct Spare(Box<dyn Fn() -> u64 + Send + Sync>);

impl Spare {
    /// Memory that `drop_all` gives back; it returns how many bytes that was.
    pub fn new(drop_all: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self(Box::new(drop_all)))
    }
}

/// The tenants of a store.
#[derive(Default)]
pub struct Tenants {
    tenants: Mutex<Vec<Weak<Tenant>>>,
    spare: Mutex<Vec<Weak<Spare>>>,
}

impl Tenants {
    /// From now on `tenant` is asked when others lack memory.
    pub fn add(&self, tenant: &Arc<Tenant>) {
        let mut all = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0 && one.as_ptr() != Arc::as_ptr(tenant));
        all.push(Arc::downgrade(tenant));
    }

    /// From now on `spare` goes first when anybody lacks memory.
    pub fn add_spare(&self, spare: &Arc<Spare>) {
        let mut all = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(spare));
    }

    /// Gives back memory that is kept for its next use; returns its bytes.
    pub(crate) fn drop_spare(&self) -> u64 {
        let all = self.spare.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).map(|one| (one.0)()).sum()
    }

    /// Makes all but one give their memory back; whether anybody had some.
    pub fn make_room(&self, but: Option<&Arc<Tenant>>) -> bool {
        self.others(but).iter().fold(false, |any, one| (one.give_way)(false) | any)
    }

    /// Makes those give their memory back for good whom somebody takes batches from; whether there
    /// are any.
    pub fn make_readers_share(&self, but: &Arc<Tenant>) -> bool {
        let mut readers = self.others(Some(but));
        readers.retain(|one| one.is_reading.load(Ordering::Relaxed));
        for one in &readers {
            (one.give_way)(true);
        }
        !readers.is_empty()
    }

    /// What tenants are for that is of one type, but one of them: users of one store may know each
    /// other.
    pub fn owners<T: Any + Send + Sync>(&self, but: &Arc<Tenant>) -> Vec<Arc<T>> {
        let owners = self.others(Some(but)).into_iter().filter_map(|one| one.owner.upgrade());
        owners.filter_map(|owner| owner.downcast().ok()).collect()
    }

    fn others(&self, but: Option<&Arc<Tenant>>) -> Vec<Arc<Tenant>> {
        let all = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter_map(Weak::upgrade);
        others.filter(|one| but.is_none_or(|but| !Arc::ptr_eq(but, one))).collect()
    }
}
