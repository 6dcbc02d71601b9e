//! The load generator over each kind of connection, beside a server that sheds some of it.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use ng_client::load::{Options, Report, run};
use ng_rpc::tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use ng_rpc::v1::inference_service_server::{InferenceService, InferenceServiceServer};
use ng_rpc::{Code, Problem, Request, Response, Status, Stream, async_trait, v1};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use v1::targets::Targets;

const SHED: usize = 10;
/// More than a frame of HTTP/2 takes.
const WIDTH: usize = 10_000;

/// Answers with a row for each node; sheds the first requests for the model "busy".
#[derive(Clone, Default)]
struct Rows {
    runs: Arc<AtomicUsize>,
    shed: Arc<AtomicUsize>,
}

#[async_trait]
impl InferenceService for Rows {
    type WatchAnalysisStream = Stream<v1::WatchAnalysisResponse>;

    async fn run(
        &self,
        asked: Request<v1::RunRequest>,
    ) -> Result<Response<v1::RunResponse>, Status> {
        let said = asked.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if said != Some("Bearer secret") || asked.metadata().get("grpc-timeout").is_none() {
            return Err(Status::unauthenticated("no token"));
        }
        let request = asked.into_inner();
        let is_busy = request.dfg == Some(v1::run_request::Dfg::Model("busy".into()));
        if is_busy && self.shed.fetch_add(1, Ordering::SeqCst) < SHED {
            let problem = Problem::new(Code::ResourceExhausted, "SHED", "busy");
            return Err(problem.retry_after(Duration::from_millis(5)).into());
        }
        let Some(Targets::Nodes(nodes)) = request.targets.and_then(|targets| targets.targets)
        else {
            return Err(Status::invalid_argument("no nodes"));
        };
        self.runs.fetch_add(1, Ordering::SeqCst);
        let shape = vec![nodes.ids.len() as u64, WIDTH as u64];
        let data = vec![0; nodes.ids.len() * WIDTH].into();
        let rows = Some(v1::Tensor { dtype: v1::Dtype::U8.into(), shape, data });
        Ok(Response::new(v1::RunResponse { rows, ..v1::RunResponse::default() }))
    }

