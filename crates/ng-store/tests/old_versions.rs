//! C4: files of every version open, and can be read, checked and changed; newer ones are refused
//! by name.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Read;
use std::path::{Path, PathBuf};

use ng_store::{
    EdgeData, Expansion, OpenError, OpenOptions, Owner, Snapshot, Store, TensorMeta, TensorRef,
    backup, restore, verify,
};
use ng_types::{EdgeTypeId, NodeTypeId};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/v{version}"))
}

/// Unpacks the store of a version, a tar file of plain files.
fn unpack(version: u32, to: &Path) -> PathBuf {
    let packed = std::fs::File::open(fixture(version).join("store.tar.gz")).expect("there");
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("whole");
    let mut rest = bytes.as_slice();
    let text = |field: &[u8]| {
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8(field[..end].to_vec()).expect("plain")
    };
    while rest.len() >= 512 && rest[0] != 0 {
        let (header, body) = rest.split_at(512);
        let (name, is_file) = (text(&header[..100]), header[156] == b'0');
        let len = usize::from_str_radix(text(&header[124..135]).trim(), 8).expect("octal");
        if is_file {
            std::fs::write(to.join(name), &body[..len]).expect("written");
        } else {
            std::fs::create_dir_all(to.join(name)).expect("made");
        }
        rest = &body[len.next_multiple_of(512)..];
    }
    to.join("store.ng")
}

/// Everything that a store holds, as the fixtures list it.
fn describe(snapshot: &Snapshot) -> String {
    let (catalog, mut lines) = (snapshot.catalog(), Vec::new());
    for (index, meta) in (0..).zip(&catalog.node_types) {
        lines.push(format!("nodes {index}: {} {}", meta.num_nodes, meta.num_nodes_live));
    }
    for (index, meta) in (0..).zip(&catalog.edge_types) {
        let bound = catalog.node_types[usize::from(meta.destination.0)].num_nodes;
        let nodes: Vec<u64> = (0..bound).collect();
        let mut found = Expansion::default();
        snapshot.neighbors(EdgeTypeId(index), &nodes, &mut found).expect("reads");
        for node in &nodes {
            let range = found.offsets[*node as usize]..found.offsets[*node as usize + 1];
            let mut line = format!("list {index} {node}:");
            for at in range.clone() {
                let (source, id) = (found.sources[at], found.edge_ids[at]);
                line += &format!(" {source}/{id}/{}/{}", found.times[at], found.weights[at]);
            }
            if !range.is_empty() {
                lines.push(line);
            }
        }
    }
    let owners = (0..catalog.node_types.len() as u16).map(|id| Owner::Node(NodeTypeId(id)));
    let edges = (0..catalog.edge_types.len() as u16).map(|id| Owner::Edge(EdgeTypeId(id)));
    for owner in owners.chain(edges) {
        let tensor = TensorRef { owner, index: 0 };
        let Some(meta) = catalog.tensor(tensor) else { continue };
        let label = match owner {
            Owner::Node(id) => format!("node {}", id.0),
            Owner::Edge(id) => format!("edge {}", id.0),
        };
        for row in 0..meta.num_rows {
            let mut bytes = vec![0; meta.row_bytes() as usize];
            snapshot.gather(tensor, &[row], &mut bytes).expect("reads");
            lines.push(format!("row {label} {row}: {bytes:?}"));
            if meta.is_scaled() {
                let decoder = snapshot.decoder(tensor, meta.read_dtype()).expect("reads");
                let mut out = vec![0; decoder.out_bytes()];
                snapshot.gather_decoded(tensor, &decoder, &[row], &mut out).expect("reads");
                let values = out.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
                lines.push(format!("values {label} {row}: {:?}", values.collect::<Vec<_>>()));
            }
            let second = TensorRef { owner, index: 1 };
            if catalog.tensor(second).is_some_and(TensorMeta::is_sparse) {
                let mut out =
                    vec![0; catalog.tensor(second).map_or(0, TensorMeta::row_bytes) as usize];
                snapshot.gather(second, &[row], &mut out).expect("reads");
                let values = out.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
                lines.push(format!("sparse {label} {row}: {:?}", values.collect::<Vec<_>>()));
            }
        }
    }
    for (index, meta) in (0..).zip(&catalog.node_types) {
        if meta.has_dictionary() {
            let ids: Vec<u64> = (0..meta.num_nodes).collect();
            let names = snapshot.names(NodeTypeId(index), &ids).expect("reads");
            lines.extend(
                ids.iter().zip(names).map(|(id, name)| format!("name {index} {id}: {name}")),
            );
        }
    }
    for meta in catalog.tensor_refs().filter_map(|tensor| catalog.tensor(tensor)) {
        if !meta.class_names.is_empty() {
            lines.push(format!("classes {}: {:?}", meta.name, meta.class_names));
        }
    }
    for known in catalog.keyed_commits() {
        let note = String::from_utf8_lossy(&known.note);
        lines.push(format!("key {} {:?} {note:?}", known.lsn, known.key));
    }
    lines.join("\n") + "\n"
}

fn format_version(store: &Path, slot: &str) -> u32 {
    let bytes = std::fs::read(store.join(slot)).expect("there");
    u32::from_le_bytes(bytes[8..12].try_into().expect("four"))
}

