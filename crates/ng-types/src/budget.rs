//! The memory budget of one open store: a counter from which every cache, buffer and batch reserves
//! before it allocates. So the peak is known and stays within the budget.
//!
//! There is no lock in it: arrays of a batch may be dropped in a forked child, where a lock that
//! another thread held at the fork would never open again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;

use crate::{MemoryUser, format_bytes};

/// A reservation would exceed the limit.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error(
    "the memory budget is too small for {purpose}: {} are needed, and {} of {} are free",
    format_bytes(*wanted_bytes), format_bytes(*free_bytes), format_bytes(*limit_bytes)
)]
pub struct BudgetExceeded {
    /// The purpose of the reservation.
    pub purpose: &'static str,
    /// The requested bytes.
    pub wanted_bytes: u64,
    /// The bytes that were free at that moment.
    pub free_bytes: u64,
    /// The limit of the budget.
    pub limit_bytes: u64,
}

impl BudgetExceeded {
    /// Returns the same error with a more precise purpose.
    #[must_use]
    pub fn for_purpose(self, purpose: &'static str) -> Self {
        Self { purpose, ..self }
    }

    /// Returns a budget in which the reservation would have succeeded beside all others. The memory
    /// for reading grows with the budget, so an eighth is added to the missing bytes.
    pub fn minimum_bytes(&self) -> u64 {
        let missing = self.wanted_bytes.saturating_sub(self.free_bytes);
        self.limit_bytes.saturating_add(missing).saturating_add(missing / 8)
    }
}

/// A byte budget shared by everything that belongs to one open store.
///
/// ```
/// use ng_types::Budget;
/// let budget = Budget::new(100);
/// let held = budget.reserve(60).expect("fits");
/// assert!(budget.reserve(60).is_err());
/// drop(held);
/// assert_eq!((budget.used_bytes(), budget.peak_bytes()), (0, 60));
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Budget {
    /// Returns the largest part of the budget that `user` may take.
    pub fn share(&self, user: MemoryUser) -> u64 {
        user.share(self.limit_bytes())
    }

    /// Creates a budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        let shared =
            Shared { limit: limit_bytes, used: AtomicU64::new(0), peak: AtomicU64::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// The limit.
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit
    }

    /// Returns the reserved bytes.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Returns the peak of the reserved bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.shared.peak.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`. The error contains the bytes that were free.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, BudgetExceeded> {
        self.take(bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: u64) -> Result<(), BudgetExceeded> {
        let limit_bytes = self.shared.limit;
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        match self.shared.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(before) => {
                self.shared.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => {
                let free_bytes = limit_bytes.saturating_sub(used);
                let purpose = "this operation";
                Err(BudgetExceeded { purpose, wanted_bytes: bytes, free_bytes, limit_bytes })
            }
        }
    }

    fn give(&self, bytes: u64) {
        self.shared.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes held from a [`Budget`]; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    /// How much is held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is of a budget.
    pub fn is_of(&self, budget: &Budget) -> bool {
        Arc::ptr_eq(&self.budget.shared, &budget.shared)
    }

    /// Splits `bytes` (at most all that it holds) off into a reservation of their own.
    pub fn split(&mut self, bytes: u64) -> Self {
        let taken = bytes.min(self.bytes);
        self.bytes -= taken;
        Self { budget: self.budget.clone(), bytes: taken }
    }

    /// Joins another reservation of the same budget into this one.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(other.is_of(&self.budget));
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Grows or shrinks the reservation to `bytes`.
    pub fn resize(&mut self, bytes: u64) -> Result<(), BudgetExceeded> {
        if bytes > self.bytes {
            self.budget.take(bytes - self.bytes)?;
        } else {
            self.budget.give(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reservation_changes_nothing_and_says_what_was_free() {
        let budget = Budget::new(10);
        let mut held = budget.reserve(4).expect("fits");
        let error = held.resize(11).expect_err("too much");
        assert_eq!((error.wanted_bytes, error.free_bytes, error.minimum_bytes()), (7, 6, 11));
        assert_eq!(budget.used_bytes(), 4);
        held.resize(1).expect("shrinks");
        assert_eq!(budget.used_bytes(), 1);
    }

    #[test]
    fn splitting_and_merging_keep_the_sum() {
        let budget = Budget::new(10);
        let mut held = budget.reserve(9).expect("fits");
        let part = held.split(4);
        assert_eq!((held.bytes(), part.bytes(), budget.used_bytes()), (5, 4, 9));
        drop(part);
        held.merge(budget.reserve(2).expect("fits"));
        assert_eq!((held.bytes(), budget.used_bytes()), (7, 7));
        drop(held);
        assert_eq!(budget.used_bytes(), 0);
    }
}
