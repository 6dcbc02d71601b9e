//! A peer that writes garbage into the shared memory ends its own connection, and nothing else.
//!
//! `NEARGRAPH_SHM_ATTACKS` says how many connections are attacked with random bytes.
#![allow(clippy::expect_used)]

mod shm_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ng_io::{ShmConnection, ShmError, ShmFrame, ShmListener, ShmOptions};
use ng_testing::Random;
use shm_support::{
    HEAD, LONG, READ, READER_SLEEPS, RawClient, TO_CLIENT, WRITER_SLEEPS, WRITTEN, ask,
    echo_server, folder, options, seeded,
};

const RING: u32 = 4096;

/// What a server says of one attack.
fn server_under(attack: impl FnOnce(&RawClient)) -> (u64, ShmError) {
    let dir = folder();
    let path = dir.path().join("s");
    let server = echo_server(&path, options(RING), 1);
    let raw = RawClient::connect(&path, RING);
    attack(&raw);
    let end = Instant::now() + Duration::from_secs(10);
    while !server.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(server.is_finished(), "the server does not end");
    server.join().expect("no panic").pop().expect("one connection")
}

#[test]
fn each_rule_that_a_peer_breaks_is_named() {
    let garbled = |what: &str, attack: &dyn Fn(&RawClient)| {
        let (_, error) = server_under(attack);
        assert!(
            matches!(error, ShmError::Garbled { what: named } if named.contains(what)),
            "{error}"
        );
    };
    for index in [8, 2, 4, 19, u32::MAX] {
        garbled("does not point to a frame", &|raw| raw.publish(WRITTEN, index));
    }
    for index in [RING + 16, 1 << 31, u32::MAX - 15] {
        garbled("exceed the ring", &|raw| raw.publish(WRITTEN, index));
    }
    for len in [1, 1008, 1009, RING, i32::MAX as u32, u32::MAX - 15, u32::MAX] {
        garbled("longer", &|raw| {
            raw.header(len);
            raw.publish(WRITTEN, 16);
        });
    }
    // An honest frame of 1008 bytes first, whose echo goes to a ring where nobody reads it. The
    // server then sleeps for room in that ring.
    let fill = |raw: &RawClient| {
        raw.header(1008);
        (0..4).for_each(|n| raw.double(HEAD + n * 1024).store(1008, Ordering::SeqCst));
        for frame in 1..6 {
            raw.publish(WRITTEN, frame * 1024);
            while raw.word(READ).load(Ordering::SeqCst) != frame * 1024 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    };
    for index in [4112, 1 << 31, u32::MAX - 15, 8, 3] {
        let what = match index {
            8 | 3 => "",
            _ => "ahead of the write index",
        };
        let (echoed, error) = server_under(|raw| {
            fill(raw);
            raw.publish(TO_CLIENT + READ, index);
        });
        let named = match &error {
            ShmError::Garbled { what: named } => named.contains(what),
            // Its lowest bit says that the reader has closed.
            ShmError::Closed => index == 3,
            _ => false,
        };
        assert!(named && echoed == 4, "{index}: {echoed} {error}");
    }
    // An index that goes back, although it was right before.
    let (echoed, error) = server_under(|raw| {
        fill(raw);
        raw.publish(TO_CLIENT + READ, 2048);
        while raw.word(TO_CLIENT + WRITTEN).load(Ordering::SeqCst) != 5 * 1024 {
            std::thread::sleep(Duration::from_micros(100));
        }
        raw.publish(WRITTEN, 6 * 1024);
        raw.publish(WRITTEN, 7 * 1024);
        raw.publish(TO_CLIENT + READ, 1024);
    });
    assert!(matches!(error, ShmError::Garbled { .. }), "{echoed} {error}");
}

/// Random words over all of the memory, while the server reads, writes and sleeps on it.
fn scribble(raw: &RawClient, random: &mut Random, rounds: u64) {
    let heads = [WRITTEN, WRITER_SLEEPS, READ, READER_SLEEPS];
    for _ in 0..rounds {
        let value = random.next_u64();
        match random.below(8) {
            // Frames that are right, with bytes that change while they are read.
            0..3 => {
                let at = raw.word(WRITTEN).load(Ordering::Relaxed) & !15;
                let place = HEAD + (at as usize % RING as usize);
                raw.double(place).store(value % 1100, Ordering::Relaxed);
                raw.publish(WRITTEN, at.wrapping_add(16 * (value % 70) as u32));
                raw.double(place).store(value, Ordering::Relaxed);
            }
            3 => {
                raw.publish(TO_CLIENT + READ, raw.word(TO_CLIENT + WRITTEN).load(Ordering::Relaxed))
            }
            4 => {
                let at = heads[(value % 4) as usize] + TO_CLIENT * (value >> 32 & 1) as usize;
                raw.publish(at, [0, 1, 16, RING, value as u32][(value >> 40) as usize % 5]);
            }
            _ => {
                let words = (HEAD + 2 * RING as usize) as u64 / 8;
                let at =
                    HEAD * usize::from(value.is_multiple_of(4)) + 8 * random.below(words) as usize;
                if at < HEAD + 2 * RING as usize && at >= HEAD {
                    raw.double(at).store(value, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn random_bytes_over_all_of_the_memory_harm_no_other_connection() {
    let attacks = std::env::var("NEARGRAPH_SHM_ATTACKS");
    let attacks: usize = attacks.map_or(150, |count| count.parse().expect("a number"));
    let dir = folder();
    let path = dir.path().join("s");
    let mut random = seeded(12);
    let limits = ShmOptions { connections_max: attacks + 1, ..options(RING) };
    let server = echo_server(&path, limits, attacks + 1);
    let mut honest = ShmConnection::connect(&path, options(RING)).expect("connected").split();
    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let over = &over;
        let asking = scope.spawn(move || {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(ask(&mut honest, b"honest"), b"honest");
                asked += 1;
            }
            asked
        });
        for _ in 0..attacks {
            let raw = RawClient::connect(&path, RING);
            scribble(&raw, &mut random, 400);
            // The first word of both rings' indices, last, so that nobody waits for more.
            raw.publish(WRITTEN, 8);
            raw.publish(TO_CLIENT + READ, 8);
        }
        over.store(true, Ordering::Relaxed);
        asking.join().expect("no panic")
    });
    let ended = server.join().expect("no thread has panicked");
    let (honest, attacked) = ended.split_first().expect("the first connection");
    assert!(matches!(honest, (count, ShmError::Closed) if *count == asked), "{honest:?}");
    assert_eq!(attacked.len(), attacks);
    let known = |error: &ShmError| {
        matches!(error, ShmError::Garbled { .. } | ShmError::Closed | ShmError::PeerGone)
    };
    assert!(attacked.iter().all(|(_, error)| known(error)), "{attacked:?}");
    let garbled = |error: &ShmError| matches!(error, ShmError::Garbled { .. });
    assert!(attacked.iter().any(|(_, error)| garbled(error)), "nothing was attacked");
    println!("{asked} honest answers beside {attacks} attacks");
}

#[test]
fn a_frame_that_changes_after_it_was_copied_changes_nothing() {
    let dir = folder();
    let path = dir.path().join("s");
    let mut listener = ShmListener::bind(&path, options(RING)).expect("bound");
    let client = std::thread::spawn({
        let path = path.clone();
        move || RawClient::connect(&path, RING)
    });
    let (_sender, mut receiver) =
        listener.accept(LONG).expect("accepted").expect("in time").split();
    let raw = client.join().expect("no panic");
    raw.header(16);
    raw.double(HEAD + 16).store(1, Ordering::SeqCst);
    raw.double(HEAD + 24).store(2, Ordering::SeqCst);
    raw.publish(WRITTEN, 32);
    let mut payload = vec![9; 100];
    let frame = receiver.receive(&mut payload, LONG).expect("received");
    (0..512).for_each(|n| raw.double(HEAD + n * 8).store(u64::MAX, Ordering::SeqCst));
    assert_eq!(frame, Some(ShmFrame { kind: 0, stream: 9 }));
    assert_eq!(payload, [1_u64.to_le_bytes(), 2_u64.to_le_bytes()].concat());
    // The memory behind an index that has not moved is not looked at.
    assert_eq!(receiver.receive(&mut payload, Some(Duration::ZERO)).expect("works"), None);
}
