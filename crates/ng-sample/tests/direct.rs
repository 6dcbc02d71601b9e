//! Batches from a file of the direct layout are the very batches of the paged layout, whatever the
//! lists and rows are; a hop reads the pages of its sections and no index; damage is named, and
//! never a wrong batch.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use ng_io::BackendChoice;
use ng_sample::{
    ColumnSpec, Fanouts, Jobs, Method, MiniBatch, Pipeline, SampleError, SampleSpec, Sampler, Way,
};
use ng_store::{
    BuildOptions, DirectError, DirectFile, DirectInfo, DirectOptions, DirectPlan, EdgeData,
    EdgeTypeSpec, Entry, OpenOptions, Owner, Position, Primary, SealedError, Store, StoreBuilder,
    TensorRef, TensorSpec, places,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, philox4x32_10};

const NODE: NodeTypeId = NodeTypeId(0);
const MEMORY: u64 = 48 << 20;

fn number(seed: u32, at: u32) -> u64 {
    let block = philox4x32_10([at, 0, 0, 97], [seed, 0]);
    u64::from(block[0]) | u64::from(block[1]) << 32
}

fn bytes(row: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| (row * 7 + i * 13 + i / 3) as u8).collect()
}

/// What a graph is like.
#[derive(Clone, Copy)]
struct Like {
    nodes: u64,
    /// Every so many nodes there is a hub.
    hub_every: u64,
    hub_degree: u64,
    edge_data: bool,
    /// f32 columns of `x`.
    width: u64,
}

const SMALL: Like = Like { nodes: 12, hub_every: 99, hub_degree: 0, edge_data: false, width: 3 };
const HUBS: Like =
    Like { nodes: 4000, hub_every: 500, hub_degree: 9000, edge_data: false, width: 24 };
const DATA: Like =
    Like { nodes: 3000, hub_every: 700, hub_degree: 2500, edge_data: true, width: 8 };
/// Small enough for every part of the file to be damaged.
const TINY: Like = Like { nodes: 220, hub_every: 55, hub_degree: 1200, edge_data: true, width: 4 };
const WIDE: Like =
    Like { nodes: 900, hub_every: 90, hub_degree: 3000, edge_data: false, width: 1433 };

