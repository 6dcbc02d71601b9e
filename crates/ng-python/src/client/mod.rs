//! `Client`: the client of a server. Calls wait without the interpreter, or leave their answers in
//! a queue that wakes an event loop once for all that are there.

mod batches;
mod messages;
mod ready;
mod replies;
mod streams;

use std::sync::Arc;

use ng_client::{AsyncClient, Settings, Tls};
use ng_rpc::{Status, v1};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use self::messages::{FilesArgs, RunArgs, change, files_of, of_json, run_request, seconds};
use self::ready::Ready;
use self::replies::{Reply, failed};
pub use self::streams::{Stream, Upload};
use crate::arrays::Ids;
use crate::errors::named;
use crate::progress::{go_on, raised_or};

/// Authority, certificate and key, name of the server.
type TlsArgs = (Vec<u8>, Option<(Vec<u8>, Vec<u8>)>, Option<String>);

/// A client of a server; see `_core.pyi`. Calls with a ticket return at once, and `take` returns
/// their answers.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Client {
    inner: ng_client::Client,
    ready: Arc<Ready>,
}

type Answer<'py> = PyResult<Option<Bound<'py, PyAny>>>;
/// A ticket, why there is no answer, the answer.
type Taken<'py> = (u64, Option<PyErr>, Option<Bound<'py, PyAny>>);

