//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ng_engine::EmbeddingCache;

use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::guard::Guard;
use crate::schedule::Scheduler;
use crate::telemetry::Metrics;
use crate::work::Work;

/// What all requests share.
pub struct State {
    /// How the server was set up when it started; a reload changes what `guard` has.
    pub config: Config,
    /// Who may ask for what, and how much.
    pub guard: Arc<Guard>,
    /// The numbers of this server.
    pub metrics: Metrics,
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
    /// Connections that are open.
    pub open: Arc<AtomicUsize>,
}

impl State {
    /// Why requests should not be sent here; `None` if they should.
    pub fn not_ready(&self) -> Option<String> {
        if self.guard.is_draining() {
            return Some("the server is about to end".to_owned());
        }
        let models = self.catalogue.models();
        let waits = models.iter().find(|model| model.engine.prepared().is_none())?;
        let share = waits.engine.ready() * 100.0;
        Some(format!("{} is prepared to {share:.0} %", waits.title()))
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}
