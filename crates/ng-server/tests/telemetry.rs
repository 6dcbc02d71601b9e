//! What a server tells about itself: numbers, identifiers of requests, whether it is ready.
#![allow(clippy::expect_used)]

mod help;

use help::raw::{Http, call, get, runtime};
use help::{client, folder, register, run, started};
use ng_rpc::Code;
use ng_rpc::connect::channel;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_server::telemetry::metrics::METRICS;

/// The value of a series, by its name and labels as they are written.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

#[test]
fn numbers_count_what_was_done_and_servers_do_not_mix_them() {
    let folders = [folder(500), folder(200)];
    let servers = [0, 1].map(|at: usize| started(folders[at].path(), |config| config));
    let [one, other] = &servers;
    let client = client(one, 0);
    let info = register(&client);
    assert_eq!(info.output, "out");
    assert!(info.devices.iter().any(|device| device == "cpu"), "{:?}", info.devices);
    for at in 0..7 {
        client.run(run(&[at, at + 1])).expect("answer");
    }
    client.run(run(&[9_999])).expect_err("no such node");
    let text = get(one.side_address(), "/metrics", "").body;
    let ok = "neargraph_requests_total{method=\"Run\",code=\"OK\"}";
    assert_eq!(value(&text, ok), Some(7.0), "{text}");
    let bad = "neargraph_requests_total{method=\"Run\",code=\"OUT_OF_RANGE\"}";
    assert_eq!(value(&text, bad), Some(1.0), "{text}");
    assert_eq!(value(&text, "neargraph_request_seconds_count{method=\"Run\"}"), Some(8.0));
    let computed = value(&text, "neargraph_answers_total{source=\"computed\"}");
    assert!(computed.is_some_and(|rows| rows >= 8.0), "{text}");
    assert_eq!(value(&text, "neargraph_group_requests_count"), Some(7.0), "{text}");
    for stage in ["queue", "sample", "gather", "run", "encode"] {
        let seconds = |of| format!("neargraph_stage_seconds_{of}{{stage=\"{stage}\"}}");
        assert_eq!(value(&text, &seconds("count")), Some(7.0), "{stage}: {text}");
        assert!(value(&text, &seconds("sum")).is_some_and(|sum| sum > 0.0), "{stage}: {text}");
    }
    for kind in ["call", "stream"] {
        let in_flight = format!("neargraph_requests_in_flight{{kind=\"{kind}\"}}");
        assert_eq!(value(&text, &in_flight), Some(0.0));
    }
    assert_eq!(value(&text, "neargraph_lanes{state=\"busy\"}"), Some(0.0));
    let lanes = one.state().config.lanes as f64;
    assert_eq!(value(&text, "neargraph_lanes{state=\"idle\"}"), Some(lanes));
    assert_eq!(value(&text, "neargraph_jobs{state=\"running\"}"), Some(0.0));
    assert_eq!(value(&text, "neargraph_admitted_bytes"), Some(0.0));
    assert!(value(&text, "neargraph_foreseen_bytes_total").is_some_and(|bytes| bytes > 0.0));
    assert!(value(&text, "neargraph_read_bytes_total{graph=\"small\"}").is_some());
    let model = "neargraph_model_ready{graph=\"small\",model=\"mean@1\"}";
    assert_eq!(value(&text, model), Some(1.0), "{text}");
    assert!(value(&text, "process_resident_memory_bytes").is_some_and(|b| b > 1e6));
    assert!(value(&text, "process_open_fds").is_some_and(|fds| fds > 5.0));
    assert!(value(&text, "neargraph_connections").is_some_and(|open| open >= 1.0));
    // Each series is of a metric that is described, and so documented.
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).expect("name");
        assert!(METRICS.iter().any(|(known, ..)| *known == name), "{name} is not described");
    }
    let text = get(other.side_address(), "/metrics", "").body;
    assert_eq!(value(&text, ok), None, "numbers of the other server");
    servers.into_iter().for_each(|server| assert_eq!(server.end().unanswered, 0));
}

#[test]
fn requests_keep_their_names_and_probes_get_answers() {
    let folder = folder(200);
    let serving = started(folder.path(), |config| config);
    runtime().block_on(async {
        let channel = channel(&serving.addresses()[1]).expect("channel");
        let mut client = InferenceServiceClient::new(channel.clone());
        let mut named = ng_rpc::Request::new(run(&[1]));
        named.metadata_mut().insert("x-request-id", "of-the-client-7".parse().expect("id"));
        let status = client.run(named).await.expect_err("no model");
        let id = |status: &ng_rpc::Status| {
            let id = status.metadata().get("x-request-id").expect("id");
            id.to_str().expect("text").to_owned()
        };
        assert_eq!(id(&status), "of-the-client-7");
        let ids = [client.run(run(&[1])).await, client.run(run(&[1])).await];
        let [first, second] = ids.map(|answer| id(&answer.expect_err("no model")));
        assert_ne!(first, second);
        for service in ng_rpc::services() {
            assert_eq!(health(&channel, &service).await, Some(1), "{service:?}");
        }
        assert_eq!(health(&channel, "none").await, None);
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        // It is there, and has been asked nothing.
        assert_eq!(call(&channel, reflection, None).await.code(), Code::InvalidArgument);
    });
    let Http { status, head, .. } =
        get(serving.side_address(), "/healthz", "x-request-id: probe-1\r\n");
    assert_eq!(status, 200);
    assert!(head.to_lowercase().contains("x-request-id: probe-1"), "{head}");
    assert_eq!(get(serving.side_address(), "/nothing", "").status, 404);
    serving.end();
}

/// What health says of a service: 1 is SERVING.
async fn health(channel: &ng_rpc::connect::Channel, service: &str) -> Option<i32> {
    use ng_rpc::health::pb::HealthCheckRequest;
    use ng_rpc::health::pb::health_client::HealthClient;
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel.clone()).check(request).await;
    answer.ok().map(|answer| answer.into_inner().status)
}
