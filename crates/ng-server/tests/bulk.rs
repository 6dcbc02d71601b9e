//! Columns that are streamed: a new graph of them, or more of one that is there, once and whole.
#![allow(clippy::expect_used)]

mod help;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use help::calls::calls;
use help::started;
use ng_rpc::connect::{Channel, channel};
use ng_rpc::tonic_types::StatusExt;
use ng_rpc::v1::graph_store_service_client::GraphStoreServiceClient;
use ng_rpc::v1::registry_service_client::RegistryServiceClient;
use ng_rpc::v1::update_graph_request::Part;
use ng_rpc::{Code, Problem, Status, problem_told, v1};
use ng_server::{Config, Limits};
use ng_testing::{ArrowColumn as Column, Named, Random, arrow_stream};
use tokio::runtime::Runtime;

/// Calls of one connection.
struct Caller(Runtime, Channel);

impl Caller {
    fn store(&self) -> GraphStoreServiceClient<Channel> {
        GraphStoreServiceClient::new(self.1.clone())
    }

    fn update(
        &self,
        head: v1::UpdateGraphHead,
        columns: &[u8],
        piece: usize,
    ) -> Result<v1::UpdateGraphResponse, Status> {
        let part = |part| v1::UpdateGraphRequest { part: Some(part) };
        let pieces = columns.chunks(piece).map(|piece| part(Part::Arrow(piece.to_vec())));
        let all: Vec<_> = std::iter::once(part(Part::Head(head))).chain(pieces).collect();
        let answer = self.0.block_on(self.store().update_graph(tokio_stream::iter(all)));
        answer.map(ng_rpc::Response::into_inner)
    }

    /// Begins a stream, which goes on until it is ended.
    fn begin(&self, head: v1::UpdateGraphHead) -> Begun<'_> {
        let (give, take) = tokio::sync::mpsc::channel(8);
        let mut store = self.store();
        let stream = tokio_stream::wrappers::ReceiverStream::new(take);
        let call = self.0.spawn(async move {
            store.update_graph(stream).await.map(ng_rpc::Response::into_inner)
        });
        let begun = Begun { caller: self, give, call };
        begun.send(Part::Head(head));
        begun
    }

    fn register(&self, name: &str, path: &str) {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let (graph, path) = (name.into(), path.into());
        let request = v1::GraphRegisterRequest { graph, path, ..Default::default() };
        self.0.block_on(registry.graph_register(request)).expect("registered");
    }

    fn unregister(&self, name: &str) {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let request = v1::GraphUnregisterRequest { graph: name.into() };
        self.0.block_on(registry.graph_unregister(request)).expect("unregistered");
    }

    fn graph(&self, name: &str) -> Option<v1::GraphInfo> {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let listed = self.0.block_on(registry.list_graphs(v1::ListGraphsRequest {}));
        let graphs = listed.expect("listed").into_inner().graphs;
        graphs.into_iter().find(|graph| graph.name == name)
    }

    fn rows(&self, node_type: &str, tensor: &str, ids: &[u64]) -> v1::Tensor {
        let request = v1::GetEmbedRequest {
            graph: "papers".into(),
            nodes: Some(v1::Nodes { node_type: node_type.into(), ids: ids.to_vec() }),
            tensor: tensor.into(),
            at_snapshot: None,
        };
        let rows = self.0.block_on(self.store().get_embed(request)).expect("rows");
        rows.into_inner().rows.expect("rows")
    }

    fn lists(&self, edge_type: &str, ids: &[u64]) -> v1::GetNeighborsResponse {
        let request = v1::GetNeighborsRequest {
            graph: "papers".into(),
            edge_type: edge_type.into(),
            ids: ids.to_vec(),
            ..v1::GetNeighborsRequest::default()
        };
        self.0.block_on(self.store().get_neighbors(request)).expect("lists").into_inner()
    }
}

/// A stream whose parts come one by one.
struct Begun<'a> {
    caller: &'a Caller,
    give: tokio::sync::mpsc::Sender<v1::UpdateGraphRequest>,
    call: tokio::task::JoinHandle<Result<v1::UpdateGraphResponse, Status>>,
}

