//! Jobs from outside: what they give, how they end, and what they may take.
#![allow(clippy::expect_used)]

mod help;

use help::calls::{calls, until};
use help::{client, folder, register, run, started};
use ng_rpc::connect::Channel;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::{Code, problem_told, v1};
use ng_server::jobs::JobBounds;
use tokio::runtime::Runtime;

struct Caller {
    runtime: Runtime,
    client: InferenceServiceClient<Channel>,
}

impl Caller {
    fn new(serving: &ng_server::Serving) -> Self {
        let (runtime, channel) = calls(serving, 0);
        Self { runtime, client: InferenceServiceClient::new(channel) }
    }

    fn submit(&self, request: v1::RunRequest) -> Result<String, ng_rpc::Status> {
        let request = v1::GraphAnalysisRequest { request: Some(request), keep_seconds: 60 };
        let answer = self.runtime.block_on(self.client.clone().graph_analysis(request))?;
        Ok(answer.into_inner().job)
    }

    fn result(&self, job: &str, wait_ms: u32) -> v1::GetAnalysisResultResponse {
        let request = v1::GetAnalysisResultRequest { job: job.to_owned(), wait_ms };
        let answer = self.runtime.block_on(self.client.clone().get_analysis_result(request));
        answer.expect("a job").into_inner()
    }

    fn steps(&self, job: &str) -> Vec<v1::Job> {
        self.runtime.block_on(async {
            let request = v1::WatchAnalysisRequest { job: job.to_owned() };
            let steps = self.client.clone().watch_analysis(request).await.expect("a stream");
            let (mut steps, mut all) = (steps.into_inner(), Vec::new());
            while let Some(step) = steps.message().await.expect("a step") {
                all.push(step.job.expect("a job"));
            }
            all
        })
    }

    fn cancel(&self, job: &str) -> v1::Job {
        let request = v1::CancelAnalysisRequest { job: job.to_owned() };
        let answer = self.runtime.block_on(self.client.clone().cancel_analysis(request));
        answer.expect("a job").into_inner().job.expect("a job")
    }

    fn all(&self) -> Vec<v1::Job> {
        let answer =
            self.runtime.block_on(self.client.clone().list_analyses(v1::ListAnalysesRequest {}));
        answer.expect("jobs").into_inner().jobs
    }
}

fn pairs(sources: &[u64], destinations: &[u64]) -> v1::Targets {
    let edges = v1::Edges {
        edge_type: String::new(),
        sources: sources.to_vec(),
        destinations: destinations.to_vec(),
    };
    v1::Targets { targets: Some(v1::targets::Targets::Edges(edges)) }
}

#[test]
fn a_job_gives_what_one_request_gives_and_tells_how_far_it_is() {
    let folder = folder(500);
    // One request for all of them takes much memory at once.
    let memory = Some(1 << 30);
    let serving = started(folder.path(), |config| ng_server::Config { memory, ..config });
    let direct = client(&serving, 0);
    register(&direct);
    let caller = Caller::new(&serving);
    let nodes: Vec<u64> = (0..800).map(|at| at * 7 % 500).collect();
    for request in [
        run(&nodes),
        v1::RunRequest { seed: 3, ..run(&nodes) },
        v1::RunRequest { targets: Some(pairs(&nodes[..300], &nodes[300..600])), ..run(&[]) },
    ] {
        let job = caller.submit(request.clone()).expect("taken");
        let steps = caller.steps(&job);
        let done: Vec<u64> = steps.iter().map(|step| step.targets_done).collect();
        assert!(done.is_sorted(), "{done:?}");
        let last = steps.last().expect("the end is told");
        assert_eq!((last.state(), last.targets_done), (v1::JobState::Done, last.targets));
        let found = caller.result(&job, 0);
        let (result, wanted) = (found.result.expect("done"), direct.run(request).expect("rows"));
        assert_eq!(result.rows, wanted.rows);
        assert_eq!(result.snapshot, wanted.snapshot);
        assert_eq!((result.model.as_str(), last.graph.as_str()), ("mean@1", "small"));
        // One who comes late hears the end at once.
        assert_eq!(caller.steps(&job).len(), 1);
        assert_eq!((job.len(), caller.cancel(&job).state()), (49, v1::JobState::Done));
    }
    // Pieces, not whole jobs, went to the scheduler.
    assert!(serving.schedule().requests > 8, "{:?}", serving.schedule());
    let failed = caller.submit(run(&[1, 500])).expect("taken");
    let found = caller.result(&failed, 20_000);
    let job = found.job.expect("a job");
    assert_eq!((job.state(), found.result), (v1::JobState::Failed, None));
    assert!(job.problem.contains("500"), "{}", job.problem);
    assert_eq!(caller.all().len(), 4);
    let shown = help::raw::get(serving.side_address(), "/metrics", "").body;
    for (state, jobs) in [("queued", 0), ("running", 0), ("done", 3), ("failed", 1)] {
        let line = format!("neargraph_jobs{{state=\"{state}\"}} {jobs}\n");
        assert!(shown.contains(&line), "{line}{shown}");
    }
}

