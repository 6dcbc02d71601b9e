//! [`Pool`]: bytes that all callers hold together, and those of one token inside half of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One token has this part of a pool at most.
const PART: u64 = 2;

/// Bytes that are held.
#[derive(Debug, Default)]
pub struct Pool(AtomicU64);

impl Pool {
    /// How many there are.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whose bytes would be too many, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Those of the token.
    Token(u64),
    /// Those of all callers.
    All(u64),
}

/// Bytes of a pool, until this is dropped.
#[derive(Debug)]
pub struct Held {
    pool: Arc<Pool>,
    /// What the caller's token holds of it.
    own: Option<Arc<AtomicU64>>,
    bytes: AtomicU64,
}

impl Held {
    /// None yet.
    pub fn new(pool: &Arc<Pool>, own: Option<&Arc<AtomicU64>>) -> Self {
        Self { pool: Arc::clone(pool), own: own.cloned(), bytes: AtomicU64::new(0) }
    }

    /// Holds `bytes` in all, of a pool of `most`. If they do not fit, nothing changes.
    ///
    /// # Errors
    /// Whose bytes would be too many.
    pub fn grow_to(&self, bytes: u64, most: u64) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes.load(Ordering::SeqCst));
        let part = most.div_ceil(PART);
        if self.own.as_ref().is_some_and(|own| !take(own, more, part)) {
            return Err(Full::Token(part));
        }
        if !take(&self.pool.0, more, most) {
            if let Some(own) = &self.own {
                own.fetch_sub(more, Ordering::SeqCst);
            }
            return Err(Full::All(most));
        }
        self.bytes.fetch_add(more, Ordering::SeqCst);
        Ok(())
    }

    /// Gives all of it back; how much that was.
    pub fn give_back(&self) -> u64 {
        let bytes = self.bytes.swap(0, Ordering::SeqCst);
        self.pool.0.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(own) = &self.own {
            own.fetch_sub(bytes, Ordering::SeqCst);
        }
        bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Adds `bytes`, if they are no more than `most` then. The only ones always fit.
fn take(held: &AtomicU64, bytes: u64, most: u64) -> bool {
    let room = |now: u64| (now == 0 || now + bytes <= most).then_some(now + bytes);
    held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 64 << 20;

    #[test]
    fn all_share_a_pool_and_what_is_refused_counts_nowhere() {
        let pool = Arc::default();
        let hold = |bytes| {
            let held = Held::new(&pool, None);
            held.grow_to(bytes, MOST).map(|()| held)
        };
        let huge = hold(2 * MOST).expect("the only one");
        assert_eq!(hold(1).expect_err("no room"), Full::All(MOST));
        drop(huge);
        let half = hold(MOST / 2).expect("room");
        assert_eq!(half.grow_to(MOST + 1, MOST), Err(Full::All(MOST)));
        let other = hold(MOST / 2).expect("room");
        assert!(hold(1).is_err());
        drop(other);
        assert_eq!(half.grow_to(MOST, MOST), Ok(()));
        assert_eq!(half.give_back(), MOST);
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn a_token_leaves_half_of_a_pool_to_others() {
        let (pool, [one, other]) = (Arc::default(), [(); 2].map(|()| Arc::default()));
        let hold = |own| {
            let held = Held::new(&pool, Some(own));
            held.grow_to(MOST / 4, MOST).map(|()| held)
        };
        let _held = [hold(&one).expect("room"), hold(&one).expect("room")];
        assert_eq!(hold(&one).expect_err("its half is full"), Full::Token(MOST / 2));
        let rest = [hold(&other).expect("room"), hold(&other).expect("room")];
        drop(rest);
        assert_eq!(other.load(Ordering::SeqCst), 0);
        assert_eq!(one.load(Ordering::SeqCst), MOST / 2, "what was refused counts");
    }
}