/// A graph with hubs, nodes without neighbours, rows as they are and scaled ones.
fn build(dir: &Path, like: Like) {
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("node", like.nodes).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: like.edge_data,
        has_time: like.edge_data,
        has_weight: like.edge_data,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edge_type).expect("writer");
    let mut edges = 0;
    for destination in 0..like.nodes {
        let degree = match destination {
            hub if hub % like.hub_every == 3 => like.hub_degree,
            lonely if lonely % 5 == 0 => 0,
            other => number(1, other as u32) % 30,
        };
        let source = |at: u64| number(2, (destination * 16_384 + at) as u32) % like.nodes;
        let mut list: Vec<u64> = (0..degree).map(source).collect();
        list.sort_unstable();
        for (at, source) in list.into_iter().enumerate() {
            let (time, weight) = (at as i64, edges as f32 / 3.0);
            let edge_id = if like.edge_data { edges } else { 0 };
            writer.push(destination, Entry { source, edge_id, time, weight }).expect("push");
            edges += 1;
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    let spec = |name: &str, dtype, width: u64| TensorSpec {
        name: name.into(),
        dtype,
        shape: vec![width],
        mask_width: None,
    };
    let scales: Vec<f32> = (0..16).map(|column| column as f32 / 8.0).collect();
    let owner = Owner::Node(node);
    let wide = builder.tensor(owner, spec("x", Dtype::F32, like.width)).expect("tensor");
    let half = builder.tensor(owner, spec("half", Dtype::F16, 5)).expect("tensor");
    let scaled = builder.scaled_tensor(owner, spec("steps", Dtype::I8, 16), &scales);
    let label = builder.tensor(owner, spec("y", Dtype::I64, 1)).expect("tensor");
    let scaled = scaled.expect("tensor");
    for (mut writer, len) in [(wide, 4 * like.width), (half, 10), (scaled, 16), (label, 8)] {
        (0..like.nodes).for_each(|row| writer.push_rows(&bytes(row, len)).expect("row"));
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    if like.edge_data {
        let owner = Owner::Edge(edge_type);
        let mut edge = builder.tensor(owner, spec("edge_attr", Dtype::F32, 2)).expect("tensor");
        (0..edges).for_each(|row| edge.push_rows(&bytes(row, 8)).expect("row"));
        builder.add(edge.finish().expect("finish")).expect("add");
    }
    builder.commit().expect("commit");
}

fn open(dir: &Path, memory: u64) -> Store {
    let options = OpenOptions {
        memory: Some(memory),
        backend: BackendChoice::Pread,
        queue_depth: 8,
        ..OpenOptions::default()
    };
    Store::open(dir, &options).expect("open")
}

fn compile(store: &Store, dir: &Path, options: &DirectOptions) -> DirectInfo {
    let plan = DirectPlan::new(store.snapshot(), dir, options, &mut |_, _, _| true).expect("plan");
    let info = plan.info();
    assert_eq!(plan.write(dir, "t", &mut |_, _, _| true).expect("written"), info.file_bytes);
    info
}

fn attach(sampler: Sampler, dir: &Path) -> Result<Sampler, SampleError> {
    let file = DirectFile::open(Arc::clone(sampler.snapshot()), dir, "t.direct")?;
    sampler.with_direct(Arc::new(file))
}

fn sampler(store: &Store, fanouts: &[i64], replace: bool) -> Sampler {
    let fanouts = Fanouts::uniform(fanouts, 1).expect("fanouts");
    let spec = SampleSpec::new(fanouts, Method::Uniform { replace }, 11);
    let mut columns: Vec<ColumnSpec> =
        store.snapshot().catalog().tensor_refs().map(Into::into).collect();
    columns.reverse();
    let half = TensorRef { owner: Owner::Node(NODE), index: 1 };
    columns.push(ColumnSpec { tensor: half, dtype: Some(Dtype::F16), is_sparse: false });
    Sampler::with_columns(store.snapshot(), spec, &columns).expect("sampler")
}

fn seeds(like: Like, stream: u64) -> Vec<u64> {
    let mut seeds: Vec<u64> =
        (0..40).map(|i| number(5, (stream * 64 + i) as u32) % like.nodes).collect();
    (seeds[3], seeds[5], seeds[6]) = (seeds[0], 3, 0);
    seeds
}

fn assert_same(found: &MiniBatch, wanted: &MiniBatch) {
    assert_eq!(found.nodes, wanted.nodes);
    assert_eq!(found.edges, wanted.edges);
    assert_eq!(found.columns, wanted.columns);
}

#[test]
fn places_without_a_file_are_those_of_the_file() {
    for (like, page_bytes) in [(SMALL, 4096), (HUBS, 4096), (HUBS, 16_384), (DATA, 4096)] {
        let dir = tempfile::tempdir().expect("dir");
        build(dir.path(), like);
        let store = open(dir.path(), MEMORY);
        let options = DirectOptions { page_bytes, ..DirectOptions::default() };
        let info = compile(&store, dir.path(), &options);
        let file = DirectFile::open(store.snapshot(), dir.path(), "t.direct").expect("opens");
        let nodes: Vec<u64> = (0..like.nodes).filter(|node| node % 7 == 3).collect();
        let found = places(&store.snapshot(), &options, &nodes, &mut |_, _, _| true);
        let found = found.expect("placed");
        found.check().expect("sound");
        assert_eq!((found.page_bytes as usize, &found.node), (page_bytes, &nodes));
        let addresses = file.addresses(&nodes).expect("table");
        let (mut elsewhere, mut degrees) = (0, vec![0; nodes.len()]);
        let mut compare = |at: usize, primary: &Primary<'_>| {
            assert_eq!(found.primary[at], addresses[at] >> info.section_bits);
            degrees[at] = primary.degree;
            for position in 0..primary.degree {
                let part = found.part_of(at, position as u32);
                match primary.position(position)? {
                    Position::Here(_) => assert_eq!(part, 0),
                    Position::There(spot) => {
                        assert!(part > 0);
                        assert_eq!(found.page_of(at, part), spot.page, "{position} of {at}");
                        elsewhere += 1;
                    }
                }
            }
            Ok(())
        };
        file.primaries(&addresses, &mut compare).expect("sound");
        assert!(elsewhere > 0 || like.hub_degree == 0);
        let entries: Vec<u64> = found.first_entry.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(entries.iter().zip(&degrees).all(|(between, degree)| between >= degree));
        assert_eq!(found.row, nodes);
    }
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), WIDE);
    let wide = places(
        &open(dir.path(), MEMORY).snapshot(),
        &DirectOptions::default(),
        &[1],
        &mut |_, _, _| true,
    );
    assert!(matches!(wide, Err(DirectError::Unsupported(what)) if what.contains("a page")));
}