impl Begun<'_> {
    fn send(&self, part: Part) {
        let message = v1::UpdateGraphRequest { part: Some(part) };
        self.caller.0.block_on(self.give.send(message)).expect("sent");
    }

    /// Says nothing more.
    fn wait(self) -> Result<v1::UpdateGraphResponse, Status> {
        let answer = self.caller.0.block_on(self.call).expect("no panic");
        drop(self.give);
        answer
    }

    /// Says that all has come.
    fn end(self) -> Result<v1::UpdateGraphResponse, Status> {
        drop(self.give);
        self.caller.0.block_on(self.call).expect("no panic")
    }
}

fn told(answer: Result<v1::UpdateGraphResponse, Status>) -> Problem {
    problem_told(&answer.map(drop).expect_err("refused"))
}

fn rows_of(first: u64, count: u64) -> Column {
    let all = (first..first + count).flat_map(|node| [node as f32, node as f32 / 4.0]);
    Column::List(2, Box::new(Column::F32(all.collect())))
}

fn nodes(name: &str, num_nodes: u64, tensors: &[&str]) -> v1::NewNodeType {
    let tensors = tensors.iter().map(|name| (*name).to_owned()).collect();
    v1::NewNodeType { name: name.into(), num_nodes, tensors }
}

fn edges(name: &str) -> v1::NewEdgeType {
    v1::NewEdgeType { name: name.into(), ..v1::NewEdgeType::default() }
}

/// A graph of 300 papers with rows and years, 7 authors without, and two types of edges.
fn head(key: &str) -> v1::UpdateGraphHead {
    v1::UpdateGraphHead {
        graph: "papers".into(),
        node_types: vec![nodes("paper", 300, &["x", "year"]), nodes("author", 7, &[])],
        edge_types: vec![
            v1::NewEdgeType { edge_ids: true, reverse: true, ..edges("author,writes,paper") },
            edges("paper,cites,paper"),
        ],
        idempotency_key: key.as_bytes().to_vec(),
        ..v1::UpdateGraphHead::default()
    }
}

fn columns() -> Vec<u8> {
    let papers = |first: u64, count: u64| -> Vec<Named> {
        let years = (first..first + count).map(|node| 1900 + node as i16).collect();
        vec![("year", Column::I16(years)), ("x", rows_of(first, count))]
    };
    let writes = |first: u32, count: u32| -> Vec<Named> {
        let range = first..first + count;
        vec![
            ("source", Column::I32(range.clone().map(|at| (at % 7) as i32).collect())),
            ("destination", Column::U32(range.clone().collect())),
            ("time", Column::Timestamp(range.clone().map(i64::from).collect())),
            ("weight", Column::F32(range.clone().map(|at| at as f32).collect())),
            ("role", Column::U8(range.map(|at| (at % 3) as u8).collect())),
        ]
    };
    let cites =
        vec![("source", Column::U64(vec![1, 2, 3])), ("destination", Column::I64(vec![0, 0, 299]))];
    let all = [
        arrow_stream(&[papers(0, 100), papers(100, 0), papers(100, 200)]),
        arrow_stream(&[writes(0, 150), writes(150, 150)]),
        arrow_stream(&[cites]),
    ];
    all.concat()
}

fn served(folder: &Path) -> (ng_server::Serving, Caller) {
    let _none = std::fs::remove_file(folder.join("socket"));
    let serving = started(folder, |config| config);
    let (runtime, channel) = calls(&serving, 0);
    (serving, Caller(runtime, channel))
}

