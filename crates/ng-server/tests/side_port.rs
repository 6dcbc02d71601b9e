//! The side port passes the same gate as gRPC: rights, places, limits, deadlines, names of
//! requests, numbers, and an end that answers what was taken.
#![allow(clippy::expect_used)]

mod help;

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use help::calls::until;
use help::raw::{Http, answer, begin, get, post};
use help::{client, folder, register, register_ready, started};
use ng_server::{Config, Limits, Serving};
use serde_json::{Value, json};

const RUN: &str = "/v1/run";

fn asked(nodes: &[u64]) -> String {
    json!({"graph": "small", "model": "mean", "nodes": nodes}).to_string()
}

/// A request whose second half has not been sent.
fn half(serving: &Serving, body: &str) -> (TcpStream, String) {
    let (first, rest) = body.split_at(body.len() / 2);
    let length = format!("content-length: {}\r\n", body.len());
    (begin(serving.side_address(), "POST", RUN, &length, first), rest.to_owned())
}

fn said(http: &Http) -> Value {
    serde_json::from_str(&http.body).unwrap_or_else(|error| panic!("{error}: {}", http.body))
}

fn metric(serving: &Serving, series: &str) -> Option<f64> {
    let text = get(serving.side_address(), "/metrics", "").body;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    line.parse().ok()
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("mode");
}

