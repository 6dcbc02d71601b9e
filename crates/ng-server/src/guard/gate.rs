//! The gate that each request passes before a service sees it, on every transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use http::{HeaderMap, HeaderValue};
use ng_rpc::listen::Peer;
use ng_rpc::{Code, Problem, Status, http};
use ng_types::canary::planted;
use tokio::task::JoinSet;

use super::observe::{End, Observed, Record};
use super::policy::{Kind, Policy, Right, policy_of, policy_of_side};
use super::refusal::Refusal;
use super::share::What;
use super::slow::{Coming, Rest, Timed};
use super::{Caller, Guard, IN_FLIGHT, Rules, deadline, read_only, shutting_down};
use crate::door::SideListener;

/// What a client and a server call a request.
const REQUEST_ID: &str = "x-request-id";
/// Characters of a client's name for a request.
const REQUEST_ID_MAX: usize = 128;
/// How much sooner than the transport a deadline is seen here, so that the answer says why.
const SOONER: Duration = Duration::from_millis(2);
/// Watches of how the server is, of all callers: they need no token.
const LOOKS_MAX: usize = 64;
/// After how long a call is worth trying again where too many are under way.
const RETRY: Duration = Duration::from_millis(50);

/// In which words a caller is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// gRPC, on every transport.
    Rpc,
    /// HTTP, on the side port.
    Http,
}

impl Face {
    fn refusal(self, problem: Problem) -> Response {
        match self {
            Self::Rpc => Status::from(problem).into_http(),
            Self::Http => Refusal(problem).into_response(),
        }
    }

    fn watched(self, response: Response, record: Record, end: Option<End>) -> Response {
        match self {
            Self::Rpc => Observed::wrap(response, record, end),
            Self::Http => Observed::wrap_http(response, record),
        }
    }
}

/// Who is at the other end of a connection of the side port.
#[derive(Clone)]
pub struct SidePeer(Peer);

impl Connected<IncomingStream<'_, SideListener>> for SidePeer {
    fn connect_info(stream: IncomingStream<'_, SideListener>) -> Self {
        Self(stream.io().peer())
    }
}

/// Lets a request through to the services, or says why not.
pub async fn gate(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let policy = policy_of(request.uri().path());
    pass(&guard, policy, Face::Rpc, request, next).await
}

/// The same for the side port: REST, the page, metrics and probes.
pub async fn side_gate(
    State((guard, is_local)): State<(Arc<Guard>, bool)>,
    request: Request,
    next: Next,
) -> Response {
    let policy = policy_of_side(request.uri().path(), is_local);
    pass(&guard, Some(policy), Face::Http, request, next).await
}

async fn pass(
    guard: &Arc<Guard>,
    policy: Option<Policy>,
    face: Face,
    request: Request,
    next: Next,
) -> Response {
    let id = request_id(request.headers()).unwrap_or_else(|| guard.next_request());
    let rules = guard.rules();
    let mut record = Record::new(guard, policy, request.headers(), Arc::clone(&id));
    let (caller, place) = match enter(guard, &rules, (policy, face), &request, id, &mut record) {
        Err(problem) => return face.watched(face.refusal(problem), record, None),
        Ok(found) => found,
    };
    record.pass(caller.clone(), place);
    let kind = policy.map_or(Kind::Call, |policy| policy.kind);
    let peer = peer_of(&request);
    let deadline = caller.deadline;
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(caller.clone());
    let rest = match (face, kind) {
        // Those that change a graph hold a place of few.
        (Face::Rpc, Kind::Stream) if policy.is_some_and(|policy| policy.changes) => Rest::OfAll,
        (Face::Rpc, kind) if is_stream(kind) => Rest::OfMessages,
        _ => Rest::OfAll,
    };
    let coming = Coming { rest, is_rpc: face == Face::Rpc, is_stream: is_stream(kind) };
    let body = Body::new(Timed::new(body, guard, caller, coming));
    let answer = next.run(Request::from_parts(parts, body));
    let response = match deadline.map(|end| end.checked_sub(SOONER).unwrap_or(end)) {
        None => answer.await,
        Some(end) => tokio::time::timeout_at(end.into(), answer)
            .await
            .unwrap_or_else(|_late| face.refusal(deadline::over())),
    };
    let end = || policy.and_then(|policy| end_of(guard, policy, deadline));
    match peer {
        Some(peer) if is_stream(kind) => record.ending = end().map(|end| ending(peer, end)),
        peer => record.answering = peer.as_ref().map(Peer::answer),
    }
    face.watched(response, record, end())
}

/// From the end of a stream on, what it still has to say is an answer that its client has to read:
/// nobody asks a stream for its end while its client takes nothing.
fn ending(peer: Peer, end: End) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        end.await;
        let _until_it_is_over = peer.answer();
        std::future::pending().await
    });
    tasks
}

