//! Jobs: answers for more targets than anybody waits for (GLIST's `GraphAnalysis`).
//!
//! A job is cut into pieces that are asked one after the other, all of one snapshot, beside the
//! requests of others. What must not live here: messages, how a piece is computed. The invariants:
//! jobs that wait, run and are kept take bounded memory; nobody who watches a job holds it up; the
//! result is, byte for byte, what one request for all targets gives.

pub mod bounds;
mod piece;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ng_rpc::{Code, Problem, v1};
use ng_store::Snapshot;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::sleep;

pub use self::bounds::JobBounds;
use self::piece::Pieces;
use self::table::{Record, Table};
use crate::graph::named;
use crate::guard::policy::Right;
use crate::guard::{Caller, shutting_down};
use crate::model::Model;
use crate::state::State;
use crate::targets::Targets;

/// When a job that was not taken may be tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Bytes of the part of an id that cannot be guessed.
const ID_BYTES: usize = 16;

/// How a job stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobState {
    /// It waits for others to end.
    #[default]
    Queued,
    /// It is computed.
    Running,
    /// Its result is there.
    Done,
    /// It has none.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl JobState {
    const ALL: [Self; 5] = [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    /// As metrics call it.
    fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing changes any more.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// How far a job is.
#[derive(Clone, Default)]
pub struct Progress {
    /// How it stands.
    pub state: JobState,
    /// Targets that have rows.
    pub done: u64,
    /// Why it failed.
    pub problem: String,
    /// Once it is done.
    pub result: Option<Arc<Outcome>>,
}

/// The result of a job.
pub struct Outcome {
    /// A row for each target.
    pub rows: v1::Tensor,
    /// The snapshot that all rows are of, which is not kept for it.
    pub snapshot: v1::Snapshot,
    /// Targets whose rows were known.
    pub cached: u64,
    /// How long it waited for its turn.
    pub queued: Duration,
    /// How long it took after that.
    pub ran: Duration,
}

/// What a job asks.
pub struct Work {
    /// Who answers.
    pub model: Arc<Model>,
    /// About what.
    pub targets: Targets,
    /// Of the draws of neighbours.
    pub seed: u64,
    /// From which snapshot.
    pub snapshot: Arc<Snapshot>,
    /// How long the result is kept.
    pub keep: Duration,
    /// Whose it is.
    pub owner: Option<String>,
}

/// What stays the same of a job.
pub struct About {
    /// Its id.
    pub id: String,
    /// The graph.
    pub graph: String,
    /// The version of the model.
    pub model: String,
    /// How many targets it has.
    pub targets: u64,
    /// Whose it is, by the name in the token file; nobody's where there are no tokens.
    pub owner: Option<String>,
}

impl About {
    /// Whether a caller may see and cancel it: its owner, and who may do everything.
    pub fn is_for(&self, caller: &Caller) -> bool {
        caller.right == Right::Admin || self.owner.as_deref() == caller.name()
    }
}

/// A job as it is found.
#[derive(Clone)]
pub struct Found {
    /// What stays the same.
    pub about: Arc<About>,
    /// How far it is, now and later. The sender is gone once it has ended.
    pub progress: watch::Receiver<Progress>,
}

/// All jobs.
pub struct Jobs {
    bounds: JobBounds,
    turns: Semaphore,
    table: Mutex<Table>,
    /// What ids of this server begin with, from its start to its end.
    run: String,
}

impl Jobs {
    /// No jobs yet.
    pub fn new(bounds: JobBounds) -> Self {
        let turns = Semaphore::new(bounds.running.max(1));
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = format!("{:016x}", start.as_nanos() as u64);
        Self { bounds, turns, table: Mutex::default(), run }
    }

    /// What jobs may take.
    pub fn bounds(&self) -> &JobBounds {
        &self.bounds
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job; it is computed when its turn comes. Has to be called within the runtime.
    ///
    /// # Errors
    /// As many wait as may, or the server is ending.
    pub fn submit(state: &Arc<State>, work: Work) -> Result<String, Problem> {
        let id = state.jobs.new_id()?;
        let about = Arc::new(About {
            id: id.clone(),
            graph: work.model.graph.name.clone(),
            model: work.model.title(),
            targets: work.targets.len() as u64,
            owner: work.owner.clone(),
        });
        let (tell, progress) = watch::channel(Progress::default());
        let cancel = Arc::new(Notify::new());
        let bytes = work.targets.num_bytes();
        let record =
            Record { about: Arc::clone(&about), progress, cancel: Arc::clone(&cancel), bytes };
        state.jobs.lock().add(record, &state.jobs.bounds)?;
        let (state, keep) = (Arc::clone(state), work.keep);
        tokio::spawn(async move {
            let work = run(&state, work, &tell);
            let ended = tokio::select! {
                biased;
                () = cancel.notified() => Ok(None),
                done = work => done.map(Some),
            };
            let jobs = &state.jobs;
            let end = match ended {
                Ok(None) => Progress { state: JobState::Cancelled, ..tell.borrow().clone() },
                Ok(Some(outcome)) => Progress {
                    state: JobState::Done,
                    done: about.targets,
                    result: Some(Arc::new(outcome)),
                    ..Progress::default()
                },
                Err(problem) => Progress {
                    state: JobState::Failed,
                    problem: told(&problem),
                    ..tell.borrow().clone()
                },
            };
            let bytes = end.result.as_ref().map_or(0, |outcome| outcome.rows.data.len() as u64);
            jobs.lock().end(&about.id, bytes, &jobs.bounds);
            tell.send_replace(end);
            drop(tell);
            sleep(keep).await;
            state.jobs.lock().forget(&about.id);
        });
        Ok(id)
    }

    /// Finds a job.
    ///
    /// # Errors
    /// There is none of that id, or it is not kept any more.
    pub fn find(&self, id: &str, caller: &Caller) -> Result<Found, Problem> {
        let table = self.lock();
        let found = table.get(id).filter(|record| record.about.is_for(caller));
        let found = found.ok_or_else(|| {
            let missing = |message| Problem::missing("JOB_NOT_FOUND", message).at("job");
            if self.is_of_another_run(id) {
                let message = format!("this server has not accepted job {id:?} since it started");
                return missing(message).remedy(
                    "start a new job, because jobs do not survive a restart; with several servers, \
                     ask the server that accepted the job",
                );
            }
            missing(format!("job {id:?} does not exist"))
                .remedy("start a new job, because results are kept for a limited time only")
        })?;
        Ok(found.found())
    }

    /// An id that cannot be guessed, behind what says of which run of the server it is.
    fn new_id(&self) -> Result<String, Problem> {
        let mut bytes = [0; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            Problem::new(
                Code::Internal,
                "IO_FAILED",
                format!("cannot read random numbers: {error}"),
            )
        })?;
        let random: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{}-{random}", self.run))
    }

    /// Whether an id has the form of those of servers, and is not of this one since its start.
    fn is_of_another_run(&self, id: &str) -> bool {
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parts = id
            .split_once('-')
            .filter(|(run, random)| run.len() == self.run.len() && random.len() == 2 * ID_BYTES);
        parts.is_some_and(|(run, random)| run != self.run && is_hex(run) && is_hex(random))
    }

    /// All jobs of a caller; those that have ended come first.
    pub fn all(&self, caller: &Caller) -> Vec<Found> {
        let table = self.lock();
        table.all().filter(|record| record.about.is_for(caller)).map(Record::found).collect()
    }

    /// How many there are in each state, as metrics call them.
    pub fn by_state(&self) -> [(&'static str, usize); 5] {
        let table = self.lock();
        let states: Vec<JobState> = table.all().map(|job| job.progress.borrow().state).collect();
        JobState::ALL
            .map(|state| (state.name(), states.iter().filter(|found| **found == state).count()))
    }

    /// Cancels a job: what is computed of it at this moment is its last piece.
    ///
    /// # Errors
    /// As [`Jobs::find`].
    pub fn cancel(&self, id: &str, caller: &Caller) -> Result<Found, Problem> {
        let found = self.find(id, caller)?;
        if let Some(record) = self.lock().get(id) {
            record.cancel.notify_one();
        }
        Ok(found)
    }

    /// Cancels all jobs, since the server ends.
    pub fn end(&self) {
        self.lock().close();
    }
}

/// Waits for the turn of a job and computes it piece by piece.
async fn run(
    state: &State,
    work: Work,
    tell: &watch::Sender<Progress>,
) -> Result<Outcome, Problem> {
    let since = std::time::Instant::now();
    let turn = state.jobs.turns.acquire().await;
    let _turn = turn.map_err(|_| shutting_down())?;
    let queued = since.elapsed();
    tell.send_modify(|progress| progress.state = JobState::Running);
    let mut pieces = Pieces::new(&work, state.jobs.bounds.result_bytes);
    // It ends on the devices that it began with, whatever takes their place.
    let computing = work.model.engine.computing();
    while let Some(question) = pieces.next() {
        let answered = state.scheduler.ask_of(question, Some(computing.clone())).await?;
        pieces.take(answered)?;
        tell.send_modify(|progress| progress.done = pieces.done());
    }
    let (rows, cached) = pieces.finish()?;
    let ran = since.elapsed().saturating_sub(queued);
    let snapshot = named(&work.snapshot);
    Ok(Outcome { rows: rows.into(), snapshot, cached, queued, ran })
}

fn told(problem: &Problem) -> String {
    match problem.remedy.as_str() {
        "" => problem.message.clone(),
        remedy => format!("{}: {remedy}", problem.message),
    }
}

fn full(message: String) -> Problem {
    Problem::new(Code::ResourceExhausted, "JOBS_FULL", message)
        .retry_about(RETRY_AFTER)
        .remedy("try again after a job has ended, or cancel a job")
}
