//! Fuzzes the ONNX reader: `fuzz_onnx --executions 1000000 --seed 7`.
//!
//! What lives here: the command line. What must not: the fuzzer, which tests run too. Exits with 1
//! at the first input that breaks a rule, and prints it.

#[path = "../tests/onnx_support/mod.rs"]
mod onnx_support;

use std::process::ExitCode;
use std::time::Instant;

use onnx_support::fuzz;

/// The number behind a flag.
fn option(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Most memory that the process had, in kB.
fn peak_memory_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn main() -> ExitCode {
    let (seed, executions) = (option("--seed", 1), option("--executions", 100_000));
    let start = Instant::now();
    match fuzz::run(seed, executions) {
        Ok(outcome) => {
            let rate = outcome.executions as f64 / start.elapsed().as_secs_f64();
            let peak = peak_memory_kb().unwrap_or(0);
            println!("seed {seed}: {outcome:?}, {rate:.0} executions/s, peak memory {peak} kB");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}