#[test]
fn rest_needs_a_right_has_a_name_and_a_quota_and_is_counted() {
    let folder = folder(200);
    let tokens = folder.path().join("tokens");
    private(&tokens, "read ann a-token-of-the-reader requests=40\nadmin eve a-token-of-the-boss-1");
    let serving = started(folder.path(), |config| Config {
        token_file: Some(tokens.clone()),
        limits: Limits { ids: 50, ..Limits::default() },
        ..config
    });
    let at = serving.side_address();
    let none = post(at, RUN, "", &asked(&[1]));
    assert_eq!((none.status, &said(&none)["reason"]), (401, &"NO_TOKEN".into()));
    assert!(none.head.to_lowercase().contains("www-authenticate: bearer"), "{}", none.head);
    let boss = "authorization: Bearer a-token-of-the-boss-1\r\n";
    let missing = post(at, RUN, boss, &asked(&[1]));
    assert_eq!((missing.status, &said(&missing)["reason"]), (404, &"MODEL_NOT_FOUND".into()));
    assert_eq!(get(at, "/v1/other", boss).status, 404);
    for probe in ["/healthz", "/readyz", "/metrics", "/", "/v2/health/live"] {
        assert_eq!(get(at, probe, "").status, 200, "{probe}");
    }
    let many: Vec<u64> = (0..51).collect();
    let many = post(at, RUN, boss, &asked(&many));
    // The model is looked for first.
    assert_eq!(many.status, 404, "{}", many.body);

    let named = format!("{boss}x-request-id: of-the-client-9\r\n");
    let named = post(at, RUN, &named, &asked(&[1]));
    assert!(named.head.to_lowercase().contains("x-request-id: of-the-client-9"), "{}", named.head);
    let own = get(at, "/v2", boss).head.to_lowercase();
    assert!(own.contains("x-request-id: "), "{own}");
    let of_run = |code| format!("neargraph_requests_total{{method=\"RestRun\",code=\"{code}\"}}");
    assert_eq!(metric(&serving, &of_run("UNAUTHENTICATED")), Some(1.0));
    assert_eq!(metric(&serving, &of_run("NOT_FOUND")), Some(3.0));
    let seconds = "neargraph_request_seconds_count{method=\"RestServerMetadata\"}";
    assert_eq!(metric(&serving, seconds), Some(1.0));
    let probes = "neargraph_requests_total{method=\"Healthz\",code=\"OK\"}";
    assert_eq!(metric(&serving, probes), None, "probes are no load");

    let reader = "authorization: Bearer a-token-of-the-reader\r\n";
    let refused = (0..100).map(|_| get(at, "/v2", reader)).find(|http| http.status == 429);
    let refused = refused.expect("the quota is used up");
    assert!(refused.head.to_lowercase().contains("retry-after: "), "{}", refused.head);
    let told = said(&refused);
    assert_eq!(told["reason"], "QUOTA_EXHAUSTED");
    assert!(told["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{told}");
    serving.end();
}

#[test]
fn rest_takes_places_and_is_bounded_in_ids_bytes_and_time() {
    let folder = folder(500);
    let limits = Limits {
        calls: 2,
        ids: 50,
        bytes_in_flight: 400 << 10,
        body: Duration::from_millis(500),
        ..Limits::default()
    };
    let serving = started(folder.path(), |config| Config { limits, ..config });
    let at = serving.side_address();
    register_ready(&serving, &client(&serving, 0));
    let good = post(at, RUN, "", &asked(&[1]));
    assert_eq!(good.status, 200, "{}", good.body);
    let many: Vec<u64> = (0..51).collect();
    let many = post(at, RUN, "", &asked(&many));
    assert_eq!(many.status, 400);
    assert!(many.body.contains("the limit is 50"), "{}", many.body);
    let costly: Vec<u64> = (0..50).collect();
    let costly = post(at, RUN, "", &asked(&costly));
    assert_eq!(costly.status, 400);
    assert!(costly.body.contains("is expected to read"), "{}", costly.body);

    // Two requests that do not come to their end have both places, until their time is over.
    let body = asked(&[1]);
    let slow = [half(&serving, &body), half(&serving, &body)];
    until(|| serving.state().guard.in_flight() == (2, 0));
    let full = post(at, RUN, "", &body);
    let told = said(&full);
    assert_eq!((full.status, &told["reason"]), (429, &"TOO_MANY_REQUESTS".into()));
    let after = told["retry_after_ms"].as_u64().expect("a hint");
    assert!((50..=75).contains(&after), "{after}");
    for look in ["/readyz", "/metrics", "/", "/api/info"] {
        assert_eq!(get(at, look, "").status, 200, "{look} needs no place");
    }
    for (stream, _) in slow {
        let late = answer(stream);
        assert_eq!((late.status, &said(&late)["reason"]), (504, &"REQUEST_TOO_SLOW".into()));
    }
    assert_eq!(post(at, RUN, "", &body).status, 200);
    let huge = post(at, RUN, "", &"x".repeat((4 << 20) + 1));
    assert_eq!((huge.status, &said(&huge)["reason"]), (400, &"MESSAGE_TOO_LARGE".into()));
    let late = post(at, RUN, "grpc-timeout: 1n\r\n", &body);
    assert_eq!((late.status, &said(&late)["reason"]), (504, &"DEADLINE_EXCEEDED".into()));
    assert_eq!(serving.state().guard.in_flight(), (0, 0));
    assert_eq!(serving.end().unanswered, 0);
}

#[test]
fn what_rest_has_taken_is_answered_when_the_server_ends() {
    let folder = folder(200);
    let serving = started(folder.path(), |config| config);
    register(&client(&serving, 0));
    let (mut stream, rest) = half(&serving, &asked(&[1, 2, 3]));
    until(|| serving.state().guard.in_flight() == (1, 0));
    let (at, state) = (serving.side_address().to_owned(), serving.state().clone());
    let ending = std::thread::spawn(move || serving.end());
    until(|| state.guard.is_draining() && post(&at, RUN, "", &asked(&[1])).status == 503);
    let refused = post(&at, RUN, "", &asked(&[1]));
    assert_eq!(said(&refused)["reason"], "SHUTTING_DOWN");
    assert_eq!(get(&at, "/readyz", "").status, 503);
    assert!(get(&at, "/metrics", "").body.contains("neargraph_draining 1"));
    stream.write_all(rest.as_bytes()).expect("sent");
    let answered = answer(stream);
    assert_eq!(answered.status, 200, "{}", answered.body);
    assert_eq!(said(&answered)["rows"].as_array().map(Vec::len), Some(3));
    assert_eq!(ending.join().expect("ended").unanswered, 0);
}
