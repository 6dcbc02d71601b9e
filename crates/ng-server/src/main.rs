//! `neargraph-server`: the server as one program without Python.

use std::process::ExitCode;

/// Answers are allocated on one thread and freed on another. With the allocator of the C library,
/// the memory kept for each thread grew during a load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The argument with which this program runs the trial of a plug-in.
const TRIAL: &str = "try-plugin";

fn main() -> ExitCode {
    let mut given = std::env::args().skip(1);
    if let (Some(TRIAL), Some(seconds)) = (given.next().as_deref(), given.next()) {
        ng_plugin_host::run_probe(seconds.parse().unwrap_or(1));
    }
    let own = std::env::current_exe().ok().and_then(|own| own.into_os_string().into_string().ok());
    let trial = own.map_or_else(Vec::new, |own| vec![own, TRIAL.to_owned()]);
    ExitCode::from(ng_server::run_command(std::env::args_os(), trial))
}