    async fn graph_analysis(
        &self,
        _: Request<v1::GraphAnalysisRequest>,
    ) -> Result<Response<v1::GraphAnalysisResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_analysis_result(
        &self,
        _: Request<v1::GetAnalysisResultRequest>,
    ) -> Result<Response<v1::GetAnalysisResultResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn watch_analysis(
        &self,
        _: Request<v1::WatchAnalysisRequest>,
    ) -> Result<Response<Self::WatchAnalysisStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn cancel_analysis(
        &self,
        _: Request<v1::CancelAnalysisRequest>,
    ) -> Result<Response<v1::CancelAnalysisResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_analyses(
        &self,
        _: Request<v1::ListAnalysesRequest>,
    ) -> Result<Response<v1::ListAnalysesResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

fn options(folder: &Path, more: &[&str]) -> Options {
    let token = folder.join("token");
    std::fs::write(&token, "secret\n").expect("written");
    let all = ["load", "--token-file", token.to_str().expect("text"), "--warm-seconds", "0"];
    let rest = ["--ids", "10", "--nodes", "3", "--rate", "400", "--seconds", "0.25"];
    Options::try_parse_from(all.iter().chain(&rest).chain(more)).expect("options")
}

fn loaded(options: &Options) -> Report {
    run(options, |_| ()).expect("a report")
}

fn answered(report: &Report) -> (usize, usize) {
    (report.open[0].requests, report.open[0].missed)
}

#[test]
fn plain_addresses_are_asked_and_shed_requests_are_missed_or_tried_again() {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = Runtime::new().expect("runtime");
    let rows = Rows::default();
    let _entered = runtime.enter();
    let path = folder.path().join("socket");
    let unix = UnixListenerStream::new(UnixListener::bind(&path).expect("bound"));
    let tcp = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound");
    let addresses =
        [tcp.local_addr().expect("address").to_string(), format!("unix:{}", path.display())];
    let server = || Server::builder().add_service(InferenceServiceServer::new(rows.clone()));
    runtime.spawn(server().serve_with_incoming(unix));
    runtime.spawn(server().serve_with_incoming(TcpListenerStream::new(tcp)));
    for address in &addresses {
        let report = loaded(&options(folder.path(), &["--address", address]));
        assert_eq!(answered(&report), (100, 0), "{:?}", report.open[0].missed_by_code);
    }
    assert_eq!(rows.runs.load(Ordering::SeqCst), 200, "each request was asked once");
    let busy = ["--address", &addresses[0], "--model", "busy"];
    let missed = loaded(&options(folder.path(), &busy));
    assert_eq!(answered(&missed), (100, SHED));
    assert_eq!(missed.open[0].missed_by_code["ResourceExhausted"], SHED);
    rows.shed.store(0, Ordering::SeqCst);
    let again = options(folder.path(), &[&busy[..], &["--retry", "5"]].concat());
    assert_eq!(answered(&loaded(&again)), (100, 0));
}

#[test]
fn a_server_that_wants_certificates_gets_them() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("key");
    let issuer = CertifiedIssuer::self_signed(params, key).expect("root");
    let made = |name: &str| {
        let key = KeyPair::generate().expect("key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("names");
        (params.signed_by(&key, &issuer).expect("signed").pem(), key.serialize_pem())
    };
    let (server, client) = (made("graphs.example"), made("client"));
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let (ca, cert) = (file("ca.pem", &issuer.pem()), file("cert.pem", &client.0));
    let key = file("key.pem", &client.1);

    let runtime = Runtime::new().expect("runtime");
    let _entered = runtime.enter();
    let tcp = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("bound");
    let address = tcp.local_addr().expect("address").to_string();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server.0, &server.1))
        .client_ca_root(Certificate::from_pem(issuer.pem()));
    let served = Server::builder()
        .tls_config(tls)
        .expect("certificates")
        .add_service(InferenceServiceServer::new(Rows::default()));
    runtime.spawn(served.serve_with_incoming(TcpListenerStream::new(tcp)));
    let trusted = ["--address", &address, "--ca", &ca, "--server-name", "graphs.example"];
    let known = [&trusted[..], &["--cert", &cert, "--key", &key]].concat();
    assert_eq!(answered(&loaded(&options(folder.path(), &known))), (100, 0));
    let stranger = loaded(&options(folder.path(), &trusted));
    assert_eq!(answered(&stranger), (100, 100));
    let half = ["load", "--cert", &cert, "--ca", &ca];
    assert!(Options::try_parse_from(half).is_err(), "a certificate without its key");
}

#[test]
fn a_search_says_its_result_in_words() {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = Runtime::new().expect("runtime");
    let _entered = runtime.enter();
    let path = folder.path().join("socket");
    let unix = UnixListenerStream::new(UnixListener::bind(&path).expect("bound"));
    let server = Server::builder().add_service(InferenceServiceServer::new(Rows::default()));
    runtime.spawn(server.serve_with_incoming(unix));
    let (address, token) = (format!("unix:{}", path.display()), folder.path().join("token"));
    std::fs::write(&token, "secret").expect("written");
    let all = ["load", "--address", &address, "--token-file", token.to_str().expect("text")];
    let rest = ["--ids", "10", "--warm-seconds", "0", "--requests", "50", "--seconds", "0.1"];
    let search = ["--find-rate", "--limit-ms", "5000"];
    let options = Options::try_parse_from(all.iter().chain(&rest).chain(&search));
    let lines = std::cell::RefCell::new(Vec::new());
    run(&options.expect("options"), |line| lines.borrow_mut().push(line.to_owned())).expect("run");
    let last = lines.borrow().last().cloned().expect("a line");
    assert!(last.starts_with("highest rate with p99 <= 5000 ms: "), "{last}");
    assert!(last.ends_with(" requests/s"), "{last}");
}
