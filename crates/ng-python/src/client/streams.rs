//! Streams that are open. They belong to the process that opened them: neither their threads nor
//! their connections survive a fork.

use std::mem::ManuallyDrop;
use std::process;
use std::sync::Arc;

use ng_rpc::{Status, v1};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::sync::{Mutex, watch};

use super::replies::Reply;

/// What belongs to one process, and is neither used nor dropped in another one: a lock of it may
/// have been held by a thread that a child does not have.
struct Held<T> {
    process: u32,
    inner: ManuallyDrop<Arc<Inner<T>>>,
}

struct Inner<T> {
    open: Mutex<Option<T>>,
    /// Ends what waits.
    closed: watch::Sender<bool>,
}

impl<T> Held<T> {
    fn new(open: T) -> Self {
        let inner = Inner { open: Mutex::new(Some(open)), closed: watch::Sender::new(false) };
        Self { process: process::id(), inner: ManuallyDrop::new(Arc::new(inner)) }
    }

    fn here(&self, what: &str) -> PyResult<Arc<Inner<T>>> {
        if self.process == process::id() {
            return Ok(Arc::clone(&self.inner));
        }
        let message = format!(
            "{what} was opened before this process was forked; open it again in this process"
        );
        Err(PyRuntimeError::new_err(message))
    }

    fn close(&self) {
        if self.process == process::id() {
            self.inner.closed.send_replace(true);
            if let Ok(mut open) = self.inner.open.try_lock() {
                drop(open.take());
            }
        }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        if self.process == process::id() {
            // SAFETY: it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.inner) }
        }
    }
}

impl<T> Inner<T> {
    async fn until_closed(&self) {
        let mut closed = self.closed.subscribe();
        // The sender is a field beside it, so that it does not go first.
        let _closed = closed.wait_for(|closed| *closed).await;
    }
}

/// A stream of messages from the server.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Stream(Held<Messages>);

enum Messages {
    Batches(ng_client::Stream<v1::SampleResponse>),
    Job(ng_client::Stream<v1::WatchAnalysisResponse>),
    Backup(ng_client::Stream<v1::BackupResponse>),
}

#[pymethods]
impl Stream {
    /// Ends the call.
    fn close(&self) {
        self.0.close();
    }
}

impl Stream {
    pub fn of_batches(messages: ng_client::Stream<v1::SampleResponse>) -> Self {
        Self(Held::new(Messages::Batches(messages)))
    }

    pub fn of_a_job(messages: ng_client::Stream<v1::WatchAnalysisResponse>) -> Self {
        Self(Held::new(Messages::Job(messages)))
    }

    pub fn of_a_backup(messages: ng_client::Stream<v1::BackupResponse>) -> Self {
        Self(Held::new(Messages::Backup(messages)))
    }

    pub fn here(&self) -> PyResult<OpenStream> {
        Ok(OpenStream(self.0.here("the stream")?))
    }
}

/// A stream in the process that opened it.
pub struct OpenStream(Arc<Inner<Messages>>);

impl OpenStream {
    /// The next message, or that there are no more. None is lost when the future is dropped.
    pub async fn next(self) -> Result<Reply, Status> {
        let mut held = self.0.open.lock().await;
        let Some(messages) = held.as_mut() else { return Ok(Reply::Nothing) };
        let next = tokio::select! {
            biased;
            () = self.0.until_closed() => None,
            next = messages.next() => Some(next?.unwrap_or(Reply::Nothing)),
        };
        Ok(next.unwrap_or_else(|| {
            drop(held.take());
            Reply::Nothing
        }))
    }
}

impl Messages {
    async fn next(&mut self) -> Result<Option<Reply>, Status> {
        Ok(match self {
            Self::Batches(batches) => batches.next().await?.map(|batch| Reply::Batch(batch.into())),
            Self::Job(steps) => {
                steps.next().await?.map(|step| Reply::Progress(step.job.unwrap_or_default()))
            }
            Self::Backup(steps) => steps.next().await?.map(Reply::BackedUp),
        })
    }
}

/// The upload of a graph in pieces.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Upload(Held<ng_client::Upload>);

#[pymethods]
impl Upload {
    /// Cancels the upload.
    fn close(&self) {
        self.0.close();
    }
}

impl Upload {
    pub fn new(upload: ng_client::Upload) -> Self {
        Self(Held::new(upload))
    }

    pub fn here(&self) -> PyResult<OpenUpload> {
        Ok(OpenUpload(self.0.here("the graph")?))
    }
}

/// An upload in the process that began it.
pub struct OpenUpload(Arc<Inner<ng_client::Upload>>);

impl OpenUpload {
    pub async fn send(self, piece: Vec<u8>) -> Result<Reply, Status> {
        let mut held = self.0.open.lock().await;
        let upload = held.as_mut().ok_or_else(over)?;
        let sent = tokio::select! {
            biased;
            () = self.0.until_closed() => Err(over()),
            sent = upload.send(piece) => sent,
        };
        sent.map(|()| Reply::Nothing)
    }

    pub async fn finish(self) -> Result<Reply, Status> {
        let upload = self.0.open.lock().await.take();
        upload.ok_or_else(over)?.finish().await.map(Reply::Made)
    }
}

fn over() -> Status {
    Status::failed_precondition("the upload of the graph was cancelled")
}
