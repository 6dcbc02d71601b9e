//! What a run lends its kernels.

use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The threads of a run. Copies share them.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pool: Option<Arc<ThreadPool>>,
}

impl Context {
    /// With so many threads; the thread that runs the graph alone if one, or if they cannot be
    /// started.
    pub fn new(threads: usize) -> Self {
        let build = || ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = (threads > 1).then(build).and_then(Result::ok);
        Self { pool: pool.map(Arc::new) }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// The threads, if there are more than one.
    pub fn pool(&self) -> Option<&ThreadPool> {
        self.pool.as_deref()
    }
}