#[test]
fn batches_are_those_of_the_paged_layout() {
    for (like, page_bytes, address_bytes) in [
        (SMALL, 0, 4),
        (HUBS, 0, 4),
        (HUBS, 16_384, 5),
        (DATA, 4096, 8),
        (WIDE, 4096, 4),
        (WIDE, 65_536, 4),
    ] {
        let dir = tempfile::tempdir().expect("dir");
        build(dir.path(), like);
        let store = open(dir.path(), MEMORY);
        let address_bytes_min = address_bytes as usize;
        let options = DirectOptions { page_bytes, tensors: None, address_bytes_min };
        let info = compile(&store, dir.path(), &options);
        assert_eq!((info.num_nodes, info.address_bytes), (like.nodes, address_bytes));
        let file = DirectFile::open(store.snapshot(), dir.path(), "t.direct").expect("opens");
        file.verify(&mut |_, _| true).expect("sound");
        for (fanouts, replace) in [
            (&[15, 10][..], false),
            (&[-1], false),
            (&[6, -1], false),
            (&[4, 3, 2], true),
            (&[0, 5], false),
            (&[7, 0], false),
            (&[], false),
        ] {
            let paged = sampler(&store, fanouts, replace);
            let direct = attach(paged.clone(), dir.path()).expect("opens");
            for stream in 0..4 {
                let ids = seeds(like, stream);
                let wanted = paged.sample(&[(NODE, &ids)], stream).expect("paged");
                let found = direct.sample(&[(NODE, &ids)], stream).expect("direct");
                assert_same(&found, &wanted);
            }
        }
    }
}

#[test]
fn a_stream_of_batches_and_tensors_of_the_store_are_the_same_too() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), DATA);
    let store = open(dir.path(), MEMORY);
    let tensors = Some(vec!["y".into(), "x".into()]);
    compile(&store, dir.path(), &DirectOptions { tensors, ..DirectOptions::default() });
    let paged = sampler(&store, &[9, 4], false);
    let direct = attach(paged.clone(), dir.path()).expect("opens");
    let jobs = Jobs::once(NODE, (0..DATA.nodes).rev().collect(), 128);
    let jobs = Jobs { first: (3, 0), ..jobs };
    let stream = |sampler| {
        let way = Way::Each { prefetch: 3, threads: 2 };
        Pipeline::new(sampler, jobs.clone(), way).expect("stream")
    };
    let mut batches = 0;
    for (found, wanted) in stream(direct).zip(stream(paged)) {
        assert_same(&found.expect("direct"), &wanted.expect("paged"));
        batches += 1;
    }
    assert_eq!(batches, DATA.nodes.div_ceil(128));
}

