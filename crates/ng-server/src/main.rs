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
    /// Where to listen: HOST:PORT or unix:PATH. May be given several times.
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: Vec<Address>,
    /// The folder that plug-ins may be loaded from.
    #[arg(long)]
    plugins: Option<PathBuf>,
    /// Memory of each graph in bytes.
    #[arg(long)]
    memory: Option<u64>,
}

/// What this program is started with to try one plug-in, its standard input.
const TRIAL: &str = "try-plugin";

fn main() -> ExitCode {
    let mut given = std::env::args().skip(1);
    if let (Some(TRIAL), Some(seconds)) = (given.next().as_deref(), given.next()) {
        ng_plugin_host::run_probe(seconds.parse().unwrap_or(1));
    }
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Arguments { folder, listen, plugins, memory } = Arguments::parse();
    let plugin_trial =
        std::env::current_exe().ok().and_then(|own| own.into_os_string().into_string().ok());
    let plugin_trial = plugin_trial.map_or_else(Vec::new, |own| vec![own, TRIAL.to_owned()]);
    let config = Config { folder, listen, memory, plugins, plugin_trial, ..Config::default() };
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