#[test]
fn stores_of_every_version_open_and_are_read_checked_changed_and_checkpointed() {
    let mut tried = 0;
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    for version in 0..=ng_store::FORMAT_VERSION {
        let dir = tempfile::tempdir().expect("made");
        let path = unpack(version, dir.path());
        let expected =
            std::fs::read_to_string(fixture(version).join("expected.txt")).expect("there");
        assert_eq!(format_version(&path, "root.a"), version);
        let report = verify(&path, &options, &mut |_, _| true).expect("opens");
        assert!(report.is_ok(), "{report:?}");
        assert_eq!(report.log_commits, if version > 0 { 2 } else { 0 });
        let store = Store::open(&path, &options).expect("opens");
        assert!(describe(&store.snapshot()) == expected, "version {version} reads differently");
        let mut tx = store.write().expect("the only writer");
        let data = EdgeData { time: 1_000, weight: 0.5 };
        let id = tx.add_edge(EdgeTypeId(0), 2, 4, data).expect("added").expect("numbered");
        let rows = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
        tx.set_row(rows, 1, &[7; 40]).expect("set");
        tx.commit().expect("durable");
        let changed = describe(&store.snapshot());
        assert!(changed.contains(&format!("2/{id}/1000/0.5")), "the edge is there");
        assert!(changed.contains(&format!("row node 0 1: {:?}", [7; 40])));
        store.checkpoint().expect("written");
        drop(store);
        // What changes is of version 1 at least, and no newer than what it holds asks for.
        let slots = ["root.a", "root.b"].map(|slot| format_version(&path, slot));
        assert_eq!(slots, [version.max(1); 2]);
        let report = verify(&path, &options, &mut |_, _| true).expect("opens");
        assert!(report.is_ok() && report.log_commits == 0, "{report:?}");
        let store = Store::open(&path, &options).expect("opens");
        assert!(describe(&store.snapshot()) == changed);
        // Verify, open, read, change, checkpoint, verify, open, read.
        tried += 8;
    }
    println!("figure: {{\"id\":\"C4\",\"tried\":{tried},\"failed\":0}}");
}

#[test]
fn stores_of_every_version_are_backed_up_and_restored_as_they_are() {
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    let as_it_is = OpenOptions { recover: false, ..options.clone() };
    let on = &mut |_, _| true;
    for version in 0..=ng_store::FORMAT_VERSION {
        let dir = tempfile::tempdir().expect("made");
        let path = unpack(version, dir.path());
        let [whole, more, first, second] =
            ["whole", "more", "first", "second"].map(|name| dir.path().join(name));
        let store = Store::open(&path, &as_it_is).expect("opens");
        let checkpoint = describe(&store.snapshot());
        let report = backup(&store, &whole, None, on).expect("copied");
        assert_eq!(report.log_goes_on, version > 0);
        drop(store);
        // Now its log is put into the store.
        let store = Store::open(&path, &options).expect("opens");
        let expected = describe(&store.snapshot());
        let report = backup(&store, &more, Some(&whole), on).expect("copied");
        assert_eq!((report.log_goes_on, report.pages_copied > 0), (false, version > 0));
        for (from, to, content) in [(&whole, &first, checkpoint), (&more, &second, expected)] {
            restore(from, to, on).expect("written");
            assert_eq!(format_version(to, "root.b"), version);
            assert!(verify(to, &options, on).expect("opens").is_ok());
            assert!(describe(&Store::open(to, &options).expect("opens").snapshot()) == content);
        }
    }
}

/// Writes a format version into both slots, with their checksums.
fn set_version(store: &Path, version: u32) {
    for slot in ["root.a", "root.b"] {
        let mut bytes = std::fs::read(store.join(slot)).expect("there");
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(store.join(slot), bytes).expect("written");
    }
}

#[test]
fn a_catalog_that_needs_a_newer_version_than_its_header_says_is_refused() {
    for version in 1..=ng_store::FORMAT_VERSION {
        for said in 0..version {
            let dir = tempfile::tempdir().expect("made");
            let path = unpack(version, dir.path());
            set_version(&path, said);
            let error = Store::open(&path, &OpenOptions::default()).err().expect("refused");
            let what =
                format!("the catalog has version {version}, but the header has version {said}");
            assert!(error.to_string().contains(&what), "{error}");
        }
    }
}

#[test]
fn a_catalog_without_a_log_is_refused_from_version_1_on() {
    let dir = tempfile::tempdir().expect("made");
    let path = unpack(0, dir.path());
    set_version(&path, 1);
    let error = Store::open(&path, &OpenOptions::default()).err().expect("must be refused");
    assert!(error.to_string().contains("has no log"), "{error}");
}

#[test]
fn a_store_of_the_next_version_is_refused_with_both_versions() {
    let dir = tempfile::tempdir().expect("made");
    let path = unpack(1, dir.path());
    let next = ng_store::FORMAT_VERSION + 1;
    set_version(&path, next);
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    let error = Store::open(&path, &options).err().expect("must be refused");
    let supported = ng_store::FORMAT_VERSION;
    let is_named = matches!(error, OpenError::NewerVersion { found, supported: s, .. }
        if found == next && s == supported);
    assert!(is_named, "{error}");
}
