//! Connections are set up with whom they may be, over sockets that are safe, and leave nothing.
#![allow(clippy::expect_used)]

mod common;
mod shm_support;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use common::{child_argument, spawn_child};
use ng_io::{Refusal, ShmConnection, ShmError, ShmListener, ShmOptions, SocketError, listen_at};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use shm_support::{
    LONG, RawClient, ask, descriptors, echo_server, folder, hello, knock, options, packets,
    receive, reply, send,
};

fn connect(path: &Path) -> Result<ShmConnection, ShmError> {
    ShmConnection::connect(path, options(4096))
}

#[test]
fn a_socket_is_its_users_alone_and_replaces_only_what_a_dead_server_left() {
    let dir = folder();
    let path = dir.path().join("s");
    let bind = || ShmListener::bind(&path, options(4096));
    let listener = bind().expect("bound");
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert!(matches!(bind(), Err(ShmError::Socket(SocketError::InUse { .. }))));
    assert!(path.exists(), "the living server keeps its path");
    drop(listener);
    assert!(!path.exists());

    // What a server leaves that is killed: a socket that nobody listens on.
    drop(UnixListener::bind(&path).expect("bound"));
    let listener = bind().expect("replaced");
    // A path that was given to another server is not removed with the first one.
    fs::remove_file(&path).expect("removed");
    let (second, file) = listen_at(&path).expect("a stream socket");
    drop(listener);
    assert!(path.exists());
    assert!(matches!(bind(), Err(ShmError::Socket(SocketError::Foreign { .. }))), "another kind");
    let accepting = std::thread::spawn(move || second.accept().map(drop));
    std::thread::sleep(Duration::from_millis(20));
    std::os::unix::net::UnixStream::connect(&path).expect("connected");
    accepting.join().expect("no panic").expect("accepting blocks until one comes");
    drop(file);
    assert!(!path.exists());

    for plant in [
        (|path| fs::write(path, "data").expect("written")) as fn(&Path),
        |path| fs::create_dir(path).expect("made"),
        |path| symlink("elsewhere", path).expect("linked"),
    ] {
        plant(&path);
        assert!(matches!(bind(), Err(ShmError::Socket(SocketError::Foreign { .. }))));
        fs::symlink_metadata(&path).expect("it is still there");
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
    }
    for path in ["", "\0abstract", &"x".repeat(108)] {
        let bound = ShmListener::bind(Path::new(path), options(4096));
        assert!(matches!(bound, Err(ShmError::Socket(SocketError::BadPath { .. }))), "{path:?}");
    }
    let nowhere = ShmListener::bind(&dir.path().join("no/s"), options(4096));
    assert!(matches!(nowhere, Err(ShmError::Socket(SocketError::Io { .. }))));
    assert!(matches!(connect(&path), Err(ShmError::NoServer { .. })));
}

#[test]
fn of_servers_that_start_at_once_one_gets_the_path() {
    let dir = folder();
    let path = dir.path().join("s");
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(4));
    for _ in 0..200 {
        drop(UnixListener::bind(&path).expect("a dead socket"));
        let start = || {
            let (path, barrier) = (path.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                ShmListener::bind(&path, options(4096))
            })
        };
        let threads: Vec<_> = (0..4).map(|_| start()).collect();
        let bound: Vec<_> = threads.into_iter().map(|one| one.join().expect("no panic")).collect();
        let (living, refused): (Vec<_>, Vec<_>) = bound.into_iter().partition(Result::is_ok);
        assert_eq!((living.len(), refused.len()), (1, 3));
    }
}

#[test]
fn requests_that_a_server_does_not_know_are_refused_by_name() {
    let dir = folder();
    let path = dir.path().join("s");
    let mut listener = ShmListener::bind(&path, options(8192)).expect("bound");
    let mut said = |packet: &[u8]| {
        let socket = knock(&path);
        send(&socket, packet, &[]);
        let accepted = listener.accept(Some(Duration::ZERO)).expect("works");
        let (answer, memory) = receive(&socket);
        assert_eq!(accepted.is_some(), memory.is_some());
        answer
    };
    assert_eq!(said(&hello(0, 0, 4096)), reply(1, 1, 0), "an older client");
    assert_eq!(said(&hello(2, 9, 4096)), reply(1, 1, 0), "a newer client");
    assert_eq!(said(&hello(1, 9, 4096)), reply(0, 1, 4096), "one that speaks both");
    assert_eq!(said(&hello(0, 1, 0)), reply(0, 1, 8192), "one that leaves the size open");
    assert_eq!(said(&hello(0, 1, 1 << 20)), reply(0, 1, 8192), "one that asks for too much");
    for ring_bytes in [1, 2048, 4097, 3 * 4096, 128 << 20, u32::MAX] {
        assert_eq!(said(&hello(1, 1, ring_bytes)), reply(4, 1, 0), "{ring_bytes}");
    }
    for packet in [&b"x"[..], &hello(1, 1, 4096)[..31], &[0; 32], &[hello(1, 1, 0); 2].concat()] {
        assert_eq!(said(packet), reply(4, 1, 0));
    }
    assert!(matches!(
        ShmConnection::connect(&path, options(5000)),
        Err(ShmError::RingBytes { bytes: 5000 })
    ));
}

