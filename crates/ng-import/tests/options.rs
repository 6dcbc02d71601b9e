//! Every combination of the options of an edge type gives the lists of the model.

use crate::common;
use crate::common::{model, open, random_rows, stored, turned, verify};
use ng_import::{EdgeTypeSpec, IdSlice, ImportOptions, Importer, SelfLoops};

const NODES: u64 = 300;

fn specs() -> impl Iterator<Item = EdgeTypeSpec> {
    (0..256_u32).filter_map(|bits| {
        let bit = |at: u32| bits >> at & 1 == 1;
        let self_loops = match bits >> 6 & 3 {
            0 => SelfLoops::Keep,
            1 => SelfLoops::Remove,
            2 => SelfLoops::Add,
            _ => return None,
        };
        let spec = EdgeTypeSpec {
            undirected: bit(0),
            unique: bit(1),
            reverse: bit(2),
            edge_ids: bit(3),
            time: bit(4),
            weight: bit(5),
            self_loops,
            ..EdgeTypeSpec::between("node", "edge", "node")
        };
        (!(spec.time && self_loops == SelfLoops::Add)).then_some(spec)
    })
}

#[test]
fn all_options_together_and_apart_give_the_lists_of_the_model() {
    let seed = 17;
    println!("seed {seed}");
    let rows = random_rows(3_000, NODES, seed);
    let directory = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for (number, spec) in specs().enumerate() {
        let path = directory.path().join(format!("{number}.ng"));
        let memory = if number % 2 == 0 { 8 << 20 } else { 1 << 30 };
        let options = ImportOptions { memory: Some(memory), ..ImportOptions::default() };
        let mut import = Importer::new(&path, options).unwrap();
        import.node_type("node", Some(NODES), false).unwrap();
        let edges = import.edge_type(spec.clone()).unwrap();
        for chunk in rows.chunks(1_700) {
            let sources: Vec<i64> = chunk.iter().map(|row| row.source as i64).collect();
            let destinations: Vec<u32> = chunk.iter().map(|row| row.destination as u32).collect();
            let times: Vec<i64> = chunk.iter().map(|row| row.time).collect();
            let weights: Vec<f32> = chunk.iter().map(|row| row.weight).collect();
            let (times, weights) =
                (spec.time.then_some(&times[..]), spec.weight.then_some(&weights[..]));
            let (sources, destinations) = (IdSlice::I64(&sources), IdSlice::U32(&destinations));
            import.push_edges(edges, sources, destinations, None, times, weights).unwrap();
        }
        let report = import.finish(&mut |_| true).unwrap();
        let expected = model(&rows, &spec, NODES);
        let store = open(&path);
        assert!(stored(&store, edges) == expected, "{spec:?}");
        let mut entries: usize = expected.values().map(Vec::len).sum();
        let reverse = store.snapshot().catalog().edge_types[0].reverse;
        if spec.undirected {
            assert_eq!(reverse, Some(edges));
        } else if spec.reverse {
            let expected = model(&turned(&rows), &spec, NODES);
            entries += expected.values().map(Vec::len).sum::<usize>();
            assert!(stored(&store, reverse.unwrap()) == expected, "reverse of {spec:?}");
        }
        assert_eq!(report.entries, entries as u64);
        drop(store);
        verify(&path);
        std::fs::remove_dir_all(&path).unwrap();
        checked += 1;
    }
    assert_eq!(checked, 160);
}

#[test]
fn given_edge_ids_replace_the_rows() {
    let rows = random_rows(2_000, NODES, 5);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ids.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("node", None, false).unwrap();
    let spec = EdgeTypeSpec { edge_ids: true, ..EdgeTypeSpec::between("node", "edge", "node") };
    let edges = import.edge_type(spec.clone()).unwrap();
    let given: Vec<_> =
        rows.iter().map(|row| common::Row { edge_id: 5_000 - row.edge_id, ..*row }).collect();
    let column = |get: fn(&common::Row) -> u64| given.iter().map(get).collect::<Vec<u64>>();
    let (s, d, e) = (column(|r| r.source), column(|r| r.destination), column(|r| r.edge_id));
    let ids = Some(IdSlice::U64(&e));
    import.push_edges(edges, IdSlice::U64(&s), IdSlice::U64(&d), ids, None, None).unwrap();
    import.finish(&mut |_| true).unwrap();
    let store = open(&path);
    assert_eq!(store.snapshot().catalog().edge_types[0].num_edge_ids, 5_001);
    assert!(stored(&store, edges) == model(&given, &spec, NODES));
}

#[test]
fn ids_past_32_bits_are_met_on_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wide.ng");
    let mut import = Importer::new(&path, ImportOptions::default()).unwrap();
    import.node_type("user", None, false).unwrap();
    import.node_type("item", Some(1_000), false).unwrap();
    let edges = import.edge_type(EdgeTypeSpec::between("user", "buys", "item")).unwrap();
    let mut rows = random_rows(5_000, 900, 3);
    for (number, row) in rows.iter_mut().enumerate() {
        if number > 2_000 && number % 7 == 0 {
            row.source += (1 << 39) + 5;
        }
    }
    for chunk in rows.chunks(500) {
        let sources: Vec<u64> = chunk.iter().map(|row| row.source).collect();
        let destinations: Vec<u64> = chunk.iter().map(|row| row.destination).collect();
        let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
        import.push_edges(edges, sources, destinations, None, None, None).unwrap();
    }
    import.finish(&mut |_| true).unwrap();
    let spec = EdgeTypeSpec::between("user", "buys", "item");
    assert!(stored(&open(&path), edges) == model(&rows, &spec, 1_000));
    verify(&path);
}

#[test]
fn edge_types_that_take_turns_do_not_disturb_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("types.ng");
    let options = ImportOptions { memory: Some(8 << 20), ..ImportOptions::default() };
    let mut import = Importer::new(&path, options).unwrap();
    import.node_type("a", None, false).unwrap();
    import.node_type("b", None, false).unwrap();
    import.node_type("lonely", None, false).unwrap();
    let specs = [("a", "b"), ("b", "a"), ("a", "lonely")]
        .map(|(from, to)| EdgeTypeSpec { reverse: true, ..EdgeTypeSpec::between(from, "r", to) });
    let ids = specs.clone().map(|spec| import.edge_type(spec).unwrap());
    let rows = [random_rows(150_000, 5_000, 1), random_rows(150_000, 3_000, 2)];
    for part in 0..15 {
        for (id, rows) in ids.iter().zip(&rows) {
            let rows = &rows[part * 10_000..(part + 1) * 10_000];
            let sources: Vec<u64> = rows.iter().map(|row| row.source).collect();
            let destinations: Vec<u64> = rows.iter().map(|row| row.destination).collect();
            let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
            import.push_edges(*id, sources, destinations, None, None, None).unwrap();
        }
    }
    import.finish(&mut |_| true).unwrap();
    let store = open(&path);
    for ((id, rows), spec) in ids.iter().zip(&rows).zip(&specs) {
        assert!(stored(&store, *id) == model(rows, spec, 0));
        let reverse = store.snapshot().catalog().edge_types[id.0 as usize].reverse.unwrap();
        assert!(stored(&store, reverse) == model(&turned(rows), spec, 0));
    }
    assert!(stored(&store, ids[2]).is_empty());
    drop(store);
    verify(&path);
}
