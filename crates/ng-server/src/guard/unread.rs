//! [`Unread`]: the memory of answers that clients have not read yet.
//!
//! A client that reads slowly holds what was computed for it. All large answers together stay
//! inside a bound; small ones are bounded by the number of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ng_rpc::{Code, Problem};

use super::held::{Full, Held, Pool};

/// Bytes of a small answer.
const SMALL: u64 = 64 << 10;
/// Bytes of answers that are given back to the system together.
const FREED: u64 = 16 << 20;
/// After how long it is worth trying again.
const RETRY: Duration = Duration::from_millis(100);

/// All large answers.
#[derive(Debug, Default)]
pub struct Answers {
    pool: Arc<Pool>,
    freed: AtomicU64,
}

impl Answers {
    /// How many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.pool.bytes()
    }

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
    held: Held,
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
        let held = Held::new(&all.pool, own);
        held.grow_to(bytes, most).map_err(full)?;
        Ok(Some(Self { all: Arc::clone(all), held }))
    }
}

fn full(full: Full) -> Problem {
    let (who, most) = match full {
        Full::Token(most) => ("clients with this token have", most),
        Full::All(most) => ("all clients together have", most),
    };
    let message = format!("{who} {most} bytes of unread answers, which is the limit");
    Problem::new(Code::ResourceExhausted, "UNREAD_ANSWERS", message)
        .remedy("read answers as they arrive, request fewer nodes, or try again later")
        .retry_about(RETRY)
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.freed.fetch_add(self.held.give_back(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_share_a_bound_and_small_ones_do_not_count() {
        let most = 64 << 20;
        let all = Arc::default();
        let hold = |bytes| Unread::hold(&all, None, bytes, most);
        let huge = hold(2 * most).expect("the only one").expect("large");
        assert!(hold(SMALL).expect("small").is_none());
        let refused = hold(SMALL + 1).expect_err("no room");
        assert_eq!((refused.code, &*refused.reason), (Code::ResourceExhausted, "UNREAD_ANSWERS"));
        drop(huge);
        assert_eq!(all.freed.load(Ordering::SeqCst), 2 * most);
        assert!(hold(SMALL + 1).is_ok());
    }
}
