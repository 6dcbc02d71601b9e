//! Traces of requests, as a collector of OpenTelemetry hears of them.
#![cfg(feature = "otel")]
#![allow(clippy::expect_used)]

mod help;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use help::calls::calls;
use help::raw::post;
use help::{client, folder, register, run, started};
use ng_rpc::listen::{Bound, Bounds, Door};
use ng_rpc::tonic::service::Routes;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_server::Config;
use tokio::runtime::Builder;

type Heard = Arc<Mutex<Vec<u8>>>;

/// Takes what is told, and answers with an empty message.
async fn hear(State(heard): State<Heard>, body: Bytes) -> impl axum::response::IntoResponse {
    heard.lock().expect("heard").extend(body);
    ([(CONTENT_TYPE.as_str(), "application/grpc"), ("grpc-status", "0")], [0_u8; 5].to_vec())
}

fn count(heard: &Heard, part: &[u8]) -> usize {
    let bytes = heard.lock().expect("heard");
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn a_collector_hears_of_each_request_its_stages_and_what_it_is_a_part_of() {
    let heard = Heard::default();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let bound = runtime.block_on(Bound::tcp(([127, 0, 0, 1], 0).into())).expect("bound");
    let at = format!("http://{}", bound.address().expect("an address"));
    let long = Duration::from_secs(60);
    let bounds = Bounds {
        connections: 8,
        streams: 8,
        header_bytes: 1 << 14,
        handshake: long,
        silence: 2 * long,
        ping: long,
        reading: long,
    };
    let door = Door {
        tls: None,
        bounds: Box::new(move || bounds),
        refused: Box::new(|_| ()),
        open: Arc::default(),
    };
    let routes = Router::new().fallback(hear).with_state(Arc::clone(&heard));
    runtime.spawn(bound.serve(Routes::from(routes), Arc::new(door), std::future::pending()));

    let folder = folder(300);
    let set = |config| Config { traces: Some(at.clone()), ..config };
    let serving = started(folder.path(), set);
    register(&client(&serving, 0));
    let (calling, channel) = calls(&serving, 0);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let mut request = ng_rpc::Request::new(run(&[1, 2]));
    request.metadata_mut().insert("traceparent", parent.parse().expect("a header"));
    request.metadata_mut().insert("x-request-id", "of-the-caller-5".parse().expect("a header"));
    let answered = calling.block_on(InferenceServiceClient::new(channel).run(request));
    answered.expect("an answer");
    let body = r#"{"graph": "small", "model": "mean", "nodes": [7]}"#;
    let header = format!("traceparent: 00-{trace}-00f067aa0ba902b8-01\r\n");
    assert_eq!(post(serving.side_address(), "/v1/run", &header, body).status, 200);
    let unsampled = format!("traceparent: 00-{trace}-00f067aa0ba902b9-00\r\n");
    let missing = post(serving.side_address(), "/v1/run", &unsampled, "{}");
    assert_eq!(missing.status, 400);
    serving.end();

    let id: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&trace[2 * at..2 * at + 2], 16).expect("digits"))
        .collect();
    for stage in ["queue", "sample", "gather", "run", "encode"] {
        // As a field of a message: its length stands before it.
        let named = [&[stage.len() as u8], stage.as_bytes()].concat();
        assert_eq!(count(&heard, &named), 2, "{stage}");
    }
    // Two requests with five stages each; what the caller does not want traced is not.
    assert_eq!(count(&heard, &id), 12);
    assert!(count(&heard, b"of-the-caller-5") == 1 && count(&heard, b"RestRun") == 1);
    assert!(count(&heard, b"ModelRegister") == 1, "requests without a parent are told, too");
    assert!(count(&heard, b"\x09neargraph") >= 1, "the name of the service");
}
