//! [`Ring`]: listens for clients of this machine and serves each on threads of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ng_io::{ShmConnection, ShmError, ShmListener, ShmOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::service::Routes;

use super::connection::Connection;
use super::outbox::Outbox;
use crate::open::{Open, Slot};

/// How often it is looked whether the end was asked for.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether all requests have been answered.
const DRAIN_LOOK: Duration = Duration::from_millis(2);
/// How long clients may take to read the last answers.
const GOODBYE: Duration = Duration::from_millis(500);

/// Bounds on clients that come over rings.
#[derive(Clone)]
pub struct RingLimits {
    /// Clients at a time: each has one or two threads.
    pub connections: usize,
    /// Requests of a client at a time.
    pub streams: usize,
    /// Bytes of a message of a client.
    pub message_bytes: usize,
    /// How long a client may take to read an answer. Looked up again and again, so that it can be
    /// changed.
    pub reading: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// How long a thread looks for the next request before it sleeps; as the cores allow, unless
    /// given.
    pub spin: Option<Duration>,
    /// Is told when a client broke the rules and how.
    pub broken: Arc<dyn Fn(&str) + Send + Sync>,
    /// Counts connections that are open, of whatever kind.
    pub open: Arc<Open>,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self {
            connections: 16,
            streams: 256,
            message_bytes: 64 << 20,
            reading: Arc::new(|| Duration::from_secs(60)),
            spin: None,
            broken: Arc::new(|_| ()),
            open: Arc::default(),
        }
    }
}

/// A path where clients ask for rings; nobody is served yet.
pub struct Ring {
    listener: ShmListener,
    limits: RingLimits,
}

impl Ring {
    /// Listens at `path`, for this user alone. What a dead server left there is replaced.
    ///
    /// # Errors
    /// A server lives there, something else is there, or the system refuses.
    pub fn bind(path: &Path, limits: RingLimits) -> Result<Self, ShmError> {
        let mut options =
            ShmOptions { connections_max: limits.connections, ..ShmOptions::default() };
        options.spin = limits.spin.unwrap_or(options.spin);
        Ok(Self { listener: ShmListener::bind(path, options)?, limits })
    }

    /// Serves until `end` is over and requests under way have been answered.
    ///
    /// # Errors
    /// The system gives no thread.
    pub async fn serve(self, routes: Routes, end: impl Future<Output = ()>) -> std::io::Result<()> {
        let Self { listener, limits } = self;
        let shared = Arc::new(Shared {
            limits,
            routes,
            runtime: Handle::current(),
            is_over: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        // Ends all, also when this future is dropped.
        let running = Running(Arc::clone(&shared));
        let accepting = Arc::clone(&shared);
        let (open, closed) = oneshot::channel::<()>();
        thread::Builder::new().name("ng-ring-accept".into()).spawn(move || {
            accepting.accept(listener);
            drop(open);
        })?;
        tokio::select! {
            () = end => {}
            () = shared.watch_readers() => {}
        }
        shared.is_over.store(true, Ordering::SeqCst);
        let connections = shared.connections().clone();
        connections.iter().for_each(|connection| connection.drain());
        let idle = async {
            while !connections.iter().all(|connection| connection.is_idle()) {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        };
        tokio::select! {
            () = idle => {}
            () = shared.watch_readers() => {}
        }
        connections.iter().for_each(|connection| connection.finish());
        let goodbye = tokio::time::Instant::now() + GOODBYE;
        while !shared.connections().is_empty() && tokio::time::Instant::now() < goodbye {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        drop(running);
        // The path is free again.
        let _closed = closed.await;
        Ok(())
    }
}

struct Shared {
    limits: RingLimits,
    routes: Routes,
    runtime: Handle,
    is_over: AtomicBool,
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends connections whose answers are not read, for ever.
    async fn watch_readers(&self) {
        loop {
            let reading = (self.limits.reading)();
            tokio::time::sleep((reading / 4).max(DRAIN_LOOK)).await;
            let connections = self.connections().clone();
            let late = connections.iter().filter(|connection| connection.is_unread(reading));
            late.for_each(|connection| {
                connection.end();
                (self.limits.broken)("the client did not read an answer in time");
            });
        }
    }

    fn accept(self: &Arc<Self>, mut listener: ShmListener) {
        while !self.is_over.load(Ordering::SeqCst) {
            match listener.accept(Some(LOOK)) {
                Ok(Some(connection)) => self.take(connection),
                Ok(None) => {}
                Err(error) => {
                    (self.limits.broken)(&error.to_string());
                    thread::sleep(LOOK);
                }
            }
        }
    }

    fn take(self: &Arc<Self>, rings: ShmConnection) {
        let closer = rings.closer();
        let (sender, receiver) = rings.split();
        let outbox = Outbox::new(sender, closer, (self.limits.reading)());
        let RingLimits { streams, message_bytes, .. } = self.limits;
        let connection = Arc::new(Connection::new(outbox, streams, message_bytes));
        let (shared, served) = (Arc::clone(self), Arc::clone(&connection));
        let thread = thread::Builder::new().name("ng-ring-read".into());
        let slot = Slot::of_ring(&self.limits.open);
        self.connections().push(Arc::clone(&connection));
        if self.is_over.load(Ordering::SeqCst) {
            connection.drain();
            connection.finish();
        }
        let spawned = thread.spawn(move || {
            let broken = served.serve(receiver, &shared.routes, &shared.runtime);
            shared.forget(&served);
            drop(slot);
            if let Some(broken) = broken {
                (shared.limits.broken)(&broken);
            }
        });
        if spawned.is_err() {
            connection.end();
            self.forget(&connection);
            (self.limits.broken)("no thread could be started for a client");
        }
    }

    fn forget(&self, connection: &Arc<Connection>) {
        self.connections().retain(|other| !Arc::ptr_eq(other, connection));
    }
}

/// Ends all connections when it is dropped.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        let connections = self.0.connections().clone();
        connections.iter().for_each(|connection| connection.end());
    }
}
