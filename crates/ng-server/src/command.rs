//! The server as a command: options, signals, exit codes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::{Address, Config, Serving, serve};

/// The server could not start.
const REFUSED: u8 = 2;

/// Answers about the nodes of graphs on disk, over gRPC and HTTP.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The folder whose stores (NAME.ng) are served.
    folder: PathBuf,
    /// Where to listen: HOST:PORT or unix:PATH. May be given several times.
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: Vec<Address>,
    /// Memory of each graph in bytes.
    #[arg(long)]
    memory: Option<u64>,
}

/// Runs a server until it is asked to end. `args` begin with the name of the program; the result is
/// the exit code. Takes SIGTERM and SIGINT for the whole process.
pub fn run_command<A: Into<OsString> + Clone>(args: impl IntoIterator<Item = A>) -> u8 {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _unheard = error.print();
            return error.exit_code().try_into().unwrap_or(REFUSED);
        }
    };
    let _other = tracing_subscriber::fmt().with_writer(std::io::stderr).try_init();
    let Arguments { folder, listen, memory } = arguments;
    let config = Config { folder, listen, memory, ..Config::default() };
    match serve(config).map_err(|error| error.to_string()).and_then(wait) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("error: {message}");
            REFUSED
        }
    }
}

/// Serves until the system asks it to end.
fn wait(serving: Serving) -> Result<(), String> {
    tracing::info!(at = ?serving.addresses(), side = serving.side_address(), "serving");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime.and_then(|runtime| {
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            Ok(())
        })
    });
    serving.end();
    asked.map_err(|error| error.to_string())
}
