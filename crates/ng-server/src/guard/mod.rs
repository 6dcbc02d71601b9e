//! What stands before the services: who may call what, how much, and for how long.
//!
//! What must not live here: what requests mean. The invariants: nothing is called that has no
//! policy; what is admitted has a deadline or is a stream; the foreseen bytes of all requests under
//! way stay inside their budget.

pub mod admission;
pub mod cost;
pub mod deadline;
pub mod gate;
mod held;
mod observe;
pub mod policy;
pub mod quota;
pub mod refusal;
pub mod share;
mod slow;
pub mod tokens;
mod unread;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use ng_rpc::{Code, Problem, Request};
use tokio::sync::watch;

use crate::config::Limits;
use crate::telemetry::{Metrics, Stages, Traces};
use admission::{Admission, Permit};
use held::{Full, Held, Pool};
use policy::Right;
use share::{Share, What};
use tokens::{Holder, Refused, Tokens};
use unread::{Answers, Unread};

/// Bytes of a small request.
const SMALL_REQUEST: u64 = 64 << 10;
/// After how long it is worth trying again where requests hold too much.
const RETRY: Duration = Duration::from_millis(100);

/// Counts what is under way.
const IN_FLIGHT: &str = "neargraph_requests_in_flight";

/// What a reload may change.
pub struct Rules {
    /// Who may call; all may do everything if there are none.
    pub tokens: Option<Tokens>,
    /// How much at most.
    pub limits: Limits,
}

/// What stands before the services.
pub struct Guard {
    rules: RwLock<Arc<Rules>>,
    /// Which requests for answers are taken.
    pub admission: Arc<Admission>,
    read_only: bool,
    draining: watch::Sender<bool>,
    closed: AtomicBool,
    /// Large requests that are under way.
    requests: Arc<Pool>,
    /// Large answers that have not been sent.
    answers: Arc<Answers>,
    calls: AtomicUsize,
    streams: AtomicUsize,
    /// Watches of how the server is.
    looks: AtomicUsize,
    run: u32,
    next: AtomicU64,
    metrics: Metrics,
    traces: Traces,
}

/// Who calls, as services see it.
#[derive(Clone)]
pub struct Caller {
    holder: Option<Arc<Holder>>,
    /// What it may do.
    pub right: Right,
    /// What log and answer call the request.
    pub request: Arc<str>,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
    spent: Arc<Spent>,
    share: Option<Arc<Share>>,
}

/// What a request was foreseen to cost, what its stages took, and what is held of its message and
/// of its answer.
#[derive(Default)]
struct Spent {
    cost: AtomicU64,
    stages: OnceLock<Stages>,
    request: OnceLock<Held>,
    answer: OnceLock<Unread>,
}

impl Caller {
    /// One who may do everything: what has no tokens, or was not called from outside.
    pub fn local() -> Self {
        Self {
            holder: None,
            right: Right::Admin,
            request: "local".into(),
            deadline: None,
            spent: Arc::default(),
            share: None,
        }
    }

    /// Notes what the stages of its request for answers took.
    pub fn took(&self, stages: Stages) {
        let _several = self.spent.stages.set(stages);
    }

    fn stages(&self) -> Option<&Stages> {
        self.spent.stages.get()
    }

    /// The caller of a request that has passed the gate.
    pub fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_else(Self::local)
    }

    /// The name that the token file gives it.
    pub fn name(&self) -> Option<&str> {
        self.holder.as_ref().map(|holder| holder.name.as_str())
    }

    /// Ends here if nobody waits for the answer any more: each stage asks before it begins.
    ///
    /// # Errors
    /// The deadline is over.
    pub fn in_time(&self) -> Result<(), Problem> {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(deadline::over()),
            _ => Ok(()),
        }
    }

    /// Whether it may do what needs a right.
    ///
    /// # Errors
    /// Its right is a lesser one.
    pub fn require(&self, right: Right) -> Result<(), Problem> {
        if self.right >= right {
            return Ok(());
        }
        let (has, needs) = (self.right.name(), right.name());
        let message = format!("the method needs the right {needs:?}, but the token has {has:?}");
        Err(Problem::new(Code::PermissionDenied, "RIGHT_TOO_LOW", message)
            .remedy(format!("use a token with the right {needs:?}")))
    }

    /// Takes a place of those that its token may have, until the request is over.
    fn take_share(&mut self, what: What, limit: usize) -> Result<(), Problem> {
        self.share = self.share(what, limit)?.map(Arc::new);
        Ok(())
    }

    /// A place of the part that its token has of `limit`; none where there are no tokens.
    ///
    /// # Errors
    /// The token has all of its part.
    pub fn share(&self, what: What, limit: usize) -> Result<Option<Share>, Problem> {
        let holder = self.holder.as_ref();
        holder.map(|holder| Share::take(&holder.under_way, what, limit)).transpose()
    }

    /// Its message is not needed any more.
    fn has_taken_in(&self) {
        if let Some(held) = self.spent.request.get() {
            held.give_back();
        }
    }

    fn cost(&self) -> u64 {
        self.spent.cost.load(Ordering::Relaxed)
    }
}

