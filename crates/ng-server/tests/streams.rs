//! Streams: those that are quiet go on, those that nobody reads give their places back.
#![allow(clippy::expect_used)]

mod help;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use help::calls::{calls, until};
use help::raw::get;
use help::{client, folder, register, run, started};
use ng_rpc::connect::Channel;
use ng_rpc::health::pb::HealthCheckRequest;
use ng_rpc::health::pb::health_client::HealthClient;
use ng_rpc::http::uri::PathAndQuery;
use ng_rpc::tonic::client::Grpc;
use ng_rpc::tonic_prost::ProstCodec;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::v1::sampling_service_client::SamplingServiceClient;
use ng_rpc::{Code, Request, Response, Status, problem_told, v1};
use ng_server::guard::Rules;
use ng_server::{Config, Limits};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

const QUIET: Duration = Duration::from_millis(900);

fn short() -> Limits {
    Limits { body: Duration::from_millis(300), ..Limits::default() }
}

fn request() -> v1::SampleRequest {
    v1::SampleRequest {
        graph: "small".into(),
        fanouts: vec![5, 3],
        batch_size: 1,
        tensors: vec!["x".into()],
        ..v1::SampleRequest::default()
    }
}

#[test]
fn a_stream_that_nobody_reads_gives_its_place_back_and_tells_where_to_go_on() {
    let folder = folder(500);
    let limits = Limits { unread: Duration::from_secs(2), ..Limits::default() };
    let serving = started(folder.path(), |config| Config { limits, ..config });
    let (runtime, channel) = calls(&serving, 0);
    let client = SamplingServiceClient::new(channel);
    let open = |request| runtime.block_on({ client.clone() }.sample(request));
    let unread = open(request()).expect("a stream").into_inner();
    until(|| serving.state().sampling.streams() == 1);
    let shown = get(serving.side_address(), "/metrics", "").body;
    assert!(shown.contains("neargraph_sample_streams 1"), "{shown}");
    until(|| serving.state().sampling.streams() == 0);
    assert_eq!(serving.state().guard.in_flight(), (0, 1), "its reader may still come");
    let (mut batches, mut stream) = (Vec::new(), unread);
    let ended = runtime.block_on(async {
        loop {
            match stream.message().await {
                Ok(Some(batch)) => batches.push(batch.batch),
                Ok(None) => panic!("it ended as if it were whole, after {batches:?}"),
                Err(status) => return status,
            }
        }
    });
    let problem = problem_told(&ended);
    assert_eq!((ended.code(), problem.reason.as_str()), (Code::Aborted, "STREAM_UNREAD"));
    assert!(!batches.is_empty() && batches.len() < 500, "{} batches", batches.len());
    let next = batches.len() as u64;
    assert!(problem.remedy.contains(&format!("first_batch={next}")), "{problem:?}");
    let rest = open(v1::SampleRequest { first_batch: next, ..request() }).expect("a stream");
    let rest: Vec<_> = runtime.block_on(rest.into_inner().collect());
    assert_eq!(next as usize + rest.len(), 500, "none is lost, and none comes twice");
    until(|| serving.state().guard.in_flight() == (0, 0));
    serving.end();
}

#[test]
fn a_stream_whose_end_is_not_read_loses_its_connection() {
    let folder = folder(500);
    let short = Duration::from_millis(400);
    let limits = Limits { unread: short, reading: short, ..Limits::default() };
    let serving = started(folder.path(), |config| Config { limits, ..config });
    let held = || (serving.state().sampling.streams(), serving.state().guard.in_flight().1);
    for timeout in [None, Some("300m")] {
        let (runtime, channel) = calls(&serving, 1);
        let mut client = SamplingServiceClient::new(channel);
        let mut request = Request::new(request());
        if let Some(timeout) = timeout {
            // Its end is due before its batches have waited for too long.
            serving.state().guard.replace(Rules { tokens: None, limits: patient(short) });
            request.metadata_mut().insert("grpc-timeout", timeout.parse().expect("text"));
        }
        let stream = runtime.block_on(client.sample(request)).expect("a stream").into_inner();
        assert_eq!(held(), (1, 1), "{timeout:?}");
        // The client answers pings all the time, and takes nothing.
        until(|| held() == (0, 0));
        until(|| serving.state().connections() == 0);
        drop(stream);
    }
    serving.end();
}

/// An answer has to be read soon, and a batch may wait for its reader.
fn patient(reading: Duration) -> Limits {
    Limits { reading, ..Limits::default() }
}