#[test]
fn jobs_wait_in_a_bounded_queue_and_end_when_they_are_called_off() {
    let folder = folder(500);
    let bounds = JobBounds { unfinished: 3, ..JobBounds::default() };
    let serving = started(folder.path(), |config| ng_server::Config { jobs: bounds, ..config });
    register(&client(&serving, 0));
    let caller = Caller::new(&serving);
    let nodes: Vec<u64> = (0..200_000).map(|at| at % 500).collect();
    let long = |seed| v1::RunRequest { seed, ..run(&nodes) };
    let jobs: Vec<String> = (0..3).map(|seed| caller.submit(long(seed)).expect("taken")).collect();
    let refused = caller.submit(long(9)).expect_err("over the limit");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let problem = problem_told(&refused);
    assert_eq!(problem.reason, "JOBS_FULL");
    assert!(problem.retry_after.is_some());

    until(|| caller.result(&jobs[0], 0).job.is_some_and(|job| job.targets_done > 0));
    let states = |caller: &Caller| caller.all().iter().map(v1::Job::state).collect::<Vec<_>>();
    let (queued, running) = (v1::JobState::Queued, v1::JobState::Running);
    assert_eq!(states(&caller), [running, queued, queued]);
    // Others are answered meanwhile.
    assert!(client(&serving, 1).run(run(&[1])).is_ok());
    assert_eq!(caller.cancel(&jobs[1]).state(), v1::JobState::Cancelled);
    let ended = caller.cancel(&jobs[0]);
    assert_eq!(ended.state(), v1::JobState::Cancelled);
    assert!(ended.targets_done < ended.targets, "{ended:?}");
    // There is room again, and the next one has its turn.
    caller.submit(run(&[1])).expect("taken");
    until(|| caller.result(&jobs[2], 0).job.is_some_and(|job| job.state() == running));
    // A server that ends does not wait for jobs.
    serving.end();
}

#[test]
fn a_job_of_before_a_restart_is_not_found_and_the_answer_says_so() {
    let folder = folder(50);
    let find = |caller: &Caller, job: &str| {
        let request = v1::GetAnalysisResultRequest { job: job.to_owned(), wait_ms: 0 };
        let asked = caller.runtime.block_on(caller.client.clone().get_analysis_result(request));
        problem_told(&asked.map(drop).expect_err("no such job"))
    };
    let job = {
        let serving = started(folder.path(), |config| config);
        register(&client(&serving, 0));
        let caller = Caller::new(&serving);
        let job = caller.submit(run(&[1, 2])).expect("taken");
        assert_eq!(caller.result(&job, 20_000).job.expect("job").state(), v1::JobState::Done);
        let other = if job.ends_with('0') { '1' } else { '0' };
        let unknown = find(&caller, &format!("{}{other}", &job[..job.len() - 1]));
        assert_eq!((unknown.code, unknown.reason.as_str()), (Code::NotFound, "JOB_NOT_FOUND"));
        assert!(unknown.remedy.contains("for a limited time"), "{unknown:?}");
        serving.end();
        job
    };
    let serving = started(folder.path(), |config| config);
    let caller = Caller::new(&serving);
    let gone = find(&caller, &job);
    assert_eq!((gone.code, gone.reason.as_str()), (Code::NotFound, "JOB_NOT_FOUND"));
    assert!(gone.remedy.contains("jobs do not survive a restart"), "{gone:?}");
    for odd in ["", "x", &job[1..], &format!("{job}0"), &job.replace('-', "")] {
        assert!(!find(&caller, odd).remedy.contains("restart"), "{odd}");
    }
}
