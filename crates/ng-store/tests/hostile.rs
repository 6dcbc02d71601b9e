//! Bytes whose checksums were made right by an attacker may give any answer, but neither a panic
//! nor a hang.
//!
//! Bytes of pages, of the page table and of the catalog are changed at random, then every checksum
//! from the leaf to the root is repaired, so the decoders alone stand between them and the reader.
#![allow(clippy::expect_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::model::{Model, ModelEdges};
use common::{Files, disk_of, seeded};
use ng_store::{
    EdgeData, Expansion, OpenOptions, Owner, ReadError, SparseValue, Store, TensorRef, verify_on,
};
use ng_testing::Random;
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};
use serde_json::Value;

const BLOCK: usize = 4096;
const HEADER: usize = 4096;

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
}

/// Makes every checksum right again; structures too broken to follow are left as they are.
fn repair(files: &mut Files, catalog: &mut Value) {
    for segment in catalog["segments"].as_array_mut().expect("a list") {
        let name = segment["name"].as_str().unwrap_or_default().to_owned();
        let Some(data) = files.get(&format!("{name}.dat")).cloned() else {
            continue;
        };
        let Some(table) = files.get_mut(&format!("{name}.map")) else {
            continue;
        };
        let per_page = segment["page_bytes"].as_u64().unwrap_or(4096) as usize / BLOCK;
        for leaf in table.chunks_exact_mut(BLOCK).filter(|block| block[2] == 0) {
            let (first, count) = (word(leaf, 16) * per_page, word(leaf, 28) * per_page);
            let blocks = data.chunks_exact(BLOCK).skip(first).take(count.min(1016));
            blocks.enumerate().for_each(|(i, b)| put(leaf, 32 + 4 * i, crc32c::crc32c(b)));
        }
        let sums: Vec<u32> = table.chunks_exact(BLOCK).map(crc32c::crc32c).collect();
        for inner in table.chunks_exact_mut(BLOCK).filter(|block| block[2] == 2) {
            for entry in (0..word(inner, 12).min(340)).map(|i| 16 + 12 * i) {
                let leaf = sums.get(word(inner, entry)).copied();
                put(inner, entry + 8, leaf.unwrap_or(0));
            }
        }
        for pointer in segment["table"].as_array_mut().into_iter().flatten() {
            let at = pointer["block"].as_u64().unwrap_or(0).min(1 << 40) as usize * BLOCK;
            let block = table.get(at..at + BLOCK).unwrap_or_default();
            pointer["crc"] = crc32c::crc32c(block).into();
        }
    }
    let body = serde_json::to_vec(catalog).expect("plain data");
    for slot in ["root.a", "root.b"] {
        let bytes = files.get_mut(slot).expect("exists");
        bytes.truncate(HEADER);
        bytes[16..24].copy_from_slice(&(body.len() as u64).to_le_bytes());
        put(bytes, 40, crc32c::crc32c(&body));
        let sum = crc32c::crc32c(&bytes[..44]);
        put(bytes, 44, sum);
        bytes.extend_from_slice(&body);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
}

fn catalog_of(files: &Files) -> Value {
    let slot = &files["root.a"];
    serde_json::from_slice(&slot[HEADER..HEADER + word(slot, 16)]).expect("a catalog")
}

/// Changes a number somewhere in the catalog.
fn change_catalog(value: &mut Value, random: &mut Random) {
    let children: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(members) => members.values_mut().collect(),
        Value::Number(_) => {
            let odd = [0, 1, 2, 5, 40, 4096, 1 << 31, 1 << 40, 1 << 62, u64::MAX];
            *value = odd[random.below(odd.len() as u64) as usize].into();
            return;
        }
        _ => return,
    };
    let count = children.len() as u64;
    if let Some(child) = children.into_iter().nth(random.below(count) as usize) {
        change_catalog(child, random);
    }
}

