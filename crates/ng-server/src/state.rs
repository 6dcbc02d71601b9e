//! What all requests share.

use std::sync::Arc;
use std::time::Instant;

use ng_engine::EmbeddingCache;

use crate::accelerators::Accelerators;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::jobs::Jobs;
use crate::sampling::Sampling;
use crate::schedule::Scheduler;

/// What all requests share.
pub struct State {
    /// How the server is set up.
    pub config: Config,
    /// What is served.
    pub catalogue: Catalogue,
    /// The devices of all models.
    pub accelerators: Accelerators,
    /// What computes.
    pub scheduler: Scheduler,
    /// Jobs that wait, run and are kept.
    pub jobs: Jobs,
    /// Streams of mini-batches.
    pub sampling: Sampling,
    /// Answers that are kept, if they are.
    pub answers: Option<Arc<EmbeddingCache>>,
    /// When it started.
    pub started: Instant,
    /// Where it can be reached.
    pub addresses: Vec<String>,
    /// Where the side port is.
    pub side_address: String,
}
