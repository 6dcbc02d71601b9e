//! The gate that each request passes before a service sees it, on every transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use ng_rpc::listen::Peer;
use ng_rpc::{Code, Problem, Status, http};
use ng_types::canary::planted;

use super::observe::{End, Observed, Record};
use super::policy::{Kind, Policy, Right, policy_of};
use super::slow::Timed;
use super::{Caller, Guard, Rules, deadline};

/// What a client and a server call a request.
const REQUEST_ID: &str = "x-request-id";
/// Characters of a client's name for a request.
const REQUEST_ID_MAX: usize = 128;
/// How much sooner than the transport a deadline is seen here, so that the answer says why.
const SOONER: Duration = Duration::from_millis(2);
/// After how long a call is worth trying again where too many are under way.
const RETRY: Duration = Duration::from_millis(50);

/// Lets a request through to the services, or says why not.
pub async fn gate(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let id = request_id(request.headers()).unwrap_or_else(|| guard.next_request());
    let rules = guard.rules();
    let policy = policy_of(request.uri().path());
    let mut record = Record::new(&guard.metrics, policy, Arc::clone(&id), start);
    let response = match enter(&guard, &rules, policy, &request, id) {
        Err(problem) => refusal(problem),
        Ok((caller, place)) => {
            record.pass(caller.clone(), place);
            let is_call = policy.is_some_and(|policy| policy.kind == Kind::Call);
            let peer = request.extensions().get::<Peer>().filter(|_| is_call).cloned();
            let deadline = caller.deadline;
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(caller);
            let body = Body::new(Timed::new(body, rules.limits.body));
            let answer = next.run(Request::from_parts(parts, body));
            let response = match deadline.map(|end| end.checked_sub(SOONER).unwrap_or(end)) {
                None => answer.await,
                Some(end) => tokio::time::timeout_at(end.into(), answer)
                    .await
                    .unwrap_or_else(|_late| refusal(deadline::over())),
            };
            record.answering = peer.as_ref().map(Peer::answer);
            return Observed::wrap(
                response,
                record,
                policy.and_then(|p| end_of(&guard, p, deadline)),
            );
        }
    };
    Observed::wrap(response, record, None)
}

