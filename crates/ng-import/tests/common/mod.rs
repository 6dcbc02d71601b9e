//! What the tests of the importer share: a plain model of an edge type, and reading a store back.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use ng_import::{EdgeTypeSpec, SelfLoops};
use ng_store::{Expansion, OpenOptions, Store};
use ng_types::{EdgeTypeId, philox4x32_10};

/// One row of an edge list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub source: u64,
    pub destination: u64,
    pub edge_id: u64,
    pub time: i64,
    pub weight: f32,
}

/// One entry of a neighbour list, columns that are not stored being 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listed {
    pub source: u64,
    pub edge_id: u64,
    pub time: i64,
    pub weight: f32,
}

pub type Lists = BTreeMap<u64, Vec<Listed>>;

/// Random rows; small ids come up often, so there are hubs, self loops and duplicates.
pub fn random_rows(count: usize, nodes: u64, seed: u32) -> Vec<Row> {
    let draw = |i: usize| philox4x32_10([i as u32, 0, 0, 9], [seed, 1]);
    let skewed = |bits: u32| {
        let unit = f64::from(bits) / f64::from(u32::MAX);
        ((nodes as f64) * unit * unit * unit) as u64 % nodes
    };
    let row = |i| {
        let b = draw(i);
        Row {
            source: skewed(b[0]),
            destination: skewed(b[1]),
            edge_id: i as u64,
            time: i64::from(b[2] % 50) - 25,
            weight: (b[3] % 1000) as f32 / 8.0,
        }
    };
    (0..count).map(row).collect()
}

/// The lists that an import of `rows` must give, in the slow and obvious way.
pub fn model(rows: &[Row], spec: &EdgeTypeSpec, num_nodes: u64) -> Lists {
    let mut entries: Vec<(u64, Row)> = Vec::new();
    for row in rows {
        let is_loop = row.source == row.destination;
        if is_loop && spec.self_loops == SelfLoops::Remove {
            continue;
        }
        entries.push((row.destination, *row));
        if spec.undirected && !is_loop {
            entries.push((row.source, Row { source: row.destination, ..*row }));
        }
    }
    if spec.unique {
        entries.sort_by_key(|(list, row)| (*list, row.source, row.edge_id));
        entries.dedup_by_key(|(list, row)| (*list, row.source));
    }
    if spec.self_loops == SelfLoops::Add {
        let first = rows.iter().map(|row| row.edge_id + 1).max().unwrap_or(0);
        for node in 0..num_nodes {
            if !entries.iter().any(|(list, row)| *list == node && row.source == node) {
                let (source, edge_id) = (node, first + node);
                let row = Row { source, destination: node, edge_id, time: 0, weight: 1.0 };
                entries.push((node, row));
            }
        }
    }
    if spec.time {
        entries.sort_by_key(|(list, row)| (*list, row.time, row.source, row.edge_id));
    } else {
        entries.sort_by_key(|(list, row)| (*list, row.source, row.edge_id));
    }
    let mut lists = Lists::new();
    for (list, row) in entries {
        lists.entry(list).or_default().push(Listed {
            source: row.source,
            edge_id: if spec.edge_ids { row.edge_id } else { 0 },
            time: if spec.time { row.time } else { 0 },
            weight: if spec.weight { row.weight } else { 0.0 },
        });
    }
    lists
}

/// The rows with their ends exchanged.
pub fn turned(rows: &[Row]) -> Vec<Row> {
    let turn = |row: &Row| Row { source: row.destination, destination: row.source, ..*row };
    rows.iter().map(turn).collect()
}

pub fn open(path: &Path) -> Store {
    Store::open(path, &OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() }).unwrap()
}

/// All lists of an edge type as the store holds them.
pub fn stored(store: &Store, edge_type: EdgeTypeId) -> Lists {
    let snapshot = store.snapshot();
    let meta = snapshot.catalog().edge_types[edge_type.0 as usize].clone();
    let num_nodes = snapshot.catalog().node_types[meta.destination.0 as usize].num_nodes;
    let mut lists = Lists::new();
    for nodes in (0..num_nodes).collect::<Vec<_>>().chunks(500) {
        let mut out = Expansion::default();
        snapshot.neighbors(edge_type, nodes, &mut out).unwrap();
        for (place, node) in nodes.iter().enumerate() {
            let range = out.offsets[place]..out.offsets[place + 1];
            let listed = |i: usize| Listed {
                source: out.sources[i],
                edge_id: out.edge_ids.get(i).copied().unwrap_or(0),
                time: out.times.get(i).copied().unwrap_or(0),
                weight: out.weights.get(i).copied().unwrap_or(0.0),
            };
            if !range.is_empty() {
                lists.insert(*node, range.map(listed).collect());
            }
        }
    }
    lists
}

/// Every file of a store: its name and its bytes.
pub fn bytes_of(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// The names in a directory.
pub fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Fails with what is wrong where a store does not pass the check of all its blocks.
pub fn verify(path: &Path) {
    let report = ng_store::verify(path, &OpenOptions::default(), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{report:?}");
}
