//! What became of a request: counted, and one line of the log, when its answer has gone out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use ng_rpc::listen::Answering;
use ng_rpc::{Code, Problem, Status, http};
use tokio::task::JoinSet;

use super::gate::Place;
use super::policy::{Kind, Policy, Right};
use super::refusal::{Said, code_of};
use super::{Caller, Guard};
use crate::telemetry::traces::Told;
use crate::telemetry::{Metrics, Traces};

/// The longest message of a failed request that the log shows.
const ERROR_CHARACTERS_MAX: usize = 500;

/// What becomes of a request.
pub struct Record {
    metrics: Metrics,
    traces: Traces,
    parent: Option<HeaderValue>,
    method: &'static str,
    kind: Kind,
    is_probe: bool,
    id: Arc<str>,
    start: Instant,
    /// When the service had its answer.
    answered: Option<Instant>,
    caller: Option<Caller>,
    code: Option<Code>,
    /// Why it failed.
    error: Option<String>,
    place: Option<Place>,
    /// That the client has to read the answer.
    pub answering: Option<Answering>,
    /// What sees to it that a stream whose end is due is read to its end.
    pub ending: Option<JoinSet<()>>,
}

impl Record {
    /// A request that has come.
    pub fn new(guard: &Guard, policy: Option<Policy>, headers: &HeaderMap, id: Arc<str>) -> Self {
        Self {
            metrics: guard.metrics.clone(),
            traces: guard.traces.clone(),
            parent: guard.traces.parent_of(headers),
            // Paths that clients make up are not names of metrics.
            method: policy.map_or("unknown", |policy| policy.method),
            kind: policy.map_or(Kind::Call, |policy| policy.kind),
            is_probe: policy.is_some_and(|policy| policy.right == Right::Anyone),
            id,
            start: Instant::now(),
            answered: None,
            caller: None,
            code: None,
            error: None,
            place: None,
            answering: None,
            ending: None,
        }
    }

    /// Its token is known.
    pub fn meet(&mut self, caller: Caller) {
        self.caller = Some(caller);
    }

    /// It has passed the gate. One that asks how the server is takes no place.
    pub fn pass(&mut self, caller: Caller, place: Option<Place>) {
        (self.caller, self.place) = (Some(caller), place);
    }

    fn see(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.code = Some(status.code());
            self.fail(status.message());
        }
    }

    fn fail(&mut self, message: &str) {
        let is_told = !message.is_empty();
        self.error = is_told.then(|| message.chars().take(ERROR_CHARACTERS_MAX).collect());
    }

    fn count(&self, code: &'static str, took: Duration) {
        let labels = [("method", self.method), ("code", code)];
        self.metrics.counter("neargraph_requests_total", &labels).increment(1);
        let labels = [("method", self.method)];
        let seconds = self.metrics.histogram("neargraph_request_seconds", &labels);
        seconds.record(took.as_secs_f64());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Without a status, the client went before the end.
        let code = name_of(self.code.unwrap_or(Code::Cancelled));
        let end = Instant::now();
        let took = end.duration_since(self.start);
        let (id, method, error) = (&*self.id, self.method, self.error.as_deref());
        // Whole microseconds have no digits that only rounding made.
        let ms = took.as_micros() as f64 / 1e3;
        if self.kind == Kind::Look {
            return tracing::debug!(id, method, code, error, ms, "request");
        }
        self.count(code, took);
        let caller = self.caller.as_ref();
        let stages = caller.and_then(Caller::stages);
        if let (Some(_), Some(answered)) = (stages, self.answered) {
            self.metrics.stage("encode", end.duration_since(answered));
        }
        let token = caller.and_then(Caller::name).unwrap_or("-");
        let told = Told {
            id,
            method,
            code,
            token,
            start: self.start,
            stages,
            answered: self.answered,
            end,
        };
        self.traces.tell(&told, self.parent.as_ref());
        let cost = caller.map_or(0, Caller::cost);
        if self.is_probe {
            tracing::debug!(id, method, code, error, ms, "request");
        } else {
            tracing::info!(id, method, code, error, ms, cost_bytes = cost, token, "request");
        }
    }
}

/// What ends an answer early, and what the client is told then.
pub type End = Pin<Box<dyn Future<Output = Problem> + Send>>;

/// The body of an answer, with what becomes of it.
pub struct Observed {
    body: Body,
    record: Record,
    end: Option<End>,
}

impl Observed {
    /// Watches an answer until it has gone out, or `end` is over.
    pub fn wrap(mut response: Response, mut record: Record, end: Option<End>) -> Response {
        record.answered = Some(Instant::now());
        record.see(response.headers());
        if let Ok(id) = HeaderValue::from_str(&record.id) {
            response.headers_mut().insert("x-request-id", id);
        }
        response.map(|body| Body::new(Self { body, record, end }))
    }

    /// The same of an answer over HTTP, whose status stands before it.
    pub fn wrap_http(response: Response, mut record: Record) -> Response {
        let told = response.extensions().get::<Said>();
        record.code = Some(told.map_or_else(|| code_of(response.status()), |said| said.code));
        if let Some(said) = told {
            record.fail(&said.message);
        }
        Self::wrap(response, record, None)
    }
}

impl HttpBody for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            this.record.see(trailers);
        }
        // What is there goes out first.
        if frame.is_pending()
            && let Some(end) = &mut this.end
            && let Poll::Ready(problem) = end.as_mut().poll(cx)
        {
            (this.end, this.body) = (None, Body::empty());
            let mut trailers = HeaderMap::new();
            let _fits = Status::from(problem).add_header(&mut trailers);
            this.record.see(&trailers);
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A code as the protocol writes it.
fn name_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
