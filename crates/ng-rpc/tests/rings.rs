//! Calls over rings: answers, streams, cancels, deadlines; clients that die, break the rules or are
//! too many; servers that end.
#![allow(clippy::expect_used)]

mod help;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use help::{
    CHILD, ECHO, ENDLESS, LONG, NEVER, PANIC, REFUSE, Raw, Server, all, alone, ask, at, batch,
    client, held, until,
};
use ng_io::calls::{Event, Metadata, Open};
use ng_io::{ShmConnection, ShmFrame, ShmOptions};
use ng_rpc::connect::{channel, channel_with};
use ng_rpc::ring::RingOptions;
use ng_rpc::tonic::client::Grpc;
use ng_rpc::tonic::codegen::Bytes;
use ng_rpc::{Code, Request, v1};
use ng_testing::Random;
use tokio::runtime::Runtime;

#[test]
fn long_messages_and_streams_go_both_ways_whoever_reads_the_ring() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    let address = format!("shm:{}", path.display());
    let ids: Vec<u64> = (0..1_500_000).map(|id| id * 7919 % 2_000_003).collect();
    let mut asked = ask(ECHO, 3, 5 << 20);
    asked.seeds = Some(v1::Nodes { node_type: String::new(), ids });
    let expected: Vec<_> = (0..3).map(|number| batch(number, &asked)).collect();
    for (spin, blocking) in [(0, false), (0, true), (50, false), (50, true)] {
        let spin = Some(Duration::from_micros(spin));
        let channel =
            channel_with(&address, None, RingOptions { spin, blocking }).expect("address");
        let mut client = client(channel);
        let runtime = Runtime::new().expect("runtime");
        runtime.block_on(async {
            assert_eq!(all(&mut client, asked.clone()).await.expect("long"), expected);
            assert_eq!(all(&mut client, ask(ECHO, 5000, 9)).await.expect("many").len(), 5000);
            assert_eq!(all(&mut client, ask(ECHO, 0, 0)).await.expect("none").len(), 0);
            let mut named = Request::new(ask(ECHO, 1, 1));
            named.metadata_mut().insert("x-name", "value".parse().expect("value"));
            let answer = client.sample(named).await.expect("named");
            assert_eq!(answer.metadata().get("x-name").expect("name"), "value");
        });
        if blocking {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let (mut client, runtime) = (client.clone(), &runtime);
                    scope.spawn(move || {
                        for number in 0..50 {
                            let answers = runtime.block_on(all(&mut client, ask(ECHO, 2, number)));
                            assert_eq!(answers.expect("answers").len(), 2);
                        }
                    });
                }
            });
            continue;
        }
        // Many at once, from tasks of their own.
        runtime.block_on(async {
            let many = (0..100).map(|number| {
                let mut client = client.clone();
                tokio::spawn(async move { all(&mut client, ask(ECHO, 2, number * 1000)).await })
            });
            for (number, answers) in many.collect::<Vec<_>>().into_iter().enumerate() {
                let answers = answers.await.expect("task").expect("answers");
                let lens = answers.iter().map(|answer| answer.nodes[0].node_type.len());
                assert_eq!(lens.collect::<Vec<_>>(), [number * 1000; 2]);
            }
        });
    }
    assert_eq!(server.broken(), [""; 0]);
    server.drain();
}

#[test]
fn requests_stream_beside_their_answers() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    let channel = channel(&format!("shm:{}", path.display())).expect("address");
    Runtime::new().expect("runtime").block_on(async {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.expect("ready");
        let (give, requests) = tokio::sync::mpsc::channel::<Bytes>(4);
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let path = ng_rpc::http::uri::PathAndQuery::from_static(path);
        let answer = grpc.streaming(Request::new(requests), path, Raw).await.expect("stream");
        let mut answer = answer.into_inner();
        // "List the services", as bytes: each answer is read before the next request is made.
        for _ in 0..300 {
            give.send(Bytes::from_static(b"\x3a\x01*")).await.expect("sent");
            let services = answer.message().await.expect("answer").expect("one");
            let text = String::from_utf8_lossy(&services).into_owned();
            assert!(text.contains("neargraph.v1.SamplingService"), "{text}");
        }
        drop(give);
        assert!(answer.message().await.expect("end").is_none());
    });
    server.drain();
}

