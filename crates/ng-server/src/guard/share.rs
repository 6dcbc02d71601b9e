//! [`Share`]: how much of what may be under way one token has, so that it leaves room for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ng_rpc::{Code, Problem};

/// One token has this part of a limit at most.
pub const PART: usize = 2;
/// After how long a request is worth trying again.
const RETRY: Duration = Duration::from_millis(50);

/// What a token has under way. It outlives a reload of the tokens.
#[derive(Default)]
pub struct UnderWay {
    counts: [AtomicUsize; 3],
    /// Bytes of its large requests.
    pub requests: Arc<AtomicU64>,
    /// Bytes of large answers that it has not read.
    pub unread: Arc<AtomicU64>,
}

/// Of what a token has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Calls.
    Calls,
    /// Streams.
    Streams,
    /// Streams of mini-batches.
    Samples,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Streams => "streams",
            Self::Samples => "streams of mini-batches",
        }
    }
}

/// A place that a token has, until this is dropped.
pub struct Share {
    of: Arc<UnderWay>,
    what: What,
}

impl Share {
    /// Takes one of `limit` places of all tokens together.
    ///
    /// # Errors
    /// The token has its part of them.
    pub fn take(of: &Arc<UnderWay>, what: What, limit: usize) -> Result<Self, Problem> {
        let share = Self { of: Arc::clone(of), what };
        let most = limit.div_ceil(PART);
        if share.count().fetch_add(1, Ordering::Relaxed) < most {
            return Ok(share);
        }
        let what = what.name();
        let message =
            format!("the token has {most} {what} in flight, which is the limit for one token");
        Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
            .remedy("try again after one of them has ended")
            .retry_about(RETRY))
    }

    fn count(&self) -> &AtomicUsize {
        &self.of.counts[self.what as usize]
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}
