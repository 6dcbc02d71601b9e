//! Streams of a server that never runs out of batches, and graphs that are sent in pieces.
#![allow(clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ng_client::{Client, Settings};
use ng_rpc::tonic::transport::Server;
use ng_rpc::v1::graph_store_service_server::{GraphStoreService, GraphStoreServiceServer};
use ng_rpc::v1::sampling_service_server::{SamplingService, SamplingServiceServer};
use ng_rpc::{Code, Problem, Request, Response, Status, Stream, Streaming, async_trait, v1};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use v1::update_graph_request::Part;

const IDS: usize = 32 << 10;
/// What windows, buffers and queues between both sides may hold.
const AHEAD_BYTES: usize = 24 << 20;
/// Uploads that are dropped before their end.
const HALVES: usize = 50;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Counts what it does.
#[derive(Clone, Default)]
struct Counts {
    made: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    graphs: Arc<AtomicUsize>,
    pieces: Arc<AtomicUsize>,
    given_up: Arc<AtomicUsize>,
}

/// Gives batches for as long as they are taken.
struct Endless(Counts);

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Iterator for Endless {
    type Item = Result<v1::SampleResponse, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.0.made.fetch_add(1, Ordering::SeqCst) as u64;
        let ids = vec![u64::MAX; IDS];
        let nodes = vec![v1::NodeBatch { ids, ..Default::default() }];
        Some(Ok(v1::SampleResponse { batch, nodes, ..Default::default() }))
    }
}

#[async_trait]
impl SamplingService for Counts {
    type SampleStream = Stream<v1::SampleResponse>;

    async fn sample(
        &self,
        asked: Request<v1::SampleRequest>,
    ) -> Result<Response<Self::SampleStream>, Status> {
        if asked.get_ref().graph == "busy" && self.refused.fetch_add(1, Ordering::SeqCst) == 0 {
            let full = Problem::new(Code::ResourceExhausted, "STREAMS_FULL", "full");
            return Err(full.retry_after(Duration::from_millis(5)).into());
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(Box::pin(tokio_stream::iter(Endless(self.clone())))))
    }
}

/// A graph that comes; a call that is cancelled is dropped.
struct Taking<'a> {
    counts: &'a Counts,
    is_whole: bool,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.counts.given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl GraphStoreService for Counts {
    async fn update_graph(
        &self,
        asked: Request<Streaming<v1::UpdateGraphRequest>>,
    ) -> Result<Response<v1::UpdateGraphResponse>, Status> {
        let mut parts = asked.into_inner();
        let Some(Part::Head(head)) = parts.message().await?.and_then(|message| message.part) else {
            return Err(Status::invalid_argument("no head"));
        };
        if head.graph == "refused" {
            return Err(Status::already_exists("it is there"));
        }
        let mut taking = Taking { counts: self, is_whole: false };
        while let Some(message) = parts.message().await? {
            if message.part.is_none() {
                return Err(Status::invalid_argument("a message is empty"));
            }
            self.pieces.fetch_add(1, Ordering::SeqCst);
        }
        taking.is_whole = true;
        self.graphs.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(v1::UpdateGraphResponse { num_nodes: 3, ..Default::default() }))
    }

    async fn get_neighbors(
        &self,
        _: Request<v1::GetNeighborsRequest>,
    ) -> Result<Response<v1::GetNeighborsResponse>, Status> {
        Ok(Response::new(v1::GetNeighborsResponse::default()))
    }

    async fn apply_transaction(
        &self,
        _: Request<v1::ApplyTransactionRequest>,
    ) -> Result<Response<v1::ApplyTransactionResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn add_vertex(
        &self,
        _: Request<v1::AddVertexRequest>,
    ) -> Result<Response<v1::AddVertexResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delete_vertex(
        &self,
        _: Request<v1::DeleteVertexRequest>,
    ) -> Result<Response<v1::DeleteVertexResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn add_edge(
        &self,
        _: Request<v1::AddEdgeRequest>,
    ) -> Result<Response<v1::AddEdgeResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn delete_edge(
        &self,
        _: Request<v1::DeleteEdgeRequest>,
    ) -> Result<Response<v1::DeleteEdgeResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn update_embed(
        &self,
        _: Request<v1::UpdateEmbedRequest>,
    ) -> Result<Response<v1::UpdateEmbedResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_embed(
        &self,
        _: Request<v1::GetEmbedRequest>,
    ) -> Result<Response<v1::GetEmbedResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

