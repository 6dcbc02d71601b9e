//! What reads bytes of a peer survives the corpus of `fuzz/`, and many mutations of it.
//!
//! `NEARGRAPH_FUZZ_EXECUTIONS` says how many for each target.
#![allow(clippy::expect_used)]

use std::panic::catch_unwind;
use std::path::Path;

use ng_io::fuzzing::{TARGETS, Target};
use ng_testing::Random;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(dir).expect("a corpus for each target");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("listed").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("read")).collect()
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(input.len().max(1) as u64) as usize;
    match random.below(8) {
        0 => input.truncate(at),
        1 | 2 => {
            let (from, len) = (random.below(input.len() as u64 + 1) as usize, at.min(256));
            let copied: Vec<u8> = input[from..].iter().take(len).copied().collect();
            input.splice(at.min(input.len()).., copied);
        }
        3 => input.extend(random.next_u64().to_le_bytes()),
        4 => {
            let odd = [0, 1, 15, 16, 17, 1008, 1024, 4095, 4096, 4112, 1 << 31, u32::MAX];
            let value = odd[random.below(12) as usize].to_le_bytes();
            if let Some(place) = input.get_mut(at..at + 4) {
                place.copy_from_slice(&value);
            }
        }
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
    input.truncate(4096);
}

/// How many inputs made a target panic.
fn run(name: &str, target: Target, executions: u64) -> u64 {
    let (corpus, mut random) = (corpus(name), Random::new(23));
    let mut crashes = 0;
    let mut attempt = |input: &[u8]| {
        if catch_unwind(|| target(input)).is_err() {
            crashes += 1;
            if crashes == 1 {
                println!("{name} panics on {input:?}");
            }
        }
    };
    corpus.iter().for_each(|input| attempt(input));
    let mut input = Vec::new();
    for _ in 0..executions {
        input.clone_from(&corpus[random.below(corpus.len() as u64) as usize]);
        (0..1 + random.below(6)).for_each(|_| mutate(&mut input, &mut random));
        attempt(&input);
    }
    crashes
}

#[test]
fn no_bytes_of_a_peer_make_a_ring_panic_or_hang() {
    let executions = std::env::var("NEARGRAPH_FUZZ_EXECUTIONS");
    let executions = executions.map_or(100_000, |count| count.parse().expect("a number"));
    println!("seed 23");
    for (name, target) in TARGETS {
        assert_eq!(run(name, target, executions), 0, "{name}");
    }
}
