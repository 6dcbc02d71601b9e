//! This host and its disk, from Python: measured, simulated, and replayed on the disk itself.

use std::path::Path;
use std::sync::Arc;

use ng_io::{BackendChoice, DependentReads, Gauge, OpenOptions, READ_BYTES_MAX, Reader, open_dir};
use ng_ssdsim::{Job, MeasuredHost, host_plans, run_on_host};
use pyo3::prelude::*;
use serde_json::json;

use crate::sim::{Trace, failed, parsed};

/// Bytes of the reads that are measured.
const BLOCK: u64 = 4096;

/// Random reads of a pass at one depth for each read in flight, and at most.
const READS_PER_DEPTH: u64 = 256;
const READS_MAX: u64 = 8192;

/// A file of a directory, open for reading.
struct OneFile {
    reader: Reader,
    file: ng_io::FileId,
    bytes: u64,
    backend: String,
}

impl OneFile {
    fn open(directory: &Path, name: &str) -> PyResult<Self> {
        let options = OpenOptions::default();
        let opened = open_dir(directory, BackendChoice::Auto, &options).map_err(failed)?;
        let backend = opened.disk.backend().to_owned();
        let reader = Reader::in_directory(opened.disk, directory);
        let file = reader.open(name).map_err(failed)?;
        let bytes = reader.len(file).map_err(failed)?;
        if bytes < READ_BYTES_MAX as u64 {
            let message =
                format!("{name} has {bytes} bytes; at least {READ_BYTES_MAX} are required");
            return Err(failed(message));
        }
        Ok(Self { reader, file, bytes, backend })
    }

    fn gauge(&self) -> Gauge<'_> {
        Gauge::new(&self.reader, self.file, self.bytes)
    }
}

/// Measures the rate of random reads at each queue depth, the bandwidth, and the processor time of
/// a read. Returns JSON.
#[pyfunction]
pub fn measure_host(
    py: Python<'_>,
    directory: &str,
    name: &str,
    depths: Vec<u32>,
) -> PyResult<String> {
    let file = OneFile::open(Path::new(directory), name)?;
    let measured = py.detach(|| {
        let gauge = file.gauge();
        let rate = |&depth: &u32| {
            let reads = (READS_PER_DEPTH * u64::from(depth)).min(READS_MAX);
            gauge.random(BLOCK, reads, depth as usize)
        };
        let reads_per_s = depths.iter().map(rate).collect::<Result<Vec<_>, _>>()?;
        let longest = READ_BYTES_MAX as u64;
        let bytes_per_s = gauge.sequential(longest)? * longest as f64;
        let cpu = gauge.cpu_of_read(READS_MAX)?;
        Ok((reads_per_s, bytes_per_s, cpu.as_nanos() as f64))
    });
    let (reads_per_s, bytes_per_s, cpu_ns) = measured.map_err(failed::<ng_io::ReadError>)?;
    let found = json!({
        "depths": depths, "reads_per_s": reads_per_s, "bytes_per_s": bytes_per_s,
        "read_bytes": BLOCK, "cpu_ns_per_read": cpu_ns, "backend": file.backend,
    });
    Ok(found.to_string())
}

/// Simulates a trace on a measured host. Returns JSON.
#[pyfunction]
pub fn simulate_host(py: Python<'_>, trace: &Trace, job: &str, host: &str) -> PyResult<String> {
    let (job, host): (Job, MeasuredHost) = (parsed(job)?, parsed(host)?);
    let trace = Arc::clone(&trace.inner);
    let run = py.detach(|| run_on_host(&trace, &job, &host));
    let run = run.map_err(failed)?;
    let mut row = json!(run);
    row["targets_per_s"] = json!(run.targets_per_s());
    Ok(row.to_string())
}

/// Makes the reads of each batch of a trace in a file. Returns the seconds of each batch.
#[pyfunction]
pub fn replay_on_host(
    py: Python<'_>,
    trace: &Trace,
    job: &str,
    directory: &str,
    name: &str,
    depth: usize,
) -> PyResult<Vec<f64>> {
    let job: Job = parsed(job)?;
    let plans = host_plans(&trace.inner, &job).map_err(failed)?;
    let file = OneFile::open(Path::new(directory), name)?;
    let seconds = py.detach(|| {
        let replay = |plan: &ng_ssdsim::Plan| {
            let blocks: Vec<u64> = (0..plan.len()).map(|command| block_of(plan, command)).collect();
            let reads =
                DependentReads { blocks: &blocks, children: &plan.children, roots: plan.roots };
            Ok(file.gauge().replay(&reads, depth)?.as_secs_f64())
        };
        plans.iter().map(replay).collect::<Result<Vec<_>, ng_io::ReadError>>()
    });
    seconds.map_err(failed)
}

/// Where a command's page lies in a file: pages far apart in the device are far apart there.
fn block_of(plan: &ng_ssdsim::Plan, command: usize) -> u64 {
    let page = u64::from(plan.row[command]) << 32
        | u64::from(plan.die[command]) << 8
        | u64::from(plan.plane[command]);
    page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16
}
