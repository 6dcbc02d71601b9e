//! C1: damage is an error, never a panic, a hang or a wrong answer; and verify sees all of it.
//!
//! Flips every byte, cuts at every sector, swaps pages, and replays pages and whole files of an
//! older build, of small stores. Each damaged store either refuses, or answers exactly right.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::model::{Model, ModelEdges};
use common::{Files, disk_of, seeded};
use ng_store::{OpenOptions, Owner, Store, verify_on};
use ng_types::{EdgeTypeId, NodeTypeId};

const SECTOR: usize = 512;
const BLOCK: usize = 4096;

#[derive(Default, Debug)]
struct Tally {
    tried: u64,
    refused: u64,
    right: u64,
    silent_wrong: u64,
    panics: u64,
    unseen_by_verify: u64,
    first: Option<String>,
}

impl Tally {
    fn try_damage(&mut self, model: &Model, files: Files, what: impl Fn() -> String) {
        self.tried += 1;
        let options = OpenOptions { memory: Some(4 << 20), ..OpenOptions::default() };
        let read = AssertUnwindSafe(|| {
            let store = Store::open_on(disk_of(files.clone()), &options).ok()?;
            model.read_all(&store.snapshot()).ok()
        });
        // A difference from the model panics inside `read_all` with another text than a defect.
        match catch_unwind(read) {
            Ok(None) => self.refused += 1,
            Ok(Some(())) => self.right += 1,
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
                let wrong = text.contains("assertion") || text.contains("tensor");
                *if wrong { &mut self.silent_wrong } else { &mut self.panics } += 1;
                self.first.get_or_insert_with(|| format!("{}: {text}", what()));
            }
        }
        let check = AssertUnwindSafe(|| {
            let report = verify_on(disk_of(files.clone()), &options, &mut |_, _| true);
            report.is_ok_and(|report| report.is_ok())
        });
        match catch_unwind(check) {
            Ok(false) => {}
            Ok(true) => {
                self.unseen_by_verify += 1;
                self.first.get_or_insert_with(|| format!("{}: verify saw nothing", what()));
            }
            Err(_) => {
                self.panics += 1;
                self.first.get_or_insert_with(|| format!("{}: verify panicked", what()));
            }
        }
    }
}

/// Small enough that every byte can be flipped, with every structure in it.
fn store(seed: u64) -> Model {
    let mut random = seeded(seed);
    let mut model = Model::new(&[12, 40_000], 4096);
    let edges = ModelEdges { destination: 1, has_edge_ids: seed % 2 == 1, ..Default::default() };
    let hub = if seed % 2 == 1 { 300 } else { 1_100 };
    let degrees = [(3, 2), (40, 1), (900, hub), (39_999, 3)];
    model.edges(edges, &degrees, &mut random);
    if seed % 2 == 1 {
        model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
        model.names(0, &mut random);
    } else {
        model.tensor(Owner::Node(NodeTypeId(0)), 300, &mut random);
    }
    model
}

fn with(files: &Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = files.clone();
    if let Some(bytes) = files.get_mut(name) {
        change(bytes);
    }
    files
}

fn flip_every_byte(tally: &mut Tally, model: &Model, files: &Files) {
    let mut random = seeded(77);
    for (name, bytes) in files {
        for at in 0..bytes.len() {
            let mask = 1 << random.below(8);
            let damaged = with(files, name, |bytes| bytes[at] ^= mask);
            tally.try_damage(model, damaged, || format!("flip {name} byte {at} by {mask}"));
        }
    }
}

fn cut_at_every_sector(tally: &mut Tally, model: &Model, files: &Files) {
    for (name, bytes) in files {
        for len in (0..bytes.len()).step_by(SECTOR) {
            let damaged = with(files, name, |bytes| bytes.truncate(len));
            tally.try_damage(model, damaged, || format!("cut {name} at {len}"));
            let damaged = with(files, name, |bytes| bytes[len..].fill(0));
            if damaged[name] != files[name] {
                tally.try_damage(model, damaged, || format!("zero {name} from {len}"));
            }
        }
    }
}

/// Blocks of other places, of other files, and of an older build at the same place.
fn swap_and_replay(tally: &mut Tally, model: &Model, files: &Files, older: &Files) {
    for (name, bytes) in files {
        for at in (0..bytes.len()).step_by(BLOCK) {
            let own = &bytes[at..at + BLOCK];
            let others =
                files.iter().flat_map(|(other, b)| b.chunks(BLOCK).map(move |c| (other, c)));
            let stale = older.get(name).and_then(|b| b.get(at..at + BLOCK));
            let stale = stale.map(|block| (name, block));
            for (other, block) in others.chain(stale).filter(|(_, block)| *block != own) {
                let damaged = with(files, name, |b| b[at..at + BLOCK].copy_from_slice(block));
                tally.try_damage(model, damaged, || format!("{name} at {at} from {other}"));
            }
        }
        if let Some(stale) = older.get(name).filter(|stale| *stale != bytes) {
            let damaged = with(files, name, |bytes| bytes.clone_from(stale));
            tally.try_damage(model, damaged, || format!("older {name}"));
        }
    }
}

/// Plays all damages on one store and its older build.
fn play(seed: u64) {
    // Failed comparisons are counted, not printed one by one.
    std::panic::set_hook(Box::new(|_| {}));
    let mut tally = Tally::default();
    let model = store(seed);
    let (files, older) = (model.files(), store(seed + 2).files());
    flip_every_byte(&mut tally, &model, &files);
    cut_at_every_sector(&mut tally, &model, &files);
    swap_and_replay(&mut tally, &model, &files, &older);
    drop(std::panic::take_hook());
    let Tally { tried, refused, right, silent_wrong, panics, unseen_by_verify, .. } = &tally;
    println!(
        "figure: {{\"id\":\"C1\",\"tried\":{tried},\"failed\":{},\"refused\":{refused},\
         \"right\":{right},\"silent_wrong\":{silent_wrong},\"panics\":{panics},\
         \"unseen_by_verify\":{unseen_by_verify}}}",
        silent_wrong + panics + unseen_by_verify
    );
    assert!(tally.tried >= 50_000, "{tally:?}");
    assert_eq!((tally.silent_wrong, tally.panics), (0, 0), "{tally:?}");
    assert_eq!(tally.unseen_by_verify, 0, "{tally:?}");
}

#[test]
fn damage_to_topology_and_wide_rows_is_an_error_or_harmless_and_verify_sees_it() {
    play(0);
}

#[test]
fn damage_to_edge_ids_dictionaries_and_narrow_rows_is_an_error_or_harmless_and_verify_sees_it() {
    play(1);
}
