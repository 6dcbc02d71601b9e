//! `neargraph-server`: the server as one program without Python.

use std::process::ExitCode;

/// Answers are made on one thread and given back on another one. What the allocator of the C
/// library keeps for each thread grew for as long as a load went on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What this program is started with to try one plug-in, its standard input.
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
