//! What all requests share.

use std::sync::Arc;
use std::time::Instant;

use ng_engine::EmbeddingCache;

use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::schedule::Scheduler;
use crate::work::Work;

/// What all requests share.
pub struct State {
    /// How the server is set up.
    pub config: Config,
    /// What is served.
    pub catalogue: Catalogue,
    /// Who has room to read and to change graphs.
    pub work: Work,
    /// What computes.
    pub scheduler: Scheduler,
    /// Answers that are kept, if they are.
    pub answers: Option<Arc<EmbeddingCache>>,
    /// When it started.
    pub started: Instant,
    /// Where it can be reached.
    pub addresses: Vec<String>,
    /// Where the side port is.
    pub side_address: String,
}