#[test]
fn a_new_graph_of_columns_is_whole_served_and_made_once_for_a_key() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let made = caller.update(head("first"), &columns(), 1000).expect("made");
    assert_eq!((made.num_nodes, made.num_edges, made.repeated), (307, 303, false));
    assert_eq!(made.first_nodes, [0, 0]);
    let graph = caller.graph("papers").expect("served");
    assert_eq!(graph.snapshot, made.snapshot);
    assert!(graph.edge_types[0].has_reverse && !graph.edge_types[1].has_reverse);
    let x = caller.rows("paper", "x", &[0, 299]);
    let floats: Vec<u8> =
        [0.0_f32, 0.0, 299.0, 74.75].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!((x.shape, &x.data[..]), (vec![2, 2], &floats[..]));
    let year = caller.rows("paper", "year", &[150]);
    assert_eq!((year.dtype(), &year.data[..]), (v1::Dtype::I16, &2050_i16.to_le_bytes()[..]));
    let lists = caller.lists("writes", &[8, 200]);
    assert_eq!((lists.neighbors, lists.times), (vec![1, 4], vec![8, 200]));
    assert_eq!((lists.edge_ids, lists.weights), (vec![8, 200], vec![8.0, 200.0]));
    assert_eq!(caller.lists("cites", &[0, 299]).neighbors, [1, 2, 3]);

    let again = caller.update(head("first"), &columns(), 77_777).expect("repeated");
    let snapshot = Some(v1::Snapshot { commit: 0, fingerprint: 0 });
    let expected = v1::UpdateGraphResponse { repeated: true, snapshot, ..made.clone() };
    assert_eq!(again, v1::UpdateGraphResponse { notes: Vec::new(), ..expected });
    let mut other = columns();
    other[5000] ^= 1;
    let refused = caller.update(head("first"), &other, 1000).expect_err("another stream");
    assert!(refused.message().contains("another stream or transaction"), "{refused}");
    let refused = caller.update(head("second"), &columns(), 1000).expect_err("is there");
    assert_eq!(refused.code(), Code::AlreadyExists, "{refused}");
    serving.end();

    let (serving, caller) = served(folder.path());
    assert_eq!(caller.graph("papers").expect("served").snapshot, made.snapshot);
    assert!(caller.update(head("first"), &columns(), 1000).expect("repeated").repeated);
    let options = ng_store::OpenOptions { memory: Some(64 << 20), ..Default::default() };
    let report = ng_store::verify(&folder.path().join("papers.ng"), &options, &mut |_, _| true);
    assert!(report.expect("verified").is_ok());
    serving.end();
}

/// Columns for a graph that is there: 20 papers more, 2 rows of old ones, and edges to both.
fn more(first: u64) -> Vec<u8> {
    let writes = vec![
        ("source", Column::I32(vec![6, 5])),
        ("destination", Column::I64(vec![first as i64, 3])),
        ("time", Column::I64(vec![5000, 0])),
        ("weight", Column::F32(vec![0.5, 0.25])),
        ("role", Column::U8(vec![9, 8])),
    ];
    let set = vec![("id", Column::U32(vec![7, 0])), ("x", rows_of(1000, 2))];
    [
        arrow_stream(&[vec![("x", rows_of(first, 12))], vec![("x", rows_of(first + 12, 8))]]),
        arrow_stream(&[set]),
        arrow_stream(&[writes]),
    ]
    .concat()
}

fn more_head(first: u64, key: &str) -> v1::UpdateGraphHead {
    v1::UpdateGraphHead {
        graph: "papers".into(),
        node_types: vec![nodes("paper", first, &["x"]), nodes("paper", 0, &["x"])],
        edge_types: vec![edges("author,writes,paper")],
        existing: true,
        idempotency_key: key.as_bytes().to_vec(),
        ..v1::UpdateGraphHead::default()
    }
}

