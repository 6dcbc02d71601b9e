//! A valid message for each way in which a method can be asked.

use std::collections::HashMap;

use ng_rpc::open_inference as oip;
use ng_rpc::{Message, v1};
use oip::model_infer_request::InferInputTensor;
use v1::change::Change as Kind;

use crate::help::common::WIDTH;
use crate::help::{files, run};

/// What a server is asked.
pub struct Seed {
    /// The path of the method.
    pub path: &'static str,
    /// Its messages, encoded: one, or several where the caller streams.
    pub messages: Vec<Vec<u8>>,
    /// How often it is drawn: less often where it works long.
    pub weight: u64,
    /// Whether it is answered well as it stands.
    pub is_good: bool,
}

fn seed(path: &'static str, weight: u64, message: &impl Message) -> Seed {
    Seed { path, messages: vec![message.encode_to_vec()], weight, is_good: true }
}

fn bad(path: &'static str, weight: u64, message: &impl Message) -> Seed {
    Seed { is_good: false, ..seed(path, weight, message) }
}

fn graph() -> String {
    "small".to_owned()
}

fn nodes(ids: &[u64]) -> v1::Nodes {
    v1::Nodes { node_type: "node".to_owned(), ids: ids.to_vec() }
}

fn row() -> v1::Tensor {
    v1::Tensor {
        dtype: v1::Dtype::F32.into(),
        shape: vec![WIDTH as u64],
        data: vec![0; 4 * WIDTH].into(),
    }
}

fn changes() -> Vec<v1::Change> {
    let id = |id| Some(v1::NodeRef { node: Some(v1::node_ref::Node::Id(id)) });
    let added = Some(v1::NodeRef { node: Some(v1::node_ref::Node::Added(0)) });
    let vertex = v1::AddVertex {
        node_type: "node".to_owned(),
        rows: HashMap::from([("x".to_owned(), row())]),
    };
    let edge = v1::AddEdge {
        edge_type: "to".to_owned(),
        source: id(3),
        destination: added,
        ..v1::AddEdge::default()
    };
    let rows = v1::Tensor { shape: vec![1, WIDTH as u64], ..row() };
    let embed = v1::UpdateEmbed {
        tensor: "x".to_owned(),
        nodes: id(5).into_iter().collect(),
        rows: Some(rows),
        ..v1::UpdateEmbed::default()
    };
    [Kind::AddVertex(vertex), Kind::AddEdge(edge), Kind::UpdateEmbed(embed)]
        .into_iter()
        .map(|change| v1::Change { change: Some(change) })
        .collect()
}

fn changing() -> Vec<Seed> {
    let all = changes();
    let kinds: Vec<Kind> = all.iter().filter_map(|one| one.change.clone()).collect();
    let [Kind::AddVertex(vertex), _, Kind::UpdateEmbed(embed)] = kinds.as_slice() else {
        panic!("the changes are of other kinds");
    };
    let end = |id| Some(v1::NodeRef { node: Some(v1::node_ref::Node::Id(id)) });
    let edge = v1::AddEdge { source: end(1), destination: end(2), ..v1::AddEdge::default() };
    let gone = v1::DeleteEdge { source: 1, destination: 2, ..v1::DeleteEdge::default() };
    macro_rules! of {
        ($path:literal, $kind:ident, $good:ident, $field:ident: $value:expr) => {{
            let message =
                v1::$kind { graph: graph(), $field: Some($value), ..v1::$kind::default() };
            $good(concat!("/neargraph.v1.GraphStoreService/", $path), 12, &message)
        }};
    }
    let idempotency_key = b"a key".to_vec();
    let batch = v1::ApplyTransactionRequest {
        graph: graph(),
        changes: all,
        idempotency_key,
        ..v1::ApplyTransactionRequest::default()
    };
    // Nodes are deleted only where the reverse of edges is kept.
    let vertex_gone = v1::DeleteVertex { id: 9, ..v1::DeleteVertex::default() };
    vec![
        seed("/neargraph.v1.GraphStoreService/ApplyTransaction", 24, &batch),
        of!("AddVertex", AddVertexRequest, seed, vertex: vertex.clone()),
        of!("AddEdge", AddEdgeRequest, seed, edge: edge),
        of!("DeleteEdge", DeleteEdgeRequest, seed, edge: gone),
        of!("DeleteVertex", DeleteVertexRequest, bad, vertex: vertex_gone),
        of!("UpdateEmbed", UpdateEmbedRequest, seed, embed: embed.clone()),
        Seed {
            path: "/neargraph.v1.GraphStoreService/UpdateGraph",
            messages: new_graph(),
            weight: 8,
            is_good: false,
        },
    ]
}