fn change_block(files: &mut Files, random: &mut Random) {
    let names: Vec<String> = files.keys().filter(|n| !n.starts_with("root")).cloned().collect();
    let name = &names[random.below(names.len() as u64) as usize];
    let bytes = files.get_mut(name).expect("exists");
    let block = random.below((bytes.len() / BLOCK).max(1) as u64) as usize * BLOCK;
    for _ in 0..1 + random.below(3) {
        // Headers and directories are where the structure is.
        let in_block = match random.below(3) {
            0 => random.below(48),
            1 => BLOCK as u64 - 1 - random.below(48),
            _ => random.below(BLOCK as u64),
        };
        if let Some(byte) = bytes.get_mut(block + in_block as usize) {
            let odd = [0, 1, 0x7f, 0x80, 0xff, *byte ^ 1, random.next_u64() as u8];
            *byte = odd[random.below(odd.len() as u64) as usize];
        }
    }
}

/// Asks everything there is to ask; answers and errors do not matter.
fn ask_everything(files: &Files) {
    let options = OpenOptions { memory: Some(4 << 20), ..OpenOptions::default() };
    let _ = verify_on(disk_of(files.clone()), &options, &mut |_, _| true);
    let Ok(store) = Store::open_on(disk_of(files.clone()), &options) else {
        return;
    };
    let snapshot = store.snapshot();
    let nodes: Vec<u64> = (0..50).chain([899, 900, 901, 39_998, 39_999]).collect();
    for node in &nodes {
        let _ = snapshot.neighbors(EdgeTypeId(0), &[*node], &mut Expansion::default());
    }
    let _ = snapshot.degrees(EdgeTypeId(0), &nodes);
    let _ = snapshot.scan_topology(EdgeTypeId(0), &mut |_, _| Ok(()));
    let _ = snapshot.load_topology(EdgeTypeId(0));
    for owner in [Owner::Node(NodeTypeId(0)), Owner::Edge(EdgeTypeId(0))] {
        let tensor = TensorRef { owner, index: 0 };
        let _ = snapshot.gather(tensor, &[0, 5, 11], &mut [0; 900]);
        let _ = snapshot.gather(tensor, &[0, 5, 11], &mut [0; 12]);
        let _ = snapshot.scan_tensor(tensor, &mut |_, _| Ok::<_, ReadError>(()));
    }
    let scaled = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 1 };
    if let Ok(decoder) = snapshot.decoder(scaled, Dtype::F32) {
        let _ = snapshot.gather_decoded(scaled, &decoder, &[0, 5, 11], &mut [0; 240]);
    }
    let sparse = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 2 };
    let _ = snapshot.gather(sparse, &[0, 5, 11], &mut [0; 3 * 1600]);
    if let Ok(spans) = snapshot.sparse_spans(sparse, &[11, 3, 3, 0]) {
        let (mut columns, mut values) =
            (vec![0; spans.num_entries() * 8], vec![0; spans.num_entries() * 4]);
        let _ = snapshot.gather_sparse(&spans, &mut columns, &mut values);
    }
    let _ = snapshot.scan_sparse(sparse, &mut |_, _| Ok::<_, ReadError>(()));
    for id in 0..12 {
        let names = snapshot.names(NodeTypeId(0), &[id]).unwrap_or_default();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let _ = snapshot.lookup_strings(NodeTypeId(0), &keys);
    }
}

/// Changes lists of every kind and a row, and commits; the outcome does not matter.
fn change_something(files: &Files) {
    let options = OpenOptions { memory: Some(8 << 20), ..OpenOptions::default() };
    let Ok(store) = Store::open_on(disk_of(files.clone()), &options) else {
        return;
    };
    let Ok(mut tx) = store.write() else { return };
    for node in [0, 3, 40, 41, 900, 39_999] {
        for source in [1, 5] {
            let _ = tx.add_edge(EdgeTypeId(0), source, node, EdgeData::default());
        }
        let _ = tx.delete_edge(EdgeTypeId(0), 1, node, None);
    }
    let _ = tx.delete_node(NodeTypeId(1), 900);
    let _ = tx.set_row(TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 }, 3, &[7; 300]);
    let _ = tx.commit();
}

#[test]
fn no_bytes_with_right_checksums_make_the_reader_panic() {
    no_bytes_make_panic(31, 6_000, ask_everything);
}

#[test]
fn no_bytes_with_right_checksums_make_a_batch_of_updates_panic() {
    no_bytes_make_panic(34, 1_500, change_something);
}

