//! A server in a process of its own, to be killed.
#![allow(dead_code, clippy::expect_used)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ng_client::Client;

/// A server in a process of its own, which is killed when it is dropped.
pub struct Process {
    /// The process, or the one that watches it.
    pub child: Child,
    address: String,
}

impl Process {
    /// Starts a server of a folder on the Unix socket in it; `program` stands before its own name.
    pub fn start(program: &[String], folder: &Path, options: &[&str]) -> Self {
        let socket = folder.join("socket");
        let _none = std::fs::remove_file(&socket);
        let address = format!("unix:{}", socket.display());
        let own = env!("CARGO_BIN_EXE_neargraph-server").to_owned();
        let all: Vec<&String> = program.iter().chain([&own]).collect();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]).arg(folder).args(["--listen", &address, "--memory", "67108864"]);
        let child = command.args(options).stderr(Stdio::null()).spawn().expect("started");
        Self { child, address }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(&self.address, Some(Duration::from_secs(20))).expect("client")
    }

    /// Waits until it answers; whether it does before it ends.
    pub fn answers(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        let client = self.client();
        while client.server_info().is_err() {
            if self.child.try_wait().expect("asked").is_some() {
                return false;
            }
            assert!(Instant::now() < until, "not ready in time");
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What is watched outlives the one that watches it.
        let pid = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for pid in children.unwrap_or_default().split_whitespace() {
            let _ended = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        let _ended = self.child.kill();
        self.child.wait().expect("ended");
    }
}
