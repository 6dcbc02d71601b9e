//! `Client`: the client of a server. Calls wait without the interpreter, or leave their answers in
//! a queue that wakes an event loop once for all that are there.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_client::{AsyncClient, Running, Settings, Tls};
use ng_rpc::{Status, problem_told, v1};
use numpy::PyArray1;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{Ids, owned};
use crate::errors::{named, plain};
use crate::progress::{go_on, raised_or};
use v1::{change::Change, node_ref::Node};

/// Graph, model, kind and type of targets, ids, other ids, seed, snapshot, lag.
type RunArgs = (String, String, String, String, Ids, Ids, u64, Option<u64>, u64);
/// A code of `Dtype`, a shape, the bytes.
type TensorArgs = (i32, Vec<u64>, Vec<u8>);
/// Whether the number is that of a node that the batch adds, and the number.
type RefArgs = (bool, u64);
/// Authority, certificate and key, name of the server.
type TlsArgs = (Vec<u8>, Option<(Vec<u8>, Vec<u8>)>, Option<String>);

/// What a call answers.
enum Reply {
    Run(v1::RunResponse),
    Rows(v1::GetEmbedResponse),
    Neighbors(v1::GetNeighborsResponse),
    Applied(v1::ApplyBatchResponse),
    Result(Box<v1::GetAnalysisResultResponse>),
    Job(String),
    Json(String),
}

/// Answers of calls that nobody waits for, until an event loop takes them.
struct Ready {
    state: Mutex<State>,
    /// Tells the event loop that there are some: no thread of the network needs the interpreter.
    wake: UnixStream,
    woken: UnixStream,
}

#[derive(Default)]
struct State {
    answers: Vec<(u64, Result<Reply, Status>)>,
    running: HashMap<u64, Running>,
}

impl Ready {
    fn new() -> std::io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self { state: Mutex::default(), wake, woken })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, ticket: u64, answer: Result<Reply, Status>) {
        let mut state = self.lock();
        state.answers.push((ticket, answer));
        if state.answers.len() == 1 {
            // Full means that the loop has not read earlier bytes: it is awake anyway.
            let _full = (&self.wake).write(&[1]);
        }
    }

    fn take(&self) -> Vec<(u64, Result<Reply, Status>)> {
        let mut state = self.lock();
        let mut bytes = [0; 64];
        let _empty = (&self.woken).read(&mut bytes);
        let answers = std::mem::take(&mut state.answers);
        for (ticket, _) in &answers {
            state.running.remove(ticket);
        }
        answers
    }
}

/// A client; see `_core.pyi`. Methods with a ticket return at once, and `take` has the answer.
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
        idempotency_key: Vec<u8>,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let changes = changes.iter().map(change).collect::<PyResult<_>>()?;
        let message = v1::ApplyBatchRequest { graph, changes, idempotency_key };
        self.ask(py, ticket, |calls| async move {
            Ok(Reply::Applied(calls.apply_batch(message).await?))
        })
    }

    fn register_model<'py>(
        &self,
        py: Python<'py>,
        message: &str,
        files: Option<(Vec<u8>, Vec<u8>, Vec<u8>)>,
        ticket: Option<u64>,
    ) -> Answer<'py> {
        let mut message: v1::ModelRegisterRequest = serde_json::from_str(message)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        if let Some((model_onnx, model_safetensors, manifest_json)) = files {
            let files = v1::ModelFiles { model_onnx, model_safetensors, manifest_json };
            message.source = Some(v1::model_register_request::Source::Files(files));
        }
        self.ask(py, ticket, |calls| async move {
            let answer = calls.model_register(message).await?;
            let text = serde_json::to_string(&answer);
            text.map(Reply::Json).map_err(|error| Status::internal(error.to_string()))
        })
    }

    /// A method by name, with messages as JSON.
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

    /// What becomes readable when there are answers to take.
    fn fileno(&self) -> i32 {
        self.ready.woken.as_raw_fd()
    }

    /// All answers that are there: (ticket, exception or None, answer).
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

    /// Gives a call up that has a ticket.
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

impl Reply {
    fn python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Run(answer) => ran(py, answer),
            Self::Rows(answer) => {
                let rows = tensor(py, answer.rows.unwrap_or_default());
                (rows, snapshot(answer.snapshot)).into_pyobject(py).map(Bound::into_any)
            }
            Self::Neighbors(answer) => {
                let found = (
                    Ids(answer.degrees),
                    Ids(answer.counts),
                    Ids(answer.neighbors),
                    Ids(answer.edge_ids),
                    owned(py, answer.times, None)?,
                    owned(py, answer.weights, None)?,
                    snapshot(answer.snapshot),
                );
                found.into_pyobject(py).map(Bound::into_any)
            }
            Self::Applied(answer) => plain(py, &answer),
            Self::Result(answer) => {
                let result = answer.result.map(|result| ran(py, result)).transpose()?;
                let job = plain(py, &answer.job.unwrap_or_default())?;
                (job, result).into_pyobject(py).map(Bound::into_any)
            }
            Self::Job(text) | Self::Json(text) => {
                text.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from)
            }
        }
    }
}

