//! Frames come over a ring whole, in order and once, whatever their size, and waiting ends.
//!
//! `NEARGRAPH_SHM_FRAMES` says how many frames go to another process and back.
#![allow(clippy::expect_used)]

mod common;
mod shm_support;

use std::path::Path;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{child_argument, spawn_child};
use ng_io::{ShmConnection, ShmError, ShmFrame, ShmListener, ShmOptions};
use ng_testing::Random;
use shm_support::{HEAD, LONG, RawClient, WRITTEN, ask, echo_server, folder, options, seeded};

/// Kills the child process of a test when the test fails.
struct Killed(Child);

impl Killed {
    fn now(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited for");
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects to a server that another process starts just now.
fn connect(path: &Path, options: &ShmOptions) -> ShmConnection {
    for _ in 0..3000 {
        match ShmConnection::connect(path, options.clone()) {
            Err(ShmError::NoServer { .. }) => std::thread::sleep(Duration::from_millis(10)),
            other => return other.expect("connected"),
        }
    }
    panic!("no server came");
}

/// A payload that its number determines.
fn payload(random: &mut Random, pool: &[u8], most: usize) -> (usize, usize) {
    let bound = match random.below(100) {
        0 => most,
        1..10 => most / 8,
        _ => 300,
    };
    let len = random.below(bound.min(most) as u64 + 1) as usize;
    (random.below((pool.len() - len) as u64 + 1) as usize, len)
}

const RING: u32 = 64 << 10;

#[test]
fn frames_of_all_sizes_come_back_from_another_process() {
    if let Some(path) = child_argument() {
        let ended = echo_server(&path, options(RING), 1).join().expect("no panic");
        assert!(matches!(ended[..], [(_, ShmError::Closed)]), "{ended:?}");
        return;
    }
    let frames = std::env::var("NEARGRAPH_SHM_FRAMES");
    let frames: u64 = frames.map_or(400_000, |count| count.parse().expect("a number"));
    let dir = folder();
    let path = dir.path().join("s");
    let name = "frames_of_all_sizes_come_back_from_another_process";
    let mut child = spawn_child(name, &path);
    let connection = connect(&path, &options(RING));
    assert_eq!(connection.peer().pid, Some(child.id()));
    let (mut sender, mut receiver) = connection.split();
    let most = sender.payload_bytes_max();
    let seed = 41;
    let pool = seeded(seed).bytes(2 * most);
    let sending = std::thread::spawn({
        let pool = pool.clone();
        move || {
            let mut random = Random::new(seed + 1);
            for stream in 0..frames {
                let (at, len) = payload(&mut random, &pool, most);
                let (first, second) = pool[at..at + len].split_at(len / 3);
                let frame = ShmFrame { kind: stream as u32 ^ 0xa5a5, stream };
                sender.send(frame, &[first, &[], second], LONG).expect("sent");
            }
            sender
        }
    });
    let (mut random, mut got) = (Random::new(seed + 1), Vec::new());
    for stream in 0..frames {
        let (at, len) = payload(&mut random, &pool, most);
        let frame = receiver.receive(&mut got, LONG).expect("received").expect("in time");
        assert_eq!(frame, ShmFrame { kind: stream as u32 ^ 0xa5a5, stream });
        assert!(got == pool[at..at + len], "frame {stream} of {len} bytes");
    }
    drop((sending.join().expect("no panic"), receiver));
    assert!(child.wait().expect("waited for").success());
}

#[test]
fn a_full_ring_takes_no_more_until_the_other_side_has_read() {
    let dir = folder();
    let path = dir.path().join("s");
    let mut listener = ShmListener::bind(&path, options(4096)).expect("bound");
    let client = std::thread::spawn({
        let path = path.clone();
        move || ShmConnection::connect(&path, options(1 << 20)).expect("connected")
    });
    let server = listener.accept(LONG).expect("accepted").expect("in time");
    let client = client.join().expect("no panic");
    assert_eq!((client.ring_bytes(), server.ring_bytes()), (4096, 4096), "the server's bound");
    let ((mut sender, _kept), (_also, mut receiver)) = (client.split(), server.split());
    let frame = |stream: u64| ShmFrame { kind: 0, stream };
    let most = sender.payload_bytes_max();
    assert_eq!(most, 4096 / 4 - 16);
    let too_long = sender.send(frame(0), &[&vec![0; most], &[0]], LONG);
    assert!(matches!(too_long, Err(ShmError::TooLong { bytes, bytes_max })
        if bytes == most + 1 && bytes_max == most));
    let mut sent = 0;
    while sender.send(frame(sent), &[&[1; 100]], Some(Duration::ZERO)).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 4096 / 128, "frames of 100 + 16 bytes, at multiples of 16");
    let full = sender.send(frame(sent), &[&[1; 100]], Some(Duration::from_millis(5)));
    assert!(matches!(full, Err(ShmError::TimedOut)));
    let total = 1000;
    let sending = std::thread::spawn(move || {
        (sent..total).for_each(|n| sender.send(frame(n), &[&[1; 100]], None).expect("sent"));
    });
    let mut payload = Vec::new();
    for stream in 0..total {
        let got = receiver.receive(&mut payload, LONG).expect("received");
        assert_eq!((got, payload.len()), (Some(frame(stream)), 100));
    }
    sending.join().expect("no panic");
    assert!(matches!(receiver.receive(&mut payload, LONG), Err(ShmError::Closed)));
}

/// A lost wake-up costs `peer_check`, here longer than a receiver waits.
fn never_checked() -> ShmOptions {
    ShmOptions { peer_check: Duration::from_secs(3600), ..options(4096) }
}

#[test]
fn no_wake_up_of_a_reader_is_lost() {
    let dir = folder();
    let path = dir.path().join("s");
    let mut listener = ShmListener::bind(&path, never_checked()).expect("bound");
    // One frame is on its way at a time, so no later one makes up for a wake-up that is lost.
    let server = std::thread::spawn(move || {
        let connection = listener.accept(LONG).expect("accepted").expect("in time");
        let ((mut sender, mut receiver), mut random) = (connection.split(), Random::new(8));
        let mut payload = Vec::new();
        while let Ok(Some(frame)) = receiver.receive(&mut payload, LONG) {
            pause(&mut random);
            sender.send(frame, &[&payload], LONG).expect("sent");
        }
    });
    let client = ShmConnection::connect(&path, never_checked()).expect("connected");
    let ((mut sender, mut receiver), mut random) = (client.split(), seeded(6));
    let mut payload = Vec::new();
    for stream in 0..40_000 {
        let frame = ShmFrame { kind: 0, stream };
        pause(&mut random);
        sender.send(frame, &[b"x"], LONG).expect("sent");
        let got = receiver.receive(&mut payload, LONG).expect("received");
        assert_eq!(got, Some(frame), "a wake-up is lost");
    }
    drop((sender, receiver));
    server.join().expect("no panic");
}

#[test]
fn no_wake_up_of_a_writer_is_lost() {
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, never_checked(), 1);
    let client = ShmConnection::connect(&path, never_checked()).expect("connected");
    let (mut sender, mut receiver) = client.split();
    let rounds = 20_000;
    let sending = std::thread::spawn(move || {
        let mut random = seeded(6);
        for stream in 0..rounds {
            let len = if random.below(8) == 0 { 1000 } else { random.below(40) } as usize;
            let frame = ShmFrame { kind: 0, stream };
            sender.send(frame, &[&vec![7; len]], LONG).expect("a wake-up is lost");
            pause(&mut random);
        }
        sender
    });
    let (mut random, mut payload) = (Random::new(7), Vec::new());
    for stream in 0..rounds {
        let got = receiver.receive(&mut payload, LONG).expect("received");
        assert_eq!(got, Some(ShmFrame { kind: 0, stream }));
        pause(&mut random);
    }
    drop((sending.join().expect("no panic"), receiver));
    let ended = server.join().expect("no panic");
    assert!(matches!(ended[..], [(count, ShmError::Closed)] if count == rounds));
}

