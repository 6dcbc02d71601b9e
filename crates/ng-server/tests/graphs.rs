//! Graphs from outside: they are changed, read, registered, and outlive kills and restarts.
#![allow(clippy::expect_used)]

mod help;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use help::{files, folder};
use ng_rpc::connect::Channel;
use ng_rpc::connect::channel;
use ng_rpc::v1::change::Change as Kind;
use ng_rpc::v1::graph_store_service_client::GraphStoreServiceClient;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::v1::model_register_request::Source;
use ng_rpc::v1::node_ref::Node;
use ng_rpc::v1::registry_service_client::RegistryServiceClient;
use ng_rpc::v1::server_service_client::ServerServiceClient;
use ng_rpc::{Code, Response, Status, v1};
use ng_server::{Config, Limits, Serving};
use ng_store::{BuildOptions, EdgeTypeSpec, Owner, StoreBuilder, TensorSpec};
use ng_testing::Random;
use ng_types::Dtype;

/// A server of a folder, which one before may have left its socket in.
fn started(folder: &Path, with: impl FnOnce(Config) -> Config) -> Serving {
    let _none = std::fs::remove_file(folder.join("socket"));
    help::started(folder, with)
}

/// Calls of one connection.
struct Caller {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Caller {
    fn new(address: &str) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("runtime");
        let channel = runtime.block_on(async { channel(address) }).expect("address");
        Self { runtime, channel }
    }

    fn of(serving: &Serving) -> Self {
        Self::new(&serving.addresses()[0])
    }

    fn store(&self) -> GraphStoreServiceClient<Channel> {
        GraphStoreServiceClient::new(self.channel.clone())
    }

    fn registry(&self) -> RegistryServiceClient<Channel> {
        RegistryServiceClient::new(self.channel.clone())
    }

    fn wait<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        self.runtime.block_on(call).map(Response::into_inner)
    }

    fn apply(
        &self,
        changes: Vec<Kind>,
        key: &[u8],
    ) -> Result<v1::ApplyTransactionResponse, Status> {
        let changes = changes.into_iter().map(|change| v1::Change { change: Some(change) });
        let changes = changes.collect();
        let (graph, idempotency_key) = ("typed".into(), key.to_vec());
        let request =
            v1::ApplyTransactionRequest { graph, changes, idempotency_key, ..Default::default() };
        self.wait(self.store().apply_transaction(request))
    }

    fn embed(&self, tensor: &str, ids: &[u64], at: Option<u64>) -> Result<v1::Tensor, Status> {
        let nodes = v1::Nodes { node_type: "author".into(), ids: ids.to_vec() };
        let request = v1::GetEmbedRequest {
            graph: "typed".into(),
            nodes: Some(nodes),
            tensor: tensor.into(),
            at_snapshot: at,
        };
        Ok(self.wait(self.store().get_embed(request))?.rows.expect("rows"))
    }

    fn neighbors(
        &self,
        edge_type: &str,
        ids: &[u64],
        limit: Option<u64>,
    ) -> Result<v1::GetNeighborsResponse, Status> {
        let request = v1::GetNeighborsRequest {
            graph: "typed".into(),
            edge_type: edge_type.into(),
            ids: ids.to_vec(),
            limit,
            at_snapshot: None,
        };
        self.wait(self.store().get_neighbors(request))
    }

    fn graphs(&self) -> BTreeMap<String, v1::GraphInfo> {
        let listed = self.wait(self.registry().list_graphs(v1::ListGraphsRequest {}));
        let graphs = listed.expect("listed").graphs.into_iter();
        graphs.map(|graph| (graph.name.clone(), graph)).collect()
    }

    fn commit(&self) -> u64 {
        self.graphs()["typed"].snapshot.expect("snapshot").commit
    }

    fn models(&self) -> Vec<v1::ModelInfo> {
        let listed = self.wait(self.registry().list_models(v1::ListModelsRequest {}));
        listed.expect("listed").models
    }
}