#[test]
fn columns_are_added_to_a_graph_as_one_commit_and_once_for_a_key() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    caller.update(head(""), &columns(), 1 << 20).expect("made");
    let added = caller.update(more_head(300, "more"), &more(300), 100).expect("added");
    assert_eq!((added.num_nodes, added.num_rows, added.num_edges), (20, 2, 2));
    // Keys are taken up by a commit of their own first.
    assert_eq!((added.snapshot.map(|at| at.commit), added.first_nodes[0]), (Some(2), 300));
    assert_eq!(caller.graph("papers").expect("served").snapshot, added.snapshot);
    let of = |rows: v1::Tensor| -> Vec<f32> {
        let (numbers, _) = rows.data.as_chunks();
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let x = of(caller.rows("paper", "x", &[7, 0, 300, 319, 1]));
    assert_eq!(x, [1000.0, 250.0, 1001.0, 250.25, 300.0, 75.0, 319.0, 79.75, 1.0, 0.25]);
    assert_eq!(&caller.rows("paper", "year", &[319]).data[..], [0, 0]);
    let lists = caller.lists("writes", &[300, 3]);
    assert_eq!((lists.neighbors, lists.edge_ids), (vec![6, 5, 3], vec![300, 301, 3]));
    let again = caller.update(more_head(300, "more"), &more(300), 1 << 20).expect("repeated");
    let snapshot = Some(v1::Snapshot { commit: 2, fingerprint: 0 });
    assert_eq!(again, v1::UpdateGraphResponse { repeated: true, snapshot, ..added.clone() });
    let refused = caller.update(more_head(300, ""), &more(300), 1 << 20).expect_err("changed");
    assert!(refused.message().contains("has 320 ids, but the head expects 300"), "{refused}");
    assert_eq!(caller.graph("papers").expect("served").snapshot, added.snapshot);
    serving.end();
    let (serving, caller) = served(folder.path());
    assert!(caller.update(more_head(300, "more"), &more(300), 50).expect("repeated").repeated);
    assert_eq!(caller.graph("papers").expect("served").snapshot, added.snapshot);
    serving.end();
}

/// A head of one type of nodes and one of edges.
fn small(existing: bool) -> v1::UpdateGraphHead {
    v1::UpdateGraphHead {
        graph: if existing { "papers" } else { "small" }.into(),
        node_types: vec![nodes("paper", if existing { 0 } else { 2 }, &["x"])],
        edge_types: vec![edges("paper,cites,paper")],
        existing,
        ..v1::UpdateGraphHead::default()
    }
}

