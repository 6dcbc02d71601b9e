//! Mini-batches for trainers on other machines: those of this project's loader, byte for byte.
//!
//! A stream has a thread that makes batches a little ahead of the caller, and stops where the
//! caller does. What must not live here: draws, orders of seeds. The invariants: what waits for a
//! slow caller is a few batches; as many streams are made at once as may be, half of them for one
//! token; requests for answers come first.

mod message;
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use ng_rpc::listen::{Answering, Peer};
use ng_rpc::{Code, Problem, problem_of, v1};
use ng_sample::{
    Fanouts, Loader, Method, MiniBatch, Reading, Run, SampleSpec, Sampler, SeedPlan, Settings,
};
use ng_store::{Owner, Snapshot, TensorRef};
use ng_types::{EdgeTypeId, NodeTypeId};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{Semaphore, mpsc};

use self::message::Message;
use self::seeds::inputs;
use crate::graph::Graph;
use crate::guard::share::What;
use crate::guard::{Caller, Guard};
use crate::work::STREAMS;

/// Finished batches that wait for the caller, beside those that the loader has ready.
const WAITING: usize = 1;
/// Batches that the loader has ready.
const AHEAD: usize = 2;
/// How often it is looked whether the caller is still there.
const POLL: Duration = Duration::from_millis(100);
/// When a stream that was not taken may be tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long a batch waits while all lanes compute: a trainer elsewhere takes a little longer then,
/// and requests for answers take their time as if it were not there.
const GIVES_WAY: Duration = Duration::from_millis(20);
/// How often it is looked whether a lane is idle.
const LOOK: Duration = Duration::from_millis(1);

type Made = Result<v1::SampleResponse, Ended>;

/// Why a stream ends before it is whole.
pub struct Ended {
    /// What its reader is told.
    pub problem: Problem,
    /// That the reader has to read it: kept until then, if it has let a batch wait.
    _answering: Option<Answering>,
}

impl From<Problem> for Ended {
    fn from(problem: Problem) -> Self {
        Self { problem, _answering: None }
    }
}

/// What a caller of a stream gets.
pub type Batches = mpsc::Receiver<Made>;

/// All streams of batches.
pub struct Sampling {
    streams: Arc<Semaphore>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { streams: Arc::new(Semaphore::new(STREAMS)) }
    }
}

impl Sampling {
    /// How many streams are made.
    pub fn streams(&self) -> usize {
        STREAMS - self.streams.available_permits()
    }

    /// Makes the batches of an epoch. Reads seeds, so it may take a while. A stream whose batch is
    /// not taken for as long as one may wait is ended, and its connection with it, if the end is
    /// not read either. Has to be called within the runtime.
    ///
    /// # Errors
    /// The request is wrong, as many streams are made as may be, or the quota of seeds is used up.
    pub fn start(
        &self,
        graph: &Graph,
        request: &v1::SampleRequest,
        (guard, caller, peer): (&Guard, &Caller, Option<Peer>),
        is_full: impl Fn() -> bool + Send + 'static,
    ) -> Result<Batches, Problem> {
        let share = caller.share(What::Samples, STREAMS)?;
        let permit = Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message = format!("{STREAMS} streams of batches are running, which is the limit");
            Problem::new(Code::ResourceExhausted, "STREAMS_FULL", message)
                .retry_about(RETRY_AFTER)
                .remedy("try again after a stream has ended")
        })?;
        let snapshot = graph.snapshot(request.at_snapshot)?;
        let sampler = sampler(&snapshot, request)?;
        let inputs = Arc::new(inputs(&snapshot, request)?);
        let plan = plan(request, inputs.1)?;
        guard.take_targets(caller, seeds_left(&plan, request.first_batch))?;
        let settings = Settings {
            reading: Reading::OnDemand,
            prefetch: Some(AHEAD),
            threads: Some(1),
            ..Settings::default()
        };
        let loader = Loader::new(sampler, Arc::clone(&inputs.0), plan, settings, None, false);
        let loader = loader.map_err(|e| problem_of(&e))?;
        let run = loader.run(request.epoch, request.first_batch);
        let message = Message::new(snapshot, plan);
        // One place is for why it ends, which can be told whatever waits.
        let (give, batches) = mpsc::channel(WAITING + 1);
        let ended = |_| Problem::new(Code::Internal, "DEFECT", "a fresh stream has no place");
        let last = give.clone().try_reserve_owned().map_err(ended)?;
        let unread = guard.rules().limits.unread;
        let to = Reader { runtime: Handle::current(), give, peer, unread };
        let first = request.first_batch;
        let system = |error| {
            Problem::new(Code::Unavailable, "SYSTEM", format!("cannot start a thread: {error}"))
                .remedy("try again later")
        };
        let work = move || {
            let _places = (permit, share);
            let make = || make(run, (&message, first), &to, &is_full);
            if let Some(why) = unless_a_defect(make) {
                last.send(Err(why));
            }
        };
        Builder::new().name("ng-stream".into()).spawn(work).map_err(system)?;
        Ok(batches)
    }
}

/// Who gets the batches.
struct Reader {
    runtime: Handle,
    give: mpsc::Sender<Made>,
    /// The other end of its connection.
    peer: Option<Peer>,
    /// How long a batch may wait for it.
    unread: Duration,
}