/// A store of 5 papers and 10 authors, with rows of authors and edges that have all columns.
fn build_typed(path: &Path) {
    std::fs::create_dir(path).expect("made");
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).expect("fresh");
    let paper = builder.node_type("paper", 5).expect("type");
    let author = builder.node_type("author", 10).expect("type");
    let mut edge = |relation: &str, source, destination, unique| {
        let (undirected, has_edge_ids, has_time, has_weight) = (false, true, true, true);
        let relation = relation.into();
        builder
            .edge_type(EdgeTypeSpec {
                source,
                relation,
                destination,
                undirected,
                unique,
                has_edge_ids,
                has_time,
                has_weight,
            })
            .expect("type")
    };
    let (writes, back) =
        (edge("writes", author, paper, false), edge("writes", paper, author, false));
    let plain = edge("knows", author, author, true);
    builder.set_reverse(writes, back).expect("reverse");
    for edge in [writes, back, plain] {
        let part = builder.topology(edge).expect("topology").finish().expect("whole");
        builder.add(part).expect("added");
    }
    for (name, dtype, shape) in [("x", Dtype::F16, vec![3]), ("y", Dtype::I64, vec![])] {
        let bytes = vec![0; 10 * dtype.size_bytes() * shape.iter().product::<u64>() as usize];
        let spec = TensorSpec { name: name.into(), dtype, shape, mask_width: None };
        let mut rows = builder.tensor(Owner::Node(author), spec).expect("tensor");
        rows.push_rows(&bytes).expect("rows");
        builder.add(rows.finish().expect("whole")).expect("added");
    }
    builder.commit().expect("published");
}

fn typed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    build_typed(&folder.path().join("typed.ng"));
    folder
}

fn floats(shape: &[u64], values: &[f32]) -> v1::Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: shape.to_vec(), data: data.into() }
}

fn numbers(values: &[i64]) -> v1::Tensor {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = vec![values.len() as u64];
    v1::Tensor { dtype: v1::Dtype::I64.into(), shape, data: data.into() }
}

fn node(node: Node) -> Option<v1::NodeRef> {
    Some(v1::NodeRef { node: Some(node) })
}

fn author(rows: &[(&str, v1::Tensor)]) -> Kind {
    let rows = rows.iter().map(|(name, rows)| ((*name).to_owned(), rows.clone())).collect();
    Kind::AddVertex(v1::AddVertex { node_type: "author".into(), rows })
}

fn writes(source: Node, destination: u64, time: i64) -> Kind {
    Kind::AddEdge(v1::AddEdge {
        edge_type: "author,writes,paper".into(),
        source: node(source),
        destination: node(Node::Id(destination)),
        time: Some(time),
        weight: Some(0.5),
    })
}

