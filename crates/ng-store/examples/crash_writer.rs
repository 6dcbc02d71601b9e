//! The writer of `tools/power_cut.py`: `build DIR SEED`, `write DIR SEED` (until it is killed; says
//! each commit that it acknowledges), `check DIR SEED ACKED`.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/common/child.rs"]
mod child;
#[path = "../tests/common/compare.rs"]
mod compare;
#[path = "../tests/common/graph.rs"]
mod graph;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, dir, seed, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: crash_writer build|write|check DIR SEED [ACKED]");
        return ExitCode::from(2);
    };
    let (dir, seed) = (Path::new(dir), seed.parse().unwrap());
    match what.as_str() {
        "build" => child::build(dir, seed),
        "write" => child::write_for_ever(dir, seed, &mut |line| println!("{line}")),
        _ => {
            let acked = rest.first().map_or(0, |acked| acked.parse().unwrap());
            let (mut graph, mut at) = (child::imported(seed), 0);
            if let Err(what) = child::look(dir, seed, (&mut graph, &mut at), acked) {
                println!("{what}");
                return ExitCode::FAILURE;
            }
            println!("lsn {at}");
        }
    }
    ExitCode::SUCCESS
}