#[test]
fn what_is_wrong_is_refused_with_batch_column_and_remedy_and_nothing_is_left() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let made = caller.update(head(""), &columns(), 1 << 20).expect("made");
    let x = || vec![("x", rows_of(0, 2))];
    let ends = |source: i64| -> Vec<Named> {
        vec![("source", Column::I64(vec![source])), ("destination", Column::I64(vec![1]))]
    };
    let good = || [arrow_stream(&[x()]), arrow_stream(&[ends(0)])].concat();
    let refused = |head: v1::UpdateGraphHead, columns: &[u8], field: &str, says: &[&str]| {
        let refused = caller.update(head, columns, 1 << 20).expect_err(says[0]);
        let told = refused.message();
        assert!(says.iter().all(|says| told.contains(says)), "{told} does not say {says:?}");
        let bad = refused.get_details_bad_request();
        let bad = bad.map(|bad| bad.field_violations[0].field.clone());
        assert_eq!(bad.as_deref(), Some(field), "{told}");
    };
    let nulls = Column::WithNull(2, Box::new(Column::F32(vec![1.0; 4])));
    let nulls = arrow_stream(&[x(), vec![("x", Column::List(2, Box::new(nulls)))]]);
    let wide = Column::List(2, Box::new(Column::U64(vec![1, 2, 3, 4])));
    let wide = arrow_stream(&[vec![("x", wide)]]);
    let (nodes_at, edges_at) = ("head.node_types[0]", "head.edge_types[0]");
    for existing in [false, true] {
        let head = || small(existing);
        refused(head(), &nulls, nodes_at, &["batch 1, column \"x\": row 1 is null", "fill nulls"]);
        let text = arrow_stream(&[vec![("x", Column::Text)]]);
        refused(head(), &text, nodes_at, &["\"x\" has an unsupported type: text", "cast it"]);
        let other = arrow_stream(&[vec![("y", rows_of(0, 2))]]);
        refused(head(), &other, nodes_at, &["column \"x\" is missing", "columns of the stream: y"]);
        let odd = arrow_stream(&[vec![("x", rows_of(0, 2)), ("z", Column::U8(vec![1, 2]))]]);
        refused(head(), &odd, nodes_at, &["column \"z\" is not in the head"]);
        refused(head(), &wide, nodes_at, &["uint64"]);
        let mut same = head();
        same.node_types[0].tensors.push("x".into());
        refused(same, &good(), nodes_at, &["tensor \"x\" twice", "list each tensor once"]);
        let lost = [arrow_stream(&[x()]), arrow_stream(&[ends(0), ends(9999)])].concat();
        refused(head(), &lost, edges_at, &["batch 1", "9999"]);
        let negative = [arrow_stream(&[x()]), arrow_stream(&[ends(-1)])].concat();
        refused(head(), &negative, edges_at, &["batch 0"]);
        refused(head(), &arrow_stream(&[x()]), edges_at, &["its stream is missing"]);
        let long = [good(), b"more".to_vec()].concat();
        refused(head(), &long, "arrow", &["bytes follow"]);
        refused(head(), b"no columns at all", nodes_at, &["not a valid Arrow IPC stream"]);
    }
    let few = [arrow_stream(&[vec![("x", rows_of(0, 1))]]), arrow_stream(&[ends(0)])].concat();
    refused(small(false), &few, nodes_at, &["1 rows for 2 nodes"]);
    let shape = arrow_stream(&[vec![("x", Column::F32(vec![1.0]))]]);
    refused(small(true), &shape, nodes_at, &["shape [], expected [2]"]);
    let time = [
        arrow_stream(&[x()]),
        arrow_stream(&[[ends(0), vec![("time", Column::I64(vec![1]))]].concat()]),
    ];
    refused(small(true), &time.concat(), edges_at, &["the edge type has no column \"time\""]);
    let strange = v1::UpdateGraphHead { graph: "../a".into(), ..small(false) };
    refused(strange, &good(), "head.graph", &["is not a valid name"]);
    let nobody = v1::UpdateGraphHead { graph: "nobody".into(), ..small(true) };
    refused(nobody, &good(), "head.graph", &["graph \"nobody\" does not exist"]);
    let empty = v1::UpdateGraphHead { graph: "a".into(), ..v1::UpdateGraphHead::default() };
    refused(empty, b"", "head.node_types", &["the head has no types"]);
    let part = Some(Part::Arrow(good()));
    let headless = tokio_stream::iter([v1::UpdateGraphRequest { part }]);
    let headless = caller.0.block_on(caller.store().update_graph(headless));
    assert!(headless.expect_err("no head").message().contains("no head"));
    assert_eq!(caller.graph("papers").expect("served").snapshot, made.snapshot);
    assert!(caller.graph("small").is_none());
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("listed").collect();
    let names: Vec<_> = left.into_iter().map(|entry| entry.expect("entry").file_name()).collect();
    let partial = names.iter().filter(|name| name.to_string_lossy().contains("partial"));
    assert_eq!(partial.count(), 0, "{names:?}");
    caller.update(small(false), &good(), 1 << 20).expect("the same, when it is right");
    serving.end();
}

/// A server in a process of its own, which is killed when it is dropped.
struct Process(Child);