#[test]
fn a_batch_is_one_commit_whole_or_not_at_all_and_answers_name_snapshots() {
    let folder = typed();
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let x = floats(&[3], &[1.0, -2.0, 0.5]);
    let changes = vec![
        author(&[("x", x.clone()), ("y", numbers(&[7]))]),
        author(&[]),
        writes(Node::Added(0), 2, 30),
        writes(Node::Added(1), 2, 10),
        writes(Node::Id(4), 2, 20),
        Kind::UpdateEmbed(v1::UpdateEmbed {
            node_type: "author".into(),
            tensor: "y".into(),
            nodes: vec![node(Node::Id(3)).expect("node"), node(Node::Added(1)).expect("node")],
            rows: Some(numbers(&[33, 11])),
        }),
        Kind::DeleteVertex(v1::DeleteVertex { node_type: "author".into(), id: 9 }),
    ];
    let applied = caller.apply(changes, b"").expect("applied");
    let snapshot = applied.snapshot.expect("snapshot");
    assert_eq!((snapshot.commit, applied.repeated), (1, false));
    assert_eq!(caller.graphs()["typed"].snapshot, Some(snapshot));
    let found: Vec<_> = applied.results.iter().map(|r| (r.node, r.edge, r.deleted)).collect();
    let nothing = (None, None, None);
    let (nodes, edges) =
        ([10, 11].map(|id| (Some(id), None, None)), [0, 1, 2].map(|id| (None, Some(id), None)));
    assert_eq!(found, [nodes[0], nodes[1], edges[0], edges[1], edges[2], nothing, nothing]);
    let rows = caller.embed("x", &[10, 11], None).expect("rows");
    assert_eq!(rows, floats(&[2, 3], &[1.0, -2.0, 0.5, 0.0, 0.0, 0.0]));
    assert_eq!(caller.embed("y", &[3, 10, 11], None).expect("rows"), numbers(&[33, 7, 11]));
    let lists = caller.neighbors("author,writes,paper", &[2, 0], None).expect("lists");
    assert_eq!((lists.degrees, lists.counts), (vec![3, 0], vec![3, 0]));
    assert_eq!((lists.neighbors, lists.times), (vec![11, 4, 10], vec![10, 20, 30]));
    assert_eq!((lists.edge_ids, lists.weights), (vec![1, 2, 0], vec![0.5; 3]));
    assert_eq!(lists.snapshot, Some(snapshot));
    let lists = caller.neighbors("author,writes,paper", &[2], Some(2)).expect("lists");
    assert_eq!((lists.degrees, lists.counts, lists.neighbors), (vec![3], vec![2], vec![11, 4]));

    serving.end();
}

#[test]
fn what_cannot_be_done_is_refused_with_its_field_and_changes_nothing() {
    let folder = typed();
    let limits = Limits { ids: 1 << 20, ..Limits::default() };
    let serving = started(folder.path(), |config| Config { limits, ..config });
    let caller = Caller::of(&serving);
    let x = floats(&[3], &[1.0, -2.0, 0.5]);
    for at in 0..3 {
        caller.apply(vec![writes(Node::Id(at), 2, 0)], b"").expect("applied");
    }
    let before = caller.commit();
    let ended = |changes, field: &str, says: &str, code| {
        let refused = caller.apply(changes, b"").expect_err(says);
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.message().contains(says), "{}", refused.message());
        use ng_rpc::tonic_types::StatusExt;
        let bad =
            refused.get_details_bad_request().map(|bad| bad.field_violations[0].field.clone());
        assert_eq!(bad.as_deref(), Some(field));
    };
    let (argument, missing) = (Code::InvalidArgument, Code::NotFound);
    ended(vec![author(&[]), writes(Node::Id(77), 2, 0)], "changes[1]", "77", missing);
    ended(
        vec![writes(Node::Added(0), 2, 0)],
        "changes[0].add_edge.source",
        "0 nodes are",
        argument,
    );
    let other = Kind::AddVertex(v1::AddVertex { node_type: "venue".into(), ..Default::default() });
    ended(vec![other], "changes[0].add_vertex.node_type", "paper; author", missing);
    let odd = author(&[("z", x.clone())]);
    ended(vec![odd], "changes[0].add_vertex.rows[\"z\"]", "x; y", missing);
    let wide = author(&[("x", floats(&[1, 4], &[0.0; 4]))]);
    ended(vec![wide], "changes[0].add_vertex.rows[\"x\"]", "[1, 4]", argument);
    let huge = author(&[("x", floats(&[3], &[1e9, 0.0, 0.0]))]);
    ended(vec![author(&[]), huge], "changes[1]", "cannot represent", argument);
    ended(Vec::new(), "changes", "0 changes", argument);
    let short = v1::Tensor { data: vec![0; 4].into(), ..x };
    ended(vec![author(&[("x", short)])], "changes[0].add_vertex.rows[\"x\"]", "4 bytes", argument);
    assert_eq!(caller.commit(), before);

    let refused = caller.embed("", &[1], None).expect_err("which tensor");
    assert!(refused.message().contains("x; y"), "{}", refused.message());
    let refused = caller.embed("x", &[99], None).expect_err("no such node");
    assert_eq!(refused.code(), Code::OutOfRange);
    let refused = caller.embed("x", &vec![1; 6 << 20], None).expect_err("too many");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let many = vec![2; 900_000];
    let refused = caller.neighbors("author,writes,paper", &many, None).expect_err("too large");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    serving.end();
}

