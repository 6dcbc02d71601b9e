//! C2: decoders survive hostile bytes: the corpus of `fuzz/`, and many mutations of it.
//!
//! `NEARGRAPH_FUZZ_EXECUTIONS` says how many for each decoder. `NEARGRAPH_FUZZ_WRITE_CORPUS=1`
//! writes the corpus anew, from the stores of these tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::path::PathBuf;

use common::changing::{Shape, change, open};
use common::model::{Model, ModelEdges};
use common::{Files, seeded};
use ng_store::Owner;
use ng_store::fuzzing::{TARGETS, Target};
use ng_testing::Random;
use ng_types::{EdgeTypeId, NodeTypeId};

const BLOCK: usize = 4096;
/// Inputs that the corpus holds for each decoder.
const SEEDS_MAX: usize = 12;

fn corpus_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(corpus_dir().join(target)).expect("a corpus for each target");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Which decoder a page of a store is for, by its magic.
fn target_of(block: &[u8]) -> Option<&'static str> {
    Some(match (&block[..2], block[2]) {
        (b"PT", _) => "page_table",
        (b"TN", 0) => "l_page",
        (b"TN", _) => "h_page",
        (b"TR", _) => "tree",
        (b"ST", _) => "strings",
        (b"LG", _) => "log",
        _ => return None,
    })
}

fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[..len].to_vec()
}

/// Takes what is new and small from the files of a store.
fn collect(files: &Files, found: &mut BTreeMap<&'static str, BTreeSet<Vec<u8>>>) {
    for (name, bytes) in files {
        if name.starts_with("root") {
            let len = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
            found.entry("root").or_default().insert(bytes[..BLOCK + len].to_vec());
        }
        for block in bytes.chunks(BLOCK) {
            if let Some(target) = target_of(block) {
                found.entry(target).or_default().insert(trimmed(block));
            }
            if target_of(block) == Some("log") && block[24] == 0 {
                found.entry("ops").or_default().insert(trimmed(&block[56..]));
            }
        }
    }
}

#[test]
fn the_corpus_can_be_made_from_real_stores() {
    let mut random = seeded(3);
    let mut model = Model::new(&[12, 40_000], 4096);
    let edges = ModelEdges { destination: 1, has_edge_ids: true, ..ModelEdges::default() };
    model.edges(edges, &[(3, 2), (40, 1), (900, 500), (39_999, 3)], &mut random);
    model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 4, &mut random);
    model.names(0, &mut random);
    let mut found = BTreeMap::new();
    collect(&model.files(), &mut found);
    for (page_bytes, has_time) in [(4096, false), (4096, true), (16_384, true)] {
        let shape = Shape {
            num_nodes: 300,
            page_bytes,
            row_bytes: 30,
            undirected: true,
            has_time,
            has_weight: has_time,
            ..Shape::default()
        };
        let disk = shape.build();
        let store = open(&disk);
        for _ in 0..3 {
            change(&store, &shape, &mut random, 600);
            store.checkpoint().unwrap();
        }
        change(&store, &shape, &mut random, 60);
        collect(&disk.image(), &mut found);
    }
    let names: Vec<&str> = found.keys().copied().collect();
    let mut wanted: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted, "every decoder has an input from a real store");
    if std::env::var_os("NEARGRAPH_FUZZ_WRITE_CORPUS").is_none() {
        return;
    }
    for (target, inputs) in found {
        let dir = corpus_dir().join(target);
        std::fs::create_dir_all(&dir).unwrap();
        // Some of each length.
        let mut inputs: Vec<Vec<u8>> = inputs.into_iter().collect();
        inputs.sort_by_key(Vec::len);
        let step = inputs.len().div_ceil(SEEDS_MAX);
        for (number, input) in inputs.iter().step_by(step).enumerate() {
            std::fs::write(dir.join(format!("seed-{number:02}")), input).unwrap();
        }
    }
}

fn odd(random: &mut Random) -> u64 {
    let odd = [0, 1, 2, 7, 31, 32, 127, 128, 255, 4064, 4095, 4096, 65_535, 1 << 31, u64::MAX];
    let value = odd[random.below(odd.len() as u64) as usize];
    if random.below(4) == 0 { random.next_u64() } else { value }
}

/// Changes an input a little; headers and directories are where the structure is.
fn mutate(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let len = input.len() as u64;
    let at = match random.below(3) {
        0 => random.below(len.clamp(1, 64)),
        1 => len.saturating_sub(1 + random.below(64)),
        _ => random.below(len.max(1)),
    } as usize;
    match random.below(10) {
        0 => input.truncate(at),
        1 => input.resize((len as usize + random.below(300) as usize).min(70_000), 0xff),
        2 => {
            let other = &corpus[random.below(corpus.len() as u64) as usize];
            let from = random.below(other.len() as u64 + 1) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        3 => input.resize(BLOCK, 0),
        kind => {
            let width = [1, 2, 4, 8][kind as usize % 4];
            let value = odd(random).to_le_bytes();
            if let Some(place) = input.get_mut(at..at + width) {
                place.copy_from_slice(&value[..width]);
            } else if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// Runs one decoder; returns how many inputs made it panic.
fn run(name: &str, target: Target, executions: u64) -> (u64, u64) {
    let (corpus, mut random) = (corpus(name), Random::new(17));
    let mut crashes = 0;
    let mut try_input = |input: &[u8]| {
        if catch_unwind(|| target(input)).is_err() {
            crashes += 1;
            if crashes == 1 {
                println!("{name} panics on {input:?}");
            }
        }
    };
    corpus.iter().for_each(|input| try_input(input));
    let mut input = Vec::new();
    for _ in 0..executions {
        input.clone_from(&corpus[random.below(corpus.len() as u64) as usize]);
        (0..1 + random.below(4)).for_each(|_| mutate(&mut input, &corpus, &mut random));
        try_input(&input);
    }
    (corpus.len() as u64 + executions, crashes)
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let executions = std::env::var("NEARGRAPH_FUZZ_EXECUTIONS");
    let executions = executions.map_or(100_000, |count| count.parse().expect("a number"));
    let _ = seeded(17);
    let (mut tried, mut failed) = (0, 0);
    for (name, target) in TARGETS {
        let (count, crashes) = run(name, target, executions);
        (tried, failed) = (tried + count, failed + crashes);
    }
    let targets = TARGETS.len();
    println!(
        "figure: {{\"id\":\"C2\",\"tried\":{tried},\"failed\":{failed},\"targets\":{targets}}}"
    );
    assert_eq!(failed, 0);
}