#[pymethods]
impl Client {
    #[new]
    fn new(
        address: String,
        token: Option<String>,
        timeout: Option<f64>,
        retry: f64,
        tls: Option<TlsArgs>,
    ) -> PyResult<Self> {
        let tls = tls.map(|(ca, identity, server_name)| Tls { ca, identity, server_name });
        let timeout = timeout.map(seconds).transpose()?;
        let settings = Settings { address, token, timeout, retry: seconds(retry)?, tls };
        let inner = ng_client::Client::with(settings)
            .map_err(|error| named("UnsupportedArgument", error.to_string()))?;
        let ready = Ready::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self { inner, ready: Arc::new(ready) })
    }

    fn run<'py>(&self, py: Python<'py>, run: RunArgs, ticket: Option<u64>) -> Answer<'py> {
        let message = run_request(run)?;
        self.ask(py, ticket, |calls| async move { Ok(Reply::Run(calls.run(message).await?)) })
    }

    fn analyze<'py>(
        &self,
        py: Python<'py>,
        run: RunArgs,
        keep_seconds: u32,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let message = v1::GraphAnalysisRequest { request: Some(run_request(run)?), keep_seconds };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Job(calls.graph_analysis(message).await?.job))
        })
    }

    fn result<'py>(
        &self,
        py: Python<'py>,
        job: String,
        wait_ms: u32,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let message = v1::GetAnalysisResultRequest { job, wait_ms };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Result(Box::new(calls.get_analysis_result(message).await?)))
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn features<'py>(
        &self,
        py: Python<'py>,
        graph: String,
        node_type: String,
        ids: Ids,
        tensor: String,
        at_snapshot: Option<u64>,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let nodes = Some(v1::Nodes { node_type, ids: ids.0 });
        let message = v1::GetEmbedRequest { graph, nodes, tensor, at_snapshot };
        self.ask(
            py,
            ticket,
            |calls| async move { Ok(Reply::Rows(calls.get_embed(message).await?)) },
        )
    }

    #[allow(clippy::too_many_arguments)]
    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        graph: String,
        edge_type: String,
        ids: Ids,
        limit: Option<u64>,
        at_snapshot: Option<u64>,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let message = v1::GetNeighborsRequest { graph, edge_type, ids: ids.0, limit, at_snapshot };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Neighbors(calls.get_neighbors(message).await?))
        })
    }

    fn apply<'py>(
        &self,
        py: Python<'py>,
        graph: String,
        changes: Vec<Bound<'py, PyAny>>,
        key: (Vec<u8>, Option<u64>),
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let (idempotency_key, key_since_commit) = key;
        let changes = changes.iter().map(change).collect::<PyResult<_>>()?;
        let message =
            v1::ApplyTransactionRequest { graph, changes, idempotency_key, key_since_commit };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Applied(calls.apply_transaction(message).await?))
        })
    }

    fn register_model<'py>(
        &self,
        py: Python<'py>,
        message: &str,
        files: Option<FilesArgs>,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let mut message: v1::ModelRegisterRequest = of_json(message)?;
        if let Some(files) = files.map(files_of) {
            message.source = Some(v1::model_register_request::Source::Files(files));
        }
        self.ask(py, ticket, |calls| async move {
            let answer = calls.model_register(message).await?;
            let text = serde_json::to_string(&answer);
            text.map(Reply::Json).map_err(|error| Status::internal(error.to_string()))
        })
    }

    /// Calls a method by name, with the request and the response as JSON.
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: String,
        message: String,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Json(calls.by_name(&method, &message).await?))
        })
    }

    /// Opens a stream of mini-batches around nodes.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        message: &str,
        node_type: String,
        ids: Ids,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let seeds = Some(v1::Nodes { node_type, ids: ids.0 });
        let message = v1::SampleRequest { seeds, ..of_json(message)? };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Stream(Stream::of_batches(calls.sample(message).await?)))
        })
    }

    /// Opens a stream with the progress of a job.
    fn watch<'py>(&self, py: Python<'py>, job: String, ticket: Option<u64>) -> Answer<'py> {
        let message = v1::WatchAnalysisRequest { job };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Stream(Stream::of_a_job(calls.watch_analysis(message).await?)))
        })
    }

    /// Backs up a graph. Returns a stream with the progress.
    fn backup<'py>(&self, py: Python<'py>, message: &str, ticket: Option<u64>) -> Answer<'py> {
        let message = of_json(message)?;
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Stream(Stream::of_a_backup(calls.backup(message).await?)))
        })
    }

    /// Returns the next message of a stream; None after the last one.
    fn next<'py>(&self, py: Python<'py>, stream: &Stream, ticket: Option<u64>) -> Answer<'py> {
        let stream = stream.here()?;
        self.ask(py, ticket, |_| async move { stream.next().await })
    }

    /// Begins the upload of a graph, which is sent in pieces.
    fn update_graph<'py>(&self, py: Python<'py>, head: &str, ticket: Option<u64>) -> Answer<'py> {
        let head = of_json(head)?;
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Upload(Upload::new(calls.update_graph(head)?)))
        })
    }

    /// Sends a piece of an upload. Waits while the send buffer is full.
    fn send<'py>(
        &self,
        py: Python<'py>,
        upload: &Upload,
        piece: &[u8],
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let (upload, piece) = (upload.here()?, piece.to_vec());
        self.ask(py, ticket, |_| async move { upload.send(piece).await })
    }

    /// Ends an upload, and waits until the server has created the graph.
    fn finish<'py>(&self, py: Python<'py>, upload: &Upload, ticket: Option<u64>) -> Answer<'py> {
        let upload = upload.here()?;
        self.ask(py, ticket, |_| async move { upload.finish().await })
    }

    /// Returns a file descriptor, which is readable while `take` has answers.
    fn fileno(&self) -> i32 {
        self.ready.fileno()
    }

    /// Returns all answers that have arrived: (ticket, exception or None, answer).
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Vec<Taken<'py>>> {
        let mut taken = Vec::new();
        for (ticket, answer) in self.ready.take() {
            taken.push(match answer.map_err(|status| failed(py, &status)) {
                Ok(reply) => (ticket, None, Some(reply.python(py)?)),
                Err(error) => (ticket, Some(error), None),
            });
        }
        Ok(taken)
    }

    /// Cancels the call with this ticket.
    fn cancel(&self, ticket: u64) {
        if let Some(running) = self.ready.lock().running.remove(&ticket) {
            running.cancel();
        }
    }

    fn close(&self) {
        self.inner.close();
    }
}

impl Client {
    fn ask<'py, F>(
        &self,
        py: Python<'py>,
        ticket: Option<u64>,
        ask: impl FnOnce(AsyncClient) -> F + Send,
    ) -> Answer<'py>
    where
        F: Future<Output = Result<Reply, Status>> + Send + 'static,
    {
        let Some(ticket) = ticket else {
            let reply = py.detach(|| self.inner.wait_while(go_on, ask));
            let reply = reply.map_err(|status| raised_or(failed(py, &status)))?;
            return reply.python(py).map(Some);
        };
        let ready = Arc::clone(&self.ready);
        // Held, so that an answer does not come before its call is known.
        let mut state = self.ready.lock();
        let started = self.inner.start(ask, move |answer| ready.put(ticket, answer));
        state.running.insert(ticket, started.map_err(|status| failed(py, &status))?);
        Ok(None)
    }
}
