//! A server from its start to its end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ng_engine::EmbeddingCache;
use ng_rpc::health::{ServingStatus, health_reporter};
use ng_rpc::listen::Bound;
use ng_rpc::{Problem, health, reflection, reflection_v1alpha};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::accelerators::Accelerators;
use crate::catalogue::Catalogue;
use crate::config::{Address, Config};
use crate::graph::Graph;
use crate::jobs::Jobs;
use crate::sampling::Sampling;
use crate::schedule::{Bounds, ScheduleStats, Scheduler};
use crate::state::State;
use crate::{service, side};

/// Threads of the network: the engine has its own.
const NETWORK_THREADS: usize = 2;

/// Why a server does not start, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The system gives no threads or no sockets.
    #[error("the server cannot start: {source}")]
    System {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot listen at an address.
    #[error("nothing can listen at {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder cannot be read.
    #[error("{} cannot be served: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The bundle of devices is none.
    #[error("{message}: {remedy}")]
    Bundle {
        /// What is wrong.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// The descriptors of this build are broken.
    #[error("the interface of this build is broken: {message}")]
    Interface {
        /// How.
        message: String,
    },
}

/// A server that runs. It ends when it is dropped, or by [`Serving::end`].
pub struct Serving {
    runtime: Runtime,
    end: watch::Sender<bool>,
    work: Option<tokio::task::JoinHandle<()>>,
    state: Arc<State>,
}

impl Serving {
    /// Where it can be reached.
    pub fn addresses(&self) -> &[String] {
        &self.state.addresses
    }

    /// Where the side port is.
    pub fn side_address(&self) -> &str {
        &self.state.side_address
    }

    /// What the scheduler has done.
    pub fn schedule(&self) -> ScheduleStats {
        self.state.scheduler.stats()
    }

    /// Takes no more requests, waits for those under way, and ends.
    pub fn end(mut self) {
        self.state.jobs.end();
        let _nobody = self.end.send(true);
        if let Some(work) = self.work.take() {
            let drain = self.state.config.drain;
            let _late = self.runtime.block_on(async { tokio::time::timeout(drain, work).await });
        }
    }
}

/// Starts a server; returns once it can be reached.
///
/// # Errors
/// Every variant of [`ServeError`].
pub fn serve(config: Config) -> Result<Serving, ServeError> {
    let system = |source| ServeError::System { source };
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(NETWORK_THREADS).thread_name("ng-network").enable_all();
    let runtime = builder.build().map_err(system)?;
    let (end, ended) = watch::channel(false);
    let (state, work) = runtime.block_on(start(config, ended))?;
    let work = Some(runtime.spawn(work));
    Ok(Serving { runtime, end, work, state })
}

async fn start(
    config: Config,
    ended: watch::Receiver<bool>,
) -> Result<(Arc<State>, impl Future<Output = ()> + Send), ServeError> {
    let mut bound = Vec::new();
    for address in &config.listen {
        bound.push(bind(address).await?);
    }
    let side = side_address(&config, &bound);
    let failed = |source| ServeError::Listen { address: side.to_string(), source };
    let side_listener = TcpListener::bind(side).await.map_err(failed)?;
    let side_address = side_listener.local_addr().map_err(failed)?.to_string();
    let scheduler = Scheduler::start(config.lanes, config.scheduler, Bounds::default());
    let scheduler = scheduler.map_err(|source| ServeError::System { source })?;
    let keeps = config.scheduler.cache && config.cache > 0;
    let answers = keeps.then(|| Arc::new(EmbeddingCache::new(config.cache)));
    let accelerators = Accelerators::new(&config.bundle)
        .map_err(|Problem { message, remedy, .. }| ServeError::Bundle { message, remedy })?;
    let catalogue = Catalogue::default();
    open_graphs(&config, &catalogue)?;
    let addresses = config.listen.iter().zip(&bound).map(|(address, bound)| {
        bound.address().map_or_else(|| address.to_string(), |address| address.to_string())
    });
    let addresses = addresses.collect();
    let (started, jobs) = (Instant::now(), Jobs::new(config.jobs));
    let state = Arc::new(State {
        config,
        catalogue,
        accelerators,
        scheduler,
        jobs,
        sampling: Sampling::default(),
        answers,
        started,
        addresses,
        side_address,
    });
    let broken =
        |error: &dyn std::fmt::Display| ServeError::Interface { message: error.to_string() };
    let (reporter, health) = health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    let older = reflection_v1alpha().map_err(|error| broken(&error))?;
    let reflection = reflection().map_err(|error| broken(&error))?;
    let routes = service::routes(&state)
        .add_service(health)
        .add_service(reflection)
        .add_service(older)
        .prepare();
    let mut tasks = JoinSet::new();
    for one in bound {
        let (routes, ended) = (routes.clone(), ended.clone());
        tasks.spawn(async move {
            if let Err(error) = one.serve(routes, is_over(ended)).await {
                tracing::error!(%error, "a socket failed");
            }
        });
    }
    let router = side::router(Arc::clone(&state));
    tasks.spawn(async move {
        let served = axum::serve(side_listener, router).with_graceful_shutdown(is_over(ended));
        if let Err(error) = served.await {
            tracing::error!(%error, "the side port failed");
        }
    });
    let work = async move {
        let _reporter: health::HealthReporter = reporter;
        while tasks.join_next().await.is_some() {}
    };
    Ok((state, work))
}

async fn is_over(mut ended: watch::Receiver<bool>) {
    let _dropped = ended.wait_for(|over| *over).await;
}

async fn bind(address: &Address) -> Result<Bound, ServeError> {
    match address {
        Address::Tcp(address) => Bound::tcp(*address).await,
        Address::Unix(path) => Bound::unix(path),
    }
    .map_err(|source| ServeError::Listen { address: address.to_string(), source })
}

/// The port after that of the first TCP address, unless it is given.
fn side_address(config: &Config, bound: &[Bound]) -> SocketAddr {
    config.side.unwrap_or_else(|| {
        let first = bound.iter().find_map(Bound::address);
        let mut address = first.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let is_any = config
            .listen
            .iter()
            .any(|listen| matches!(listen, Address::Tcp(address) if address.port() == 0));
        let next = if is_any { 0 } else { address.port().wrapping_add(1) };
        address.set_port(next);
        address
    })
}

/// Serves each store of the folder under its name without the ending.
fn open_graphs(config: &Config, catalogue: &Catalogue) -> Result<(), ServeError> {
    let failed = |source| ServeError::Folder { path: config.folder.clone(), source };
    for path in ng_io::folders_in(&config.folder, "ng").map_err(failed)? {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        let limits = (config.memory, config.lanes);
        match Graph::open(name, &config.folder, Path::new(&path), limits) {
            Ok(graph) => {
                if let Err(problem) = catalogue.add_graph(Arc::new(graph)) {
                    tracing::error!(graph = name, "{}", problem.message);
                }
            }
            Err(problem) => tracing::error!(graph = name, "not served: {}", problem.message),
        }
    }
    Ok(())
}