/// A head, and bytes that are not columns.
fn new_graph() -> Vec<Vec<u8>> {
    let head = v1::UpdateGraphHead {
        graph: "made".to_owned(),
        node_types: vec![v1::NewNodeType {
            name: "node".to_owned(),
            num_nodes: 10,
            tensors: vec!["x".to_owned()],
        }],
        edge_types: vec![v1::NewEdgeType {
            name: "node,to,node".to_owned(),
            undirected: true,
            ..v1::NewEdgeType::default()
        }],
        page_bytes: 4096,
        ..v1::UpdateGraphHead::default()
    };
    let arrow = v1::update_graph_request::Part::Arrow(vec![0xff; 64]);
    [v1::update_graph_request::Part::Head(head), arrow]
        .into_iter()
        .map(|part| v1::UpdateGraphRequest { part: Some(part) }.encode_to_vec())
        .collect()
}

fn reading() -> Vec<Seed> {
    let ids = vec![1, 2, 299];
    let embed = v1::GetEmbedRequest {
        graph: graph(),
        nodes: Some(nodes(&ids)),
        tensor: "x".to_owned(),
        ..v1::GetEmbedRequest::default()
    };
    let neighbors = v1::GetNeighborsRequest {
        graph: graph(),
        edge_type: "to".to_owned(),
        ids: ids.clone(),
        limit: Some(5),
        ..v1::GetNeighborsRequest::default()
    };
    let sample = v1::SampleRequest {
        graph: graph(),
        seeds: Some(nodes(&ids)),
        fanouts: vec![5, 3],
        batch_size: 2,
        tensors: vec!["x".to_owned()],
        shuffle: true,
        world_size: 1,
        ..v1::SampleRequest::default()
    };
    vec![
        seed("/neargraph.v1.GraphStoreService/GetEmbed", 40, &embed),
        seed("/neargraph.v1.GraphStoreService/GetNeighbors", 40, &neighbors),
        seed("/neargraph.v1.SamplingService/Sample", 10, &sample),
    ]
}

fn asking() -> Vec<Seed> {
    let targets = |targets| Some(v1::Targets { targets: Some(targets) });
    let of_nodes = v1::RunRequest { seed: 7, max_lag_commits: 1, ..run(&[1, 2, 299, 1]) };
    let edges = v1::Edges { sources: vec![1, 2], destinations: vec![3, 4], ..v1::Edges::default() };
    let of_edges =
        v1::RunRequest { targets: targets(v1::targets::Targets::Edges(edges)), ..run(&[]) };
    let of_graphs = v1::RunRequest {
        targets: targets(v1::targets::Targets::Graphs(v1::Graphs { ids: vec![0] })),
        ..run(&[])
    };
    let of_files =
        v1::RunRequest { dfg: Some(v1::run_request::Dfg::Files(files())), ..run(&[1, 2]) };
    let job = |request| v1::GraphAnalysisRequest { request: Some(request), keep_seconds: 1 };
    let name = || "0123456789abcdef0123456789abcdef".to_owned();
    let path = "/neargraph.v1.InferenceService/Run";
    vec![
        seed(path, 60, &of_nodes),
        seed(path, 40, &of_edges),
        bad(path, 10, &of_graphs),
        bad(path, 4, &of_files),
        seed("/neargraph.v1.InferenceService/GraphAnalysis", 8, &job(of_nodes.clone())),
        bad(
            "/neargraph.v1.InferenceService/GetAnalysisResult",
            12,
            &v1::GetAnalysisResultRequest { job: name(), wait_ms: 1 },
        ),
        bad(
            "/neargraph.v1.InferenceService/WatchAnalysis",
            12,
            &v1::WatchAnalysisRequest { job: name() },
        ),
        bad(
            "/neargraph.v1.InferenceService/CancelAnalysis",
            12,
            &v1::CancelAnalysisRequest { job: name() },
        ),
        seed("/neargraph.v1.InferenceService/ListAnalyses", 4, &v1::ListAnalysesRequest {}),
    ]
}

