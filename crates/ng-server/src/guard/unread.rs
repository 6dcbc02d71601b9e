//! [`Unread`]: the memory of answers that clients have not read yet.
//!
//! A client that reads slowly holds what was computed for it. All large answers together stay
//! inside a bound; small ones are bounded by the number of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ng_rpc::{Code, Problem};

/// Bytes of a small answer.
const SMALL: u64 = 64 << 10;
/// Bytes of all large answers together.
const BYTES_MAX: u64 = 256 << 20;
/// After how long it is worth trying again.
const RETRY: Duration = Duration::from_millis(100);

/// What is held of an answer until it has been sent, or its client is gone.
#[derive(Debug)]
pub struct Unread {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Unread {
    /// Holds an answer of `bytes` beside `all` others; nothing if it is small.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn hold(all: &Arc<AtomicU64>, bytes: u64) -> Result<Option<Self>, Problem> {
        if bytes <= SMALL {
            return Ok(None);
        }
        // The only one always fits.
        let room = |now: u64| (now == 0 || now + bytes <= BYTES_MAX).then_some(now + bytes);
        if all.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok() {
            return Ok(Some(Self { all: Arc::clone(all), bytes }));
        }
        let message = format!("clients have not read {BYTES_MAX} bytes of answers yet, the limit");
        Err(Problem::new(Code::ResourceExhausted, "UNREAD_ANSWERS", message)
            .remedy("read answers as they come, ask for fewer nodes at once, or try again later")
            .retry_about(RETRY))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_share_a_bound_and_small_ones_do_not_count() {
        let all = Arc::default();
        let huge = Unread::hold(&all, 2 * BYTES_MAX).expect("the only one").expect("large");
        assert!(Unread::hold(&all, SMALL).expect("small").is_none());
        let refused = Unread::hold(&all, SMALL + 1).expect_err("no room");
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::ResourceExhausted, "UNREAD_ANSWERS")
        );
        drop(huge);
        let _half = Unread::hold(&all, BYTES_MAX / 2).expect("room");
        let half = Unread::hold(&all, BYTES_MAX / 2).expect("room");
        assert!(Unread::hold(&all, SMALL + 1).is_err());
        drop(half);
        assert!(Unread::hold(&all, SMALL + 1).is_ok());
        assert_eq!(all.load(Ordering::SeqCst), BYTES_MAX / 2);
    }
}