#[test]
fn unit_operations_are_commits_and_a_read_only_server_refuses_them() {
    let folder = typed();
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let (graph, key) = (|| "typed".to_owned(), |text: &str| text.as_bytes().to_vec());
    let vertex = v1::AddVertex { node_type: "author".into(), ..Default::default() };
    let request = v1::AddVertexRequest {
        graph: graph(),
        vertex: Some(vertex),
        idempotency_key: key("one"),
        ..Default::default()
    };
    let added = caller.wait(caller.store().add_vertex(request.clone())).expect("added");
    let again = caller.wait(caller.store().add_vertex(request.clone())).expect("repeated");
    let commit = |snapshot: Option<v1::Snapshot>| snapshot.expect("snapshot").commit;
    assert_eq!((added.id, again.id), (10, 10));
    assert_eq!((commit(added.snapshot), commit(again.snapshot)), (2, 2));
    let Kind::AddEdge(edge) = writes(Node::Id(10), 1, 5) else { panic!("an edge") };
    let edge = v1::AddEdgeRequest { graph: graph(), edge: Some(edge), ..Default::default() };
    let first = caller.wait(caller.store().add_edge(edge.clone())).expect("added");
    let second = caller.wait(caller.store().add_edge(edge)).expect("added");
    assert_eq!((first.edge_id, second.edge_id), (Some(0), Some(1)));
    let edge =
        v1::DeleteEdge { edge_type: "writes".into(), source: 10, destination: 1, edge_id: None };
    let edge = v1::DeleteEdgeRequest {
        graph: graph(),
        edge: Some(edge),
        idempotency_key: key("two"),
        ..Default::default()
    };
    for _ in 0..2 {
        let deleted = caller.wait(caller.store().delete_edge(edge.clone())).expect("deleted");
        assert_eq!((deleted.deleted, commit(deleted.snapshot)), (2, 5));
    }
    let embed = v1::UpdateEmbed {
        node_type: "author".into(),
        tensor: "y".into(),
        nodes: vec![node(Node::Id(10)).expect("node")],
        rows: Some(numbers(&[-1])),
    };
    let embed = v1::UpdateEmbedRequest { graph: graph(), embed: Some(embed), ..Default::default() };
    caller.wait(caller.store().update_embed(embed)).expect("updated");
    assert_eq!(caller.embed("y", &[10], None).expect("row"), numbers(&[-1]));
    let vertex = v1::DeleteVertex { node_type: "author".into(), id: 10 };
    let vertex = v1::DeleteVertexRequest {
        graph: graph(),
        vertex: Some(vertex),
        idempotency_key: key("one"),
        ..Default::default()
    };
    let refused = caller.wait(caller.store().delete_vertex(vertex.clone())).expect_err("key");
    assert!(refused.message().contains("other changes"), "{refused}");
    let vertex = v1::DeleteVertexRequest { idempotency_key: Vec::new(), ..vertex };
    caller.wait(caller.store().delete_vertex(vertex)).expect("deleted");
    assert_eq!(caller.commit(), 7);
    serving.end();

    let serving = started(folder.path(), |config| Config { read_only: true, ..config });
    let caller = Caller::of(&serving);
    let refused = caller.wait(caller.store().add_vertex(request)).expect_err("read only");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let refused = caller
        .wait(caller.registry().graph_unregister(v1::GraphUnregisterRequest { graph: graph() }));
    assert_eq!(refused.expect_err("read only").code(), Code::FailedPrecondition);
    assert_eq!(caller.commit(), 7);
    assert_eq!(caller.embed("y", &[0], None).expect("row"), numbers(&[0]));
    serving.end();
}

