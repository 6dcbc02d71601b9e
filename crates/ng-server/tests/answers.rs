//! A server from outside: answers over each transport, and errors that say what to do.
#![allow(clippy::expect_used)]

#[path = "../../ng-engine/tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::time::Duration;

use common::{WIDTH, build};
use ng_client::Client;
use ng_infer::dfg::{Constant, Dfg, Dim, Elements, Op, Reduction, TensorType};
use ng_rpc::{Code, v1};
use ng_server::{Address, Config, Serving, serve};
use ng_types::Dtype;

fn started(folder: &Path) -> Serving {
    let listen = vec![
        "127.0.0.1:0".parse::<Address>().expect("address"),
        Address::Unix(folder.join("socket")),
    ];
    let config = Config { folder: folder.to_owned(), listen, ..Config::default() };
    serve(Config { memory: Some(64 << 20), ..config }).expect("served")
}

/// The files of a model: two layers of a mean of neighbours and a product.
fn files() -> v1::ModelFiles {
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

fn run(nodes: &[u64]) -> v1::RunRequest {
    let nodes = v1::Nodes { node_type: String::new(), ids: nodes.to_vec() };
    v1::RunRequest {
        graph: "small".into(),
        dfg: Some(v1::run_request::Dfg::Model("mean".into())),
        targets: Some(v1::Targets { targets: Some(v1::targets::Targets::Nodes(nodes)) }),
        ..v1::RunRequest::default()
    }
}

#[test]
fn a_registered_model_answers_over_each_transport() {
    let folder = tempfile::tempdir().expect("folder");
    let store = folder.path().join("small.ng");
    std::fs::create_dir(&store).expect("folder");
    build(&store, 500, 7);
    let serving = started(folder.path());
    let timeout = Some(Duration::from_secs(20));
    let tcp = Client::new(&serving.addresses()[0], timeout).expect("client");
    let unix = Client::new(&serving.addresses()[1], timeout).expect("client");

    let refused = tcp.run(run(&[1])).expect_err("no model yet");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.message().contains("no model \"mean\""), "{}", refused.message());

    let request = v1::ModelRegisterRequest {
        model: "mean".into(),
        graph: "small".into(),
        source: Some(v1::model_register_request::Source::Files(files())),
        fanouts: vec![25, 10],
        ..v1::ModelRegisterRequest::default()
    };
    let made = tcp.model_register(request).expect("registered").model.expect("model");
    assert_eq!((made.name.as_str(), made.version), ("mean", 1));

    let first = tcp.run(run(&[17, 4, 17])).expect("answer");
    let second = unix.run(run(&[17, 4, 17])).expect("answer");
    assert_eq!(first.rows, second.rows);
    let rows = first.rows.expect("rows");
    assert_eq!(rows.shape, [3, 3]);
    assert_eq!(rows.data[..12], rows.data[24..36]);
    assert_eq!(first.model, "mean@1");
    assert!(first.snapshot.is_some_and(|snapshot| snapshot.fingerprint != 0));

    let refused = unix.run(run(&[500])).expect_err("no such node");
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(tcp.server_info().expect("info").addresses, serving.addresses());
    serving.end();
    let gone = tcp.run(run(&[1])).expect_err("ended");
    assert_eq!(gone.code(), Code::Unavailable);
}
