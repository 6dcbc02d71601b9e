//! What decodes the messages of each method, and the service behind it, survives bytes of a hostile
//! client: mutations of valid messages, from the frames of gRPC down to the store.
//!
//! `NEARGRAPH_FUZZ_EXECUTIONS` says how many, `NEARGRAPH_FUZZ_SEED` from which seed.
#![allow(clippy::expect_used)]

mod help;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use help::raw::runtime;
use help::{client, register, started};
use messages::mutate::{framed, mutated};
use messages::seeds::{Seed, all};
use ng_rpc::http::Request;
use ng_rpc::tonic::service::Routes;
use ng_rpc::tower::Service;
use ng_rpc::{Code, Message, methods, v1};
use ng_server::{Config, Limits, Serving};
use ng_testing::Random;

/// Inputs that one server gets: then another one begins with an empty folder.
const OF_A_SERVER: u64 = 20_000;
/// Requests under way at a time.
const AT_A_TIME: u64 = 4;
/// Frames of an answer that are read: streams may go on for ever.
const FRAMES: usize = 4;
/// After which nothing that small is waited for any longer.
const HANGS: Duration = Duration::from_secs(60);
/// What a client waits.
const TIMEOUT: &str = "300m";

static PANICS: AtomicU64 = AtomicU64::new(0);

/// A folder in memory where there is one: commits would wait for a disk.
fn folder() -> tempfile::TempDir {
    let made = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = made.expect("a folder");
    let store = folder.path().join("small.ng");
    std::fs::create_dir(&store).expect("a folder");
    help::common::build(&store, 300, 7);
    folder
}

fn served(folder: &std::path::Path) -> Serving {
    let limits = Limits { bytes_in_flight: 64 << 20, ..Limits::default() };
    let serving = started(folder, |config| Config { limits, lanes: 2, ..config });
    register(&client(&serving, 0));
    serving
}

/// How the decoder of the RPC library refuses what is not a message; the code is `INTERNAL`.
const NOT_DECODED: [&str; 4] = [
    "failed to decode",
    "protocol error: received message with",
    "Missing request message",
    "Unexpected EOF decoding",
];

/// What became of a call.
#[derive(Debug, PartialEq)]
enum Ended {
    /// It was answered, or goes on.
    Good,
    /// Its bytes are not a message.
    NotDecoded,
    Failed(Code, String),
    /// It goes on without end.
    Hangs,
}

impl Ended {
    fn of(headers: &ng_rpc::http::HeaderMap) -> Self {
        match ng_rpc::Status::from_header_map(headers) {
            None => Self::Good,
            Some(status) if status.code() == Code::Ok => Self::Good,
            Some(status) => {
                let told = status.message();
                match NOT_DECODED.iter().any(|begin| told.starts_with(begin)) {
                    true => Self::NotDecoded,
                    false => Self::Failed(status.code(), told.to_owned()),
                }
            }
        }
    }

    fn is_defect(&self) -> bool {
        matches!(self, Self::Hangs | Self::Failed(Code::Internal | Code::Unknown, _))
    }

    fn name(&self) -> String {
        match self {
            Self::Failed(code, _) => format!("{code:?}"),
            other => format!("{other:?}"),
        }
    }
}

/// Calls a method with the bytes of a body.
async fn call(mut routes: Routes, path: &str, body: Vec<u8>) -> Ended {
    let request = Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", TIMEOUT)
        .body(ng_rpc::tonic::body::Body::new(Body::from(body)))
        .expect("a request");
    let work = async {
        let Ok(response) = routes.call(request).await;
        let (head, body) = response.into_parts();
        let mut ended = Ended::of(&head.headers);
        let mut body = Box::pin(body);
        for _ in 0..FRAMES {
            let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
            let Some(Ok(frame)) = frame else { break };
            if let Some(trailers) = frame.trailers_ref() {
                ended = Ended::of(trailers);
            }
        }
        ended
    };
    tokio::time::timeout(HANGS, work).await.unwrap_or(Ended::Hangs)
}

/// Serves again what may just have been unregistered: without it, nothing else is found.
async fn restored(routes: &Routes) {
    let graph = v1::GraphRegisterRequest {
        graph: "small".into(),
        path: "small.ng".into(),
        ..v1::GraphRegisterRequest::default()
    };
    let model = v1::ModelRegisterRequest {
        model: "mean".into(),
        graph: "small".into(),
        source: Some(v1::model_register_request::Source::Files(help::files())),
        fanouts: vec![25, 10],
        ..v1::ModelRegisterRequest::default()
    };
    let mut whole = Random::new(2);
    for (path, message) in [
        ("/neargraph.v1.RegistryService/GraphRegister", graph.encode_to_vec()),
        ("/neargraph.v1.RegistryService/ModelRegister", model.encode_to_vec()),
    ] {
        // What is there already is refused, and that is well.
        let _there = call(routes.clone(), path, framed(&[message], &mut whole)).await;
    }
}

/// Which seed is next, by their weights.
fn drawn<'a>(seeds: &'a [Seed], total: u64, random: &mut Random) -> &'a Seed {
    let mut at = random.below(total);
    for seed in seeds {
        if at < seed.weight {
            return seed;
        }
        at -= seed.weight;
    }
    &seeds[0]
}

