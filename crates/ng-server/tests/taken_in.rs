//! What a request brings along or has rewritten: a model that is not registered, a graph with
//! narrow rows.
#![allow(clippy::expect_used)]

mod help;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use help::calls::calls;
use help::{client, files, folder, register, run, started};
use ng_client::{Client, Settings};
use ng_infer::dfg::{self, Constant, Dim, Elements, Op, Reduction, TensorType};
use ng_rpc::connect::{Channel, channel};
use ng_rpc::v1::graph_store_service_client::GraphStoreServiceClient;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::v1::registry_service_client::RegistryServiceClient;
use ng_rpc::v1::run_request::Dfg;
use ng_rpc::{Code, Problem, Status, problem_told, v1};
use ng_server::Config;
use tokio::runtime::Runtime;

/// The same request, with the files of the model.
fn sent(files: v1::ModelFiles, nodes: &[u64]) -> v1::RunRequest {
    v1::RunRequest { dfg: Some(Dfg::Files(files)), fanouts: vec![25, 10], ..run(nodes) }
}

/// A model of other weights.
fn other(number: u8) -> v1::ModelFiles {
    let mut files = files();
    let last = files.model_safetensors.len() - 4;
    let weight = 0.25_f32 + f32::from(number);
    files.model_safetensors[last..].copy_from_slice(&weight.to_le_bytes());
    files
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("listed").map(|entry| entry.expect("entry"));
    let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().expect("name")).collect();
    names.sort();
    names
}

fn rows(client: &Client, request: v1::RunRequest) -> Result<v1::RunResponse, Status> {
    client.run(request)
}

#[test]
fn a_model_that_is_sent_along_answers_as_the_registered_one() {
    let folder = folder(400);
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 1);
    let nodes = [3, 7, 3, 399, 0];
    let first = rows(&client, sent(files(), &nodes)).expect("answer");
    let before = names(folder.path());
    assert!(!before.iter().any(|name| name == ".neargraph"), "{before:?}");
    let model = register(&client);
    let registered = rows(&client, run(&nodes)).expect("answer");
    assert_eq!(first.rows, registered.rows);
    assert_eq!(first.snapshot, registered.snapshot);
    assert_eq!(first.model, format!("sha256:{}", model.sha256));
    let again = rows(&client, sent(files(), &nodes)).expect("answer");
    // It was still open, with its answers.
    assert_eq!((again.rows, again.rows_cached), (first.rows.clone(), 5));
    let fewer = v1::RunRequest { fanouts: vec![2, 2], ..sent(files(), &nodes) };
    assert_ne!(rows(&client, fewer).expect("answer").rows, first.rows);
    let weights = rows(&client, sent(other(1), &nodes)).expect("answer");
    assert_ne!((&weights.rows, &weights.model), (&first.rows, &first.model));
    // As a job, too.
    let (runtime, channel) = calls(&serving, 0);
    let mut jobs = InferenceServiceClient::new(channel);
    let request = Some(sent(files(), &nodes));
    let job = v1::GraphAnalysisRequest { request, keep_seconds: 0 };
    let job = runtime.block_on(jobs.graph_analysis(job)).expect("taken").into_inner().job;
    let result = v1::GetAnalysisResultRequest { job, wait_ms: 10_000 };
    let result = runtime.block_on(jobs.get_analysis_result(result)).expect("found");
    assert_eq!(result.into_inner().result.expect("done").rows, first.rows);
    assert_eq!(client.list_models(v1::ListModelsRequest {}).expect("listed").models.len(), 1);
    // Once the graph is not served any more, neither is the model for it.
    let graph = v1::GraphUnregisterRequest { graph: "small".into() };
    client.graph_unregister(graph).expect("unregistered");
    let gone = rows(&client, sent(files(), &nodes)).expect_err("gone");
    assert_eq!(gone.code(), Code::NotFound);
    serving.end();
}

