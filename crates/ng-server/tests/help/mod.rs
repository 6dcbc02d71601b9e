//! What tests of the server share: a folder with a store, a server, a model as files.
#![allow(dead_code, clippy::expect_used)]

#[path = "../../../ng-engine/tests/common/mod.rs"]
pub mod common;
pub mod raw;

pub mod calls;
pub mod process;

use std::path::Path;
use std::time::Duration;

use common::{WIDTH, build};
use ng_client::Client;
use ng_infer::dfg::{Constant, Dfg, Dim, Elements, Op, Reduction, TensorType};
use ng_rpc::v1;
use ng_server::{Address, Config, Serving, serve};
use ng_types::Dtype;

/// A folder with the store "small" of so many nodes.
pub fn folder(nodes: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    let store = folder.path().join("small.ng");
    std::fs::create_dir(&store).expect("folder");
    build(&store, nodes, 7);
    folder
}

/// A client of one of the addresses of a server.
pub fn client(serving: &Serving, address: usize) -> Client {
    let timeout = Some(Duration::from_secs(20));
    Client::new(&serving.addresses()[address], timeout).expect("client")
}

/// Registers the model "mean" on the store "small".
pub fn register(client: &Client) -> v1::ModelInfo {
    let request = v1::ModelRegisterRequest {
        model: "mean".into(),
        graph: "small".into(),
        source: Some(v1::model_register_request::Source::Files(files())),
        fanouts: vec![25, 10],
        ..v1::ModelRegisterRequest::default()
    };
    client.model_register(request).expect("registered").model.expect("model")
}

/// The same, once all that it prepares is there.
pub fn register_ready(serving: &Serving, client: &Client) -> v1::ModelInfo {
    let info = register(client);
    while serving.state().not_prepared().is_some() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    info
}

/// A server of a folder on a free port and on a Unix socket, set up by `with`.
pub fn started(folder: &Path, with: impl FnOnce(Config) -> Config) -> Serving {
    let listen = vec![
        "127.0.0.1:0".parse::<Address>().expect("address"),
        Address::Unix(folder.join("socket")),
    ];
    let config = Config { folder: folder.to_owned(), listen, ..Config::default() };
    serve(with(Config { memory: Some(64 << 20), ..config })).expect("served")
}

/// The files of a model: two layers of a mean of neighbours and a product.
pub fn files() -> v1::ModelFiles {
    let mut graph = Dfg::default();
    let some = Dim::symbol;
    let edges = TensorType { dtype: Dtype::I64, shape: vec![Dim::from(2), some("edges")] };
    let rows =
        TensorType { dtype: Dtype::F32, shape: vec![some("nodes"), Dim::from(WIDTH as i64)] };
    let edges = graph.create_in("edge_index", Some(edges)).expect("input");
    let mut h = graph.create_in("x", Some(rows)).expect("input");
    for (layer, (from, to)) in [(WIDTH, 8), (8, 3)].into_iter().enumerate() {
        let weights = (0..from * to).map(|at| (at % 13) as f32 / 26.0 - 0.2).collect();
        let weights = Constant::new(vec![from, to], Elements::F32(weights)).expect("weights");
        let weights = graph.create_weight(&format!("w{layer}"), weights).expect("weight");
        let mean = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, h]).expect("mean");
        h = graph.create_op(Op::MatMul, &[mean[0], weights]).expect("product")[0];
    }
    graph.create_out("out", h).expect("output");
    let file = graph.to_onnx(&[], "model.safetensors");
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    v1::ModelFiles {
        model_onnx: file.model,
        model_safetensors: file.weights,
        manifest_json: Vec::new(),
    }
}

/// A request for rows of nodes of graph "small" by model "mean".
pub fn run(nodes: &[u64]) -> v1::RunRequest {
    let nodes = v1::Nodes { node_type: String::new(), ids: nodes.to_vec() };
    v1::RunRequest {
        graph: "small".into(),
        dfg: Some(v1::run_request::Dfg::Model("mean".into())),
        targets: Some(v1::Targets { targets: Some(v1::targets::Targets::Nodes(nodes)) }),
        ..v1::RunRequest::default()
    }
}
