//! [`Share`]: how much of what may be under way one token has, so that it leaves room for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ng_rpc::{Code, Problem};

use super::tokens::Holder;

/// One token has this part of a limit at most.
const PART: usize = 2;
/// After how long a request is worth trying again.
const RETRY: Duration = Duration::from_millis(50);

/// What a token has under way: calls, and streams.
#[derive(Default)]
pub struct UnderWay([AtomicUsize; 2]);

/// A place that a token has, until this is dropped.
pub struct Share {
    holder: Arc<Holder>,
    is_stream: bool,
}

impl Share {
    /// Takes one of `limit` places of all tokens together.
    ///
    /// # Errors
    /// The token has its part of them.
    pub fn take(holder: &Arc<Holder>, is_stream: bool, limit: usize) -> Result<Self, Problem> {
        let share = Self { holder: Arc::clone(holder), is_stream };
        let most = limit.div_ceil(PART);
        if share.count().fetch_add(1, Ordering::Relaxed) < most {
            return Ok(share);
        }
        let what = if is_stream { "streams" } else { "calls" };
        let message =
            format!("the token has {most} {what} under way, which is the limit of a token");
        Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
            .remedy("try again once one of them has ended")
            .retry_after(RETRY))
    }

    fn count(&self) -> &AtomicUsize {
        &self.holder.under_way.0[usize::from(self.is_stream)]
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}
