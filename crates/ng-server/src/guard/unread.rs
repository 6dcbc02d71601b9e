//! [`Unread`]: the memory of answers that clients have not read yet.
//!
//! A client that reads slowly holds what was computed for it. All large answers together stay
//! inside a bound, and those of one token inside half of it; small ones are bounded by the number
//! of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ng_rpc::{Code, Problem};

/// Bytes of a small answer.
const SMALL: u64 = 64 << 10;
/// One token has this part of the bound at most.
const PART: u64 = 2;
/// Bytes of answers that are given back to the system together.
const FREED: u64 = 16 << 20;
/// After how long it is worth trying again.
const RETRY: Duration = Duration::from_millis(100);

/// All large answers.
#[derive(Debug, Default)]
pub struct Answers {
    held: AtomicU64,
    freed: AtomicU64,
}

impl Answers {
    /// Gives the memory of answers back to the system, if there were large ones. What allocators
    /// keep of answers is in no budget, and is not used again until as many are held.
    pub fn tidy_up(&self) {
        if self.freed.load(Ordering::Relaxed) >= FREED {
            self.freed.store(0, Ordering::Relaxed);
            ng_io::trim_allocator();
        }
    }
}

/// What is held of an answer until it has been sent, or its client is gone.
#[derive(Debug)]
pub struct Unread {
    all: Arc<Answers>,
    own: Option<Arc<AtomicU64>>,
    bytes: u64,
}

impl Unread {
    /// Holds an answer of `bytes` beside `all` others, `most` bytes together, and beside the
    /// token's `own`; nothing if it is small.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn hold(
        all: &Arc<Answers>,
        own: Option<&Arc<AtomicU64>>,
        bytes: u64,
        most: u64,
    ) -> Result<Option<Self>, Problem> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let part = most.div_ceil(PART);
        if !own.is_none_or(|own| take(own, bytes, part)) {
            return Err(full("the token has", part));
        }
        if !take(&all.held, bytes, most) {
            if let Some(own) = own {
                own.fetch_sub(bytes, Ordering::SeqCst);
            }
            return Err(full("clients have", most));
        }
        Ok(Some(Self { all: Arc::clone(all), own: own.cloned(), bytes }))
    }
}

/// Adds `bytes`, if they are no more than `most` then. The only ones always fit.
fn take(held: &AtomicU64, bytes: u64, most: u64) -> bool {
    let room = |now: u64| (now == 0 || now + bytes <= most).then_some(now + bytes);
    held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
}

fn full(who: &str, most: u64) -> Problem {
    let message = format!("{who} not read answers of {most} bytes yet, which is the limit");
    Problem::new(Code::ResourceExhausted, "UNREAD_ANSWERS", message)
        .remedy("read answers as they come, ask for fewer nodes at once, or try again later")
        .retry_about(RETRY)
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.held.fetch_sub(self.bytes, Ordering::SeqCst);
        self.all.freed.fetch_add(self.bytes, Ordering::Relaxed);
        if let Some(own) = &self.own {
            own.fetch_sub(self.bytes, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 64 << 20;

    #[test]
    fn large_answers_share_a_bound_and_small_ones_do_not_count() {
        let all = Arc::default();
        let hold = |bytes| Unread::hold(&all, None, bytes, MOST);
        let huge = hold(2 * MOST).expect("the only one").expect("large");
        assert!(hold(SMALL).expect("small").is_none());
        let refused = hold(SMALL + 1).expect_err("no room");
        assert_eq!((refused.code, &*refused.reason), (Code::ResourceExhausted, "UNREAD_ANSWERS"));
        drop(huge);
        let _half = hold(MOST / 2).expect("room");
        let half = hold(MOST / 2).expect("room");
        assert!(hold(SMALL + 1).is_err());
        drop(half);
        assert!(hold(SMALL + 1).is_ok());
        assert_eq!(all.held.load(Ordering::SeqCst), MOST / 2);
    }

    #[test]
    fn a_token_leaves_half_of_the_bound_to_others() {
        let (all, [one, other]) = (Arc::default(), [(); 2].map(|()| Arc::default()));
        let hold = |own| Unread::hold(&all, Some(own), MOST / 4, MOST);
        let _held = [hold(&one).expect("room"), hold(&one).expect("room")];
        let refused = hold(&one).expect_err("its half is full");
        assert!(refused.message.starts_with("the token has"), "{}", refused.message);
        let rest = [hold(&other).expect("room"), hold(&other).expect("room")];
        drop(rest);
        assert_eq!(other.load(Ordering::SeqCst), 0);
        assert_eq!(one.load(Ordering::SeqCst), MOST / 2, "what was refused counts");
    }
}