fn no_bytes_make_panic(seed: u64, rounds: u32, work: fn(&Files)) {
    let mut random = seeded(seed);
    let mut model = Model::new(&[12, 40_000], 4096);
    let edges = ModelEdges { destination: 1, has_edge_ids: true, ..ModelEdges::default() };
    model.edges(edges, &[(3, 2), (40, 1), (900, 1_100), (39_999, 3)], &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 300, &mut random);
    model.scaled_tensor(Owner::Node(NodeTypeId(0)), 20, &mut random);
    let node = Owner::Node(NodeTypeId(0));
    model.sparse_tensor(node, 400, 9, SparseValue::F32, &mut random);
    model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
    model.names(0, &mut random);
    let sound = model.files();
    let mut opened = 0;
    for round in 0..rounds {
        let (mut files, mut catalog) = (sound.clone(), catalog_of(&sound));
        if round % 4 == 0 {
            change_catalog(&mut catalog, &mut random);
        } else {
            change_block(&mut files, &mut random);
        }
        repair(&mut files, &mut catalog);
        let options = OpenOptions { memory: Some(4 << 20), ..OpenOptions::default() };
        opened += u32::from(Store::open_on(disk_of(files.clone()), &options).is_ok());
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&files)));
        assert!(outcome.is_ok(), "round {round}");
    }
    println!("{opened} of {rounds} opened");
    assert!(opened > rounds / 2, "the repair must get past the checksums: {opened}");
}

#[test]
fn a_number_that_is_no_scale_is_damage_and_named_by_verify() {
    let mut random = seeded(32);
    let mut model = Model::new(&[3], 4096);
    model.scaled_tensor(Owner::Node(NodeTypeId(0)), 2, &mut random);
    let mut files = model.files();
    files.get_mut("t1.dat").expect("scales")[4..8].copy_from_slice(&(-2.0f32).to_le_bytes());
    let mut catalog = catalog_of(&files);
    repair(&mut files, &mut catalog);
    let options = OpenOptions { memory: Some(8 << 20), ..OpenOptions::default() };
    let store = Store::open_on(disk_of(files.clone()), &options).expect("opens");
    let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
    let error = store.snapshot().decoder(tensor, Dtype::F32).expect_err("damage");
    let is_named = matches!(&error, ReadError::Damaged { file, what, .. }
        if file == "t1.dat" && what.contains("the scale -2 of column 1"));
    assert!(is_named, "{error}");
    // What is stored can be read all the same.
    assert!(store.snapshot().decoder(tensor, Dtype::I8).is_ok());
    let report = verify_on(disk_of(files), &options, &mut |_, _| true).expect("opens");
    assert_eq!(report.problems.len(), 1, "{report:?}");
}

#[test]
fn an_entry_that_leads_out_of_the_graph_is_refused_where_it_is_drawn() {
    let mut random = seeded(33);
    let mut model = Model::new(&[12, 40_000], 4096);
    let edges = ModelEdges { destination: 1, has_edge_ids: true, ..ModelEdges::default() };
    model.edges(edges, &[(3, 2), (900, 1_100)], &mut random);
    let sound = model.files();
    // An entry is a source of four bytes and an edge id of five, behind a header of 32.
    for (at, what) in [(32, "source 4278190080"), (36, "edge id 4278190080")] {
        let (mut files, mut catalog) = (sound.clone(), catalog_of(&sound));
        let pages = catalog["edge_types"][0]["topology"]["pages"].as_u64().expect("a segment");
        let name = catalog["segments"][pages as usize]["name"].as_str().expect("a name");
        let file = format!("{name}.dat");
        for page in files.get_mut(&file).expect("pages").chunks_exact_mut(BLOCK) {
            put(page, at, 0xff00_0000);
        }
        repair(&mut files, &mut catalog);
        let options = OpenOptions { memory: Some(8 << 20), ..OpenOptions::default() };
        let store = Store::open_on(disk_of(files), &options).expect("opens");
        for node in [3, 900] {
            let mut found = Expansion::default();
            let error = store.snapshot().neighbors(EdgeTypeId(0), &[node], &mut found);
            let error = error.expect_err("damage");
            let is_named = matches!(&error, ReadError::Damaged { file: found, what: said, .. }
                if *found == file && said.starts_with(what));
            assert!(is_named, "{error}");
        }
    }
}