#[test]
fn requests_with_one_key_at_the_same_time_are_applied_once() {
    let folder = typed();
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let (rounds, copies) = (20_u64, 8);
    for round in 0..rounds {
        let change = |change| v1::Change { change: Some(change) };
        let changes =
            vec![change(author(&[])), change(writes(Node::Added(0), round % 5, round as i64))];
        let idempotency_key = round.to_le_bytes().to_vec();
        let request = v1::ApplyTransactionRequest {
            graph: "typed".into(),
            changes,
            idempotency_key,
            ..Default::default()
        };
        let calls: Vec<_> = (0..copies)
            .map(|_| {
                let (mut store, request) = (caller.store(), request.clone());
                caller.runtime.spawn(async move { store.apply_transaction(request).await })
            })
            .collect();
        let answers: Vec<_> = calls
            .into_iter()
            .map(|call| caller.runtime.block_on(call).expect("runs").expect("applied").into_inner())
            .collect();
        assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
        for answer in &answers {
            assert_eq!(answer.snapshot.expect("snapshot").commit, 2 + round);
            assert_eq!(answer.results, answers[0].results);
            assert_eq!(answer.results[0].node, Some(10 + round));
            assert_eq!(answer.results[1].edge, Some(round));
        }
    }
    assert_eq!(caller.commit(), 1 + rounds);
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
        (Self(child), Caller::new(&socket))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
    }
}

