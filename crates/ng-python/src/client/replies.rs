//! What a call answers, as objects of Python.

use ng_rpc::{Status, problem_told, v1};
use numpy::PyArray1;
use pyo3::prelude::*;

use super::batches::Batch;
use super::streams::{Stream, Upload};
use crate::arrays::{Ids, owned};
use crate::errors::plain;

/// What a call answers.
pub enum Reply {
    Run(v1::RunResponse),
    Rows(v1::GetEmbedResponse),
    Neighbors(v1::GetNeighborsResponse),
    Applied(v1::ApplyTransactionResponse),
    Result(Box<v1::GetAnalysisResultResponse>),
    Job(String),
    Json(String),
    Stream(Stream),
    Upload(Upload),
    Batch(Batch),
    Progress(v1::Job),
    BackedUp(v1::BackupResponse),
    Made(v1::UpdateGraphResponse),
    Nothing,
}

impl Reply {
    pub fn python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
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
            Self::Stream(stream) => Ok(Bound::new(py, stream)?.into_any()),
            Self::Upload(upload) => Ok(Bound::new(py, upload)?.into_any()),
            Self::Batch(batch) => batch.python(py),
            Self::Progress(job) => plain(py, &job),
            Self::BackedUp(progress) => plain(py, &progress),
            Self::Made(made) => plain(py, &made),
            Self::Nothing => Ok(py.None().into_bound(py)),
            Self::Job(text) | Self::Json(text) => {
                text.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from)
            }
        }
    }
}

/// (commit, fingerprint)
pub fn snapshot(snapshot: Option<v1::Snapshot>) -> (u64, u64) {
    let snapshot = snapshot.unwrap_or_default();
    (snapshot.commit, snapshot.fingerprint)
}

/// (code of the dtype, shape, bytes): NumPy gives them a place that fits every dtype, which a
/// message does not.
pub fn tensor(py: Python<'_>, tensor: v1::Tensor) -> (i32, Vec<u64>, Bound<'_, PyArray1<u8>>) {
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

/// The exception of what a server has said.
pub fn failed(py: Python<'_>, status: &Status) -> PyErr {
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
