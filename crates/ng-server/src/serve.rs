//! A server from its start to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ng_engine::{CacheStats, EmbeddingCache};
use ng_rpc::health::{ServingStatus, health_reporter};
use ng_rpc::listen::Bound;
use ng_rpc::{health, reflection};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::catalogue::{Catalogue, CatalogueError};
use crate::config::{Address, Config};
use crate::schedule::{Bounds, ScheduleStats, Scheduler};
use crate::state::State;
use crate::work::Work;
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
    /// The folder, or what was registered, cannot be read.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
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

    /// What was kept of answers, and handed out again.
    pub fn answers(&self) -> Option<CacheStats> {
        self.state.answers.as_ref().map(|answers| answers.stats())
    }

    /// Takes no more requests, waits for those under way, and ends.
    pub fn end(mut self) {
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
    let catalogue = Catalogue::open(&config, answers.clone())?;
    let addresses = config.listen.iter().zip(&bound).map(|(address, bound)| {
        bound.address().map_or_else(|| address.to_string(), |address| address.to_string())
    });
    let addresses = addresses.collect();
    let started = Instant::now();
    let work = Work::default();
    let state =
        State { config, catalogue, work, scheduler, answers, started, addresses, side_address };
    let state = Arc::new(state);
    let broken =
        |error: &dyn std::fmt::Display| ServeError::Interface { message: error.to_string() };
    let (reporter, health) = health_reporter();
    reporter.set_service_status("", ServingStatus::Serving).await;
    let reflection = reflection().map_err(|error| broken(&error))?;
    let routes = service::routes(&state).add_service(health).add_service(reflection).prepare();
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