#[test]
fn what_the_layout_cannot_be_used_for_is_said() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), HUBS);
    let store = open(dir.path(), MEMORY);
    compile(&store, dir.path(), &DirectOptions::default());
    let fanouts = Fanouts::uniform(&[3], 1).expect("fanouts");
    let spec = SampleSpec::new(fanouts, Method::Labor { dependent: 1 }, 1);
    let labor = Sampler::new(store.snapshot(), spec, vec![]).expect("sampler");
    let error = attach(labor, dir.path()).err().expect("refused").to_string();
    assert!(error.contains("labor sampling needs the sources"), "{error}");
    let direct = attach(sampler(&store, &[3], false), dir.path()).expect("opens");
    let error = direct.sample(&[(NODE, &[HUBS.nodes])], 0).expect_err("no such node");
    assert!(error.to_string().contains("out of range"), "{error}");
    let mut batch = store.write().expect("batch");
    batch.add_edge(EdgeTypeId(0), 1, 2, EdgeData::default()).expect("edge");
    batch.commit().expect("commit");
    let moved = sampler(&store, &[3], false);
    let error = attach(moved, dir.path()).err().expect("refused");
    assert!(matches!(error, SampleError::Direct(DirectError::Stale { .. })), "{error}");
}

#[test]
fn a_hop_reads_the_pages_of_its_sections_and_no_index() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), HUBS);
    let store = open(dir.path(), MEMORY);
    let info = compile(&store, dir.path(), &DirectOptions::default());
    let sampler = sampler(&store, &[5, 3], false);
    let file = DirectFile::open(store.snapshot(), dir.path(), "t.direct").expect("opens");
    let pages = |ids: &[u64]| -> HashSet<u64> {
        let addresses = file.addresses(ids).expect("addresses");
        addresses.into_iter().map(|address| address >> info.section_bits).collect()
    };
    let tables =
        |ids: &[u64]| ids.iter().map(|id| id / ((4096 - 24) / 4)).collect::<HashSet<_>>().len();
    let direct = attach(sampler.clone(), dir.path()).expect("opens");
    // Of the first and those drawn from them none has a long list, of the others each has one, of
    // which some of five drawn positions are elsewhere.
    for (ids, elsewhere) in [((600..640).collect::<Vec<u64>>(), 0), (vec![3, 503], 10)] {
        store.reset_stats();
        let batch = direct.sample(&[(NODE, &ids)], 3).expect("sampled");
        // Looking addresses up in the test reads, too, so this comes first.
        let read = store.stats();
        let all: Vec<u64> = batch.nodes[0].ids.iter().map(|id| *id as u64).collect();
        let drawn_from = &all[ids.len()..batch.nodes[0].per_hop[..2].iter().sum()];
        assert!(drawn_from.iter().all(|id| id % HUBS.hub_every != 3));
        let wanted = (pages(&all).len() + tables(&ids)) as u64;
        let found = read.read_bytes / 4096;
        let is_right = if elsewhere == 0 {
            found == wanted
        } else {
            // What the batch before has read is in memory.
            found <= wanted + elsewhere
        };
        assert!(is_right, "{found} pages read, {wanted} wanted");
        assert!(read.reads <= found);
        // The same again is in memory.
        store.reset_stats();
        direct.sample(&[(NODE, &ids)], 3).expect("sampled");
        assert_eq!(store.stats().reads, 0);
    }
}

/// Where pages begin in a file.
fn first_page(info: &DirectInfo) -> usize {
    let pages = info.primary_pages + info.secondary_pages + info.table_pages;
    (info.file_bytes - pages * info.page_bytes) as usize
}