#[test]
fn models_that_are_sent_along_are_few_and_bad_ones_are_refused_by_their_field() {
    let folder = folder(100);
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    for number in 0..20 {
        rows(&client, sent(other(number), &[1])).expect("answer");
    }
    // The oldest ones went: their answers are not known any more.
    assert_eq!(rows(&client, sent(other(19), &[1])).expect("answer").rows_cached, 1);
    assert_eq!(rows(&client, sent(other(2), &[1])).expect("answer").rows_cached, 0);
    let refused = |request: v1::RunRequest, field: &str, says: &str| {
        use ng_rpc::tonic_types::StatusExt;
        let refused = rows(&client, request).expect_err(says);
        assert!(refused.message().contains(says), "{} does not say {says}", refused.message());
        let bad = refused.get_details_bad_request();
        let bad = bad.map(|bad| bad.field_violations[0].field.clone());
        assert_eq!(bad.as_deref(), Some(field), "{refused}");
    };
    let mut cut = files();
    cut.model_onnx.truncate(100);
    refused(sent(cut, &[1]), "files", "the model");
    let named = v1::ModelFiles { manifest_json: b"{}".to_vec(), ..files() };
    refused(sent(named, &[1]), "files", "manifest");
    refused(sent(v1::ModelFiles::default(), &[1]), "files", "the model");
    let output = v1::RunRequest { output: "nothing".into(), ..sent(files(), &[1]) };
    assert!(rows(&client, output).is_err());
    register(&client);
    let asked = v1::RunRequest { fanouts: vec![3], ..run(&[1]) };
    refused(asked, "fanouts", "cannot be changed in a request");
    refused(v1::RunRequest { dfg: None, ..run(&[1]) }, "model", "or send its files");
    serving.end();
}

const TOKENS: &str = "\
    read reader a-token-of-the-reader\n\
    write writer a-token-of-the-writer\n\
    admin boss a-token-of-the-boss-1\n";

#[test]
fn a_model_is_sent_along_by_those_who_may_write_and_a_token_has_half_of_the_places() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(100);
    let file = folder.path().join("tokens");
    std::fs::write(&file, TOKENS).expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("mode");
    let serving = started(folder.path(), |config| Config { token_file: Some(file), ..config });
    let of = |name: &str| {
        let token = Some(format!("a-token-of-the-{name}"));
        let (address, timeout) = (serving.addresses()[1].clone(), Some(Duration::from_secs(20)));
        Client::with(Settings { address, token, timeout, ..Settings::default() }).expect("client")
    };
    let [reader, writer, boss] = ["reader", "writer", "boss-1"].map(of);
    let job = |request| v1::GraphAnalysisRequest { request: Some(request), keep_seconds: 0 };
    let refused = [
        rows(&reader, sent(files(), &[1])).expect_err("reads alone"),
        reader.graph_analysis(job(sent(files(), &[1]))).expect_err("reads alone"),
    ];
    for refused in refused {
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert_eq!(problem_told(&refused).reason, "RIGHT_TOO_LOW");
    }
    let open = || serving.state().catalogue.sent_models().len();
    assert_eq!(open(), 0);
    writer.graph_analysis(job(sent(files(), &[1]))).expect("taken");
    for number in 0..6 {
        rows(&writer, sent(other(number), &[1])).expect("answer");
    }
    assert_eq!(open(), 4);
    for number in 10..16 {
        rows(&boss, sent(other(number), &[1])).expect("answer");
    }
    assert_eq!(open(), 8);
    // Those of the other token are still there.
    assert_eq!(rows(&writer, sent(other(5), &[1])).expect("answer").rows_cached, 1);
    serving.end();
}

