//! One simulation as data: what a caller in another language says, and many of them at once.
//!
//! Runs share nothing, so they are spread over the processor's cores; the result does not depend on
//! how many there are.

use ng_types::Trace;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::accelerator::Model;
use crate::config::Config;
use crate::crowd::Crowd;
use crate::layout::{Format, Layout, Placement};
use crate::platform::Platform;
use crate::reuse::Reuse;
use crate::simulate::{Run, SimulateError, simulate};

/// A platform, a device and a graph's measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Name of the platform.
    pub platform: String,
    /// The device.
    pub config: Config,
    /// Who decides where a page lies.
    pub placement: Placement,
    /// Bytes of a row of features.
    pub feature_bytes: u32,
    /// Neighbours of a node, on average over the graph.
    pub mean_degree: f64,
    /// What is computed.
    pub model: Model,
    /// Who works at the same time.
    #[serde(default)]
    pub crowd: Crowd,
    /// What is read once for several.
    #[serde(default)]
    pub reuse: Reuse,
}

impl Job {
    /// Runs a trace.
    pub fn run(&self, trace: &Trace) -> Result<Run, SimulateError> {
        self.config.check()?;
        let platform = Platform::by_name(&self.platform)?;
        // If results start the next commands, the flash has no way to find rows that lie elsewhere.
        let together = self.config.features_beside_lists || platform.is_streaming();
        let format = if together { Format::Direct } else { Format::Csr };
        let (bytes, degree) = (self.feature_bytes, self.mean_degree);
        let layout = Layout::new(format, &self.config, bytes, degree, self.placement);
        let layout = layout.of_trace(trace)?;
        simulate(trace, &layout, &self.config, platform, &self.model, &self.crowd, &self.reuse)
    }
}

/// Runs jobs on the same trace, in their order; the first that fails is the answer.
pub fn run_all(trace: &Trace, jobs: &[Job]) -> Result<Vec<Run>, SimulateError> {
    jobs.par_iter().map(|job| job.run(trace)).collect()
}
