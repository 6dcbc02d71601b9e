//! What the server tells about itself: metrics and traces for machines, lines of a log for people.
//!
//! What must not live here: what is counted where. The invariant: two servers in one process do not
//! mix their numbers.

pub mod gauges;
pub mod log;
pub mod metrics;
mod stages;
pub mod traces;

pub use metrics::Metrics;
pub use stages::Stages;
pub use traces::Traces;