#[test]
fn calls_end_by_a_refusal_a_deadline_a_cancel_and_a_panic() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    for blocking in [false, true] {
        let options = RingOptions { blocking, ..RingOptions::default() };
        let address = format!("shm:{}", path.display());
        let mut client = client(channel_with(&address, None, options).expect("address"));
        let runtime = Runtime::new().expect("runtime");
        runtime.block_on(async {
            let refused = all(&mut client, ask(REFUSE, 1, 1)).await.expect_err("refused");
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert_eq!(refused.message(), "the seed is wrong: take another");
            assert!(!refused.details().is_empty());

            let mut late = Request::new(ask(NEVER, 1, 1));
            late.set_timeout(Duration::from_millis(30));
            let late = client.sample(late).await.expect_err("late");
            assert_eq!(late.code(), Code::DeadlineExceeded);

            let panicked = all(&mut client, ask(PANIC, 1, 1)).await.expect_err("panicked");
            assert_eq!(panicked.code(), Code::Internal);

            let mut endless = client.sample(ask(ENDLESS, 0, 100_000)).await.expect("endless");
            for _ in 0..50 {
                endless.get_mut().message().await.expect("batch").expect("one");
            }
            drop(endless);
            assert_eq!(all(&mut client, ask(ECHO, 2, 2)).await.expect("others").len(), 2);
            if !blocking {
                let never = client.sample(ask(NEVER, 1, 1));
                tokio::time::timeout(Duration::from_millis(50), never).await.expect_err("never");
            }
        });
        until("calls that nobody waits for end", || server.under_way() == 0);
    }
    assert_eq!(server.broken(), [""; 0]);
    server.drain();
}

/// What the child of the next test does: it waits until it is killed.
#[test]
fn a_client_in_a_process_of_its_own() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    Runtime::new().expect("runtime").block_on(async {
        let mut client = at(Path::new(&path));
        let mut endless = client.sample(ask(ENDLESS, 0, 100_000)).await.expect("endless");
        endless.get_mut().message().await.expect("batch");
        let never = client.clone().sample(ask(NEVER, 1, 1)).await;
        drop((endless, never));
    });
}

#[test]
fn a_client_that_is_killed_harms_nobody() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    let runtime = Runtime::new().expect("runtime");
    let mut other = at(&path);
    runtime.block_on(all(&mut other, ask(ECHO, 1, 1))).expect("answer");
    // Those of earlier tests are gone: two threads of the server are left, and one of the client.
    until("threads of earlier tests end", || held().1 == 3);
    let before = held();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_client_in_a_process_of_its_own"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .spawn()
            .expect("child");
        until("the client has two calls", || server.under_way() == 2);
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert_eq!(runtime.block_on(all(&mut other, ask(ECHO, 3, 9))).expect("others").len(), 3);
        until("its calls end", || server.under_way() == 0);
    }
    until("its threads and descriptors are given back", || held() == before);
    server.drain();
}

/// Sends a frame as a client that keeps no rule; says whether the server still took it.
fn send(rings: &mut ng_io::ShmSender, kind: u32, stream: u64, payload: &[u8]) -> bool {
    rings.send(ShmFrame { kind, stream }, &[payload], Some(LONG)).is_ok()
}