/// A server that answers the first client as `act` does.
fn fake_server(path: &Path, act: impl FnOnce(OwnedFd)) -> ShmError {
    fake_server_for(path, Duration::from_secs(20), act)
}

/// The same with a client that waits for `setup_wait`.
fn fake_server_for(path: &Path, setup_wait: Duration, act: impl FnOnce(OwnedFd)) -> ShmError {
    let socket = packets();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("bound");
    rustix::net::listen(&socket, 4).expect("listens");
    let client = std::thread::spawn({
        let path = path.to_owned();
        move || ShmConnection::connect(&path, ShmOptions { setup_wait, ..options(4096) })
    });
    act(rustix::net::accept(&socket).expect("accepted"));
    let error = client.join().expect("no panic").expect_err("refused");
    fs::remove_file(path).expect("removed");
    error
}

fn memory(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("test", flags).expect("memory");
    ftruncate(&memory, bytes).expect("longer");
    fcntl_add_seals(&memory, seals).expect("sealed");
    memory
}

#[test]
fn a_client_refuses_memory_that_could_be_taken_away_and_answers_it_cannot_read() {
    if child_argument().is_none() {
        // In a process of its own, where descriptors can be counted.
        let name = "a_client_refuses_memory_that_could_be_taken_away_and_answers_it_cannot_read";
        let status = spawn_child(name, Path::new("child")).wait().expect("waited for");
        assert!(status.success());
        return;
    }
    let dir = folder();
    let path = dir.path().join("s");
    let before = descriptors();
    let (seals, bytes) = (SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL, 4096 * 3);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(bytes).expect("longer");
    let in_memory = tempfile::tempfile_in("/dev/shm");
    let mut offers: Vec<OwnedFd> = vec![
        memory(bytes, SealFlags::empty()),
        memory(bytes, SealFlags::SHRINK | SealFlags::SEAL),
        memory(bytes, SealFlags::SHRINK | SealFlags::GROW),
        memory(bytes - 4096, seals),
        memory(0, seals),
        memory(bytes * 2, seals),
        file.into(),
        packets(),
        fs::File::open("/dev/zero").expect("opened").into(),
    ];
    offers.extend(in_memory.map(|file| {
        file.set_len(bytes).expect("longer");
        OwnedFd::from(file)
    }));
    for (number, offer) in offers.iter().enumerate() {
        let error =
            fake_server(&path, |client| send(&client, &reply(0, 1, 4096), &[offer.as_fd()]));
        assert!(matches!(error, ShmError::UnsafeMemory { .. }), "{number}: {error}");
    }
    let good = memory(bytes, seals);
    let bad = |error: ShmError| assert!(matches!(error, ShmError::BadAnswer { .. }), "{error}");
    bad(fake_server(&path, |client| send(&client, &reply(0, 1, 4096), &[])));
    bad(fake_server(&path, |client| send(&client, &reply(0, 2, 4096), &[good.as_fd()])));
    bad(fake_server(&path, |client| send(&client, &reply(0, 1, 8192), &[good.as_fd()])));
    bad(fake_server(&path, |client| send(&client, &reply(0, 1, 0), &[good.as_fd()])));
    bad(fake_server(&path, |client| send(&client, &reply(6, 1, 4096), &[good.as_fd()])));
    bad(fake_server(&path, |client| send(&client, b"no", &[good.as_fd(); 8])));
    bad(fake_server(&path, drop));
    let short = Duration::from_millis(50);
    bad(fake_server_for(&path, short, |client| {
        std::thread::sleep(Duration::from_millis(200));
        drop(client);
    }));
    for (status, why) in [
        (1, Refusal::Version { server: 9 }),
        (2, Refusal::Full),
        (3, Refusal::OtherUser),
        (5, Refusal::NoMemory),
    ] {
        let error = fake_server(&path, |client| send(&client, &reply(status, 9, 0), &[]));
        assert!(matches!(error, ShmError::Refused { why: named, .. } if named == why), "{error}");
    }
    drop((good, offers));
    assert_eq!(descriptors(), before);
}

#[test]
fn memory_cannot_be_cut_under_a_server() {
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, options(4096), 1);
    let raw = RawClient::connect(&path, 4096);
    for bytes in [0, 4096, 1 << 20] {
        assert_eq!(ftruncate(&raw.memory, bytes), Err(Errno::PERM));
    }
    let unseal = fcntl_add_seals(&raw.memory, SealFlags::WRITE);
    assert_eq!(unseal, Err(Errno::PERM));
    drop(raw);
    let ended = server.join().expect("no panic");
    assert!(matches!(ended[..], [(0, ShmError::PeerGone)]), "{ended:?}");
}

