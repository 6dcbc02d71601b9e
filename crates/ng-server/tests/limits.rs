//! Hostile and hasty clients: limits are kept, refusals say what to do, nobody else suffers.
#![allow(clippy::expect_used)]

mod help;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use help::raw::{retry_after, runtime};
use help::{client, folder, register, register_ready, run, started};
use ng_client::Client;
use ng_rpc::connect::channel;
use ng_rpc::direct::{Direct, Head, framed};
use ng_rpc::v1::graph_store_service_client::GraphStoreServiceClient;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::{Code, Request, v1};
use ng_server::guard::Caller;
use ng_server::{Config, Limits, Serving};

fn limited(folder: &std::path::Path, limits: Limits) -> Serving {
    started(folder, |config| Config { limits, lanes: 1, ..config })
}

/// A limit of half a second, and all others as they are.
fn short() -> Limits {
    let short = Duration::from_millis(500);
    Limits {
        handshake: short,
        body: short,
        reading: short,
        ping: short,
        silence: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// Rows and lists of 101 nodes are refused where 100 are the limit.
fn reads_are_bounded_in_ids(serving: &Serving) {
    let (calling, unix) = help::calls::calls(serving, 1);
    let mut store = GraphStoreServiceClient::new(unix);
    let (ids, graph) = (vec![1; 101], "small".to_owned());
    let nodes = Some(v1::Nodes { node_type: String::new(), ids: ids.clone() });
    let embed = v1::GetEmbedRequest { graph: graph.clone(), nodes, ..Default::default() };
    let lists = v1::GetNeighborsRequest { graph, ids, ..Default::default() };
    for (field, many) in [
        ("nodes.ids", calling.block_on(store.get_embed(embed)).map(drop)),
        ("ids", calling.block_on(store.get_neighbors(lists)).map(drop)),
    ] {
        let many = many.expect_err("refused");
        assert_eq!(ng_rpc::problem_told(&many).field, field);
        assert!(many.message().contains("the limit is 100"), "{}", many.message());
    }
}

#[test]
fn requests_past_a_limit_are_refused_with_the_limit() {
    let folder = folder(500);
    let limits = Limits {
        message_bytes: 64 << 10,
        ids: 100,
        bytes_in_flight: 400 << 10,
        header_bytes: 4 << 10,
        ..Limits::default()
    };
    let serving = limited(folder.path(), limits);
    let good = client(&serving, 0);
    register_ready(&serving, &good);
    let refused = |nodes: &[u64]| good.run(run(nodes)).expect_err("refused");
    let many = refused(&[1; 101]);
    assert_eq!(many.code(), Code::InvalidArgument);
    assert!(many.message().contains("the limit is 100"), "{}", many.message());
    let large = refused(&[1; 100_000]);
    assert_eq!(large.code(), Code::OutOfRange);
    assert!(large.message().contains("65536"), "{}", large.message());
    reads_are_bounded_in_ids(&serving);
    let strange = refused(&[u64::MAX]);
    assert_eq!(strange.code(), Code::OutOfRange, "{}", strange.message());

    // Fanouts of a million: no request can ever be computed.
    let huge = v1::ModelRegisterRequest {
        model: "huge".into(),
        graph: "small".into(),
        source: Some(v1::model_register_request::Source::Files(help::files())),
        fanouts: vec![1_000_000, 1_000_000],
        ..v1::ModelRegisterRequest::default()
    };
    good.model_register(huge).expect("registered");
    let request = v1::RunRequest {
        dfg: Some(v1::run_request::Dfg::Model("huge".into())),
        ..run(&(0..100).collect::<Vec<_>>())
    };
    let never = good.run(request).expect_err("refused");
    assert_eq!(never.code(), Code::InvalidArgument, "{}", never.message());
    assert!(never.message().contains("together is 409600"), "{}", never.message());

    runtime().block_on(async {
        let channel = channel(&serving.addresses()[0]).expect("channel");
        let mut raw = InferenceServiceClient::new(channel);
        for (timeout, code) in [
            ("1n", Code::DeadlineExceeded),
            ("0m", Code::DeadlineExceeded),
            ("soon", Code::InvalidArgument),
            ("999999999S", Code::InvalidArgument),
        ] {
            let mut request = Request::new(run(&[1]));
            request.metadata_mut().insert("grpc-timeout", timeout.parse().expect("text"));
            let status = raw.run(request).await.expect_err(timeout);
            // The client may give up first, in its own words.
            let is_over = status.message() == "Timeout expired";
            let seen = if is_over { Code::DeadlineExceeded } else { status.code() };
            assert_eq!(seen, code, "{timeout}: {}", status.message());
        }
        let mut request = Request::new(run(&[1]));
        let long = "x".repeat(8 << 10).parse().expect("text");
        request.metadata_mut().insert("x-long", long);
        assert!(raw.run(request).await.is_err(), "headers past their limit");
    });
    good.run(run(&[1])).expect("others are answered as before");
    assert_eq!(serving.state().guard.admission.under_way(), (0, 0));
    serving.end();
}

/// How a connection ends: `true` if the server closed it within some seconds.
fn is_closed(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("timeout");
    let end = Instant::now() + Duration::from_secs(15);
    let mut bytes = [0; 4096];
    while Instant::now() < end {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return true,
            Ok(_) | Err(_) => {}
        }
    }
    false
}

/// The beginning of a connection of HTTP/2: preface and settings. With a window of 0, no answer may
/// be sent.
fn preface(window: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4]);
    bytes.extend(window.to_be_bytes());
    bytes
}