/// Puts the two sides into all orders: none, a few turns, a sleep.
fn pause(random: &mut Random) {
    match random.below(64) {
        0 => std::thread::sleep(Duration::from_micros(random.below(60))),
        1..32 => (0..random.below(200)).for_each(|_| std::hint::spin_loop()),
        32..36 => std::thread::yield_now(),
        _ => {}
    }
}

#[test]
fn a_server_that_is_killed_is_noticed_by_clients_that_wait_and_leaves_its_path_alone() {
    if let Some(path) = child_argument() {
        // Answers the first frame of each client, and reads no more.
        let mut listener = ShmListener::bind(&path, options(4096)).expect("bound");
        let mut kept = Vec::new();
        while let Some(connection) = listener.accept(LONG).expect("accepted") {
            let (mut sender, mut receiver) = connection.split();
            let mut payload = Vec::new();
            let frame = receiver.receive(&mut payload, LONG).expect("received").expect("in time");
            sender.send(frame, &[&payload], LONG).expect("sent");
            kept.push((sender, receiver));
        }
        return;
    }
    let dir = folder();
    let path = dir.path().join("s");
    let name = "a_server_that_is_killed_is_noticed_by_clients_that_wait_and_leaves_its_path_alone";
    let mut child = Killed(spawn_child(name, &path));
    let mut reading = connect(&path, &options(4096)).split();
    assert_eq!(ask(&mut reading, b"one"), b"one");
    let mut writing = connect(&path, &options(4096)).split();
    assert_eq!(ask(&mut writing, b"two"), b"two");
    let frame = ShmFrame { kind: 0, stream: 0 };
    let reader = std::thread::spawn(move || reading.1.receive(&mut Vec::new(), None));
    let writer = std::thread::spawn(move || {
        let sent = (0..100).map(|_| writing.0.send(frame, &[&[0; 200]], None));
        sent.take_while(Result::is_ok).count()
    });
    // Long enough that both sleep; shorter would test less, and pass, too.
    std::thread::sleep(Duration::from_millis(50));
    child.now();
    assert!(matches!(reader.join().expect("no panic"), Err(ShmError::PeerGone)));
    assert_eq!(writer.join().expect("no panic"), 4096 / 224);
    let names: Vec<_> = std::fs::read_dir(dir.path()).expect("listed").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let gone = ShmConnection::connect(&path, options(4096));
    assert!(matches!(gone, Err(ShmError::NoServer { .. })));
    let again =
        ShmListener::bind(&path, options(4096)).expect("a dead server's socket is replaced");
    drop(again);
    assert!(!path.exists());
}

