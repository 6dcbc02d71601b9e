//! The same answers over TCP, a Unix socket and shared memory, and what is left of sockets.
#![allow(clippy::expect_used)]

mod help;

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use help::{client, folder, register, run, started};
use ng_client::Client;
use ng_rpc::connect::channel;
use ng_rpc::health::pb;
use ng_rpc::health::pb::health_client::HealthClient;
use ng_rpc::{Code, v1};
use ng_server::{Address, Config, Serving, serve};

/// A server of TCP, a Unix socket and rings.
fn with_rings(folder: &Path) -> Serving {
    started(folder, |mut config| {
        config.limits.ids = 1 << 20;
        config.limits.bytes_in_flight = 1 << 40;
        config.memory = Some(512 << 20);
        config.listen.push(Address::Shm(folder.join("rings")));
        config
    })
}

#[test]
fn each_transport_gives_the_same_answers() {
    let folder = folder(500);
    let serving = with_rings(folder.path());
    let clients: Vec<Client> = (0..3).map(|address| client(&serving, address)).collect();
    let all = |ask: &dyn Fn(&Client) -> String| {
        let answers: Vec<String> = clients.iter().map(ask).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        answers.into_iter().next().expect("one")
    };
    let refusal = |client: &Client, nodes: &[u64]| {
        let error = client.run(run(nodes)).expect_err("refused");
        format!("{:?} {} {:?}", error.code(), error.message(), error.details())
    };
    assert!(all(&|client| refusal(client, &[1])).starts_with("NotFound"));
    register(&clients[2]);
    assert!(all(&|client| refusal(client, &[1, 500])).starts_with("OutOfRange"));
    let addresses = |client: &Client| client.server_info().expect("info").addresses.join(" ");
    assert!(all(&addresses).contains("shm:"));
    // More than a ring holds, both ways.
    let nodes: Vec<u64> = (0..120_000).map(|at| at * 7 % 500).collect();
    for nodes in [&[17, 4, 17][..], &nodes] {
        let answer = |client: &Client| client.run(run(nodes)).expect("answer").rows.expect("rows");
        let rows: Vec<v1::Tensor> = clients.iter().map(answer).collect();
        assert_eq!(rows[0].shape, [nodes.len() as u64, 3]);
        assert!(rows.iter().all(|other| *other == rows[0]), "{} nodes", nodes.len());
    }
    serving.end();
    for client in &clients {
        assert_eq!(client.run(run(&[1])).expect_err("ended").code(), Code::Unavailable);
    }
}

#[test]
fn health_is_watched_over_shared_memory_until_the_server_ends() {
    let folder = folder(20);
    let serving = with_rings(folder.path());
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runtime.block_on(async {
        let channel = channel(&serving.addresses()[2]).expect("address");
        let mut health = HealthClient::new(channel);
        let asked = pb::HealthCheckRequest { service: String::new() };
        let mut watch = health.watch(asked.clone()).await.expect("watch").into_inner();
        let first = watch.message().await.expect("status").expect("one");
        assert_eq!(first.status(), pb::health_check_response::ServingStatus::Serving);
        // No more comes, and others are answered meanwhile.
        let more = tokio::time::timeout(Duration::from_millis(20), watch.message());
        assert!(more.await.is_err());
        health.check(asked).await.expect("status");
    });
    serving.end();
}

#[test]
fn sockets_are_of_their_user_alone_and_gone_at_the_end() {
    let folder = folder(20);
    let (unix, rings) = (folder.path().join("socket"), folder.path().join("rings"));
    let serving = with_rings(folder.path());
    for path in [&unix, &rings] {
        let data = fs::symlink_metadata(path).expect("socket");
        assert!(data.file_type().is_socket());
        assert_eq!(data.permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    // A second server does not take them.
    for listen in [Address::Unix(unix.clone()), Address::Shm(rings.clone())] {
        let config =
            Config { folder: folder.path().into(), listen: vec![listen], ..Config::default() };
        let error = serve(config).err().expect("taken").to_string();
        assert!(error.contains("a server already listens at"), "{error}");
    }
    assert!(client(&serving, 1).server_info().is_ok());
    serving.end();
    assert!(!unix.exists() && !rings.exists());

    // What a server that was killed left is replaced; other files are not touched.
    drop(std::os::unix::net::UnixListener::bind(&unix).expect("left behind"));
    let serving = with_rings(folder.path());
    assert!(client(&serving, 1).server_info().is_ok());
    serving.end();
    fs::write(&unix, "a file").expect("file");
    let listen = vec![Address::Unix(unix.clone())];
    let config = Config { folder: folder.path().into(), listen, ..Config::default() };
    let error = serve(config).err().expect("foreign").to_string();
    assert!(error.contains("is not a socket"), "{error}");
    assert_eq!(fs::read_to_string(&unix).expect("untouched"), "a file");
}

#[test]
fn clients_over_shared_memory_are_as_many_as_settings_say_and_have_to_read() {
    use ng_io::calls::{Event, Metadata, Open};
    use ng_io::{ShmConnection, ShmOptions};
    use ng_rpc::Message;
    let folder = folder(500);
    let rings = folder.path().join("rings");
    let serving = started(folder.path(), |mut config| {
        config.limits.ring_connections = 2;
        config.limits.reading = Duration::from_millis(500);
        config.listen.push(Address::Shm(rings.clone()));
        config
    });
    let connect = || ShmConnection::connect(&rings, ShmOptions::default()).expect("rings");
    let (mut sender, mut receiver) = connect().split();
    let other = client(&serving, 2);
    other.server_info().expect("the second of two");
    let third = client(&serving, 2).server_info().expect_err("one too many");
    assert!(third.message().contains("reached its limit of connections"), "{third}");

    // An answer of more bytes than may come before the reader asks for more.
    let asked = v1::GetEmbedRequest {
        graph: "small".into(),
        nodes: Some(v1::Nodes { node_type: String::new(), ids: (0..500).collect() }),
        tensor: "x".into(),
        ..v1::GetEmbedRequest::default()
    };
    let path = "/neargraph.v1.GraphStoreService/GetEmbed".to_owned();
    let open = Open { path, deadline: None, metadata: Metadata::default() };
    let message = asked.encode_to_vec();
    let (whole, none): (&[u8], &[u8]) = (&message, &[]);
    let events = [(Event::Open(open), none), (Event::Message(&[]), whole), (Event::End, none)];
    for (event, bytes) in events {
        let mut head = Vec::new();
        let frame = event.encode(1, &mut head).expect("a frame");
        sender.send(frame, &[&head, bytes], None).expect("sent");
    }
    let mut payload = Vec::new();
    let patience = Some(Duration::from_secs(20));
    let mut bytes = 0;
    while let Ok(frame) = receiver.receive(&mut payload, patience) {
        let frame = frame.expect("it may keep its answer for ever");
        println!("{frame:?}");
        bytes += payload.len();
    }
    assert!(bytes >= 64 << 10, "{bytes} bytes are not the begin of an answer");
    help::calls::until(|| serving.state().guard.in_flight() == (0, 0));
    other.server_info().expect("others go on");
    assert!(client(&serving, 2).server_info().is_ok(), "there is a place again");
    serving.end();
}