struct Served {
    counts: Counts,
    client: Client,
    _runtime: Runtime,
    _folder: tempfile::TempDir,
}

fn served() -> Served {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = Runtime::new().expect("runtime");
    let path = folder.path().join("socket");
    let socket = runtime.block_on(async { UnixListener::bind(&path) }).expect("bound");
    let counts = Counts::default();
    let server = Server::builder()
        .add_service(SamplingServiceServer::new(counts.clone()))
        .add_service(GraphStoreServiceServer::new(counts.clone()));
    runtime.spawn(server.serve_with_incoming(UnixListenerStream::new(socket)));
    let settings = Settings {
        address: format!("unix:{}", path.display()),
        timeout: Some(TIMEOUT),
        retry: TIMEOUT,
        ..Settings::default()
    };
    let client = Client::with(settings).expect("client");
    Served { counts, client, _runtime: runtime, _folder: folder }
}

fn until(holds: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "it never holds");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stream_that_is_not_read_stops_the_server_and_holds_up_no_other_call() {
    let Served { counts, client, .. } = &served();
    let open = |graph: &str| {
        let message = v1::SampleRequest { graph: graph.to_owned(), ..Default::default() };
        client.wait(|calls| async move { calls.sample(message).await }).expect("open")
    };
    let mut streams: Vec<_> = (0..3).map(|_| open("")).collect();
    for stream in &mut streams {
        client.wait(|_| stream.next()).expect("told").expect("a batch");
    }
    // Neither the streams nor calls wait for each other while all windows are full.
    let full = || {
        let before = counts.made.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(200));
        counts.made.load(Ordering::SeqCst) == before
    };
    until(full);
    client.get_neighbors(v1::GetNeighborsRequest::default()).expect("an answer");
    for stream in streams.iter_mut().rev() {
        client.wait(|_| stream.next()).expect("told").expect("a batch");
    }
    let ahead = counts.made.load(Ordering::SeqCst) * IDS * size_of::<u64>();
    assert!(ahead < streams.len() * AHEAD_BYTES, "{ahead} bytes were made for nobody");
    assert_eq!(counts.open.load(Ordering::SeqCst), streams.len());
    drop(streams);
    client.get_neighbors(v1::GetNeighborsRequest::default()).expect("an answer");
    until(|| counts.open.load(Ordering::SeqCst) == 0);
    drop(open("busy"));
    assert_eq!(counts.refused.load(Ordering::SeqCst), 2, "it was tried again");
}

#[test]
fn a_graph_is_made_of_all_pieces_or_not_at_all() {
    let Served { counts, client, .. } = &served();
    let begin = |graph: &str| {
        let head = v1::UpdateGraphHead { graph: graph.to_owned(), ..Default::default() };
        client.wait(|calls| async move { calls.update_graph(head) }).expect("begun")
    };
    let mut whole = begin("whole");
    for _ in 0..10 {
        client.wait(|_| whole.send(vec![1; 100_000])).expect("sent");
    }
    let made = client.wait(|_| whole.finish()).expect("made");
    assert_eq!((made.num_nodes, counts.pieces.load(Ordering::SeqCst)), (3, 10));

    let mut half = begin("half");
    client.wait(|_| half.send(vec![1; 100_000])).expect("sent");
    until(|| {
        // Whatever drives the connection has time to send it.
        client.get_neighbors(v1::GetNeighborsRequest::default()).expect("an answer");
        counts.pieces.load(Ordering::SeqCst) == 11
    });
    drop(half);
    // Of many, because a call that is cancelled is taken for a whole graph now and then.
    let halves: Vec<_> = (1..HALVES).map(|_| begin("half")).collect();
    for mut half in halves {
        client.wait(|_| half.send(vec![1; 100_000])).expect("sent");
    }
    until(|| {
        client.get_neighbors(v1::GetNeighborsRequest::default()).expect("an answer");
        counts.given_up.load(Ordering::SeqCst) == HALVES
    });
    assert_eq!(counts.graphs.load(Ordering::SeqCst), 1);

    let mut refused = begin("refused");
    let problem = loop {
        if let Err(status) = client.wait(|_| refused.send(vec![1; 100_000])) {
            break status;
        }
    };
    assert_eq!(problem.code(), Code::AlreadyExists);
    let ended = client.wait(|_| refused.finish()).expect_err("refused");
    assert_eq!(ended.code(), Code::AlreadyExists);
}