fn registering() -> Vec<Seed> {
    let of = |method: &str| -> &'static str {
        match method {
            "GraphRegister" => "/neargraph.v1.RegistryService/GraphRegister",
            "GraphUnregister" => "/neargraph.v1.RegistryService/GraphUnregister",
            "ModelRegister" => "/neargraph.v1.RegistryService/ModelRegister",
            "ModelUnregister" => "/neargraph.v1.RegistryService/ModelUnregister",
            _ => panic!("{method}"),
        }
    };
    let graph_register = v1::GraphRegisterRequest {
        graph: "again".to_owned(),
        path: "small.ng".to_owned(),
        ..v1::GraphRegisterRequest::default()
    };
    let model = v1::ModelRegisterRequest {
        model: "other".to_owned(),
        graph: graph(),
        source: Some(v1::model_register_request::Source::Files(files())),
        prepare: "metadata".to_owned(),
        fanouts: vec![3, 2],
        ..v1::ModelRegisterRequest::default()
    };
    let by_path = v1::ModelRegisterRequest {
        source: Some(v1::model_register_request::Source::Path("m.ngm".to_owned())),
        ..model.clone()
    };
    let alias = v1::SetAliasRequest {
        graph: graph(),
        alias: "live".to_owned(),
        model: "mean@1".to_owned(),
    };
    let unregister = v1::ModelUnregisterRequest { model: "other@1".to_owned(), graph: graph() };
    let pin = v1::PinSnapshotRequest { graph: graph(), seconds: 1 };
    vec![
        bad(of("GraphRegister"), 2, &graph_register),
        bad(of("GraphUnregister"), 1, &v1::GraphUnregisterRequest { graph: "none".to_owned() }),
        seed(of("ModelRegister"), 2, &model),
        bad(of("ModelRegister"), 2, &by_path),
        seed(of("ModelUnregister"), 2, &unregister),
        seed("/neargraph.v1.RegistryService/SetAlias", 3, &alias),
        seed("/neargraph.v1.RegistryService/ListGraphs", 3, &v1::ListGraphsRequest {}),
        seed("/neargraph.v1.RegistryService/ListModels", 3, &v1::ListModelsRequest {}),
        seed("/neargraph.v1.RegistryService/PinSnapshot", 6, &pin),
        bad(
            "/neargraph.v1.RegistryService/UnpinSnapshot",
            10,
            &v1::UnpinSnapshotRequest { graph: graph(), commit: 1 },
        ),
    ]
}

fn server() -> Vec<Seed> {
    let plugin = v1::PluginRequest { file: "p.so".to_owned(), sha256: "00".repeat(32) };
    let backup =
        v1::BackupRequest { graph: graph(), target: "one".to_owned(), base: String::new() };
    let bundle = v1::ProgramRequest { bundle: "cpu".to_owned() };
    vec![
        bad("/neargraph.v1.AcceleratorService/Plugin", 6, &plugin),
        bad("/neargraph.v1.AcceleratorService/Program", 2, &bundle),
        seed("/neargraph.v1.AcceleratorService/ListDevices", 2, &v1::ListDevicesRequest {}),
        seed("/neargraph.v1.ServerService/ServerInfo", 4, &v1::ServerInfoRequest {}),
        seed("/neargraph.v1.ServerService/Backup", 1, &backup),
    ]
}

fn open_inference() -> Vec<Seed> {
    let input = |name: &str, shape: &[i64], ids: &[i64]| InferInputTensor {
        name: name.to_owned(),
        datatype: "INT64".to_owned(),
        shape: shape.to_vec(),
        contents: Some(oip::InferTensorContents {
            int64_contents: ids.to_vec(),
            ..oip::InferTensorContents::default()
        }),
        ..InferInputTensor::default()
    };
    let infer = |inputs: Vec<InferInputTensor>| oip::ModelInferRequest {
        model_name: "small/mean".to_owned(),
        id: "7".to_owned(),
        inputs,
        ..oip::ModelInferRequest::default()
    };
    let mut raw = infer(vec![input("nodes", &[2], &[])]);
    raw.inputs[0].contents = None;
    raw.raw_input_contents = vec![[5_u64, 9].map(u64::to_le_bytes).concat().into()];
    let name = || "mean".to_owned();
    let version = || "1".to_owned();
    let path = "/inference.GRPCInferenceService/ModelInfer";
    vec![
        seed(path, 40, &infer(vec![input("nodes", &[3], &[1, 2, 299])])),
        seed(path, 30, &infer(vec![input("edges", &[2, 2], &[1, 2, 3, 4])])),
        seed(path, 30, &raw),
        seed("/inference.GRPCInferenceService/ServerLive", 1, &oip::ServerLiveRequest {}),
        seed("/inference.GRPCInferenceService/ServerReady", 1, &oip::ServerReadyRequest {}),
        seed("/inference.GRPCInferenceService/ServerMetadata", 1, &oip::ServerMetadataRequest {}),
        seed(
            "/inference.GRPCInferenceService/ModelReady",
            8,
            &oip::ModelReadyRequest { name: name(), version: version() },
        ),
        seed(
            "/inference.GRPCInferenceService/ModelMetadata",
            8,
            &oip::ModelMetadataRequest { name: name(), version: version() },
        ),
    ]
}

/// All seeds; methods of other projects (health, reflection) begin with a message without fields.
pub fn all() -> Vec<Seed> {
    let mut found: Vec<Seed> =
        [changing(), reading(), asking(), registering(), server(), open_inference()]
            .into_iter()
            .flatten()
            .collect();
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        let file = b"\x1a\x0aneargraph/";
        let messages = vec![file.to_vec()];
        found.push(Seed { path, messages, weight: 3, is_good: false });
    }
    found
}