#[test]
fn a_client_that_is_killed_in_the_middle_of_a_frame_ends_its_own_connection_alone() {
    if let Some(path) = child_argument() {
        let raw = RawClient::connect(&path, 4096);
        raw.header(0);
        raw.publish(WRITTEN, 16);
        // A second frame, half of whose bytes are there; then it dies.
        (16..64).step_by(8).for_each(|at| raw.double(HEAD + at).store(!0, Ordering::Relaxed));
        // SAFETY: sends a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, options(4096), 2);
    let mut other = ShmConnection::connect(&path, options(4096)).expect("connected").split();
    let name = "a_client_that_is_killed_in_the_middle_of_a_frame_ends_its_own_connection_alone";
    let status = spawn_child(name, &path).wait().expect("waited for");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    for _ in 0..100 {
        assert_eq!(ask(&mut other, b"on"), b"on");
    }
    drop(other);
    let ended = server.join().expect("no panic");
    assert!(matches!(ended[..], [(100, ShmError::Closed), (1, ShmError::PeerGone)]), "{ended:?}");
}

#[test]
fn an_end_by_either_side_is_seen_after_all_frames_that_came_before() {
    let dir = folder();
    let path = dir.path().join("s");
    let mut listener = ShmListener::bind(&path, options(4096)).expect("bound");
    let mut pair = || {
        let path = path.clone();
        let connect = move || ShmConnection::connect(&path, options(4096)).expect("connected");
        let client = std::thread::spawn(connect);
        let server = listener.accept(LONG).expect("accepted").expect("in time");
        (client.join().expect("no panic"), server)
    };
    let (frame, mut payload) = (ShmFrame { kind: 1, stream: 2 }, Vec::new());

    // A half that is dropped ends one direction.
    let (client, server) = pair();
    let ((mut sender, receiver), (mut to_client, mut from_client)) =
        (client.split(), server.split());
    sender.send(frame, &[b"last"], LONG).expect("sent");
    drop(sender);
    assert_eq!(from_client.receive(&mut payload, LONG).expect("received"), Some(frame));
    assert_eq!(payload, b"last");
    assert!(matches!(from_client.receive(&mut payload, LONG), Err(ShmError::Closed)));
    to_client.send(frame, &[b"still heard"], LONG).expect("the other direction goes on");
    drop(receiver);
    let many = (0..1000).map(|_| to_client.send(frame, &[&[0; 500]], LONG));
    let failed = many.filter_map(Result::err).next();
    assert!(matches!(failed, Some(ShmError::Closed)));

    // A closer ends both halves of its side, also while they wait.
    let (client, server) = pair();
    let closer = server.closer();
    let (mut to_client, mut from_client) = server.split();
    let waiting = std::thread::spawn(move || from_client.receive(&mut Vec::new(), None));
    std::thread::sleep(Duration::from_millis(20));
    closer.close();
    assert!(matches!(waiting.join().expect("no panic"), Err(ShmError::Closed)));
    assert!(matches!(to_client.send(frame, &[], LONG), Err(ShmError::Closed)));
    let (_, mut receiver) = client.split();
    let gone = receiver.receive(&mut payload, LONG);
    assert!(matches!(gone, Err(ShmError::PeerGone)), "{gone:?}");
}

#[test]
fn a_fork_is_refused_and_its_parent_goes_on() {
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, options(4096), 1);
    let mut halves = Some(ShmConnection::connect(&path, options(4096)).expect("connected").split());
    let frame = ShmFrame { kind: 0, stream: 0 };
    // SAFETY: the child takes no lock that another thread may hold, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (mut sender, mut receiver) = halves.take().expect("there");
        let sent = sender.send(frame, &[], LONG);
        let received = receiver.receive(&mut Vec::new(), LONG);
        let refused = matches!(sent, Err(ShmError::Forked { .. }))
            && matches!(received, Err(ShmError::Forked { .. }));
        drop((sender, receiver));
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the call, and the child is this thread's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was refused");
    let mut halves = halves.expect("the parent has it");
    assert_eq!(ask(&mut halves, b"still"), b"still");
    drop(halves);
    let ended = server.join().expect("no panic");
    assert!(matches!(ended[..], [(1, ShmError::Closed)]), "{ended:?}");
}
