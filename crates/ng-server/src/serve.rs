//! The life of a server, from start to shutdown.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::middleware;
use ng_engine::{CacheStats, EmbeddingCache};
use ng_rpc::health::{HealthReporter, ServingStatus, health_reporter};
use ng_rpc::listen::{Bound, Door, Open};
use ng_rpc::ring::RingLimits;
use ng_rpc::tonic::service::Routes;
use ng_rpc::{Problem, reflection, reflection_v1alpha, services};
use ng_types::canary::planted;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::accelerators::Accelerators;
use crate::catalogue::{Catalogue, Keeper};
use crate::config::{Address, Config};
use crate::door::{self, SideListener};
use crate::error::ServeError;
use crate::guard::Guard;
use crate::guard::gate::{SidePeer, gate};
use crate::jobs::Jobs;
use crate::reload::{self, Reloader};
use crate::sampling::Sampling;
use crate::schedule::{ScheduleStats, Scheduler};
use crate::state::State;
use crate::telemetry::{Metrics, Traces};
use crate::work::Work;
use crate::{service, side};

/// Network threads. The engine has its own threads.
const NETWORK_THREADS: usize = 2;

/// The interval at which the shutdown checks for unanswered requests.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// The interval of metric upkeep and of returning memory to the operating system.
const TIDY: Duration = Duration::from_secs(5);
/// The most requests in flight of a client over shared memory, which unlike HTTP/2 has no window.
const RING_STREAMS: usize = 1024;
/// The time for which a model without requests keeps its last snapshot.
const LATELY: Duration = Duration::from_secs(10);

/// A running server. It ends when it is dropped, or with [`Serving::end`].
pub struct Serving {
    runtime: Runtime,
    end: watch::Sender<bool>,
    work: Option<JoinHandle<()>>,
    state: Arc<State>,
    routes: Routes,
    health: HealthReporter,
    reloader: Arc<Reloader>,
    traces: Traces,
}

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Number of accepted requests that were not answered in time.
    pub unanswered: usize,
    /// Graphs without a checkpoint of their last commits, which the next start recovers from the
    /// log.
    pub not_closed: usize,
}

impl Serving {
    /// The addresses at which the server listens.
    pub fn addresses(&self) -> &[String] {
        &self.state.addresses
    }

    /// The address of the side port.
    pub fn side_address(&self) -> &str {
        &self.state.side_address
    }

    /// The counters of the scheduler.
    pub fn schedule(&self) -> ScheduleStats {
        self.state.scheduler.stats()
    }

    /// The counters of the answer cache, if there is one.
    pub fn answers(&self) -> Option<CacheStats> {
        self.state.answers.as_ref().map(|answers| answers.stats())
    }

    /// The services with their access control, for callers in this process.
    pub fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// The shared state of all requests.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    #[cfg(test)]
    pub(crate) fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Puts other settings in place where that needs no restart: tokens, quotas, certificates,
    /// limits. Returns the names of those that differ and need one.
    ///
    /// # Errors
    /// Tokens or certificates are wrong; nothing is changed then.
    pub fn reload(&self, config: Config) -> Result<Vec<&'static str>, ServeError> {
        self.reloader.reload(config)
    }

    /// Says that it is about to end, takes no more connections, answers the requests that it has
    /// accepted, and closes the graphs.
    pub fn end(mut self) -> Ended {
        let (delay, limit) = (self.state.config.drain_delay, self.state.config.drain);
        self.runtime.block_on(async {
            for service in services() {
                self.health.set_service_status(service, ServingStatus::NotServing).await;
            }
            self.state.guard.drain();
            self.state.jobs.end();
            sleep(delay).await;
        });
        self.state.guard.close();
        let _nobody = self.end.send(true);
        if let Some(work) = self.work.take().filter(|_| !planted("drain_waits_not")) {
            let _late = self.runtime.block_on(async { timeout(limit, work).await });
        }
        let (calls, streams) = self.state.guard.in_flight();
        self.traces.end();
        let graphs = self.state.catalogue.graphs();
        let closed = graphs.iter().filter(|graph| match graph.store.close_writer() {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(graph = graph.name, %error, "the graph was not closed");
                false
            }
        });
        let not_closed = graphs.len() - closed.count();
        // Work that cannot be interrupted, such as a backup, is not waited for without end.
        self.runtime.shutdown_timeout(limit);
        Ended { unanswered: calls + streams, not_closed }
    }
}