/// (commit, fingerprint)
fn snapshot(snapshot: Option<v1::Snapshot>) -> (u64, u64) {
    let snapshot = snapshot.unwrap_or_default();
    (snapshot.commit, snapshot.fingerprint)
}

/// (code of the dtype, shape, bytes): NumPy gives them a place that fits every dtype, which a
/// message does not.
fn tensor(py: Python<'_>, tensor: v1::Tensor) -> (i32, Vec<u64>, Bound<'_, PyArray1<u8>>) {
    (tensor.dtype, tensor.shape, PyArray1::from_slice(py, &tensor.data))
}

fn ran(py: Python<'_>, answer: v1::RunResponse) -> PyResult<Bound<'_, PyAny>> {
    let v1::Timing { queued_us, engine_us, total_us, group_requests } =
        answer.timing.unwrap_or_default();
    let timing = (queued_us, engine_us, total_us, group_requests);
    let rows = tensor(py, answer.rows.unwrap_or_default());
    let all = (rows, snapshot(answer.snapshot), answer.model, answer.rows_cached, timing);
    all.into_pyobject(py).map(Bound::into_any)
}

fn run_request(run: RunArgs) -> PyResult<v1::RunRequest> {
    use v1::targets::Targets;
    let (graph, model, kind, of_type, ids, others, seed, at_snapshot, max_lag_commits) = run;
    let targets = match kind.as_str() {
        "nodes" => Targets::Nodes(v1::Nodes { node_type: of_type, ids: ids.0 }),
        "edges" => {
            Targets::Edges(v1::Edges { edge_type: of_type, sources: ids.0, destinations: others.0 })
        }
        "graphs" => Targets::Graphs(v1::Graphs { ids: ids.0 }),
        other => return Err(PyValueError::new_err(format!("no targets of kind {other:?}"))),
    };
    Ok(v1::RunRequest {
        graph,
        dfg: Some(v1::run_request::Dfg::Model(model)),
        targets: Some(v1::Targets { targets: Some(targets) }),
        seed,
        at_snapshot,
        max_lag_commits,
        ..v1::RunRequest::default()
    })
}

fn change(given: &Bound<'_, PyAny>) -> PyResult<v1::Change> {
    let (kind, rest): (String, Bound<'_, PyAny>) = given.extract()?;
    let change = match kind.as_str() {
        "add_node" => {
            let (node_type, rows): (String, HashMap<String, TensorArgs>) = rest.extract()?;
            let rows = rows.into_iter().map(|(name, rows)| (name, tensor_of(rows))).collect();
            Change::AddVertex(v1::AddVertex { node_type, rows })
        }
        "delete_node" => {
            let (node_type, id) = rest.extract()?;
            Change::DeleteVertex(v1::DeleteVertex { node_type, id })
        }
        "add_edge" => {
            type Args = (String, RefArgs, RefArgs, Option<i64>, Option<f32>);
            let (edge_type, source, destination, time, weight): Args = rest.extract()?;
            let (source, destination) = (Some(node_ref(source)?), Some(node_ref(destination)?));
            Change::AddEdge(v1::AddEdge { edge_type, source, destination, time, weight })
        }
        "delete_edge" => {
            let (edge_type, source, destination, edge_id) = rest.extract()?;
            Change::DeleteEdge(v1::DeleteEdge { edge_type, source, destination, edge_id })
        }
        "update_rows" => {
            type Args = (String, String, Vec<RefArgs>, TensorArgs);
            let (node_type, tensor, nodes, rows): Args = rest.extract()?;
            let nodes = nodes.into_iter().map(node_ref).collect::<PyResult<_>>()?;
            let rows = Some(tensor_of(rows));
            Change::UpdateEmbed(v1::UpdateEmbed { node_type, tensor, nodes, rows })
        }
        other => return Err(PyValueError::new_err(format!("no change of kind {other:?}"))),
    };
    Ok(v1::Change { change: Some(change) })
}

fn tensor_of((dtype, shape, data): TensorArgs) -> v1::Tensor {
    v1::Tensor { dtype, shape, data: data.into() }
}

fn node_ref((is_added, number): RefArgs) -> PyResult<v1::NodeRef> {
    let node = match is_added {
        true => Node::Added(u32::try_from(number)?),
        false => Node::Id(number),
    };
    Ok(v1::NodeRef { node: Some(node) })
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} is not a time in seconds")))
}

/// The exception of what a server has said.
fn failed(py: Python<'_>, status: &Status) -> PyErr {
    let problem = problem_told(status);
    let retry_after = problem.retry_after.map(|after| after.as_secs_f64());
    let code = format!("{:?}", problem.code);
    let made = py.import("neargraph.exceptions").and_then(|module| {
        let said = (
            code.as_str(),
            problem.reason.as_str(),
            problem.message.as_str(),
            problem.field.as_str(),
            problem.remedy.as_str(),
            retry_after,
        );
        module.call_method1("request_failed", said)
    });
    made.map_or_else(|error| error, PyErr::from_value)
}