/// A model that is opened while its graph is unregistered does not keep the graph open.
#[test]
fn nothing_of_an_unregistered_graph_stays_open_for_models_that_were_sent_along() {
    let folder = folder(100);
    let serving = started(folder.path(), |config| config);
    let admin = client(&serving, 0);
    let (mut answered, mut gone) = (0, 0);
    for round in 0..12_u8 {
        let done: Vec<bool> = std::thread::scope(|scope| {
            let send = |number: u8| {
                let client = client(&serving, 1);
                move || rows(&client, sent(other(round * 8 + number), &[1])).is_ok()
            };
            let sending: Vec<_> = (0..6).map(|number| scope.spawn(send(number))).collect();
            std::thread::sleep(Duration::from_millis(u64::from(round)));
            let graph = v1::GraphUnregisterRequest { graph: "small".into() };
            admin.graph_unregister(graph).expect("unregistered");
            sending.into_iter().map(|one| one.join().expect("asked")).collect()
        });
        answered += done.iter().filter(|is_ok| **is_ok).count();
        gone += done.iter().filter(|is_ok| !**is_ok).count();
        assert_eq!(serving.state().catalogue.sent_models().len(), 0, "round {round}");
        let graph = v1::GraphRegisterRequest { graph: "small".into(), ..Default::default() };
        admin.graph_register(graph).expect("registered");
    }
    println!("{answered} answered, {gone} too late");
    serving.end();
}

/// A product with rows that are made of one number: 1 GB of them.
fn hostile() -> v1::ModelFiles {
    let mut graph = dfg::Dfg::default();
    let dims = vec![Dim::symbol("nodes"), Dim::from(help::common::WIDTH as i64)];
    let rows = TensorType { dtype: ng_types::Dtype::F32, shape: dims };
    let x = graph.create_in("x", Some(rows)).expect("input");
    let ends = vec![Dim::from(2), Dim::symbol("edges")];
    let edges = TensorType { dtype: ng_types::Dtype::I64, shape: ends };
    let edges = graph.create_in("edge_index", Some(edges)).expect("input");
    let x = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, x]).expect("mean")[0];
    let one = Constant::new(vec![1], Elements::F32(vec![1.0])).expect("a number");
    let one = graph.create_weight("one", one).expect("weight");
    let shape = vec![help::common::WIDTH as i64, (1 << 28) / help::common::WIDTH as i64];
    let shape = Constant::new(vec![2], Elements::I64(shape)).expect("a shape");
    let shape = graph.create_weight("shape", shape).expect("weight");
    let large = graph.create_op(Op::Expand, &[one, shape]).expect("expanded")[0];
    let out = graph.create_op(Op::MatMul, &[x, large]).expect("product")[0];
    graph.create_out("out", out).expect("output");
    let file = graph.to_onnx(&[], "model.safetensors");
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    let (model_onnx, model_safetensors) = (file.model, file.weights);
    v1::ModelFiles { model_onnx, model_safetensors, manifest_json: Vec::new() }
}

#[test]
fn a_small_file_that_becomes_large_is_refused_by_its_operation_and_the_server_goes_on() {
    let folder = folder(100);
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 1);
    assert!(hostile().model_onnx.len() < 10_000);
    let asked = v1::RunRequest { fanouts: vec![3], ..sent(hostile(), &[1]) };
    let refused = rows(&client, asked).expect_err("1 GB");
    assert!(refused.message().contains("Expand: with a result of shape"), "{refused}");
    rows(&client, sent(files(), &[1])).expect("answer");
    serving.end();
}

fn narrow_request(graph: &str, path: &str, narrow: v1::Narrow) -> v1::GraphRegisterRequest {
    let (graph, path) = (graph.into(), path.into());
    v1::GraphRegisterRequest { graph, path, narrow: narrow.into(), reorganize: false }
}

struct Caller(Runtime, Channel);

impl Caller {
    fn register(&self, request: v1::GraphRegisterRequest) -> Result<v1::GraphInfo, Status> {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let answer = self.0.block_on(registry.graph_register(request))?;
        Ok(answer.into_inner().graph.expect("graph"))
    }

    fn unregister(&self, graph: &str) {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let request = v1::GraphUnregisterRequest { graph: graph.into() };
        self.0.block_on(registry.graph_unregister(request)).expect("unregistered");
    }

    fn graphs(&self) -> BTreeMap<String, v1::GraphInfo> {
        let mut registry = RegistryServiceClient::new(self.1.clone());
        let listed = self.0.block_on(registry.list_graphs(v1::ListGraphsRequest {}));
        let graphs = listed.expect("listed").into_inner().graphs;
        graphs.into_iter().map(|graph| (graph.name.clone(), graph)).collect()
    }

