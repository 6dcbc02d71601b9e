//! What a transport costs: one small call at a time, to a server in another process, over TCP, a
//! Unix socket and shared memory without and with spinning, in turns, beside a call without any
//! transport. Prints JSON: microseconds, and the median as a part of that over TCP.
//!
//! `cargo run --release -p ng-client --example transports [ROUNDS]`
#![allow(clippy::expect_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::connect::channel_with;
use ng_rpc::health::health_reporter;
use ng_rpc::health::pb::HealthCheckRequest;
use ng_rpc::health::pb::health_client::HealthClient;
use ng_rpc::listen::{Bound, Bounds, Door};
use ng_rpc::ring::{RingLimits, RingOptions};
use ng_rpc::tonic::service::Routes;
use tokio::runtime::{Builder, Runtime};

/// Calls of a transport before it is the turn of the next.
const CALLS: usize = 200;
/// How long a thread looks at a ring before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(Path::new(&arguments[1])),
        rounds => measure(rounds.map_or(50, |text| text.parse().expect("a number of rounds"))),
    }
}

/// Health alone: next to nothing is computed.
fn routes() -> Routes {
    Routes::new(health_reporter().1).prepare()
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().expect("runtime")
}

/// Lets all clients in.
fn door() -> Arc<Door> {
    let long = Duration::from_secs(3600);
    let bounds = Bounds {
        connections: 16,
        streams: 16,
        header_bytes: 1 << 16,
        handshake: long,
        silence: long,
        ping: long,
        reading: long,
    };
    let (bounds, refused) = (Box::new(move || bounds), Box::new(|_| ()));
    Arc::new(Door { tls: None, bounds, refused, open: Arc::default() })
}

/// Serves in `folder` until the input ends.
fn serve(folder: &Path) {
    let runtime = runtime(2);
    let entered = runtime.enter();
    let ring = |name: &str, spin| {
        let limits = RingLimits { spin: Some(spin), ..RingLimits::default() };
        Bound::ring(&folder.join(name), limits).expect("bound")
    };
    let local = "127.0.0.1:0".parse().expect("address");
    let tcp = runtime.block_on(Bound::tcp(local)).expect("bound");
    println!("{}", tcp.address().expect("address"));
    let unix = Bound::unix(&folder.join("unix")).expect("bound");
    for bound in [tcp, unix, ring("ring", Duration::ZERO), ring("spin", SPIN)] {
        runtime.spawn(bound.serve(routes(), door(), std::future::pending()));
    }
    drop(entered);
    println!("ready");
    let _ended = std::io::stdin().read_line(&mut String::new());
}

/// One transport: its name, what a call does, and how long calls took, in microseconds.
struct Way<'a> {
    name: &'static str,
    call: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

fn measure(rounds: usize) {
    let folder = std::env::temp_dir().join(format!("ng-transports-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for sockets");
    let mut server = Command::new(std::env::current_exe().expect("this program"))
        .args(["serve".as_ref(), folder.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("server");
    let mut lines = BufReader::new(server.stdout.take().expect("output")).lines();
    let tcp = lines.next().expect("a line").expect("text");
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");

    let runtime = runtime(1);
    let at = |name: &str| folder.join(name).display().to_string();
    let over = |name, address: &str, spin| {
        let entered = runtime.enter();
        let rings = RingOptions { spin: Some(spin), blocking: true };
        let mut client = HealthClient::new(channel_with(address, None, rings).expect("address"));
        drop(entered);
        let runtime = &runtime;
        let call = Box::new(move || {
            let asked = HealthCheckRequest { service: String::new() };
            runtime.block_on(client.check(asked)).expect("an answer");
        });
        Way { name, call, times: Vec::new() }
    };
    let mut inside = HealthClient::new(routes());
    let inside = Box::new(|| {
        let asked = HealthCheckRequest { service: String::new() };
        runtime.block_on(inside.check(asked)).expect("an answer");
    });
    let mut ways = [
        over("tcp", &tcp, Duration::ZERO),
        over("unix", &format!("unix:{}", at("unix")), Duration::ZERO),
        over("ring", &format!("shm:{}", at("ring")), Duration::ZERO),
        over("ring_spin_20us", &format!("shm:{}", at("spin")), SPIN),
        Way { name: "in_process", call: inside, times: Vec::new() },
    ];
    for round in 0..rounds + 2 {
        for way in &mut ways {
            for _ in 0..CALLS {
                let begin = Instant::now();
                (way.call)();
                // The first two rounds warm up.
                if round >= 2 {
                    way.times.push(begin.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
    }
    print(&mut ways);
    drop(ways);
    server.stdin.take().map(|mut input| input.write_all(b"\n")).expect("input").expect("told");
    server.wait().expect("ended");
    std::fs::remove_dir_all(&folder).expect("removed");
}

fn print(ways: &mut [Way<'_>]) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut of_tcp = None;
    let lines = ways.iter_mut().map(|way| {
        way.times.sort_by(f64::total_cmp);
        let quantile = |part: f64| way.times[((way.times.len() - 1) as f64 * part) as usize];
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        let part = p50 / *of_tcp.get_or_insert(p50);
        let name = way.name;
        let times = format!("\"p50_us\": {p50:.1}, \"p99_us\": {p99:.1}, \"of_tcp\": {part:.3}");
        format!("  \"{name}\": {{{times}}}")
    });
    let lines: Vec<String> = lines.collect();
    let calls = ways.first().map_or(0, |way| way.times.len());
    println!("{{\n  \"calls\": {calls}, \"cores\": {cores},\n{}\n}}", lines.join(",\n"));
}