fn peer_of(request: &Request) -> Option<Peer> {
    let extensions = request.extensions();
    let of_side = || extensions.get::<ConnectInfo<SidePeer>>().map(|info| info.0.0.clone());
    extensions.get::<Peer>().cloned().or_else(of_side)
}

/// What ends the answer of a stream before it is over by itself.
fn end_of(guard: &Guard, policy: Policy, deadline: Option<Instant>) -> Option<End> {
    let is_watch = matches!(policy.kind, Kind::Watch | Kind::LookOn);
    if !is_stream(policy.kind) || (deadline.is_none() && !is_watch) {
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
            () = drained => shutting_down(),
        }
    }))
}

fn enter(
    guard: &Arc<Guard>,
    rules: &Rules,
    (policy, face): (Option<Policy>, Face),
    request: &Request,
    id: Arc<str>,
    record: &mut Record,
) -> Result<(Caller, Option<Place>), Problem> {
    let is_open = |policy: &Policy| planted("open_method") && policy.method == "GetEmbed";
    let needed = match policy {
        Some(policy) if is_open(&policy) => Right::Anyone,
        Some(policy) => policy.right,
        None => Right::Read,
    };
    let authorization = request.headers().get(http::header::AUTHORIZATION);
    let mut caller = guard.caller(rules, authorization.map(HeaderValue::as_bytes), needed, id)?;
    record.meet(caller.clone());
    guard.allow(&caller, needed)?;
    let Some(policy) = policy else {
        let path: String = request.uri().path().chars().take(200).collect();
        let message = format!("method {path:?} does not exist");
        return Err(Problem::new(Code::Unimplemented, "METHOD_NOT_FOUND", message)
            .remedy("gRPC reflection lists the methods of this server"));
    };
    if guard.read_only && policy.changes {
        return Err(read_only(policy.method));
    }
    if policy.kind == Kind::Look {
        return Ok((caller, None));
    }
    // Connections of gRPC are closed by then; the side port stays open for probes and metrics.
    if face == Face::Http && guard.is_closed() {
        return Err(shutting_down());
    }
    caller.deadline = deadline_of(rules, policy, request.headers())?;
    caller.in_time()?;
    let share = match policy.kind {
        Kind::Call => caller.take_share(What::Calls, rules.limits.calls),
        Kind::Stream | Kind::Watch => caller.take_share(What::Streams, rules.limits.streams),
        Kind::Look | Kind::LookOn => Ok(()),
    };
    share.inspect_err(|_| guard.metrics.shed("token"))?;
    let place = Place::take(guard, policy.kind, rules)?;
    Ok((caller, Some(place)))
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
        Kind::Call | Kind::Look => Some(given.unwrap_or(unless).min(limits.deadline_max)),
        Kind::Stream | Kind::Watch | Kind::LookOn => given,
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

/// One of the places for calls or streams under way.
pub struct Place {
    guard: Arc<Guard>,
    kind: Kind,
}

impl Place {
    fn take(guard: &Arc<Guard>, kind: Kind, rules: &Rules) -> Result<Self, Problem> {
        let (what, limit) = match kind {
            Kind::Call | Kind::Look => ("calls", rules.limits.calls),
            Kind::Stream | Kind::Watch => ("streams", rules.limits.streams),
            Kind::LookOn => ("health watches", LOOKS_MAX),
        };
        let place = Self { guard: Arc::clone(guard), kind };
        let before = place.count().fetch_add(1, Ordering::SeqCst);
        place.show(before + 1);
        if before < limit {
            return Ok(place);
        }
        guard.metrics.shed(if is_stream(kind) { "streams" } else { "calls" });
        let message = format!("{limit} {what} are in flight, which is the limit");
        Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_REQUESTS", message)
            .remedy("try again later")
            .retry_about(RETRY))
    }

    fn count(&self) -> &AtomicUsize {
        match self.kind {
            Kind::Call | Kind::Look => &self.guard.calls,
            Kind::Stream | Kind::Watch => &self.guard.streams,
            Kind::LookOn => &self.guard.looks,
        }
    }

    fn show(&self, now: usize) {
        let kind = match self.kind {
            Kind::Call | Kind::Look => "call",
            Kind::Stream | Kind::Watch => "stream",
            Kind::LookOn => "health",
        };
        let gauge = self.guard.metrics.gauge(IN_FLIGHT, &[("kind", kind)]);
        gauge.set(now as f64);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let before = self.count().fetch_sub(1, Ordering::SeqCst);
        self.show(before - 1);
    }
}

fn is_stream(kind: Kind) -> bool {
    matches!(kind, Kind::Stream | Kind::Watch | Kind::LookOn)
}