    fn rows(&self, graph: &str, ids: &[u64]) -> Vec<f32> {
        let mut store = GraphStoreServiceClient::new(self.1.clone());
        let request = v1::GetEmbedRequest {
            graph: graph.into(),
            nodes: Some(v1::Nodes { node_type: String::new(), ids: ids.to_vec() }),
            ..v1::GetEmbedRequest::default()
        };
        let rows = self.0.block_on(store.get_embed(request)).expect("rows").into_inner();
        let rows = rows.rows.expect("rows");
        let width = if rows.dtype() == v1::Dtype::F32 { 4 } else { 2 };
        rows.data
            .chunks_exact(width)
            .map(|bytes| match *bytes {
                [a, b, c, d] => f32::from_le_bytes([a, b, c, d]),
                [a, b] => f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << 16),
                _ => f32::NAN,
            })
            .collect()
    }

    fn add_node(&self, graph: &str, row: &[f32]) {
        let mut store = GraphStoreServiceClient::new(self.1.clone());
        let data: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = vec![row.len() as u64];
        let rows = v1::Tensor { dtype: v1::Dtype::F32.into(), shape, data: data.into() };
        let vertex = v1::AddVertex { node_type: String::new(), rows: [("x".into(), rows)].into() };
        let request = v1::AddVertexRequest {
            graph: graph.into(),
            vertex: Some(vertex),
            idempotency_key: Vec::new(),
            ..Default::default()
        };
        self.0.block_on(store.add_vertex(request)).expect("added");
    }
}

fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (name.clone(), std::fs::read(path.join(name)).expect("read"));
    names(path).into_iter().map(read).collect()
}

#[test]
fn a_graph_is_registered_with_narrow_rows_and_its_store_stays() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let (runtime, channel) = calls(&serving, 0);
    let caller = Caller(runtime, channel);
    // It has a commit that is in its log alone.
    caller.add_node("small", &[0.5; help::common::WIDTH]);
    let source = folder.path().join("small.ng");
    let before = contents(&source);
    for (graph, narrow, dtype, off) in
        [("bytes", v1::Narrow::Int8, "i8", 0.009), ("halves", v1::Narrow::Bf16, "bf16", 0.009)]
    {
        let found = caller.register(narrow_request(graph, "small.ng", narrow)).expect("registered");
        let tensor = &found.node_types[0].tensors[0];
        assert_eq!((tensor.dtype.as_str(), found.node_types[0].num_nodes), (dtype, 301));
        assert_eq!(found.path, format!(".neargraph/graphs/{graph}.ng"));
        let ids = [0, 150, 299, 300];
        let pairs = caller.rows(graph, &ids).into_iter().zip(caller.rows("small", &ids));
        let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most > 0.0 && most <= off, "{graph} is off by {most}");
        assert_eq!(found.edge_types, caller.graphs()["small"].edge_types);
    }
    assert_eq!(contents(&source), before);
    // A change of the copy is its own.
    caller.add_node("bytes", &[0.25; help::common::WIDTH]);
    let counts = |name: &str| caller.graphs()[name].node_types[0].num_nodes;
    assert_eq!((counts("bytes"), counts("halves"), counts("small")), (302, 301, 301));
    let twice = caller.register(narrow_request("bytes", "small.ng", v1::Narrow::F16));
    assert_eq!(twice.expect_err("served").code(), Code::AlreadyExists);
    let same = caller.register(narrow_request("more", "halves.ng", v1::Narrow::F16));
    assert!(same.is_err());
    let odd = v1::GraphRegisterRequest {
        narrow: 77,
        ..narrow_request("odd", "small.ng", v1::Narrow::F16)
    };
    assert_eq!(caller.register(odd).expect_err("odd").code(), Code::InvalidArgument);
    serving.end();

    let serving = started_again(folder.path());
    let (runtime, channel) = calls(&serving, 0);
    let caller = Caller(runtime, channel);
    let graphs = caller.graphs();
    assert_eq!(graphs["bytes"].node_types[0].num_nodes, 302);
    assert_eq!(graphs["bytes"].node_types[0].tensors[0].dtype, "i8");
    caller.unregister("bytes");
    assert_eq!(names(&folder.path().join(".neargraph/graphs")), ["halves.ng"]);
    let wide = v1::GraphRegisterRequest {
        reorganize: true,
        ..narrow_request("bytes", "small.ng", v1::Narrow::F16)
    };
    let ordered = caller.register(wide).expect("registered");
    assert_eq!(ordered.node_types[0].tensors[0].dtype, "f16");
    serving.end();
}