impl Guard {
    /// A guard with rules.
    pub fn new(rules: Rules, read_only: bool, (metrics, traces): (&Metrics, Traces)) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let admission = Admission::new(metrics.clone());
        for kind in ["call", "stream", "health"] {
            metrics.gauge(IN_FLIGHT, &[("kind", kind)]).set(0.0);
        }
        Self {
            rules: RwLock::new(Arc::new(rules)),
            admission: Arc::new(admission),
            read_only,
            draining: watch::Sender::new(false),
            closed: AtomicBool::new(false),
            requests: Arc::default(),
            answers: Arc::default(),
            calls: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            run: RandomState::new().hash_one(SystemTime::now()) as u32,
            next: AtomicU64::new(1),
            metrics: metrics.clone(),
            traces,
        }
    }

    /// The rules of now.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts others in place for requests that come from now on.
    pub fn replace(&self, mut rules: Rules) {
        let mut slot = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        if let (Some(new), Some(old)) = (&mut rules.tokens, &slot.tokens) {
            new.go_on_from(old);
        }
        *slot = Arc::new(rules);
    }

    /// From now on the server says that it is about to end.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        self.metrics.gauge("neargraph_draining", &[]).set(1.0);
    }

    /// Whether it says so.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Waits until it does.
    pub async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let _kept = draining.wait_for(|now| *now).await;
    }

    /// From now on the side port takes no more requests but those that ask how the server is.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Requests that have started and not ended: calls, and streams.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.calls.load(Ordering::SeqCst), self.streams.load(Ordering::SeqCst))
    }

    /// Who has the token of a header such as `Bearer TOKEN`.
    ///
    /// # Errors
    /// Nobody has it, and `right` needs one.
    pub fn caller(
        &self,
        rules: &Rules,
        authorization: Option<&[u8]>,
        right: Right,
        request: Arc<str>,
    ) -> Result<Caller, Problem> {
        let caller = Caller { request, ..Caller::local() };
        let Some(tokens) = &rules.tokens else { return Ok(caller) };
        let holder = match tokens.find(authorization, SystemTime::now()) {
            Ok(holder) => holder,
            Err(_) if right == Right::Anyone => {
                return Ok(Caller { right: Right::Anyone, ..caller });
            }
            Err(refused) => return Err(unknown(refused)),
        };
        Ok(Caller { right: holder.right, holder: Some(holder), ..caller })
    }

    /// Takes a request with `right` of a caller's quota.
    ///
    /// # Errors
    /// The caller may not do it, or its quota is used up.
    pub fn allow(&self, caller: &Caller, right: Right) -> Result<(), Problem> {
        if right == Right::Anyone && caller.holder.is_none() {
            return Ok(());
        }
        caller.require(right)?;
        if let Some(Err(after)) = caller.holder.as_ref().map(|holder| holder.quota.take_request()) {
            return Err(self.over_quota("requests", after));
        }
        Ok(())
    }

    /// Whether a field of a request names no more ids than it may: before anything is done for it.
    ///
    /// # Errors
    /// It names more.
    pub fn bounded(&self, field: &str, ids: u64) -> Result<(), Problem> {
        let limit = self.rules().limits.ids;
        if ids <= limit {
            return Ok(());
        }
        let message = format!("the request has {ids} ids, and the limit is {limit}");
        Err(Problem::argument(field, message).remedy("request fewer at once, or use a job"))
    }

    /// Takes a request for answers, of `targets` ids that is foreseen to read `bytes`. The
    /// permit has to go where it is computed, and to be dropped then.
    ///
    /// # Errors
    /// It could never be computed, there is no room for it now, or it would come too late.
    pub fn admit(&self, caller: &Caller, targets: u64, bytes: u64) -> Result<Arc<Permit>, Problem> {
        let rules = self.rules();
        let limits = &rules.limits;
        self.bounded("targets", targets)?;
        caller.in_time()?;
        caller.spent.cost.store(bytes, Ordering::Relaxed);
        let owner = caller.holder.as_ref().map(|holder| &holder.under_way);
        let permit = self.admission.take(limits, owner, (bytes, caller.deadline))?;
        self.take_targets(caller, targets).inspect_err(|_| permit.skip())?;
        Ok(Arc::new(permit))
    }

    /// Holds the memory of a caller's message, of which so many bytes have come, until the request
    /// is over. Small ones are bounded by the number of requests.
    ///
    /// # Errors
    /// Requests hold too much.
    fn take_in(&self, caller: &Caller, bytes: u64) -> Result<(), Problem> {
        if bytes <= SMALL_REQUEST {
            return Ok(());
        }
        let own = caller.holder.as_ref().map(|holder| &holder.under_way.requests);
        let held = caller.spent.request.get_or_init(|| Held::new(&self.requests, own));
        held.grow_to(bytes, self.rules().limits.request_bytes).map_err(|full| {
            self.metrics.shed("request_bytes");
            let (whose, most) = match full {
                Full::Token(most) => ("the token's requests", most),
                Full::All(most) => ("all requests", most),
            };
            let message = format!("{whose} in flight have {most} bytes, which is the limit");
            Problem::new(Code::ResourceExhausted, "REQUEST_BYTES", message)
                .remedy("send smaller or fewer requests at once, or try again later")
                .retry_about(RETRY)
        })
    }

    /// Holds the memory of a caller's answer until it has been sent, or the client is gone.
    ///
    /// # Errors
    /// Clients leave too much unread.
    pub fn hold(&self, caller: &Caller, answer_bytes: u64) -> Result<(), Problem> {
        let own = caller.holder.as_ref().map(|holder| &holder.under_way.unread);
        let most = self.rules().limits.unread_bytes;
        let held = Unread::hold(&self.answers, own, answer_bytes, most);
        if let Some(unread) = held.inspect_err(|_| self.metrics.shed("unread"))? {
            let _several = caller.spent.answer.set(unread);
        }
        Ok(())
    }

    /// Bytes of large requests under way, and of large answers that have not been read.
    pub fn held_bytes(&self) -> (u64, u64) {
        (self.requests.bytes(), self.answers.bytes())
    }

    /// Gives the memory of answers that have been sent back to the system, if it is much. Takes a
    /// while.
    pub fn tidy_up(&self) {
        self.answers.tidy_up();
    }

    /// Takes targets of a caller's quota.
    ///
    /// # Errors
    /// It is used up.
    pub fn take_targets(&self, caller: &Caller, targets: u64) -> Result<(), Problem> {
        match caller.holder.as_ref().map(|holder| holder.quota.take_seeds(targets)) {
            Some(Err(after)) => Err(self.over_quota("seeds", after)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    fn over_quota(&self, what: &str, after: Duration) -> Problem {
        self.metrics.shed("quota");
        let message = format!("the token's quota of {what} per second is used up");
        Problem::new(Code::ResourceExhausted, "QUOTA_EXHAUSTED", message)
            .remedy("send requests less often, or ask the operator for a larger quota")
            .retry_about(after)
    }

    fn next_request(&self) -> Arc<str> {
        format!("{:08x}-{:08x}", self.run, self.next.fetch_add(1, Ordering::Relaxed)).into()
    }
}

/// That nothing may be changed here.
pub fn read_only(what: &str) -> Problem {
    let message = format!("{what} makes changes, but this server is read-only");
    Problem::new(Code::FailedPrecondition, "SERVER_READ_ONLY", message)
        .remedy("use a server that is not read-only")
}

/// That the server takes no more requests.
pub fn shutting_down() -> Problem {
    Problem::new(Code::Unavailable, "SHUTTING_DOWN", "the server is shutting down")
        .remedy("try again on another replica, or after a restart")
}

fn unknown(refused: Refused) -> Problem {
    let (reason, message) = match refused {
        Refused::None => ("NO_TOKEN", "this server requires a token"),
        Refused::Unknown => ("UNKNOWN_TOKEN", "the token is unknown"),
        Refused::Expired => ("EXPIRED_TOKEN", "the token has expired"),
    };
    Problem::new(Code::Unauthenticated, reason, message)
        .remedy("send the metadata \"authorization: Bearer TOKEN\" with a valid token")
}
