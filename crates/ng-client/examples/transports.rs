//! What a transport costs: small requests to a server that runs already, one at a time, over each
//! address in turns. `benchmarks.serving.transports` starts the server and calls this.
//!
//!     transports CALLS GRAPH MODEL NODES NAME=ADDRESS[:spin=MICROSECONDS] ...
//!
//! Each line of the input is a round: so many calls of each kind over each address. `echo` asks for
//! facts of the server, `run` for the answer of a model about one node. A line of JSON tells the
//! microseconds of each call, and of `run` also what is left of it without the engine's time. A
//! name that begins with `client` is asked through [`Client`], the others through a bare channel,
//! with a ring that the caller reads itself.
#![allow(clippy::expect_used)]

use std::io::BufRead;
use std::time::{Duration, Instant};

use ng_client::Client;
use ng_rpc::connect::{Channel, channel_with};
use ng_rpc::ring::RingOptions;
use ng_rpc::v1;
use ng_rpc::v1::inference_service_client::InferenceServiceClient;
use ng_rpc::v1::server_service_client::ServerServiceClient;
use serde_json::{Map, json};
use tokio::runtime::{Builder, Runtime};

/// What asks.
enum Asks {
    Client(Client),
    Channel(Runtime, Channel),
}

impl Asks {
    fn over(name: &str, address: &str) -> Self {
        let (address, spin) = match address.split_once(":spin=") {
            Some((address, text)) => (address, text.parse().expect("microseconds")),
            None => (address, 0),
        };
        if name.starts_with("client") {
            return Self::Client(Client::new(address, None).expect("client"));
        }
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("runtime");
        let rings = RingOptions { spin: Some(Duration::from_micros(spin)), blocking: true };
        let entered = runtime.enter();
        let channel = channel_with(address, None, rings).expect("address");
        drop(entered);
        Self::Channel(runtime, channel)
    }

    fn echo(&mut self) {
        let asked = v1::ServerInfoRequest {};
        match self {
            Self::Client(client) => drop(client.server_facts(asked).expect("facts")),
            Self::Channel(runtime, channel) => {
                let mut client = ServerServiceClient::new(channel.clone());
                runtime.block_on(client.server_info(asked)).expect("facts");
            }
        }
    }

    /// Microseconds that the engine took.
    fn run(&mut self, asked: v1::RunRequest) -> u64 {
        let answer = match self {
            Self::Client(client) => client.run(asked).expect("answer"),
            Self::Channel(runtime, channel) => {
                let mut client = InferenceServiceClient::new(channel.clone());
                runtime.block_on(client.run(asked)).expect("answer").into_inner()
            }
        };
        answer.timing.expect("timing").engine_us
    }
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [calls, graph, model, nodes, addresses @ ..] = arguments.as_slice() else {
        panic!("CALLS GRAPH MODEL NODES NAME=ADDRESS ...");
    };
    let calls: u64 = calls.parse().expect("a number of calls");
    let nodes: u64 = nodes.parse().expect("a number of nodes");
    let split = |text: &String| {
        let (name, address) = text.split_once('=').expect("NAME=ADDRESS");
        (name.to_owned(), Asks::over(name, address))
    };
    let mut ways: Vec<(String, Asks)> = addresses.iter().map(split).collect();
    let request = |node: u64| {
        let ids = v1::Nodes { node_type: String::new(), ids: vec![node % nodes] };
        v1::RunRequest {
            graph: graph.clone(),
            dfg: Some(v1::run_request::Dfg::Model(model.clone())),
            targets: Some(v1::Targets { targets: Some(v1::targets::Targets::Nodes(ids)) }),
            ..v1::RunRequest::default()
        }
    };
    let mut next = 0;
    for round in std::io::stdin().lock().lines() {
        round.expect("a line");
        let mut found = Map::new();
        for (name, way) in &mut ways {
            let (mut echo, mut run, mut share) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..calls {
                let begin = Instant::now();
                way.echo();
                echo.push(micros(begin));
            }
            for _ in 0..calls {
                next += 7_919;
                let asked = request(next);
                let begin = Instant::now();
                let engine = way.run(asked);
                let took = micros(begin);
                run.push(took);
                share.push(took - engine as f64);
            }
            found.insert(name.clone(), json!({ "echo": echo, "run": run, "share": share }));
        }
        println!("{}", serde_json::Value::Object(found));
    }
}