/// What ends the answer of a stream before it is over by itself.
fn end_of(guard: &Guard, policy: Policy, deadline: Option<Instant>) -> Option<End> {
    let is_watch = policy.kind == Kind::Watch;
    if policy.kind == Kind::Call || (deadline.is_none() && !is_watch) {
        return None;
    }
    let mut draining = guard.draining.subscribe();
    Some(Box::pin(async move {
        let late = async {
            match deadline {
                Some(end) => tokio::time::sleep_until(end.into()).await,
                None => std::future::pending().await,
            }
        };
        let drained = async {
            if !is_watch || draining.wait_for(|now| *now).await.is_err() {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = late => deadline::over(),
            () = drained => {
                Problem::new(Code::Unavailable, "SHUTTING_DOWN", "the server is shutting down")
            }
        }
    }))
}

fn enter(
    guard: &Arc<Guard>,
    rules: &Rules,
    policy: Option<Policy>,
    request: &Request,
    id: Arc<str>,
) -> Result<(Caller, Place), Problem> {
    let is_open = |policy: &Policy| planted("open_method") && policy.method == "GetEmbed";
    let needed = match policy {
        Some(policy) if is_open(&policy) => Right::Anyone,
        Some(policy) => policy.right,
        None => Right::Read,
    };
    let authorization = request.headers().get(http::header::AUTHORIZATION);
    let mut caller = guard.caller(rules, authorization.map(HeaderValue::as_bytes), needed, id)?;
    let Some(policy) = policy else {
        let path: String = request.uri().path().chars().take(200).collect();
        let message = format!("there is no method {path:?}");
        return Err(Problem::new(Code::Unimplemented, "METHOD_NOT_FOUND", message)
            .remedy("reflection lists the methods of this server"));
    };
    if guard.read_only && policy.changes {
        let message = format!("{} changes something, and this server is read-only", policy.method);
        return Err(Problem::new(Code::FailedPrecondition, "SERVER_READ_ONLY", message)
            .remedy("ask a server that is not read-only"));
    }
    caller.deadline = deadline_of(rules, policy, request.headers())?;
    caller.in_time()?;
    caller.take_share(policy.kind != Kind::Call, &rules.limits)?;
    let place = Place::take(guard, policy.kind, rules)?;
    Ok((caller, place))
}

/// When nobody waits for the answer any more: as the caller says, within what the server allows.
fn deadline_of(
    rules: &Rules,
    policy: Policy,
    headers: &HeaderMap,
) -> Result<Option<Instant>, Problem> {
    let given = match headers.get("grpc-timeout") {
        Some(text) => Some(deadline::parse(text.as_bytes())?),
        None => None,
    };
    let limits = &rules.limits;
    // What an admin asks for may take long: to take in a graph, to warm a model.
    let unless = if policy.right == Right::Admin { limits.deadline_max } else { limits.deadline };
    let left = match policy.kind {
        Kind::Call => Some(given.unwrap_or(unless).min(limits.deadline_max)),
        Kind::Stream | Kind::Watch => given,
    };
    Ok(left.and_then(|left| Instant::now().checked_add(left)))
}

/// What the client calls the request, if that can stand in a log.
fn request_id(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_fit = (1..=REQUEST_ID_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_fit.then(|| text.into())
}

fn refusal(problem: Problem) -> Response {
    Status::from(problem).into_http()
}

/// One of the places for calls or streams under way.
pub struct Place {
    guard: Arc<Guard>,
    kind: Kind,
}

impl Place {
    fn take(guard: &Arc<Guard>, kind: Kind, rules: &Rules) -> Result<Self, Problem> {
        let (what, limit) = match kind {
            Kind::Call => ("calls", rules.limits.calls),
            Kind::Stream | Kind::Watch => ("streams", rules.limits.streams),
        };
        let place = Self { guard: Arc::clone(guard), kind };
        let before = place.count().fetch_add(1, Ordering::SeqCst);
        place.show(before + 1);
        if before < limit {
            return Ok(place);
        }
        guard.metrics.shed(what);
        let message = format!("{limit} {what} are under way, which is the limit");
        Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
            .remedy("try again later")
            .retry_after(RETRY))
    }

    fn count(&self) -> &AtomicUsize {
        match self.kind {
            Kind::Call => &self.guard.calls,
            Kind::Stream | Kind::Watch => &self.guard.streams,
        }
    }

    fn show(&self, now: usize) {
        let kind = if self.kind == Kind::Call { "call" } else { "stream" };
        let gauge = self.guard.metrics.gauge("neargraph_requests_in_flight", &[("kind", kind)]);
        gauge.set(now as f64);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let before = self.count().fetch_sub(1, Ordering::SeqCst);
        self.show(before - 1);
    }
}

/// The same for the side port: who may use REST. Health and the page need no token, and on an
/// address of this machine alone, neither do metrics.
pub async fn side_gate(
    State((guard, is_local)): State<(Arc<Guard>, bool)>,
    mut request: Request,
    next: Next,
) -> Response {
    let rules = guard.rules();
    let id = request_id(request.headers()).unwrap_or_else(|| guard.next_request());
    let path = request.uri().path();
    let is_api = path.starts_with("/v1") || path.starts_with("/v2") || path.starts_with("/api");
    let needed = match path {
        "/metrics" if !is_local => Right::Read,
        _ if is_api => Right::Read,
        _ => Right::Anyone,
    };
    let authorization = request.headers().get(http::header::AUTHORIZATION);
    let bytes = authorization.map(HeaderValue::as_bytes);
    match guard.caller(&rules, bytes, needed, Arc::clone(&id)) {
        Err(problem) => side_refusal(&problem),
        Ok(mut caller) => {
            if is_api && let Err(problem) = caller.take_share(false, &rules.limits) {
                return side_refusal(&problem);
            }
            let _place = match is_api.then(|| Place::take(&guard, Kind::Call, &rules)).transpose() {
                Ok(place) => place,
                Err(problem) => return side_refusal(&problem),
            };
            caller.deadline = Instant::now().checked_add(rules.limits.deadline);
            request.extensions_mut().insert(caller);
            let answered = tokio::time::timeout(rules.limits.deadline, next.run(request));
            let Ok(mut response) = answered.await else { return side_refusal(&deadline::over()) };
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        }
    }
}

/// A refusal as REST says it.
fn side_refusal(problem: &Problem) -> Response {
    let status = match problem.code {
        Code::Unauthenticated => http::StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => http::StatusCode::FORBIDDEN,
        Code::DeadlineExceeded => http::StatusCode::GATEWAY_TIMEOUT,
        _ => http::StatusCode::TOO_MANY_REQUESTS,
    };
    let body = serde_json::json!({
        "error": format!("{}: {}", problem.message, problem.remedy),
        "reason": problem.reason,
    });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == http::StatusCode::UNAUTHORIZED {
        headers.insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(after) = problem.retry_after {
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
    }
    response
}