/// Gives a page a checksum that fits its bytes.
fn reseal(bytes: &mut [u8], at: usize, info: &DirectInfo) {
    let page = info.page_bytes as usize;
    let start = first_page(info) + (at - first_page(info)) / page * page;
    let crc = crc32c::crc32c(&bytes[start + 4..start + page]);
    bytes[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_damaged_byte_is_named_or_not_used_and_hostile_pages_never_panic() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), TINY);
    let options = OpenOptions {
        memory: Some(MEMORY),
        backend: BackendChoice::Memory,
        ..OpenOptions::default()
    };
    let store = Store::open(dir.path(), &options).expect("open");
    let paged = sampler(&store, &[-1], false);
    let ids: Vec<u64> = (0..TINY.nodes).collect();
    let info = compile(&store, dir.path(), &DirectOptions::default());
    let path = dir.path().join("t.direct");
    let sound = std::fs::read(&path).expect("read");
    let mut refused = 0;
    let places = (0..120).chain((120..sound.len()).step_by(173));
    for at in places.chain(sound.len() - 30..sound.len()) {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(&path, &damaged).expect("write");
        let found =
            attach(paged.clone(), dir.path()).and_then(|direct| direct.sample(&[(NODE, &ids)], 1));
        match found {
            // All lists are asked for, so every page is read.
            Ok(_) => panic!("byte {at} of {}", sound.len()),
            Err(error) => {
                assert!(error.to_string().contains("t.direct"), "byte {at}: {error}");
                refused += 1;
            }
        }
        if at >= first_page(&info) {
            reseal(&mut damaged, at, &info);
            std::fs::write(&path, &damaged).expect("write");
            // Rows are whatever they are now; structures are refused or lead somewhere.
            let _ = attach(paged.clone(), dir.path())
                .and_then(|direct| direct.sample(&[(NODE, &ids)], 1));
        }
    }
    assert!(refused > 300, "{refused} refused");
    for cut in [0, 4096, sound.len() / 2, sound.len() - 4096, sound.len() - 1] {
        std::fs::write(&path, &sound[..cut]).expect("write");
        let error = attach(paged.clone(), dir.path()).err().expect("refused");
        let SampleError::Direct(DirectError::Sealed(error)) = error else { panic!("{error}") };
        assert!(matches!(error, SealedError::NotWhole { .. }), "{error}");
    }
}

#[test]
fn pages_of_another_build_or_another_place_are_refused() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), TINY);
    let store = open(dir.path(), MEMORY);
    let paged = sampler(&store, &[20, 3], false);
    let ids: Vec<u64> = (0..TINY.nodes).collect();
    let with = |tensors: &[&str]| DirectOptions {
        tensors: Some(tensors.iter().map(|name| (*name).to_owned()).collect()),
        ..DirectOptions::default()
    };
    compile(&store, dir.path(), &with(&["steps", "y"]));
    let path = dir.path().join("t.direct");
    let other = std::fs::read(&path).expect("read");
    // As many bytes of rows, so the pages are alike but for their build.
    let info = compile(&store, dir.path(), &with(&["x", "y"]));
    let sound = std::fs::read(&path).expect("read");
    assert_eq!(info.row_bytes, 24);
    let (first, page) = (first_page(&info), 4096);
    let swap = |from: &[u8], at: usize, to: usize| {
        let mut bytes = sound.clone();
        bytes[to..to + page].copy_from_slice(&from[at..at + page]);
        std::fs::write(&path, bytes).expect("write");
        let direct = attach(paged.clone(), dir.path()).expect("opens");
        let error = direct.sample(&[(NODE, &ids)], 1).expect_err("refused");
        let is_named = matches!(error, SampleError::Direct(DirectError::Damaged { .. }));
        assert!(is_named, "{error}");
        error.to_string()
    };
    assert!(swap(&other, first, first).contains("build"));
    assert!(swap(&sound, first + page, first).contains("page number is 1"));
}

#[test]
fn a_compilation_that_is_stopped_or_killed_leaves_nothing_that_is_used() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), TINY);
    let store = open(dir.path(), MEMORY);
    let plan = || {
        DirectPlan::new(store.snapshot(), dir.path(), &DirectOptions::default(), &mut |_, _, _| {
            true
        })
    };
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(dir.path()).expect("listed");
        let names = entries.map(|entry| entry.expect("entry").file_name().into_string());
        names.map(|name| name.expect("utf8")).filter(|name| name.contains(".direct")).collect()
    };
    let stopped = plan().expect("plan").write(dir.path(), "t", &mut |phase, _, _| phase != "write");
    assert!(matches!(stopped, Err(DirectError::Stopped)));
    assert_eq!(names(), [""; 0]);
    std::fs::write(dir.path().join("t.direct.partial"), b"what a killed process left").expect("w");
    assert!(attach(sampler(&store, &[2], false), dir.path()).is_err());
    plan().expect("plan").write(dir.path(), "t", &mut |_, _, _| true).expect("written");
    assert_eq!(names(), ["t.direct"]);
    let direct = attach(sampler(&store, &[2], false), dir.path()).expect("opens");
    direct.sample(&[(NODE, &[1, 2, 3])], 0).expect("sampled");
    let file = DirectFile::open(store.snapshot(), dir.path(), "t.direct").expect("opens");
    file.verify(&mut |_, _| true).expect("sound");
    // The same input gives the same bytes.
    let path = dir.path().join("t.direct");
    let first = std::fs::read(&path).expect("read");
    plan().expect("plan").write(dir.path(), "t", &mut |_, _, _| true).expect("written");
    assert_eq!(first, std::fs::read(&path).expect("read"));
}