/// The headers of a call as HPACK without a table; the body comes later, or never.
fn call_headers(stream: u32, path: &str, is_last: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    frame(1, if is_last { 5 } else { 4 }, stream, &block)
}

/// A frame of HTTP/2 with less than 256 bytes.
fn frame(kind: u8, flags: u8, stream: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [0, 0, bytes.len() as u8, kind, flags];
    [&head, &stream.to_be_bytes()[..], bytes].concat()
}

#[test]
fn clients_that_are_silent_slow_or_strange_lose_their_connection_alone() {
    let folder = folder(500);
    let serving = limited(folder.path(), Limits { connections: 24, ..short() });
    let good = client(&serving, 0);
    register(&good);
    let path = "/neargraph.v1.InferenceService/Run";
    let data = |length: u8, bytes: &[u8]| [&[0, 0, length, 0, 0, 0, 0, 0, 1], bytes].concat();
    let scripts = [
        ("nothing", vec![]),
        ("half a preface", b"PRI * HT".to_vec()),
        ("garbage", vec![0xff; 4096]),
        ("another protocol", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("a frame of 16 MB", [preface(65_535), vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]].concat()),
        ("data of no stream", [preface(65_535), data(1, &[0])].concat()),
        ("silence after the preface", preface(65_535)),
    ];
    let mut open = Vec::new();
    for (what, bytes) in &scripts {
        let mut stream = TcpStream::connect(&serving.addresses()[0]).expect(what);
        stream.write_all(bytes).expect(what);
        open.push((what, stream));
    }
    // Half a message: the call ends, and says why.
    let mut slow = TcpStream::connect(&serving.addresses()[0]).expect("slow");
    let half = [preface(65_535), call_headers(1, path, false), data(5, &[0, 0, 0, 1, 0])].concat();
    slow.write_all(&half).expect("sent");
    good.run(run(&[1, 2])).expect("others are answered meanwhile");
    for (what, stream) in open {
        assert!(is_closed(stream), "{what}: still open");
    }
    let mut answer = Vec::new();
    slow.set_read_timeout(Some(Duration::from_secs(1))).expect("timeout");
    let end = Instant::now() + Duration::from_secs(10);
    let mut part = [0; 4096];
    while !contains(&answer, b"grpc-status") && Instant::now() < end {
        let read = slow.read(&mut part).unwrap_or(0);
        answer.extend(&part[..read]);
    }
    assert!(!answer.is_empty(), "half a message got no answer");
    drop(slow);

    // More connections than there may be: those past the limit are closed at once.
    let crowd: Vec<TcpStream> =
        (0..60).filter_map(|_| TcpStream::connect(&serving.addresses()[0]).ok()).collect();
    good.run(run(&[3])).expect("a connection that is there goes on");
    drop(crowd);
    // Those of the crowd that nobody has taken up yet are still ahead of a new connection.
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(refused) = client(&serving, 0).run(run(&[4])) {
        assert!(Instant::now() < end, "there is room again: {refused}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let shed = help::raw::get(serving.side_address(), "/metrics", "").body;
    assert!(shed.contains("neargraph_shed_total{reason=\"connections\"}"), "{shed}");
    assert_eq!(serving.state().guard.in_flight(), (0, 0));
    serving.end();
}

#[test]
fn a_client_that_does_not_read_its_answer_loses_its_connection() {
    let folder = folder(200);
    // Nothing but this limit ends a connection here.
    let long = Duration::from_secs(100);
    let limits = Limits { ping: long, silence: 2 * long, handshake: long, ..short() };
    let serving = limited(folder.path(), limits);
    let asked = |window: u32| {
        let mut stream = TcpStream::connect(&serving.addresses()[0]).expect("connected");
        let path = "/neargraph.v1.ServerService/ServerInfo";
        let message = [0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        let bytes = [preface(window), call_headers(1, path, false), message.to_vec()].concat();
        stream.write_all(&bytes).expect("sent");
        stream
    };
    let (reading, stalled) = (asked(65_535), asked(0));
    assert!(is_closed(stalled), "it may keep its answer for ever");
    reading.set_nonblocking(true).expect("set");
    let mut bytes = vec![0; 1 << 16];
    let got = (&reading).read(&mut bytes).expect("an answer");
    assert!(got > 60, "{got} bytes are not an answer");
    let more = (&reading).read(&mut bytes).map_err(|error| error.kind());
    assert_eq!(more, Err(std::io::ErrorKind::WouldBlock), "one that reads is not closed");
    drop(reading);
    serving.end();
}

#[test]
fn a_client_whose_deadlines_are_over_keeps_its_connection() {
    let folder = folder(50);
    let serving = limited(folder.path(), Limits::default());
    let mut stream = TcpStream::connect(&serving.addresses()[0]).expect("connected");
    // As many calls as a connection may have under way, all taken back in the same moment.
    let path = "/neargraph.v1.InferenceService/Run";
    let taken_back = (0..100).map(|at| {
        let call = call_headers(2 * at + 1, path, false);
        [call, frame(3, 0, 2 * at + 1, &[0, 0, 0, 8])].concat()
    });
    let ping = frame(6, 0, 0, b"is there");
    let bytes = [preface(65_535), taken_back.flatten().collect(), ping].concat();
    stream.write_all(&bytes).expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let (mut head, mut said) = ([0; 9], Vec::new());
    while !said.ends_with(b"is there") {
        stream.read_exact(&mut head).expect("the connection is open");
        assert_ne!(head[3], 7, "told to go away");
        said = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut said).expect("a frame");
    }
    // So is one that ends without a message: the client's doing, not a failure of the server.
    stream.write_all(&call_headers(1001, path, true)).expect("sent");
    let asked = |code: &str| {
        let metrics = help::raw::get(serving.side_address(), "/metrics", "").body;
        let of_run = metrics.lines().filter(|line| line.starts_with("neargraph_requests_total"));
        of_run.filter(|line| line.contains(code)).count()
    };
    help::calls::until(|| asked("") == 1);
    assert_eq!((asked("INVALID_ARGUMENT"), asked("INTERNAL")), (1, 0));
    drop(stream);
    serving.end();
}

#[test]
fn calls_that_wait_for_room_and_are_given_up_are_not_sent() {
    let folder = folder(50);
    let serving = limited(folder.path(), Limits { streams_per_connection: 1, ..Limits::default() });
    let address = &serving.addresses()[0];
    let head = |path| Head::new(address, path, None, Duration::from_secs(60)).expect("a head");
    let (watch, info) =
        (head("/grpc.health.v1.Health/Watch"), head("/neargraph.v1.ServerService/ServerInfo"));
    let calls = async {
        let direct = Direct::new(address);
        let soon = Duration::from_millis(50);
        let ask = || direct.unary::<v1::ServerInfoResponse>(&info, framed(&()));
        ask().await.expect("connected");
        // A stream that does not end has the only place.
        let watching = direct.unary::<()>(&watch, framed(&()));
        tokio::select! {
            biased;
            _ = watching => unreachable!("it goes on"),
            () = async {
                for _ in 0..20 {
                    assert!(tokio::time::timeout(soon, ask()).await.is_err(), "there is no room");
                }
            } => {}
        }
        ask().await.expect("there is room again");
    };
    runtime().block_on(tokio::task::LocalSet::new().run_until(calls));
    let metrics = help::raw::get(serving.side_address(), "/metrics", "").body;
    let asked = metrics
        .lines()
        .find(|line| line.starts_with("neargraph_requests_total") && line.contains("ServerInfo"));
    assert!(asked.is_some_and(|line| line.ends_with(" 2")), "{asked:?}");
    serving.end();
}

#[test]
fn large_answers_wait_for_room_until_others_have_been_read() {
    let folder = folder(500);
    let serving = limited(folder.path(), Limits { unread_bytes: 1 << 20, ..Limits::default() });
    register(&client(&serving, 0));
    let (calling, channel) = help::calls::calls(&serving, 1);
    let (store, jobs) =
        (GraphStoreServiceClient::new(channel.clone()), InferenceServiceClient::new(channel));
    let ids: Vec<u64> = (0..500).collect();
    let nodes = Some(v1::Nodes { node_type: String::new(), ids: ids.clone() });
    let embed = v1::GetEmbedRequest { graph: "small".into(), nodes, ..Default::default() };
    let lists = v1::GetNeighborsRequest { graph: "small".into(), ids, ..Default::default() };
    let many: Vec<u64> = (0..20_000).map(|at| at % 500).collect();
    let job = v1::GraphAnalysisRequest { request: Some(run(&many)), keep_seconds: 60 };
    let job = calling.block_on({ jobs.clone() }.graph_analysis(job)).expect("taken").into_inner();
    let job = v1::GetAnalysisResultRequest { job: job.job, wait_ms: 20_000 };
    let ask = || {
        calling.block_on(async {
            let mut store = store.clone();
            [
                store.get_embed(embed.clone()).await.map(drop),
                store.get_neighbors(lists.clone()).await.map(drop),
                { jobs.clone() }.get_analysis_result(job.clone()).await.map(drop),
            ]
        })
    };
    let slow = Caller::local();
    serving.state().guard.hold(&slow, 1 << 30).expect("the only one");
    for refused in ask() {
        let problem = ng_rpc::problem_told(&refused.expect_err("no room"));
        assert_eq!(problem.reason, "UNREAD_ANSWERS");
    }
    drop(slow);
    for answered in ask() {
        answered.expect("there is room again");
    }
    serving.end();
}

#[test]
fn large_requests_share_a_bound_until_they_are_over() {
    let folder = folder(50);
    let (message_bytes, request_bytes) = (100 << 10, 300 << 10);
    let limits = Limits { message_bytes, request_bytes, ..Limits::default() };
    let serving = limited(folder.path(), limits);
    let begun = || {
        let headers = "content-type: application/json\r\ncontent-length: 1000000\r\n";
        help::raw::begin(serving.side_address(), "POST", "/v1/run", headers, &" ".repeat(140_000))
    };
    let [mut one, two] = [begun(), begun()];
    let held = || serving.state().guard.held_bytes().0;
    help::calls::until(|| held() == 280_000);
    let refused = help::raw::answer(begun());
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.body.contains("REQUEST_BYTES"), "{}", refused.body);
    drop(two);
    help::calls::until(|| held() == 140_000);
    let refused = help::raw::post(serving.side_address(), "/v1/run", "", &" ".repeat(140_000));
    assert_eq!(refused.status, 400, "there is room for it: {}", refused.body);
    one.write_all(&[b' '; 1_000_000 - 140_000]).ok();
    let refused = help::raw::answer(one);
    assert_eq!(refused.status, 429, "its later pieces count: {}", refused.body);
    serving.end();
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    // Names of headers may be compressed: an answer of any kind is what is waited for then.
    bytes.windows(part.len()).any(|window| window == part) || bytes.len() > 60
}

#[test]
fn under_overload_what_is_accepted_is_answered_in_time_and_the_rest_is_told_when_to_come_back() {
    const CLIENTS: u64 = 16;
    const REQUESTS: u64 = 10;
    let folder = folder(5_000);
    let serving = limited(folder.path(), Limits { queue: 12, ..Limits::default() });
    let first = client(&serving, 0);
    register(&first);
    // How fast it is has to be known: until then all is taken that there is room for.
    for at in 0..20 {
        first.run(run(&(at..at + 20).collect::<Vec<_>>())).expect("answer");
    }
    let codes = Mutex::new(BTreeMap::<String, u64>::new());
    let address = serving.addresses()[1].clone();
    std::thread::scope(|scope| {
        for one in 0..CLIENTS {
            let (codes, address) = (&codes, &address);
            scope.spawn(move || {
                let timeout = Duration::from_millis(200);
                let client = Client::new(address, Some(timeout)).expect("client");
                for at in 0..REQUESTS {
                    let nodes: Vec<u64> =
                        (0..20).map(|node| (one * 977 + at * 131 + node * 37) % 5_000).collect();
                    let code = match client.run(run(&nodes)) {
                        Ok(answer) => {
                            let took = answer.timing.expect("timing").total_us;
                            assert!(took <= timeout.as_micros() as u64, "answered after {took} us");
                            Code::Ok
                        }
                        Err(status) => {
                            let is_shed = status.code() == Code::ResourceExhausted;
                            let after = retry_after(&status);
                            assert_eq!(is_shed, after.is_some(), "{status:?}");
                            std::thread::sleep(after.unwrap_or_default());
                            status.code()
                        }
                    };
                    let mut codes = codes.lock().expect("codes");
                    *codes.entry(format!("{code:?}")).or_default() += 1;
                }
            });
        }
    });
    let codes = codes.into_inner().expect("codes");
    let of = |code: &str| codes.get(code).copied().unwrap_or(0);
    let (good, shed, late) = (of("Ok"), of("ResourceExhausted"), of("DeadlineExceeded"));
    // A client gives up at the same moment as the server: then its own code comes.
    let late = late + of("Cancelled");
    assert_eq!(good + shed + late, CLIENTS * REQUESTS, "{codes:?}");
    assert!(good > 0 && shed > 0, "no overload: {codes:?}");
    assert!(late <= good, "accepted and not answered in time: {codes:?}");
    assert_eq!(serving.state().guard.admission.under_way(), (0, 0));
    serving.end();
}
