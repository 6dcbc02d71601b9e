//! Blocking calls, on the client's own runtime.

use std::mem;
use std::pin::pin;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ng_rpc::Status;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::calls::AsyncClient;
use crate::driven::Driven;
use crate::settings::{ClientError, Settings};

/// How often a call that waits looks whether it goes on.
const LOOK: Duration = Duration::from_millis(100);

/// A client with blocking calls, for any number of threads.
///
/// It can be used on both sides of a fork: the child connects on its first call.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    here: Mutex<Option<Arc<Here>>>,
}

/// What belongs to one process: threads and sockets do not survive a fork.
#[derive(Debug)]
struct Here {
    process: u32,
    /// For calls that are waited for; there until it is dropped.
    waited: Option<(Driven, AsyncClient)>,
    /// For calls that go on by themselves, once there are any.
    started: OnceLock<(Runtime, AsyncClient)>,
}

impl Here {
    fn new(settings: &Settings) -> Result<Self, ClientError> {
        let driven = Driven::new()?;
        let entered = driven.runtime().enter();
        let calls = AsyncClient::new(settings)?;
        drop(entered);
        Ok(Self { process: process::id(), waited: Some((driven, calls)), started: OnceLock::new() })
    }

    fn started(&self, settings: &Settings) -> Result<&(Runtime, AsyncClient), Status> {
        if self.started.get().is_none() {
            let made = start(settings).map_err(|error| Status::unavailable(error.to_string()))?;
            if let Err((second, _)) = self.started.set(made) {
                second.shutdown_background();
            }
        }
        self.started.get().ok_or_else(|| Status::internal("a runtime was not kept"))
    }
}

/// A thread that drives calls.
fn start(settings: &Settings) -> Result<(Runtime, AsyncClient), ClientError> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("ng-client").enable_all();
    let runtime = builder.build()?;
    let entered = runtime.enter();
    let calls = AsyncClient::new(settings)?;
    drop(entered);
    Ok((runtime, calls))
}

impl Drop for Here {
    fn drop(&mut self) {
        let (waited, started) = (self.waited.take(), self.started.take());
        if self.process != process::id() {
            // Its threads and their locks are those of the parent: ending them might never end.
            mem::forget((waited, started));
        } else if let Some((runtime, _)) = started {
            runtime.shutdown_background();
        }
    }
}

/// A call in the background.
#[derive(Debug)]
pub struct Running(AbortHandle);

impl Running {
    /// Cancels the call, also at the server.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

impl Client {
    /// Creates a client of the server at `address`: `HOST:PORT`, `unix:PATH` or `shm:PATH`. It
    /// connects on first use, and does not retry calls.
    ///
    /// # Errors
    /// Every variant of [`ClientError`].
    pub fn new(address: &str, timeout: Option<Duration>) -> Result<Self, ClientError> {
        Self::with(Settings { address: address.to_owned(), timeout, ..Settings::default() })
    }

    /// Creates a client with settings. It connects on first use.
    ///
    /// # Errors
    /// Every variant of [`ClientError`].
    pub fn with(settings: Settings) -> Result<Self, ClientError> {
        let here = Arc::new(Here::new(&settings)?);
        Ok(Self { settings, here: Mutex::new(Some(here)) })
    }

    fn here(&self) -> Result<Arc<Here>, Status> {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        match here.as_ref() {
            None => Err(Status::cancelled("the client is closed")),
            Some(found) if found.process == process::id() => Ok(Arc::clone(found)),
            Some(_) => {
                let made = Here::new(&self.settings)
                    .map_err(|error| Status::unavailable(error.to_string()))?;
                let made = Arc::new(made);
                if let Some(of_parent) = here.replace(Arc::clone(&made)) {
                    mem::forget(of_parent);
                }
                Ok(made)
            }
        }
    }

    /// Waits for the future that `ask` makes of the client.
    ///
    /// # Errors
    /// The error of the future, or `Cancelled` if the client is closed.
    pub fn wait<T, F: Future<Output = Result<T, Status>>>(
        &self,
        ask: impl FnOnce(AsyncClient) -> F,
    ) -> Result<T, Status> {
        let here = self.here()?;
        let waited = here.waited.as_ref();
        let (driven, calls) = waited.ok_or_else(|| Status::internal("a client was dropped"))?;
        driven.wait(ask(calls.clone()))
    }

    /// Like [`Client::wait`], but cancels the call if `go_on`, which is called periodically,
    /// returns false.
    ///
    /// # Errors
    /// As [`Client::wait`].
    pub fn wait_while<T, F: Future<Output = Result<T, Status>>>(
        &self,
        go_on: impl Fn() -> bool,
        ask: impl FnOnce(AsyncClient) -> F,
    ) -> Result<T, Status> {
        self.wait(|calls| async move {
            let mut call = pin!(ask(calls));
            loop {
                if let Ok(answer) = timeout(LOOK, &mut call).await {
                    return answer;
                }
                if !go_on() {
                    return Err(Status::cancelled("the call was cancelled"));
                }
            }
        })
    }

    /// Starts the future that `ask` makes of the client. `done` is called with the result on
    /// another thread.
    ///
    /// # Errors
    /// The client is closed.
    pub fn start<T: Send + 'static, F>(
        &self,
        ask: impl FnOnce(AsyncClient) -> F,
        done: impl FnOnce(Result<T, Status>) + Send + 'static,
    ) -> Result<Running, Status>
    where
        F: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let here = self.here()?;
        let (runtime, calls) = here.started(&self.settings)?;
        let call = ask(calls.clone());
        let task = runtime.spawn(async move { done(call.await) });
        Ok(Running(task.abort_handle()))
    }

    /// Closes the connection after all waiting calls have ended. Calls in the background are
    /// dropped.
    pub fn close(&self) {
        drop(self.here.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