#[test]
fn a_flood_of_clients_is_bounded_and_keeps_nobody_out_for_long() {
    if child_argument().is_none() {
        let name = "a_flood_of_clients_is_bounded_and_keeps_nobody_out_for_long";
        let status = spawn_child(name, Path::new("child")).wait().expect("waited for");
        assert!(status.success());
        return;
    }
    let before = descriptors();
    let dir = folder();
    let path = dir.path().join("s");
    let limits = ShmOptions { connections_max: 4, ..options(4096) };
    let mut listener = ShmListener::bind(&path, limits).expect("bound");
    let at_rest = descriptors();
    let mut served = 0;
    for _ in 0..10 {
        // Clients that say nothing, more than a server keeps.
        let silent: Vec<OwnedFd> = (0..40).map(|_| knock(&path)).collect();
        assert!(listener.accept(Some(Duration::from_millis(5))).expect("works").is_none());
        assert!(descriptors() <= at_rest + 40 + 16, "{}", descriptors() - at_rest);
        let client = std::thread::spawn({
            let path = path.clone();
            move || connect(&path).expect("connected beside silent ones")
        });
        let server = listener.accept(LONG).expect("works").expect("an honest client");
        served += 1;
        drop((silent, server, client.join().expect("no panic")));
    }
    // Descriptors that come with a request are not taken.
    let (giver, gift) = (knock(&path), fs::File::open("/dev/null").expect("opened"));
    send(&giver, &hello(1, 1, 4096), &[gift.as_fd(); 8]);
    let server = listener.accept(LONG).expect("works").expect("a connection");
    assert_eq!(descriptors(), at_rest + 3, "both sockets, and the gift here");
    drop((giver, gift, server));

    let mut kept = Vec::new();
    let clients: Vec<_> = (0..12)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || connect(&path))
        })
        .collect();
    while !clients.iter().all(|client| client.is_finished()) {
        kept.extend(listener.accept(Some(Duration::from_millis(5))).expect("works"));
    }
    assert_eq!((kept.len(), listener.connections(), served), (4, 4, 10));
    let clients: Vec<_> = clients.into_iter().map(|one| one.join().expect("no panic")).collect();
    let full = |error: &ShmError| matches!(error, ShmError::Refused { why: Refusal::Full, .. });
    assert_eq!(clients.iter().filter_map(|one| one.as_ref().err()).filter(|e| full(e)).count(), 8);
    assert!(listener.refusals() >= 8);
    drop((kept, clients));
    assert_eq!((listener.connections(), descriptors()), (0, at_rest), "all is given back");
    drop(listener);
    assert_eq!(descriptors(), before);
}

#[test]
fn another_user_is_refused_even_where_the_socket_is_open_to_all() {
    if let Some(path) = child_argument() {
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_uid(nobody).expect("root may");
        let denied = connect(&path).expect_err("mode 0600");
        assert!(matches!(denied, ShmError::Socket(SocketError::Io { .. })), "{denied}");
        fs::write(path.with_file_name("denied"), "").expect("written");
        let refused = loop {
            match connect(&path).expect_err("never") {
                ShmError::Socket(_) => std::thread::sleep(Duration::from_millis(5)),
                other => break other,
            }
        };
        let why = Refusal::OtherUser;
        assert!(matches!(&refused, ShmError::Refused { why: named, .. } if *named == why));
        let _own = ShmListener::bind(&path.with_file_name("own"), options(4096)).expect("bound");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return println!("left out: only root can become another user");
    }
    let dir = folder();
    let path = dir.path().join("s");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("opened");
    let mut listener = ShmListener::bind(&path, options(4096)).expect("bound");
    let name = "another_user_is_refused_even_where_the_socket_is_open_to_all";
    let mut child = spawn_child(name, &path);
    let mut wait = || {
        assert!(child.try_wait().expect("waited for").is_none(), "the child has failed");
        std::thread::sleep(Duration::from_millis(5));
    };
    while !path.with_file_name("denied").exists() {
        wait();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("opened");
    let error = loop {
        assert!(listener.accept(Some(Duration::ZERO)).expect("works").is_none());
        match connect(&path.with_file_name("own")).expect_err("a server of another user") {
            ShmError::NoServer { .. } => wait(),
            other => break other,
        }
    };
    assert!(matches!(error, ShmError::OtherUser { uid: 65_534, .. }), "{error}");
    assert_eq!(listener.refusals(), 1);
    child.kill().expect("killed");
    child.wait().expect("waited for");
}

#[test]
fn rings_of_one_process_work_too() {
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, options(4096), 1);
    let connection = connect(&path).expect("connected");
    let own = (rustix::process::geteuid().as_raw(), Some(std::process::id()));
    assert_eq!((connection.peer().uid, connection.peer().pid), own);
    let mut halves = connection.split();
    assert_eq!(ask(&mut halves, b"here"), b"here");
    drop(halves);
    assert_eq!(server.join().expect("no panic").len(), 1);
}