#[test]
fn watches_of_health_take_no_place_of_other_streams() {
    const WATCHES: usize = 64;
    let folder = folder(100);
    let limits = Limits { streams: 1, calls: 1, ..Limits::default() };
    let serving = started(folder.path(), |config| Config { limits, ..config });
    let (runtime, channel) = calls(&serving, 0);
    let health = HealthClient::new(channel.clone());
    let watch = || {
        let asked = HealthCheckRequest::default();
        runtime.block_on({ health.clone() }.watch(asked)).map(Response::into_inner)
    };
    let watches: Vec<_> = (0..WATCHES).map(|_| watch().expect("a watch")).collect();
    let refused = watch().expect_err("as many as may be");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(serving.state().guard.in_flight(), (0, 0));
    // Half a request of those that need no token, for as long as its sender likes.
    let (_never, asked) = tokio::sync::mpsc::channel::<v1::ServerInfoRequest>(1);
    let mut raw = Grpc::new(channel.clone());
    let codec = ProstCodec::<v1::ServerInfoRequest, v1::ServerInfoRequest>::default();
    let path = PathAndQuery::from_static("/inference.GRPCInferenceService/ServerLive");
    let half = async move {
        raw.ready().await.expect("ready");
        let asked = ng_rpc::Request::new(ReceiverStream::new(asked));
        raw.client_streaming(asked, path, codec).await.map(|_: Response<_>| ())
    };
    let half = runtime.spawn(half);
    let mut client = SamplingServiceClient::new(channel);
    let batches = runtime.block_on(client.sample(request())).expect("a stream is free");
    self::client(&serving, 0).server_info().expect("a call is free");
    drop((watches, batches));
    half.abort();
    until(|| watch().is_ok());
    serving.end();
}

#[test]
fn mini_batches_have_a_part_and_a_quota_of_their_token() {
    const SHARE: usize = 4;
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    let text = "read ann a-token-of-the-reader seeds=10\nread bob a-token-of-the-other\n";
    std::fs::write(&tokens, text).expect("written");
    std::fs::set_permissions(&tokens, Permissions::from_mode(0o600)).expect("mode");
    let set = |config| Config { token_file: Some(tokens.clone()), ..config };
    let serving = started(folder.path(), set);
    let (runtime, channel) = calls(&serving, 0);
    let client = SamplingServiceClient::new(channel);
    let open = |token: &str| {
        let mut request = Request::new(request());
        let bearer = format!("Bearer {token}").parse().expect("text");
        request.metadata_mut().insert("authorization", bearer);
        runtime.block_on({ client.clone() }.sample(request))
    };
    let reason = |refused: Result<_, Status>| problem_told(&refused.expect_err("refused")).reason;
    let many: Vec<_> =
        (0..SHARE).map(|_| open("a-token-of-the-other").expect("a stream")).collect();
    assert_eq!(reason(open("a-token-of-the-other").map(drop)), "TOO_MANY_REQUESTS");
    // More than a second's seeds are taken once, and paid for in the seconds after.
    let _epoch = open("a-token-of-the-reader").expect("nothing was asked before");
    assert_eq!(reason(open("a-token-of-the-reader").map(drop)), "QUOTA_EXHAUSTED");
    drop(many);
    until(|| open("a-token-of-the-other").is_ok());
    serving.end();
}

#[test]
fn streams_that_are_quiet_go_on() {
    let folder = folder(500);
    let serving = started(folder.path(), |config| Config { limits: short(), ..config });
    register(&client(&serving, 0));
    let (runtime, channel) = calls(&serving, 0);
    runtime.block_on(async {
        // A caller of reflection who thinks about the answer for a while.
        let (ask, asked) = tokio::sync::mpsc::channel(1);
        let mut raw = Grpc::new(channel.clone());
        raw.ready().await.expect("ready");
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        // Field 3 is the name of a file in a question of reflection.
        let codec = ProstCodec::<v1::ModelInfo, v1::ServerInfoRequest>::default();
        let answers = raw.streaming(
            ng_rpc::Request::new(ReceiverStream::new(asked)),
            PathAndQuery::from_static(path),
            codec,
        );
        let graph = "neargraph/v1/registry.proto".to_owned();
        let question = || v1::ModelInfo { graph: graph.clone(), ..v1::ModelInfo::default() };
        ask.send(question()).await.expect("sent");
        let mut answers = answers.await.expect("a stream").into_inner();
        answers.message().await.expect("an answer").expect("one");
        for _ in 0..2 {
            tokio::time::sleep(QUIET).await;
            ask.send(question()).await.expect("sent");
            answers.message().await.expect("an answer").expect("one");
        }
    });
    // A job that waits behind another one has nothing to tell.
    runtime.block_on(quiet_job(&channel));
    serving.end();
}

async fn quiet_job(channel: &Channel) {
    let mut client = InferenceServiceClient::new(channel.clone());
    let nodes: Vec<u64> = (0..200_000).map(|at| at % 500).collect();
    let mut jobs = Vec::new();
    for seed in [1, 2] {
        let request = v1::RunRequest { seed, ..run(&nodes) };
        let request = v1::GraphAnalysisRequest { request: Some(request), keep_seconds: 60 };
        jobs.push(client.graph_analysis(request).await.expect("taken").into_inner().job);
    }
    let job = jobs.pop().expect("a job");
    let watch = v1::WatchAnalysisRequest { job: job.clone() };
    let mut steps = client.watch_analysis(watch).await.expect("a stream").into_inner();
    let state = |step: v1::WatchAnalysisResponse| step.job.expect("a job").state();
    let first = steps.message().await.expect("a step").expect("one");
    assert_eq!(state(first), v1::JobState::Queued);
    let quiet = tokio::time::timeout(QUIET, steps.message()).await;
    if let Ok(early) = quiet {
        println!("not quiet: {early:?}");
    }
    client.cancel_analysis(v1::CancelAnalysisRequest { job }).await.expect("cancelled");
    let mut last = None;
    while let Some(step) = steps.message().await.expect("it goes on to the end") {
        last = Some(state(step));
    }
    assert_eq!(last, Some(v1::JobState::Cancelled));
}
