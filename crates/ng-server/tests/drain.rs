//! The end of a server that is a process of its own: nothing that it accepted is left unanswered.
#![allow(clippy::expect_used)]

mod help;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use help::raw::{call, get, runtime};
use help::{folder, run};
use ng_client::Client;
use ng_rpc::Code;
use ng_rpc::connect::channel;
use serde_json::Value;

/// A server of its own process, and what it logs.
struct Process {
    child: Child,
    log: std::sync::mpsc::Receiver<Value>,
    seen: Vec<Value>,
    address: String,
    side: String,
}

impl Process {
    fn start(folder: &Path, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_neargraph-server"))
            .arg(folder)
            .args(["--listen", "127.0.0.1:0", "--memory", "64MB", "--log-format", "json"])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stderr.take().expect("log")).lines();
        let (give, log) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line);
                let _nobody = give.send(value.unwrap_or(Value::String(line)));
            }
        });
        let mut process =
            Self { child, log, seen: Vec::new(), address: String::new(), side: String::new() };
        let serving = process.wait_for("serving");
        let text = |key: &str| serving[key].as_str().expect("address").to_owned();
        (process.address, process.side) = (text("at"), text("side"));
        process
    }

    /// Reads the log up to a message.
    fn wait_for(&mut self, message: &str) -> Value {
        let end = Instant::now() + Duration::from_secs(30);
        while let Ok(line) = self.log.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.seen.push(line.clone());
            if line["message"].as_str().is_some_and(|said| said.contains(message)) {
                return line;
            }
        }
        panic!("the log does not say {message:?}: {:#?}", self.seen);
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().expect("kill");
        assert!(sent.success());
    }

    fn end(mut self) -> (Option<i32>, Vec<Value>) {
        let status = self.child.wait().expect("ended");
        self.seen.extend(self.log.iter());
        (status.code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

#[test]
fn what_was_accepted_under_load_is_answered_when_the_server_is_asked_to_end() {
    let folder = folder(2_000);
    let mut process = Process::start(folder.path(), &[]);
    let client = |address: &str| Client::new(address, Some(Duration::from_secs(20)));
    help::register(&client(&process.address).expect("client"));
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = process.address.clone();
    std::thread::scope(|scope| {
        for one in 0..6_u64 {
            let (stop, answered, address) = (&stop, &answered, &address);
            scope.spawn(move || {
                let client = client(address).expect("client");
                for at in 0.. {
                    let nodes = [(one * 331 + at * 17) % 2_000, at % 2_000];
                    match client.run(run(&nodes)) {
                        Ok(_) => answered.fetch_add(1, Ordering::SeqCst),
                        // The connection is gone: this request was never taken.
                        Err(status) if status.code() == Code::Unavailable => break,
                        Err(status) => panic!("{status:?}"),
                    };
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        let enough = Instant::now() + Duration::from_secs(20);
        while answered.load(Ordering::SeqCst) < 100 && Instant::now() < enough {
            std::thread::sleep(Duration::from_millis(5));
        }
        process.signal("TERM");
        let ended = process.wait_for("ended");
        assert_eq!((&ended["unanswered"], &ended["not_closed"]), (&0.into(), &0.into()));
        stop.store(true, Ordering::SeqCst);
    });
    let (code, log) = process.end();
    assert_eq!(code, Some(0));
    let of_run = |line: &&Value| line["message"] == "request" && line["method"] == "Run";
    let runs: Vec<&Value> = log.iter().filter(of_run).collect();
    let good = runs.iter().filter(|line| line["code"] == "OK").count() as u64;
    assert_eq!(good, runs.len() as u64, "accepted and not answered: {runs:#?}");
    assert_eq!(good, answered.load(Ordering::SeqCst), "answered, and not received");
    assert!(good >= 100, "{good} requests were no load");
}

#[test]
fn probes_are_told_first_and_a_second_signal_ends_at_once() {
    let folder = folder(200);
    let config = folder.path().join("server.toml");
    std::fs::write(&config, "drain_delay = \"60s\"\n").expect("written");
    let mut process = Process::start(folder.path(), &["--config", &config.display().to_string()]);
    assert_eq!(get(&process.side, "/readyz", "").status, 200);
    process.signal("TERM");
    process.wait_for("shutting down");
    let end = Instant::now() + Duration::from_secs(20);
    while get(&process.side, "/readyz", "").status != 503 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let ready = get(&process.side, "/readyz", "");
    assert_eq!((ready.status, ready.body.as_str()), (503, "the server is shutting down\n"));
    assert_eq!(get(&process.side, "/healthz", "").status, 200, "it lives");
    assert!(get(&process.side, "/metrics", "").body.contains("neargraph_draining 1"));
    // Still served: whoever sends requests has not heard of it yet.
    let code = runtime().block_on(async {
        let channel = channel(&process.address).expect("channel");
        call(&channel, "/neargraph.v1.RegistryService/ListGraphs", None).await.code()
    });
    assert_eq!(code, Code::Ok);
    process.signal("TERM");
    assert_eq!(process.end().0, Some(143));
}

#[test]
fn sighup_reads_settings_again_and_names_what_needs_a_restart() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(200);
    let (config, tokens) = (folder.path().join("server.toml"), folder.path().join("tokens"));
    let write = |limits: &str, token: &str| {
        let text = format!("token_file = {tokens:?}\n{limits}\n");
        std::fs::write(&config, text).expect("written");
        std::fs::write(&tokens, format!("read ann {token}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&tokens, mode).expect("mode");
    };
    write("", "first-token-of-ann");
    let mut process = Process::start(folder.path(), &["--config", &config.display().to_string()]);
    let code = |process: &Process, token: &str| {
        runtime().block_on(async {
            let channel = channel(&process.address).expect("channel");
            let path = "/neargraph.v1.ServerService/ServerInfo";
            call(&channel, path, Some(token)).await.code()
        })
    };
    assert_eq!(code(&process, "first-token-of-ann"), Code::Ok);
    write("lanes = 5\n[limits]\nids = 3", "second-token-of-ann");
    process.signal("HUP");
    let line = process.wait_for("reloaded the settings file, except");
    assert_eq!(line["needs_restart"], "lanes");
    assert_eq!(code(&process, "first-token-of-ann"), Code::Unauthenticated);
    assert_eq!(code(&process, "second-token-of-ann"), Code::Ok);
    write("[limits]\nids = 0", "third-token-of-ann");
    process.signal("HUP");
    process.wait_for("the settings are unchanged");
    process.signal("TERM");
    assert_eq!(process.end().0, Some(0));
}