/// Gives batches until there are no more, or nobody wants them. Says why it ends early.
fn make(
    mut run: Run,
    (message, first): (&Message, u64),
    to: &Reader,
    is_full: &impl Fn() -> bool,
) -> Option<Ended> {
    let mut number = first;
    loop {
        if to.give.is_closed() {
            return None;
        }
        give_way(is_full);
        let batch: Result<MiniBatch, Problem> = match run.next_within(POLL) {
            Err(()) => continue,
            Ok(None) => return None,
            Ok(Some(batch)) => batch.map_err(|e| problem_of(&e)),
        };
        let made = match batch.and_then(|batch| message.of(number, &batch)) {
            Ok(made) => made,
            Err(problem) => return Some(problem.into()),
        };
        match to.runtime.block_on(to.give.send_timeout(Ok(made), to.unread)) {
            Ok(()) => number += 1,
            Err(SendTimeoutError::Closed(_)) => return None,
            Err(SendTimeoutError::Timeout(_)) => {
                let problem = unread(number, to.unread);
                let answering = to.peer.as_ref().map(Peer::answer);
                return Some(Ended { problem, _answering: answering });
            }
        }
    }
}

/// Waits a little while all lanes compute.
fn give_way(is_full: &impl Fn() -> bool) {
    let end = Instant::now() + GIVES_WAY;
    while is_full() && Instant::now() < end {
        sleep(LOOK);
    }
}

/// Why a stream ends early; a defect of what makes it is no end of an epoch.
fn unless_a_defect(make: impl FnOnce() -> Option<Ended>) -> Option<Ended> {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| {
        tracing::error!("a stream of mini-batches failed because of a server bug");
        let message = "the stream failed because of a server bug; see the server's log";
        Some(Problem::new(Code::Internal, "DEFECT", message).into())
    })
}

/// Seeds of the batches that are still to be made.
fn seeds_left(plan: &SeedPlan, first_batch: u64) -> u64 {
    let batches = plan.steps().saturating_sub(first_batch);
    batches.saturating_mul(plan.batch_size).min(plan.num_seeds)
}

/// That a stream was ended because its reader let it wait.
fn unread(number: u64, limit: Duration) -> Problem {
    let message =
        format!("batch {number} was not read for {limit:?}, so the server ended the stream");
    Problem::new(Code::Aborted, "STREAM_UNREAD", message)
        .remedy(format!("request the remaining batches with first_batch={number}"))
}

fn sampler(snapshot: &Arc<Snapshot>, request: &v1::SampleRequest) -> Result<Sampler, Problem> {
    let catalog = snapshot.catalog();
    // As in loaders, a reverse that the store keeps is an index, which nothing samples.
    let of_type = |id| match catalog.is_reverse_index(EdgeTypeId(id)) {
        true => vec![0; request.fanouts.len()],
        false => request.fanouts.clone(),
    };
    let per_edge_type = (0..catalog.edge_types.len() as u16).map(of_type).collect();
    let fanouts = Fanouts::new(per_edge_type).map_err(|e| problem_of(&e).at("fanouts"))?;
    let method = Method::Uniform { replace: request.replace };
    let spec = SampleSpec::new(fanouts, method, request.seed);
    let owners = (0..catalog.node_types.len()).map(|id| Owner::Node(NodeTypeId(id as u16)));
    let owners: Vec<Owner> = owners.collect();
    let mut tensors: Vec<TensorRef> = Vec::new();
    for name in &request.tensors {
        let found: Vec<TensorRef> =
            owners.iter().filter_map(|owner| catalog.find_tensor(*owner, name)).collect();
        if found.is_empty() {
            let mut known: Vec<&str> = catalog
                .node_types
                .iter()
                .flat_map(|meta| meta.tensors.iter().map(|tensor| tensor.name.as_str()))
                .collect();
            known.sort_unstable();
            known.dedup();
            return Err(Problem::missing(
                "NAME_NOT_FOUND",
                format!("no node type has a tensor {name:?}"),
            )
            .at("tensors")
            .remedy(format!("use one of {}", known.join(", "))));
        }
        tensors.extend(
            found.iter().filter(|tensor| !tensors.contains(tensor)).copied().collect::<Vec<_>>(),
        );
    }
    Sampler::new(Arc::clone(snapshot), spec, tensors).map_err(|e| problem_of(&e))
}

fn plan(request: &v1::SampleRequest, num_seeds: u64) -> Result<SeedPlan, Problem> {
    let world_size = u64::from(request.world_size.max(1));
    let plan = SeedPlan {
        num_seeds,
        batch_size: request.batch_size.into(),
        shuffle: request.shuffle,
        seed: request.seed,
        drop_last: request.drop_last,
        pad: !request.drop_last && world_size > 1,
        rank: request.rank.into(),
        world_size,
    };
    plan.checked().map_err(|e| problem_of(&e).at("batch_size"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_defect_is_told_and_not_taken_for_the_end_of_an_epoch() {
        let ended = unless_a_defect(|| panic!("as a defect does")).expect("an end");
        assert_eq!((ended.problem.code, &*ended.problem.reason), (Code::Internal, "DEFECT"));
        assert!(unless_a_defect(|| None).is_none());
    }

    #[test]
    fn an_epoch_that_goes_on_is_paid_for_what_is_left_of_it() {
        let plan = SeedPlan::in_order(200, 64);
        assert_eq!([0, 1, 3, 9].map(|first| seeds_left(&plan, first)), [200, 192, 64, 0]);
    }

    #[test]
    fn a_batch_waits_for_a_lane_and_not_for_ever() {
        let looks = Cell::new(0);
        give_way(&|| {
            looks.set(looks.get() + 1);
            looks.get() <= 3
        });
        assert_eq!(looks.get(), 4, "it went on before a lane was idle");
        give_way(&|| true);
    }
}