impl Process {
    fn start(folder: &Path) -> (Self, Caller) {
        let _none = std::fs::remove_file(folder.join("socket"));
        let socket = format!("unix:{}", folder.join("socket").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_neargraph-server"));
        command.arg(folder).args(["--listen", &socket, "--memory", "67108864"]);
        let child = command.stderr(Stdio::null()).spawn().expect("started");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("runtime");
        let channel = runtime.block_on(async { channel(&socket) }).expect("address");
        (Self(child), Caller(runtime, channel))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

#[test]
fn a_stream_that_is_sent_again_after_kills_is_applied_once() {
    let folder = tempfile::tempdir().expect("folder");
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = seed.map_or(1, |time| time.subsec_nanos().into());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (mut next, mut done) = (0_u64, false);
    for kill in 0..6 {
        let (process, caller) = Process::start(folder.path());
        let started = Instant::now();
        while caller
            .0
            .block_on(caller.store().get_embed(v1::GetEmbedRequest::default()))
            .is_err_and(|status| status.code() == Code::Unavailable)
        {
            assert!(started.elapsed() < Duration::from_secs(20), "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pause = Duration::from_micros(random.below(if kill == 5 { 1 } else { 60_000 }));
        std::thread::scope(|scope| {
            let (caller, done, next) = (&caller, &mut done, &mut next);
            let work = scope.spawn(move || {
                for _ in 0..3 {
                    let sent = match *done {
                        false => caller.update(head("made"), &columns(), 500).map(|_| true),
                        true => {
                            let first = 300 + 20 * *next;
                            let key = format!("more {next}");
                            caller.update(more_head(first, &key), &more(first), 90).map(|_| false)
                        }
                    };
                    match sent {
                        Ok(true) => *done = true,
                        Ok(false) => *next += 1,
                        Err(status) => {
                            assert!(status.code() != Code::Aborted, "{status}");
                            assert!(status.code() != Code::AlreadyExists, "{status}");
                            return;
                        }
                    }
                }
            });
            if kill < 5 {
                std::thread::sleep(pause);
                drop(process);
                work.join().expect("no answer is wrong");
            } else {
                work.join().expect("no answer is wrong");
                drop(process);
            }
        });
    }
    assert!(done && next >= 1);
    let (serving, caller) = served(folder.path());
    let graph = caller.graph("papers").expect("served");
    // What was applied last may not have been answered.
    let count = graph.node_types[0].num_nodes;
    assert!([300 + 20 * next, 320 + 20 * next].contains(&count), "{count} after {next}");
    serving.end();
}

#[test]
fn a_sender_that_goes_away_leaves_nothing_and_a_read_only_server_takes_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let part = |part| v1::UpdateGraphRequest { part: Some(part) };
    let all = columns();
    let (give, take) = tokio::sync::mpsc::channel(8);
    let mut store = caller.store();
    let stream = tokio_stream::wrappers::ReceiverStream::new(take);
    let call = caller.0.spawn(async move { store.update_graph(stream).await });
    caller.0.block_on(give.send(part(Part::Head(head("key"))))).expect("sent");
    caller.0.block_on(give.send(part(Part::Arrow(all[..all.len() / 2].to_vec())))).expect("sent");
    let staging = folder.path().join(".papers.ng.partial");
    help::calls::until(|| staging.exists());
    call.abort();
    drop(give);
    help::calls::until(|| !staging.exists());
    assert!(caller.graph("papers").is_none());
    caller.update(head("key"), &all, 4000).expect("made");
    serving.end();
    let _none = std::fs::remove_file(folder.path().join("socket"));
    let serving = started(folder.path(), |config| Config { read_only: true, ..config });
    let (runtime, channel) = calls(&serving, 0);
    let refused = Caller(runtime, channel).update(more_head(300, ""), &more(300), 1 << 20);
    assert_eq!(refused.expect_err("read only").code(), Code::FailedPrecondition);
    serving.end();
}

#[test]
fn columns_for_a_store_that_was_removed_are_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    caller.update(head(""), &columns(), 1 << 20).expect("made");
    let (path, away) = (folder.path().join("papers.ng"), folder.path().join("away"));
    std::fs::rename(&path, &away).expect("renamed");
    assert_eq!(told(caller.update(more_head(300, ""), &more(300), 100)).reason, "GRAPH_REPLACED");
    std::fs::rename(&away, &path).expect("renamed");
    caller.update(more_head(300, ""), &more(300), 100).expect("it is there again");
    serving.end();
}

#[test]
fn a_name_that_is_taken_while_columns_come_is_not_taken_from_its_graph() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let all = columns();
    caller.update(head("first"), &all, 1 << 20).expect("made");
    std::fs::rename(folder.path().join("papers.ng"), folder.path().join("other")).expect("renamed");
    caller.unregister("papers");
    let begun = caller.begin(head("second"));
    begun.send(Part::Arrow(all[..2000].to_vec()));
    help::calls::until(|| folder.path().join(".papers.ng.partial").exists());
    caller.register("papers", "other");
    begun.send(Part::Arrow(all[2000..].to_vec()));
    let refused = told(begun.end());
    let (reason, field) = (refused.reason.as_str(), refused.field.as_str());
    assert_eq!((refused.code, reason, field), (Code::AlreadyExists, "GRAPH_EXISTS", "head.graph"));
    assert_eq!(caller.graph("papers").expect("served").path, "other");
    assert!(!folder.path().join("papers.ng").exists());
    serving.end();
}

#[test]
fn a_graph_that_cannot_be_registered_is_not_left_and_can_be_sent_again() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let (own, all) = (folder.path().join(".neargraph"), columns());
    std::fs::write(&own, b"in the way").expect("written");
    // The columns do not even have to come.
    assert_eq!(told(caller.begin(head("key")).wait()).reason, "CATALOGUE_NOT_WRITTEN");
    std::fs::remove_file(&own).expect("removed");
    let begun = caller.begin(head("key"));
    begun.send(Part::Arrow(all[..2000].to_vec()));
    help::calls::until(|| folder.path().join(".papers.ng.partial").exists());
    let catalogue = own.join("catalogue");
    std::fs::remove_file(&catalogue).expect("it was written");
    std::fs::create_dir(&catalogue).expect("in the way");
    begun.send(Part::Arrow(all[2000..].to_vec()));
    assert_eq!(told(begun.end()).reason, "CATALOGUE_NOT_WRITTEN");
    assert!(!folder.path().join("papers.ng").exists());
    std::fs::remove_dir(&catalogue).expect("removed");
    assert!(!caller.update(head("key"), &all, 4000).expect("made").repeated);
    serving.end();
}

#[test]
fn a_sender_that_is_quiet_gives_its_place_to_others() {
    let folder = tempfile::tempdir().expect("folder");
    let body = Duration::from_millis(300);
    let serving = started(folder.path(), |config| Config {
        limits: Limits { body, ..config.limits },
        ..config
    });
    let (runtime, channel) = calls(&serving, 0);
    let caller = Caller(runtime, channel);
    let quiet: Vec<_> = (0..3)
        .map(|number| {
            let graph = format!("papers{number}");
            let begun = caller.begin(v1::UpdateGraphHead { graph, ..head("") });
            begun.send(Part::Arrow(columns()[..2000].to_vec()));
            begun
        })
        .collect();
    // Both places are taken, and it has to wait for one.
    caller.update(head(""), &columns(), 4000).expect("made");
    for begun in quiet {
        let refused = told(begun.wait());
        let expected = (Code::DeadlineExceeded, "REQUEST_TOO_SLOW");
        assert_eq!((refused.code, refused.reason.as_str()), expected, "{refused:?}");
    }
    serving.end();
}

#[test]
fn a_server_that_ends_waits_for_no_quiet_sender() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let begun = caller.begin(head(""));
    begun.send(Part::Arrow(columns()[..2000].to_vec()));
    help::calls::until(|| folder.path().join(".papers.ng.partial").exists());
    assert_eq!(serving.end().unanswered, 0);
    let refused = told(begun.wait());
    let expected = (Code::Unavailable, "SHUTTING_DOWN");
    assert_eq!((refused.code, refused.reason.as_str()), expected, "{refused:?}");
    assert!(!folder.path().join(".papers.ng.partial").exists());
}