/// Runs inputs of one stream of draws; counts codes by method, and returns what is a defect.
async fn attacked(
    routes: Routes,
    seeds: Arc<Vec<Seed>>,
    mut random: Random,
    executions: u64,
    jobs: Arc<Vec<String>>,
) -> (BTreeMap<String, u64>, Vec<String>) {
    let others: Vec<Vec<u8>> = seeds.iter().flat_map(|seed| seed.messages.clone()).collect();
    let total: u64 = seeds.iter().map(|seed| seed.weight).sum();
    let (mut codes, mut defects) = (BTreeMap::new(), Vec::new());
    for _ in 0..executions {
        let seed = drawn(&seeds, total, &mut random);
        let mut messages = seed.messages.clone();
        if seed.path.ends_with("Analysis") || seed.path.ends_with("AnalysisResult") {
            // Ids of jobs cannot be guessed: one that there is, half of the time.
            let job = &jobs[random.below(jobs.len() as u64) as usize];
            if random.below(2) == 0 && !seed.path.ends_with("GraphAnalysis") {
                let message = v1::GetAnalysisResultRequest { job: job.clone(), wait_ms: 1 };
                messages = vec![message.encode_to_vec()];
            }
        }
        for message in &mut messages {
            *message = mutated(message, &others, &mut random);
        }
        let body = framed(&messages, &mut random);
        let before = PANICS.load(Ordering::SeqCst);
        let found = call(routes.clone(), seed.path, body.clone()).await;
        if seed.path.ends_with("Unregister") && found == Ended::Good {
            restored(&routes).await;
        }
        // A panic may be that of a neighbour: both are shown.
        if found.is_defect() || PANICS.load(Ordering::SeqCst) != before {
            defects.push(format!("{}: {found:?} for {body:02x?}", seed.path));
        }
        *codes.entry(found.name()).or_insert(0) += 1;
    }
    (codes, defects)
}

/// Inputs for a server of its own.
fn one_server(random: &mut Random, executions: u64) -> (BTreeMap<String, u64>, Vec<String>) {
    let folder = folder();
    let serving = served(folder.path());
    let good = client(&serving, 1);
    let job = v1::GraphAnalysisRequest { request: Some(help::run(&[1, 2])), keep_seconds: 600 };
    let jobs: Vec<String> =
        (0..3).map(|_| good.graph_analysis(job.clone()).expect("a job").job).collect();
    let (routes, seeds, jobs) = (serving.routes(), Arc::new(all()), Arc::new(jobs));
    let (mut codes, mut defects) = (BTreeMap::new(), Vec::new());
    runtime().block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..AT_A_TIME {
            let (routes, random) = (routes.clone(), Random::new(random.next_u64()));
            let (seeds, jobs) = (Arc::clone(&seeds), Arc::clone(&jobs));
            tasks.spawn(attacked(routes, seeds, random, executions / AT_A_TIME, jobs));
        }
        while let Some(done) = tasks.join_next().await {
            let (seen, wrong) = done.expect("a panic on the way to a service");
            defects.extend(wrong);
            for (code, count) in seen {
                *codes.entry(code).or_insert(0) += count;
            }
        }
    });
    // The graph of everybody else may have been unregistered; the server has to be there.
    good.server_info().expect("the server answers as before");
    serving.end();
    (codes, defects)
}

#[test]
fn each_method_has_a_valid_message_that_the_server_answers() {
    let folder = folder();
    let serving = served(folder.path());
    let seeds = all();
    let paths: BTreeSet<&str> = seeds.iter().map(|seed| seed.path).collect();
    let methods = methods().expect("methods");
    let missing: Vec<&String> = methods
        .iter()
        .filter(|path| !paths.contains(path.as_str()) && !path.ends_with("Health/Watch"))
        .filter(|path| !path.ends_with("Health/List"))
        .collect();
    assert!(missing.is_empty(), "no message for {missing:?}");
    let mut still = Random::new(1);
    runtime().block_on(async {
        for seed in seeds.iter().filter(|seed| seed.is_good) {
            let mut body = framed(&seed.messages, &mut still);
            while body.first() != Some(&0) || body.len() < 5 {
                body = framed(&seed.messages, &mut still);
            }
            let ended = call(serving.routes(), seed.path, body).await;
            assert_eq!(ended, Ended::Good, "{}", seed.path);
        }
    });
    serving.end();
}

#[test]
fn no_message_makes_a_service_panic_hang_or_meet_a_defect() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |count| count.parse().expect("a number"))
    };
    let executions = number("NEARGRAPH_FUZZ_EXECUTIONS", 20_000);
    let start = number("NEARGRAPH_FUZZ_SEED", 31);
    println!("seed {start}");
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(info);
    }));
    let mut random = Random::new(start);
    let (mut tried, mut codes, mut defects) = (0, BTreeMap::new(), Vec::new());
    while tried < executions && defects.is_empty() {
        let now = OF_A_SERVER.min(executions - tried);
        let (seen, wrong) = one_server(&mut random, now);
        tried += now;
        defects.extend(wrong);
        for (code, count) in seen {
            *codes.entry(code).or_insert(0) += count;
        }
    }
    let (panics, failed) = (PANICS.load(Ordering::SeqCst), defects.len());
    println!(
        "figure: {{\"id\":\"S3-decoders\",\"tried\":{tried},\"failed\":{failed},\"seed\":{start}}}"
    );
    println!("codes: {codes:?}");
    for defect in defects.iter().take(5) {
        println!("{defect}");
    }
    assert_eq!((panics, failed), (0, 0));
    // Most get past the decoder, and many are answered.
    let of = |name: &str| codes.get(name).copied().unwrap_or(0);
    let (good, not_decoded) = (of("Good"), of("NotDecoded"));
    assert!(good * 10 > tried && not_decoded * 2 < tried, "of {tried}: {codes:?}");
}