#[test]
fn a_batch_that_is_sent_again_after_kills_is_applied_once() {
    let folder = typed();
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = seed.map_or(1, |time| time.subsec_nanos().into());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let batch = |number: u64| {
        let rows = [("y", numbers(&[number as i64]))];
        vec![author(&rows), writes(Node::Added(0), number % 5, 0), writes(Node::Id(0), 1, 0)]
    };
    let (mut next, mut resent, mut repeated) = (0_u64, 0, 0);
    let mut known = Vec::new();
    for kill in 0..8 {
        let (process, caller) = Process::start(folder.path());
        let until = Instant::now() + Duration::from_secs(20);
        // A server that starts refuses connections for a moment.
        loop {
            match caller.apply(batch(next), &next.to_be_bytes()) {
                Ok(answer) => {
                    resent += u64::from(kill > 0);
                    repeated += u64::from(answer.repeated);
                    known.push((answer.snapshot.expect("snapshot").commit, answer.results));
                    next += 1;
                    break;
                }
                Err(error) => assert!(Instant::now() < until, "not ready in time: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let after = Duration::from_micros(random.below(120_000));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            drop(process);
        });
        // The one that fails may have been applied or not.
        while let Ok(answer) = caller.apply(batch(next), &next.to_be_bytes()) {
            assert!(!answer.repeated, "batch {next} is new");
            known.push((answer.snapshot.expect("snapshot").commit, answer.results));
            next += 1;
        }
        killer.join().expect("killed");
    }
    println!("{next} batches, {resent} sent again, {repeated} of them were applied before");
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let total = caller.commit();
    let extra = caller.apply(batch(next), &next.to_be_bytes()).expect("applied");
    let in_doubt = u64::from(extra.repeated);
    // Taking up keys is a commit, and so is each batch, once.
    assert_eq!(total, 1 + next + in_doubt);
    for (number, (commit, results)) in known.iter().enumerate() {
        assert_eq!(*commit, 2 + number as u64);
        assert_eq!(results[0].node, Some(10 + number as u64));
        assert_eq!(results[1].edge, Some(2 * number as u64));
    }
    let ids: Vec<u64> = (10..10 + next).collect();
    let wanted: Vec<i64> = (0..next as i64).collect();
    assert_eq!(caller.embed("y", &ids, None).expect("rows"), numbers(&wanted));
    // All of them are known, as far back as the graph remembers.
    for number in (0..next).step_by(17) {
        let answer = caller.apply(batch(number), &number.to_be_bytes()).expect("repeated");
        assert!(answer.repeated && answer.results == known[number as usize].1);
    }
    serving.end();
}

#[test]
fn pinned_snapshots_are_read_beside_newer_ones_until_they_are_let_go() {
    let folder = typed();
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let set = |value: i64| {
        let update = Kind::UpdateEmbed(v1::UpdateEmbed {
            node_type: "author".into(),
            tensor: "y".into(),
            nodes: vec![node(Node::Id(3)).expect("node")],
            rows: Some(numbers(&[value])),
        });
        caller.apply(vec![update], b"").expect("applied").snapshot.expect("snapshot").commit
    };
    let pin = |seconds: u32| {
        let request = v1::PinSnapshotRequest { graph: "typed".into(), seconds };
        caller.wait(caller.registry().pin_snapshot(request))
    };
    let unpin = |commit: u64| {
        let request = v1::UnpinSnapshotRequest { graph: "typed".into(), commit };
        caller.wait(caller.registry().unpin_snapshot(request))
    };
    let mut pinned = Vec::new();
    for value in 1..=16 {
        let commit = set(value);
        let kept = pin(60).expect("pinned");
        assert_eq!((kept.snapshot.expect("snapshot").commit, kept.seconds), (commit, 60));
        pinned.push(commit);
    }
    set(100);
    let refused = pin(60).expect_err("too many");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(caller.graphs()["typed"].pinned_commits, pinned);
    for (commit, value) in pinned.iter().zip(1..) {
        let rows = caller.embed("y", &[3], Some(*commit)).expect("pinned");
        assert_eq!(rows, numbers(&[value]));
    }
    assert_eq!(caller.embed("y", &[3], None).expect("newest"), numbers(&[100]));
    unpin(pinned[4]).expect("let go");
    assert_eq!(unpin(pinned[4]).expect_err("gone").code(), Code::NotFound);
    let refused = caller.embed("y", &[3], Some(pinned[4])).expect_err("not pinned");
    assert!(refused.message().contains("pin a snapshot while"), "{refused}");
    let short = pin(1).expect("there is room").snapshot.expect("snapshot").commit;
    set(200);
    assert_eq!(caller.embed("y", &[3], Some(short)).expect("pinned"), numbers(&[100]));
    let until = Instant::now() + Duration::from_secs(20);
    while caller.embed("y", &[3], Some(short)).is_ok() {
        assert!(Instant::now() < until, "a pin of a second is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(pin(7200).expect_err("too long").code(), Code::InvalidArgument);
    serving.end();
}

fn register(caller: &Caller, model: &str, source: Source) -> Result<v1::ModelInfo, Status> {
    let request = v1::ModelRegisterRequest {
        model: model.into(),
        graph: "small".into(),
        source: Some(source),
        fanouts: vec![5, 5],
        ..v1::ModelRegisterRequest::default()
    };
    Ok(caller.wait(caller.registry().model_register(request))?.model.expect("model"))
}

fn alias(caller: &Caller, alias: &str, model: &str) -> Result<v1::SetAliasResponse, Status> {
    let (graph, alias, model) = ("small".into(), alias.into(), model.into());
    let request = v1::SetAliasRequest { graph, alias, model };
    caller.wait(caller.registry().set_alias(request))
}

fn answer(caller: &Caller, model: &str) -> Result<(String, v1::Tensor), Status> {
    let dfg = Some(v1::run_request::Dfg::Model(model.into()));
    let request = v1::RunRequest { dfg, ..help::run(&[3, 17]) };
    let mut client = InferenceServiceClient::new(caller.channel.clone());
    let answer = caller.wait(client.run(request))?;
    Ok((answer.model, answer.rows.expect("rows")))
}

#[test]
fn what_is_registered_survives_restarts() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let first = register(&caller, "mean", Source::Files(files())).expect("registered");
    assert_eq!((first.version, first.node_type.as_str()), (1, "node"));
    // The same files, as somebody puts them into the folder.
    let copy = folder.path().join("exported");
    std::fs::create_dir(&copy).expect("made");
    let kept = folder.path().join(".neargraph/models").join(&first.sha256);
    for file in ["model.onnx", "model.safetensors", "manifest.json"] {
        std::fs::copy(kept.join(file), copy.join(file)).expect("copied");
    }
    let second = register(&caller, "mean", Source::Path("exported".into())).expect("registered");
    assert_eq!((second.version, &second.sha256), (2, &first.sha256));
    for bad in ["../exported", "/etc", "exported/..", ".neargraph/models", "nothing"] {
        let refused = register(&caller, "mean", Source::Path(bad.into())).expect_err(bad);
        assert_eq!(refused.code(), Code::InvalidArgument, "{bad}: {refused}");
    }
    alias(&caller, "best", "mean@1").expect("set");
    assert_eq!(alias(&caller, "mean", "mean@1").expect_err("a model").code(), Code::AlreadyExists);
    assert_eq!(alias(&caller, "next", "mean@9").expect_err("none").code(), Code::NotFound);
    let rows = answer(&caller, "mean").expect("answer");
    assert_eq!(rows.0, "mean@2");
    assert_eq!(answer(&caller, "best").expect("answer"), ("mean@1".into(), rows.1.clone()));
    serving.end();

    std::fs::create_dir(folder.path().join("odd.ng")).expect("made");
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    assert_eq!(answer(&caller, "mean").expect("answer"), rows);
    assert_eq!(answer(&caller, "best").expect("answer").0, "mean@1");
    let listed = caller.models();
    assert_eq!(listed.iter().map(|model| model.version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(
        (listed[0].aliases.as_slice(), listed[0].sha256.as_str()),
        (["best".to_owned()].as_slice(), first.sha256.as_str())
    );
    let graphs = caller.graphs();
    assert_eq!(graphs["small"].node_types[0].tensors[0].name, "x");
    assert!(graphs["small"].problem.is_empty() && graphs["odd"].problem.contains("odd.ng"));
    let model =
        |model: &str| v1::ModelUnregisterRequest { graph: "small".into(), model: model.into() };
    caller.wait(caller.registry().model_unregister(model("mean@2"))).expect("unregistered");
    let third = register(&caller, "mean", Source::Files(files())).expect("registered");
    // A number is not given out twice.
    assert_eq!(third.version, 3);
    caller.wait(caller.registry().model_unregister(model("best"))).expect("unregistered");
    assert_eq!(answer(&caller, "best").expect_err("gone").code(), Code::NotFound);
    assert!(kept.exists());
    caller.wait(caller.registry().model_unregister(model("mean"))).expect("unregistered");
    assert!(!kept.exists() && caller.models().is_empty());
    serving.end();
}

#[test]
fn a_graph_that_is_unregistered_stays_so_and_damage_of_the_catalogue_is_told() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let graph = v1::GraphUnregisterRequest { graph: "small".into() };
    register(&caller, "mean", Source::Files(files())).expect("registered");
    caller.wait(caller.registry().graph_unregister(graph)).expect("unregistered");
    serving.end();

    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    assert!(!caller.graphs().contains_key("small") && caller.models().is_empty());
    let request = |graph: &str, path: &str, reorganize: bool| v1::GraphRegisterRequest {
        graph: graph.into(),
        path: path.into(),
        reorganize,
        ..v1::GraphRegisterRequest::default()
    };
    let refused = caller.wait(caller.registry().graph_register(request("a", "../small.ng", false)));
    assert_eq!(refused.expect_err("outside").code(), Code::InvalidArgument);
    let again = caller.wait(caller.registry().graph_register(request("again", "small.ng", true)));
    let again = again.expect("registered").graph.expect("graph");
    assert_eq!((again.path.as_str(), again.name.as_str()), ("small.ng", "again"));
    let twice = caller.wait(caller.registry().graph_register(request("twice", "small.ng", false)));
    assert_eq!(twice.expect_err("served").code(), Code::AlreadyExists);
    serving.end();

    let catalogue = folder.path().join(".neargraph/catalogue");
    let mut bytes = std::fs::read(&catalogue).expect("there");
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    std::fs::write(&catalogue, bytes).expect("written");
    let listen = vec!["127.0.0.1:0".parse().expect("address")];
    let config = Config { folder: folder.path().to_owned(), listen, ..Default::default() };
    let refused = ng_server::serve(config).map(drop).expect_err("damaged").to_string();
    assert!(
        refused.contains("catalogue is damaged") && refused.contains("from a copy"),
        "{refused}"
    );
}

#[test]
fn a_graph_is_copied_while_it_changes_and_the_copy_is_served() {
    let folder = typed();
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    let copy = |target: &str, base: &str| {
        let (graph, target, base) = ("typed".into(), target.into(), base.into());
        let request = v1::BackupRequest { graph, target, base };
        let mut client = ServerServiceClient::new(caller.channel.clone());
        let mut told = caller.wait(client.backup(request))?;
        caller.runtime.block_on(async {
            let mut last = None;
            while let Some(heard) = told.message().await? {
                last = Some(heard);
            }
            Ok::<_, Status>(last.expect("an end"))
        })
    };
    caller.apply(vec![author(&[])], b"key").expect("applied");
    let whole = copy("monday", "").expect("copied");
    assert!(whole.done && whole.commit == 2 && whole.pages_copied == whole.pages, "{whole:?}");
    caller.apply(vec![author(&[("y", numbers(&[5]))])], b"").expect("applied");
    let more = copy("tuesday", "monday").expect("copied");
    assert!(more.commit == 3 && more.pages_copied < more.pages, "{more:?}");
    assert_eq!(copy("monday", "").expect_err("is there").code(), Code::AlreadyExists);
    assert_eq!(copy("../out", "").expect_err("outside").code(), Code::InvalidArgument);
    let backup = folder.path().join(".neargraph/backups/tuesday");
    let (restored, on) = (folder.path().join("restored.ng"), &mut |_, _| true);
    ng_store::restore(&backup, &restored, on).expect("restored");
    let request = v1::GraphRegisterRequest { graph: "restored".into(), ..Default::default() };
    let found = caller.wait(caller.registry().graph_register(request)).expect("registered");
    let graphs = caller.graphs();
    assert_eq!(found.graph.expect("graph").snapshot, graphs["typed"].snapshot);
    // What was applied before the copy is known to it.
    let changes = vec![v1::Change { change: Some(author(&[])) }];
    let (graph, idempotency_key) = ("restored".into(), b"key".to_vec());
    let request =
        v1::ApplyTransactionRequest { graph, changes, idempotency_key, ..Default::default() };
    assert!(caller.wait(caller.store().apply_transaction(request)).expect("repeated").repeated);
    serving.end();
}

#[test]
fn an_empty_folder_is_served_and_graphs_come_later() {
    let folder = tempfile::tempdir().expect("folder");
    let serving = started(folder.path(), |config| config);
    let caller = Caller::of(&serving);
    assert!(caller.graphs().is_empty());
    let refused = caller.embed("x", &[1], None).expect_err("no graph");
    assert!(refused.message().contains("graphs of the server: none"), "{refused}");
    build_typed(&folder.path().join("typed.ng"));
    let request = v1::GraphRegisterRequest { graph: "typed".into(), ..Default::default() };
    caller.wait(caller.registry().graph_register(request)).expect("registered");
    assert_eq!(caller.apply(vec![author(&[])], b"k").expect("applied").results[0].node, Some(10));
    serving.end();
}
