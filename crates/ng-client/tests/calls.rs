//! Calls against a server that sheds load, is slow, or is not there yet.
#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ng_client::{Client, Settings};
use ng_rpc::tonic::transport::Server;
use ng_rpc::v1::inference_service_server::{InferenceService, InferenceServiceServer};
use ng_rpc::{Code, Problem, Request, Response, Status, Stream, async_trait, v1};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;

const SHED: usize = 2;
const RETRY_AFTER: Duration = Duration::from_millis(30);

/// Sheds the first calls; jobs are always shed. A run of seed 9 never ends.
#[derive(Clone, Default)]
struct Busy {
    runs: Arc<AtomicUsize>,
    jobs: Arc<AtomicUsize>,
    timeout: Arc<std::sync::Mutex<Option<String>>>,
}

fn shed() -> Status {
    Problem::new(Code::ResourceExhausted, "SHED", "busy").retry_after(RETRY_AFTER).into()
}

#[async_trait]
impl InferenceService for Busy {
    type WatchAnalysisStream = Stream<v1::WatchAnalysisResponse>;

    async fn run(
        &self,
        asked: Request<v1::RunRequest>,
    ) -> Result<Response<v1::RunResponse>, Status> {
        let meta = asked.metadata();
        let text = |name| meta.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        *self.timeout.lock().expect("whole") = text("grpc-timeout");
        if text("authorization").as_deref() != Some("Bearer secret") {
            return Err(Status::unauthenticated("no token"));
        }
        if asked.get_ref().seed == 9 {
            std::future::pending::<()>().await;
        }
        match self.runs.fetch_add(1, Ordering::SeqCst) {
            run if run < SHED => Err(shed()),
            _ => Ok(Response::new(v1::RunResponse { model: "a@1".into(), ..Default::default() })),
        }
    }

    async fn graph_analysis(
        &self,
        _: Request<v1::GraphAnalysisRequest>,
    ) -> Result<Response<v1::GraphAnalysisResponse>, Status> {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        Err(shed())
    }

    async fn get_analysis_result(
        &self,
        _: Request<v1::GetAnalysisResultRequest>,
    ) -> Result<Response<v1::GetAnalysisResultResponse>, Status> {
        Err(Status::not_found("no job"))
    }

    async fn watch_analysis(
        &self,
        _: Request<v1::WatchAnalysisRequest>,
    ) -> Result<Response<Self::WatchAnalysisStream>, Status> {
        Err(Status::not_found("no job"))
    }

    async fn cancel_analysis(
        &self,
        _: Request<v1::CancelAnalysisRequest>,
    ) -> Result<Response<v1::CancelAnalysisResponse>, Status> {
        Err(Status::not_found("no job"))
    }

    async fn list_analyses(
        &self,
        _: Request<v1::ListAnalysesRequest>,
    ) -> Result<Response<v1::ListAnalysesResponse>, Status> {
        Ok(Response::new(v1::ListAnalysesResponse::default()))
    }
}

fn settings(folder: &tempfile::TempDir) -> Settings {
    Settings {
        address: format!("unix:{}", folder.path().join("socket").display()),
        token: Some("secret".to_owned()),
        timeout: Some(Duration::from_secs(20)),
        retry: Duration::from_secs(10),
        tls: None,
    }
}

fn serve(runtime: &Runtime, folder: &tempfile::TempDir, busy: Busy) {
    let path = folder.path().join("socket");
    let socket = runtime.block_on(async { UnixListener::bind(path) }).expect("bound");
    let server = Server::builder().add_service(InferenceServiceServer::new(busy));
    runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(socket)));
}

#[test]
fn what_can_be_repeated_is_tried_again_when_the_server_says_and_nothing_else_is() {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = Runtime::new().expect("runtime");
    let busy = Busy::default();
    let client = Client::with(settings(&folder)).expect("client");
    let start = Instant::now();
    let answer = std::thread::scope(|scope| {
        // The server comes only after the client has asked in vain.
        let asked = scope.spawn(|| client.run(v1::RunRequest::default()));
        std::thread::sleep(Duration::from_millis(50));
        serve(&runtime, &folder, busy.clone());
        asked.join().expect("asked")
    });
    assert_eq!(answer.expect("answer").model, "a@1");
    assert_eq!(busy.runs.load(Ordering::SeqCst), SHED + 1);
    assert!(start.elapsed() >= 2 * RETRY_AFTER);
    assert!(busy.timeout.lock().expect("whole").is_some(), "the timeout is on the wire");

    let refused = client.graph_analysis(v1::GraphAnalysisRequest::default());
    assert_eq!(refused.expect_err("shed").code(), Code::ResourceExhausted);
    assert_eq!(busy.jobs.load(Ordering::SeqCst), 1, "a job might be taken twice");

    client.close();
    let closed = client.run(v1::RunRequest::default()).expect_err("closed");
    assert_eq!(closed.code(), Code::Cancelled);
}

#[test]
fn a_call_waits_no_longer_than_its_timeout() {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = Runtime::new().expect("runtime");
    serve(&runtime, &folder, Busy::default());
    let timeout = Some(Duration::from_millis(80));
    let client = Client::with(Settings { timeout, ..settings(&folder) }).expect("client");
    let endless = v1::RunRequest { seed: 9, ..Default::default() };
    assert_eq!(client.run(endless.clone()).expect_err("late").code(), Code::DeadlineExceeded);
    let stopped = client
        .wait_while(|| false, |calls| async move { calls.with_timeout(None).run(endless).await });
    assert_eq!(stopped.expect_err("given up").code(), Code::Cancelled);
    let token = Some("other".to_owned());
    let stranger = Client::with(Settings { token, ..settings(&folder) }).expect("client");
    let refused = stranger.run(v1::RunRequest::default()).expect_err("a stranger");
    assert_eq!(refused.code(), Code::Unauthenticated);
}
