//! The Open Inference Protocol and REST from outside: the bytes of this project's own service.
#![allow(clippy::expect_used)]

mod help;

use std::io::{Read, Write};
use std::net::TcpStream;

use help::calls::calls;
use help::{client, folder, register, run, started};
use ng_rpc::open_inference as oip;
use ng_rpc::{Code, Status, problem_told};
use ng_server::Serving;
use oip::grpc_inference_service_client::GrpcInferenceServiceClient;
use oip::infer_parameter::ParameterChoice;
use oip::model_infer_request::InferInputTensor;
use serde_json::{Value, json};

fn asked(name: &str, ids: &[i64]) -> oip::ModelInferRequest {
    let contents = oip::InferTensorContents { int64_contents: ids.to_vec(), ..Default::default() };
    let shape =
        if name == "edges" { vec![2, ids.len() as i64 / 2] } else { vec![ids.len() as i64] };
    let input = InferInputTensor {
        name: name.into(),
        datatype: "INT64".into(),
        shape,
        contents: Some(contents),
        ..InferInputTensor::default()
    };
    oip::ModelInferRequest {
        model_name: "mean".into(),
        id: "7".into(),
        inputs: vec![input],
        ..oip::ModelInferRequest::default()
    }
}

/// Sends a request to the side port: status, head and body of what comes back.
fn http(serving: &Serving, head: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(serving.side_address()).expect("connected");
    let length = body.len();
    let head =
        format!("{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}");
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, head, all[end + 4..].to_vec())
}

fn rest(serving: &Serving, line: &str, body: &Value) -> (u16, Value) {
    let (status, _, body) = http(serving, &format!("{line} HTTP/1.1"), body.to_string().as_bytes());
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    let (all, _) = bytes.as_chunks::<4>();
    all.iter().map(|one| f64::from(f32::from_le_bytes(*one))).collect()
}

#[test]
fn answers_over_grpc_are_those_of_run_and_errors_say_what_to_do() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let direct = client(&serving, 0);
    register(&direct);
    let (runtime, channel) = calls(&serving, 1);
    let service = GrpcInferenceServiceClient::new(channel);
    let infer = |request| -> Result<oip::ModelInferResponse, Status> {
        let answer = runtime.block_on({ service.clone() }.model_infer(request))?;
        Ok(answer.into_inner())
    };
    let wanted = direct.run(run(&[5, 9, 5])).expect("rows");
    let rows = wanted.rows.expect("rows");
    let found = infer(asked("nodes", &[5, 9, 5])).expect("rows");
    assert_eq!(found.raw_output_contents[0], rows.data);
    assert_eq!((found.id.as_str(), found.model_version.as_str()), ("7", "1"));
    let output = &found.outputs[0];
    assert_eq!((output.datatype.as_str(), output.shape.as_slice()), ("FP32", &[3, 3][..]));

    // Raw contents, a seed, the full name, and pairs.
    let raw: Vec<u8> = [5u64, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
    let mut request = asked("nodes", &[]);
    request.inputs[0].shape = vec![2];
    request.inputs[0].contents = None;
    request.raw_input_contents = vec![raw.into()];
    request.model_name = "small/mean".into();
    let seed = oip::InferParameter { parameter_choice: Some(ParameterChoice::Int64Param(3)) };
    request.parameters.insert("seed".into(), seed);
    let found = infer(request.clone()).expect("rows");
    let seeded = ng_rpc::v1::RunRequest { seed: 3, ..run(&[5, 9]) };
    let seeded = direct.run(seeded).expect("rows").rows.expect("rows");
    assert_eq!(found.raw_output_contents[0], seeded.data);
    let scores = infer(asked("edges", &[1, 2, 3, 4])).expect("scores");
    assert_eq!(scores.outputs[0].shape, [2]);

    let metadata = oip::ModelMetadataRequest { name: "mean".into(), version: String::new() };
    let metadata = runtime.block_on({ service.clone() }.model_metadata(metadata));
    let metadata = metadata.expect("metadata").into_inner();
    assert_eq!(
        (metadata.versions, metadata.outputs[0].shape.clone()),
        (vec!["1".into()], vec![-1, 3])
    );
    for (change, code) in [
        ((|it| it.model_name = "other".into()) as fn(&mut oip::ModelInferRequest), Code::NotFound),
        (|it| it.model_version = "2".into(), Code::NotFound),
        (|it| it.inputs[0].name = "x".into(), Code::InvalidArgument),
        (|it| it.inputs[0].datatype = "FP32".into(), Code::InvalidArgument),
        (|it| it.inputs[0].shape = vec![-1], Code::InvalidArgument),
        (|it| it.inputs[0].shape = vec![i64::MAX], Code::InvalidArgument),
        (|it| it.inputs.clear(), Code::InvalidArgument),
        (|it| it.raw_input_contents = vec![vec![0; 15].into()], Code::InvalidArgument),
        (|it| it.raw_input_contents = vec![vec![255; 16].into()], Code::InvalidArgument),
        (
            |it| drop(it.parameters.insert("speed".into(), Default::default())),
            Code::InvalidArgument,
        ),
        (|it| it.outputs.push(Default::default()), Code::InvalidArgument),
    ] {
        let mut request = request.clone();
        change(&mut request);
        let refused = infer(request).expect_err("refused");
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(!problem_told(&refused).remedy.is_empty(), "{refused:?}");
    }
    assert_eq!(infer(asked("nodes", &[300])).expect_err("no node").code(), Code::OutOfRange);
}

