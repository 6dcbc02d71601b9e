//! `neargraph-server`: the server as one program without Python.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ng_server::{Address, Config, Serving, serve};
use tokio::signal::unix::{SignalKind, signal};

/// Answers about the nodes of graphs on disk, over gRPC and HTTP.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The folder whose stores (NAME.ng) are served.
    folder: PathBuf,
    /// Where to listen: HOST:PORT, unix:PATH or shm:PATH. May be given several times.
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: Vec<Address>,
    /// Memory of each graph in bytes.
    #[arg(long)]
    memory: Option<u64>,
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Arguments { folder, listen, memory } = Arguments::parse();
    let config = Config { folder, listen, memory, ..Config::default() };
    match serve(config).map_err(|error| error.to_string()).and_then(wait) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
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