#[test]
fn a_client_that_breaks_the_rules_ends_its_own_connection_alone() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    let runtime = Runtime::new().expect("runtime");
    let mut other = at(&path);
    let call = Open {
        path: "/neargraph.v1.SamplingService/Sample".to_owned(),
        deadline: None,
        metadata: Metadata::default(),
    };
    let mut open = Vec::new();
    Event::Open(call).encode(1, &mut open).expect("open");
    let (credit, long) = (u32::MAX.to_le_bytes(), vec![0; 60 << 10]);
    // Frames of a kind and a stream, the last of which breaks a rule.
    let scripts: [&[(u32, u64, &[u8])]; 9] = [
        &[(99, 1, b"")],
        &[(1, 1, b"nonsense")],
        &[(1, 1, &open), (1, 1, &open)],
        &[(1, 2, &open), (1, 1, &open)],
        &[(4, 7, b"a message of no stream")],
        &[(1, 1, &open), (6, 1, &[0; 8])],
        &[(1, 1, &open), (8, 1, &credit)],
        &[(1, 1, &open), (8, 1, &[0; 4])],
        // The second grants a long message, the rest are more than that.
        &[(1, 1, &open), (4, 1, &long), (4, 1, &long)],
    ];
    for (number, script) in scripts.iter().enumerate() {
        let rings = ShmConnection::connect(&path, ShmOptions::default()).expect("rings");
        let (mut sender, mut receiver) = rings.split();
        for (kind, stream, payload) in *script {
            // The server may have hung up.
            let _is_taken = send(&mut sender, *kind, *stream, payload);
        }
        let mut payload = Vec::new();
        while let Ok(Some(_)) = receiver.receive(&mut payload, Some(LONG)) {}
        until("it is told why", || server.broken().len() == number + 1);
        assert_eq!(runtime.block_on(all(&mut other, ask(ECHO, 2, 2))).expect("others").len(), 2);
    }
    let seed = 7;
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for _ in 0..60 {
        let rings = ShmConnection::connect(&path, ShmOptions::default()).expect("rings");
        let (mut sender, _receiver) = rings.split();
        for _ in 0..random.below(40) {
            let (kind, stream) = (random.below(12) as u32, random.below(4));
            let len = random.below(64) as usize;
            let payload = if kind == 1 { open.clone() } else { random.bytes(len) };
            if !send(&mut sender, kind, stream, &payload) {
                break;
            }
        }
    }
    assert_eq!(runtime.block_on(all(&mut other, ask(ECHO, 2, 2))).expect("others").len(), 2);
    until("nothing is under way", || server.under_way() == 0);
    server.drain();
}

#[test]
fn one_client_too_many_is_told_so_and_comes_in_later() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let server = Server::start(&path);
    let connect = || ShmConnection::connect(&path, ShmOptions::default()).expect("rings");
    let mut clients: Vec<_> = (0..16).map(|_| connect()).collect();
    let runtime = Runtime::new().expect("runtime");
    let mut last = at(&path);
    let refused = runtime.block_on(all(&mut last, ask(ECHO, 1, 1))).expect_err("full");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("reached its limit of connections"), "{refused}");
    clients.pop();
    until("there is a place", || runtime.block_on(all(&mut last.clone(), ask(ECHO, 1, 1))).is_ok());
    drop(clients);
    server.drain();
}

#[test]
fn clients_survive_their_server() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("rings");
    let runtime = Runtime::new().expect("runtime");
    let mut client = at(&path);
    let gone = runtime.block_on(all(&mut client, ask(ECHO, 1, 1))).expect_err("no server");
    assert_eq!(gone.code(), Code::Unavailable);

    let server = Server::start(&path);
    let endless = runtime.block_on(client.sample(ask(ENDLESS, 0, 1000))).expect("endless");
    let never = runtime.spawn({
        let mut client = client.clone();
        async move { client.sample(ask(NEVER, 1, 1)).await.map(drop) }
    });
    until("both are under way", || server.under_way() == 2);
    server.end_at_once();
    let lost = runtime.block_on(never).expect("task").expect_err("lost");
    assert_eq!(lost.code(), Code::Unavailable);
    let mut endless = endless.into_inner();
    let lost = runtime.block_on(async {
        loop {
            match endless.message().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    });
    assert_eq!(lost.expect_err("lost").code(), Code::Unavailable);

    until("the path is free", || !path.exists());
    let server = Server::start(&path);
    assert_eq!(runtime.block_on(all(&mut client, ask(ECHO, 2, 2))).expect("again").len(), 2);

    // A server that drains answers what it has taken, and the client connects to the next one.
    let slow = runtime.spawn({
        let mut client = client.clone();
        async move { all(&mut client, ask(ECHO, 200, 100_000)).await.map(|all| all.len()) }
    });
    until("it is under way", || server.under_way() > 0 || slow.is_finished());
    server.drain();
    assert_eq!(runtime.block_on(slow).expect("task").expect("answered"), 200);
    assert!(!path.exists(), "the path is removed");
    let server = Server::start(&path);
    assert_eq!(runtime.block_on(all(&mut client, ask(ECHO, 2, 2))).expect("again").len(), 2);
    server.drain();
}