#[test]
fn nodes_without_rows_and_edges_take_no_room() {
    let folder = tempfile::tempdir().expect("folder");
    let (serving, caller) = served(folder.path());
    let most = 1 << 40;
    let mut head = v1::UpdateGraphHead {
        graph: "many".into(),
        node_types: vec![nodes("paper", most, &[])],
        edge_types: vec![v1::NewEdgeType { reverse: true, ..edges("paper,cites,paper") }],
        ..v1::UpdateGraphHead::default()
    };
    let last = (most - 1) as i64;
    let ends = vec![("source", Column::I64(vec![last])), ("destination", Column::I64(vec![last]))];
    let made = caller.update(head.clone(), &arrow_stream(&[ends]), 4000).expect("made");
    assert_eq!((made.num_nodes, made.num_edges), (most, 1));
    let files = std::fs::read_dir(folder.path().join("many.ng")).expect("listed");
    let bytes = files.map(|file| file.expect("file").metadata().expect("size").len()).sum::<u64>();
    assert!(bytes < 1 << 20, "{bytes}");
    head.graph = "more".into();
    head.node_types[0].num_nodes += 1;
    let refused = told(caller.update(head, b"", 4000));
    assert!(refused.message.contains("more than 2^40 nodes"), "{refused:?}");
    serving.end();
}