/// Starts a server; returns once it can be reached.
///
/// # Errors
/// Every variant of [`ServeError`].
pub fn serve(config: Config) -> Result<Serving, ServeError> {
    config.check()?;
    let (metrics, system) = (Metrics::new(), |source| ServeError::System { source });
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(NETWORK_THREADS).thread_name("ng-network").enable_all();
    let runtime = builder.build().map_err(system)?;
    let (end, ended) = watch::channel(false);
    let Started { state, routes, health, reloader, traces, work } =
        runtime.block_on(start(config, metrics, ended))?;
    Ok(Serving { runtime, end, work: Some(work), state, routes, health, reloader, traces })
}

struct Started {
    state: Arc<State>,
    routes: Routes,
    health: HealthReporter,
    reloader: Arc<Reloader>,
    traces: Traces,
    work: JoinHandle<()>,
}

async fn start(
    config: Config,
    metrics: Metrics,
    ended: watch::Receiver<bool>,
) -> Result<Started, ServeError> {
    let tls = reload::tls_of(&config)?;
    let traces = Traces::start(config.traces.as_deref())?;
    let told = (&metrics, traces.clone());
    let guard = Arc::new(Guard::new(reload::rules_of(&config)?, config.read_only, told));
    let scheduler = Scheduler::start(config.lanes, config.scheduler, config.group);
    let scheduler = scheduler.map_err(|source| ServeError::System { source })?;
    let keeps = config.scheduler.cache && config.cache > 0;
    let answers = keeps.then(|| Arc::new(EmbeddingCache::new(config.cache)));
    let keeper = Keeper::open(&config.folder)?;
    let accelerators = Accelerators::open(&config, keeper.kept().devices.as_ref())
        .map_err(|Problem { message, remedy, .. }| ServeError::Bundle { message, remedy })?;
    let how = (accelerators.compute(), answers.clone());
    let catalogue = Catalogue::open(&config, keeper, how)?;
    let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
    let open = Arc::<Open>::default();
    for address in &config.listen {
        let bound = bind(address, &rings(&guard, config.shm_spin, &open)).await?;
        let shown = bound.address().map_or_else(|| address.to_string(), |found| found.to_string());
        addresses.push(shown);
        sockets.push(bound);
    }
    let side = door::side_address(&config, &sockets);
    let side_socket = bind(&Address::Tcp(side), &RingLimits::default()).await?;
    let side = side_socket.address().unwrap_or(side);
    let state = Arc::new(State {
        guard: Arc::clone(&guard),
        metrics,
        catalogue,
        work: Work::default(),
        accelerators,
        jobs: Jobs::new(config.jobs),
        sampling: Sampling::default(),
        scheduler,
        answers,
        started: Instant::now(),
        addresses,
        side_address: side.to_string(),
        open,
        config,
    });
    let (health, routes) = routes(&state).await?;
    let is_local = side.ip().is_loopback();
    let door = door::of(&state, tls.clone(), Arc::clone(&state.open));
    let side_tls = tls.clone().filter(|_| !is_local);
    let side_door = door::of(&state, side_tls, Arc::<Open>::default());
    let side_listener = SideListener::new(side_socket, side_door, side);
    let work = work(&state, routes.clone(), (sockets, door), (side_listener, is_local), ended);
    let reloader = Arc::new(Reloader::new(Arc::clone(&state), tls));
    tokio::spawn(reload::watch_files(Arc::downgrade(&reloader)));
    let tidied = Arc::downgrade(&state);
    tokio::spawn(async move {
        loop {
            sleep(TIDY).await;
            let Some(state) = tidied.upgrade() else { return };
            let _ended = tokio::task::spawn_blocking(move || tidy_up(&state)).await;
        }
    });
    Ok(Started { state, routes, health, reloader, traces, work: tokio::spawn(work) })
}