/// Compiles the newest version to a file of that name with the rows of some tensors.
fn compile_as(store: &Store, dir: &Path, name: &str, tensors: &[&str]) {
    let tensors = Some(tensors.iter().map(ToString::to_string).collect());
    let options = DirectOptions { tensors, ..DirectOptions::default() };
    let plan = DirectPlan::new(store.snapshot(), dir, &options, &mut |_, _, _| true).expect("plan");
    plan.write(dir, name, &mut |_, _, _| true).expect("written");
}

fn find(store: &Store, dir: &Path, tensors: &[&str]) -> Result<String, DirectError> {
    let tensors: Vec<String> = tensors.iter().map(ToString::to_string).collect();
    DirectFile::find(dir, &store.snapshot(), &tensors)
}

#[test]
fn of_several_files_the_first_one_with_most_of_the_wanted_tensors_serves() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), SMALL);
    let store = open(dir.path(), MEMORY);
    for (name, tensors) in
        [("a", &["y"][..]), ("b", &["x", "y"]), ("c", &["y", "x"]), ("d", &["x", "half"])]
    {
        compile_as(&store, dir.path(), name, tensors);
    }
    for (wanted, name) in [
        (&[][..], "a"),
        (&["y"], "a"),
        (&["x"], "b"),
        (&["y", "x"], "b"),
        (&["half", "x", "unknown"], "d"),
        (&["unknown"], "a"),
    ] {
        let found = find(&store, dir.path(), wanted).expect("found");
        assert_eq!(found, format!("{name}.direct"), "{wanted:?}");
    }
}

#[test]
fn a_file_that_does_not_serve_is_passed_over_and_named_where_there_is_no_other() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path(), SMALL);
    let store = open(dir.path(), MEMORY);
    let out = tempfile::tempdir().expect("dir");
    for nothing in [out.path().to_owned(), out.path().join("none")] {
        let error = find(&store, &nothing, &["x"]).expect_err("there is no file");
        let DirectError::NoFile { directory } = &error else { panic!("{error}") };
        assert_eq!(*directory, nothing.display().to_string());
    }
    compile_as(&store, out.path(), "c", &["x"]);
    let whole = std::fs::read(out.path().join("c.direct")).expect("read");
    let mut batch = store.write().expect("writer");
    batch.add_node(NODE).expect("added");
    batch.commit().expect("durable");
    let refused = |name: &str| {
        let error = find(&store, out.path(), &["x"]).expect_err("none serves");
        assert!(error.to_string().contains(name), "{error}");
        error
    };
    let error = refused("c.direct");
    assert!(matches!(error, DirectError::Stale { found_lsn: 0, wanted_lsn: 1, .. }), "{error}");
    std::fs::write(out.path().join("b.direct"), &whole[..whole.len() - 4096]).expect("written");
    let error = refused("b.direct");
    assert!(matches!(error, DirectError::Sealed(SealedError::NotWhole { .. })), "{error}");
    let outdated = [&whole[..8], &[9], &whole[9..]].concat();
    std::fs::write(out.path().join("a.direct"), outdated).expect("written");
    let error = refused("a.direct");
    assert!(matches!(error, DirectError::Sealed(SealedError::Version { .. })), "{error}");
    compile_as(&store, out.path(), "z", &["y"]);
    assert_eq!(find(&store, out.path(), &["x"]).expect("found"), "z.direct");
}