#[test]
fn rest_speaks_the_protocol_in_json_and_in_binary() {
    let folder = folder(300);
    let serving = started(folder.path(), |config| config);
    let direct = client(&serving, 0);
    assert_eq!(rest(&serving, "GET /v2/health/ready", &Value::Null).0, 200);
    assert_eq!(rest(&serving, "GET /v2/models/mean", &Value::Null).0, 404);
    register(&direct);
    let (status, server) = rest(&serving, "GET /v2", &Value::Null);
    assert_eq!((status, &server["name"]), (200, &json!("neargraph")));
    for path in ["mean/ready", "small/mean/ready", "small/mean/versions/1/ready"] {
        assert_eq!(
            rest(&serving, &format!("GET /v2/models/{path}"), &Value::Null).0,
            200,
            "{path}"
        );
    }
    let (_, metadata) = rest(&serving, "GET /v2/models/small%2Fmean/versions/1", &Value::Null);
    assert_eq!(metadata["outputs"][0]["shape"], json!([-1, 3]), "{metadata}");

    let rows = direct.run(run(&[5, 9])).expect("rows").rows.expect("rows");
    let input = json!({"name": "nodes", "shape": [2], "datatype": "INT64", "data": [5, 9]});
    let infer = "POST /v2/models/mean/infer";
    let (status, found) = rest(&serving, infer, &json!({"id": "a", "inputs": [input]}));
    assert_eq!(status, 200, "{found}");
    let output = &found["outputs"][0];
    assert_eq!((&found["id"], &output["shape"]), (&json!("a"), &json!([2, 3])));
    let data: Vec<f32> = serde_json::from_value(output["data"].clone()).expect("numbers");
    assert_eq!(data.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(), floats(&rows.data));

    let input = json!({"name": "nodes", "shape": [2], "datatype": "INT64",
                       "parameters": {"binary_data_size": 16}});
    let asked = json!({"inputs": [input], "parameters": {"binary_data_output": true}}).to_string();
    let ids: Vec<u8> = [5u64, 9].iter().flat_map(|id| id.to_le_bytes()).collect();
    let head = |length| format!("{infer} HTTP/1.1\r\nInference-Header-Content-Length: {length}");
    let body = [asked.as_bytes(), &ids].concat();
    let (status, headers, body) = http(&serving, &head(asked.len()), &body);
    assert_eq!(status, 200, "{headers}");
    assert!(body.ends_with(&rows.data) && headers.contains("inference-header-content-length"));
    assert_eq!(http(&serving, &head(9999), asked.as_bytes()).0, 400);
    assert_eq!(http(&serving, &head(asked.len()), asked.as_bytes()).0, 400);

    let own = json!({"graph": "small", "model": "mean", "nodes": [5, 9]});
    let (status, found) = rest(&serving, "POST /v1/run", &own);
    assert_eq!((status, &found["model"]), (200, &json!("mean@1")), "{found}");
    let lists: Vec<Vec<f32>> = serde_json::from_value(found["rows"].clone()).expect("rows");
    let all: Vec<f64> = lists.concat().iter().map(|x| f64::from(*x)).collect();
    assert_eq!((lists.len(), all), (2, floats(&rows.data)));
    let nodes = |data: Value| {
        let mut input = json!({"name": "nodes", "shape": [1], "datatype": "INT64"});
        input["data"] = data;
        json!({"inputs": [input]})
    };
    for (line, body, status) in [
        ("POST /v1/run", json!({"model": "mean"}), 400),
        ("POST /v1/run", json!({"model": "mean", "nodes": [-1]}), 400),
        ("POST /v1/run", json!({"model": "none", "nodes": [1]}), 404),
        ("POST /v1/run", json!([[[[[[[]]]]]]]), 400),
        (infer, json!({"inputs": []}), 400),
        (infer, nodes(json!([0.5])), 400),
        (infer, nodes(json!([[[[[[1]]]]]])), 400),
        ("POST /v2/models/a/b/c/infer", Value::Null, 404),
        ("GET /v2/models/mean/infer", Value::Null, 400),
        ("GET /v2/models/mean/config", Value::Null, 501),
    ] {
        let (found, said) = rest(&serving, line, &body);
        assert_eq!(found, status, "{line} {body}: {said}");
        assert!(said["error"].as_str().is_some_and(|text| text.contains(':')), "{said}");
    }
}