#[test]
fn rewriting_that_is_stopped_leaves_nothing() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let source = folder.path().join("small.ng");
    let before = contents(&source);
    let catalogue = &serving.state().catalogue;
    let request = narrow_request("bytes", "small.ng", v1::Narrow::Int8);
    let ordered = v1::GraphRegisterRequest { reorganize: true, ..request.clone() };
    let (mut stopped, mut phases) = (0, 0);
    for request in [request, ordered] {
        // Each time a little later, until nothing is left to stop.
        for most in 0.. {
            let asked = Cell::new(0);
            let late = || Problem::new(Code::DeadlineExceeded, "LATE", "it is late");
            let go_on = || {
                asked.set(asked.get() + 1);
                if asked.get() > most { Err(late()) } else { Ok(()) }
            };
            match catalogue.take_in_graph(&request, &go_on) {
                Ok(_) => break,
                Err(problem) => assert_eq!(problem.reason, "LATE", "{problem:?}"),
            }
            stopped += 1;
            assert_eq!(names(&folder.path().join(".neargraph/graphs")), Vec::<String>::new());
            assert!(catalogue.graph("bytes").is_err());
        }
        phases += 1;
        catalogue.unregister_graph("bytes").expect("it was whole");
    }
    assert!(stopped > 4 && phases == 2, "{stopped} times");
    assert_eq!(contents(&source), before);
    serving.end();
}

fn started_again(folder: &Path) -> ng_server::Serving {
    let _none = std::fs::remove_file(folder.join("socket"));
    started(folder, |config| config)
}

/// A registration is killed at any moment: the graph is there whole, or it is not, and then it can
/// be registered.
#[test]
fn a_registration_that_is_killed_leaves_nothing_half() {
    let folder = folder(4000);
    let socket = folder.path().join("socket");
    let address = format!("unix:{}", socket.display());
    let (mut whole, mut gone) = (0, 0);
    for kill in 0..4_u64 {
        let _none = std::fs::remove_file(&socket);
        let mut command = Command::new(env!("CARGO_BIN_EXE_neargraph-server"));
        command.arg(folder.path()).args(["--listen", &address, "--memory", "67108864"]);
        let mut process = command.stderr(Stdio::null()).spawn().expect("started");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("runtime");
        let channel = runtime.block_on(async { channel(&address) }).expect("address");
        let caller = Caller(runtime, channel);
        let since = Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(since.elapsed() < Duration::from_secs(20), "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let graphs = caller.graphs();
        match graphs.get("narrow") {
            Some(graph) => {
                assert!(graph.problem.is_empty(), "{graph:?}");
                assert_eq!(graph.node_types[0].tensors[0].dtype, "i8");
                caller.unregister("narrow");
                whole += 1;
            }
            None => gone += 1,
        }
        let mut registry = RegistryServiceClient::new(caller.1.clone());
        let request = narrow_request("narrow", "small.ng", v1::Narrow::Int8);
        let call = caller.0.spawn(async move { registry.graph_register(request).await });
        std::thread::sleep(Duration::from_millis(10 + 25 * kill));
        process.kill().expect("killed");
        process.wait().expect("ended");
        drop(call);
    }
    println!("{whole} whole, {gone} not there");
    let serving = started_again(folder.path());
    let (runtime, channel) = calls(&serving, 0);
    let caller = Caller(runtime, channel);
    if !caller.graphs().contains_key("narrow") {
        let request = narrow_request("narrow", "small.ng", v1::Narrow::Int8);
        caller.register(request).expect("registered");
    }
    assert_eq!(names(&folder.path().join(".neargraph/graphs")), ["narrow.ng"]);
    assert_eq!(caller.rows("narrow", &[5]).len(), help::common::WIDTH);
    serving.end();
}
