//! [`Stages`]: what the stages of a request for answers took.

use std::time::{Duration, Instant};

/// What the stages of a request for answers took, but for the encoding of its answer. Those of the
/// engine are of the whole group in which it was computed.
#[derive(Clone, Copy, Debug)]
pub struct Stages {
    /// When it was asked.
    pub asked: Instant,
    /// How long it waited for a lane.
    pub queue: Duration,
    /// How long neighbours were drawn, and lists read.
    pub sample: Duration,
    /// How long rows were read and copied.
    pub gather: Duration,
    /// How long the model ran, and all else that the lane did.
    pub run: Duration,
}

impl Stages {
    /// By name, in their order.
    pub fn named(&self) -> [(&'static str, Duration); 4] {
        let Self { queue, sample, gather, run, .. } = *self;
        [("queue", queue), ("sample", sample), ("gather", gather), ("run", run)]
    }
}
