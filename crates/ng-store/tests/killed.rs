//! D3: a writer that is killed at any moment, in recovery too, leaves all that it acknowledged.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::child;
use ng_store::{Store, UpdateError};
use ng_testing::Random;

const KILLS: u64 = 100;
/// A store is made anew after so many.
const KILLS_OF_A_STORE: u64 = 20;
const DIR: &str = "NEARGRAPH_CHILD_DIR";
const SEED: &str = "NEARGRAPH_CHILD_SEED";

/// Not a test of its own: what the killed process runs.
#[test]
fn child_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    child::write_for_ever(Path::new(&dir), seed, &mut |line| println!("\n{line}"));
}

/// A writer, and the lines that it says.
struct Running {
    child: Child,
    lines: Receiver<String>,
    acked: u64,
}

impl Running {
    fn start(dir: &Path, seed: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_writes_until_it_is_killed", "--nocapture"]);
        command.env(DIR, dir).env(SEED, seed.to_string()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).for_each(|l| drop(send.send(l)))
        });
        Self { child, lines, acked: 0 }
    }

    fn note(&mut self, line: &str) {
        if let Some(lsn) = line.strip_prefix("lsn ") {
            self.acked = lsn.parse().unwrap();
        }
    }

    /// Waits for a line; false if the writer ended before.
    fn wait_for(&mut self, wanted: &str) -> bool {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(60)) {
            self.note(&line);
            if line == wanted {
                return true;
            }
        }
        false
    }

    /// Kills it; the last commit that it has acknowledged.
    fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        while let Ok(line) = self.lines.recv() {
            self.note(&line);
        }
        assert!(status.code().is_none(), "the writer ended by itself: {status}");
        self.acked
    }
}

fn kill_often(seed: u64, kills: u64, commits: &AtomicU64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    child::build(dir.path(), seed);
    let (mut graph, mut at, mut acked) = (child::imported(seed), 0, 0);
    let (mut random, mut wrong) = (Random::new(seed), 0);
    for kill in 0..kills {
        let mut running = Running::start(dir.path(), seed);
        assert!(running.wait_for("opening"));
        let us = if kill % 10 == 9 {
            random.below(4000)
        } else {
            assert!(running.wait_for("ready"));
            random.below(120_000)
        };
        if kill % 10 == 4 {
            let store = Store::open(dir.path(), &child::options()).unwrap();
            // It lets go of its lock for a moment when it closes its writer.
            let other = store.write().err();
            assert!(other.is_none_or(|e| matches!(e, UpdateError::Busy { .. })));
            drop(store);
        }
        std::thread::sleep(Duration::from_micros(us));
        acked = acked.max(running.kill());
        // Now and then the next writer is the one that has to recover.
        if random.below(4) == 0 && kill + 1 < kills {
            continue;
        }
        if let Err(what) = child::look(dir.path(), seed, (&mut graph, &mut at), acked) {
            println!("seed {seed}, kill {kill}: {what}");
            wrong += 1;
        }
    }
    commits.fetch_add(at, Ordering::Relaxed);
    wrong
}

#[test]
fn a_writer_that_is_killed_at_any_moment_leaves_all_that_it_acknowledged() {
    if std::env::var_os(DIR).is_some() {
        return;
    }
    let wanted = std::env::var("NEARGRAPH_KILLS").ok().and_then(|n| n.parse().ok());
    let wanted: u64 = wanted.unwrap_or(KILLS);
    let (start, commits) = (Instant::now(), AtomicU64::new(0));
    let stores = wanted.div_ceil(KILLS_OF_A_STORE);
    let wrong: u64 =
        (0..stores).map(|store| kill_often(100 + store, KILLS_OF_A_STORE, &commits)).sum();
    let (tried, commits) = (stores * KILLS_OF_A_STORE, commits.into_inner());
    println!(
        "figure: {{\"id\":\"D3\",\"tried\":{tried},\"failed\":{wrong},\"commits\":{commits},\
         \"seed\":100}}"
    );
    println!("{:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(wrong, 0);
    assert!(commits > tried);
}
