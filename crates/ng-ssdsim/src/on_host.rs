//! A trace on this host as it is (`CC-uring`): lists and rows apart, read without a barrier between
//! hops, computed by the discrete accelerator while the next batch is read.

use ng_types::Trace;
use serde::Serialize;

use crate::accelerator::Work;
use crate::host::{HostOutcome, MeasuredHost};
use crate::job::Job;
use crate::layout::{Format, Layout};
use crate::plan::Plan;
use crate::planning::{Asked, plan};
use crate::simulate::{SimulateError, visits};
use crate::time::{Picos, to_seconds};

/// One batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostBatch {
    /// Targets of it.
    pub targets: u64,
    /// Reading and computing overlap: the longer of the two.
    pub interval: Picos,
    /// The accelerator.
    pub compute: Picos,
    /// Reading.
    pub outcome: HostOutcome,
}

/// A trace on a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRun {
    /// Batch by batch.
    pub batches: Vec<HostBatch>,
}

impl HostRun {
    /// Targets a second, batch after batch.
    pub fn targets_per_s(&self) -> f64 {
        let targets: u64 = self.batches.iter().map(|batch| batch.targets).sum();
        let time: Picos = self.batches.iter().map(|batch| batch.interval).sum();
        targets as f64 / to_seconds(time)
    }
}

/// What a host reads for each batch of a trace.
pub fn host_plans(trace: &Trace, job: &Job) -> Result<Vec<Plan>, SimulateError> {
    trace.check()?;
    job.model.check()?;
    job.config.check()?;
    let layout =
        Layout::new(Format::Csr, &job.config, job.feature_bytes, job.mean_degree, job.placement);
    let layout = layout.of_trace(trace)?;
    let asked = Asked { sampled: false, streaming: true, sector_bytes: 0, chained: false };
    let plan = |batch| plan(trace, batch, &layout, &job.config.payload, asked);
    Ok((0..trace.batches()).map(plan).collect())
}

/// Runs a trace on a host; of `job` count the model, the discrete accelerator and the pages.
pub fn run_on_host(
    trace: &Trace,
    job: &Job,
    host: &MeasuredHost,
) -> Result<HostRun, SimulateError> {
    let plans = host_plans(trace, job)?;
    let outcomes = host.run_all(&plans)?;
    let batch = |(batch, outcome): (usize, HostOutcome)| {
        let visits = visits(trace, batch..batch + 1);
        let compute = job.config.discrete.time_of(&Work::of_batch(&job.model, &visits));
        let interval = outcome.makespan.max(compute);
        HostBatch { targets: visits[0], interval, compute, outcome }
    };
    let batches = outcomes.into_iter().enumerate().map(batch).collect();
    Ok(HostRun { batches })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Crowd, Dataset, Layer, Model, Placement, Reuse};

    fn job() -> Job {
        Job {
            platform: "CC".into(),
            config: Config::detailed(),
            placement: Placement::Random(1),
            feature_bytes: 800,
            mean_degree: 30.0,
            model: Model {
                columns: 400,
                hidden: 128,
                outputs: 10,
                backward: true,
                layer: Layer::Sage,
            },
            crowd: Crowd::default(),
            reuse: Reuse::default(),
        }
    }

    fn host() -> MeasuredHost {
        MeasuredHost {
            depths: vec![1, 64],
            reads_per_s: vec![10_000.0, 100_000.0],
            bytes_per_s: 1e9,
            read_bytes: 4096,
            cpu_ns_per_read: 1_000.0,
            cores: 2,
            depth: 64,
            cache_pages: 0,
        }
    }

    #[test]
    fn a_batch_takes_what_its_reads_take_at_the_rate_of_the_disk() {
        let trace = Dataset::by_name("amazon").unwrap().trace(3, 128, &[3, 3, 3], 5);
        let found = run_on_host(&trace, &job(), &host()).unwrap();
        assert_eq!(found.batches.len(), 3);
        for (batch, plan) in found.batches.iter().zip(host_plans(&trace, &job()).unwrap()) {
            // A list and a row for each node, in an order that leaves the queue full.
            assert_eq!(batch.outcome.reads, plan.len() as u64);
            assert!(batch.outcome.reads >= 2 * 128 * (1 + 3 + 9));
            let least = batch.outcome.reads as f64 / 100_000.0;
            let took = to_seconds(batch.outcome.makespan);
            assert!(took >= least && took < 1.2 * least, "{took} for at least {least}");
            assert_eq!(batch.interval, batch.outcome.makespan.max(batch.compute));
        }
        let slower = MeasuredHost { reads_per_s: vec![5_000.0, 50_000.0], ..host() };
        let slower = run_on_host(&trace, &job(), &slower).unwrap();
        let ratio = found.targets_per_s() / slower.targets_per_s();
        assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
    }

    #[test]
    fn nonsense_is_named() {
        let trace = Dataset::by_name("ppi").unwrap().trace(1, 4, &[2], 5);
        let none = MeasuredHost { cores: 0, ..host() };
        assert!(run_on_host(&trace, &job(), &none).unwrap_err().to_string().contains("cores"));
        let mut wide = job();
        wide.model.hidden = 0;
        assert!(matches!(run_on_host(&trace, &wide, &host()), Err(SimulateError::Model(_))));
    }
}