/// Gives back what nobody needs any more.
fn tidy_up(state: &State) {
    state.metrics.tidy_up();
    state.guard.tidy_up();
    for model in state.catalogue.models() {
        if let Err(problem) = model.keep_up(LATELY) {
            tracing::warn!(
                model = model.title(),
                graph = model.graph.name,
                problem = problem.message,
                "the model stays at an older snapshot"
            );
        }
    }
}

/// All services, health and reflection among them, behind the gate.
async fn routes(state: &Arc<State>) -> Result<(HealthReporter, Routes), ServeError> {
    let (reporter, health) = health_reporter();
    for service in services() {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    let broken = |e: &dyn std::fmt::Display| ServeError::Interface { message: e.to_string() };
    let older = reflection_v1alpha().map_err(|error| broken(&error))?;
    let reflection = reflection().map_err(|error| broken(&error))?;
    let mut routes = service::routes(state);
    routes = routes.add_service(health).add_service(reflection).add_service(older);
    let router = routes.axum_router_mut();
    let layer = middleware::from_fn_with_state(Arc::clone(&state.guard), gate);
    *router = mem::take(router).layer(layer);
    Ok((reporter, routes.prepare()))
}

/// Serves until it is ended: first the services, then the side port, which shows how they end.
fn work(
    state: &Arc<State>,
    routes: Routes,
    (sockets, door): (Vec<Bound>, Arc<Door>),
    (side_listener, is_local): (SideListener, bool),
    ended: watch::Receiver<bool>,
) -> impl Future<Output = ()> + use<> {
    let mut tasks = JoinSet::new();
    for socket in sockets {
        let (routes, door, ended) = (routes.clone(), Arc::clone(&door), ended.clone());
        tasks.spawn(async move {
            if let Err(error) = socket.serve(routes, door, is_over(ended)).await {
                tracing::error!(%error, "a socket failed");
            }
        });
    }
    let router = side::router(state, is_local).into_make_service_with_connect_info::<SidePeer>();
    let guard = Arc::clone(&state.guard);
    let (end_side, side_ended) = watch::channel(false);
    let side = tokio::spawn(async move {
        let served = axum::serve(side_listener, router).with_graceful_shutdown(is_over(side_ended));
        if let Err(error) = served.await {
            tracing::error!(%error, "the side port failed");
        }
    });
    async move {
        while tasks.join_next().await.is_some() {}
        // Those over REST, which are answered while probes and metrics are, too.
        while guard.in_flight() != (0, 0) {
            sleep(DRAIN_LOOK).await;
        }
        let _nobody = end_side.send(true);
        // Connections that somebody keeps open there are not waited for.
        let _late = timeout(door::SIDE_PATIENCE, side).await;
    }
}

async fn is_over(mut ended: watch::Receiver<bool>) {
    let _dropped = ended.wait_for(|over| *over).await;
}

async fn bind(address: &Address, rings: &RingLimits) -> Result<Bound, ServeError> {
    match address {
        Address::Tcp(address) => Bound::tcp(*address).await,
        Address::Unix(path) => Bound::unix(path),
        Address::Shm(path) => Bound::ring(path, rings.clone()),
    }
    .map_err(|source| ServeError::Listen { address: address.to_string(), source })
}

/// Bounds on clients that come over rings: those of the server, and as many clients as there are
/// threads for.
fn rings(guard: &Arc<Guard>, spin: Option<Duration>, open: &Arc<Open>) -> RingLimits {
    let (limits, reading) = (&guard.rules().limits, Arc::clone(guard));
    RingLimits {
        connections: limits.ring_connections,
        streams: RING_STREAMS.max(limits.streams_per_connection as usize),
        message_bytes: usize::try_from(limits.message_bytes).unwrap_or(usize::MAX),
        spin,
        broken: Arc::new(|why: &str| tracing::warn!(why, "a client over shared memory was lost")),
        open: Arc::clone(open),
        reading: Arc::new(move || reading.rules().limits.reading),
    }
}
