//! Sampling by time: nothing is later than its seed, draws are uniform among what is left, and the
//! last entries are the last.

use std::collections::BTreeMap;

use crate::common::{build_every_kind, chi_square_p, open};
use ng_io::BackendChoice;
use ng_sample::{
    EdgeSet, Fanouts, Inputs, Method, MiniBatch, SampleError, SampleSpec, Sampler, Shape, Temporal,
    TimesOf,
};
use ng_store::{
    BuildOptions, EdgeTypeSpec, Entry, Expansion, Owner, Snapshot, Store, StoreBuilder, TensorSpec,
};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODE: NodeTypeId = NodeTypeId(0);

fn shape(times: TimesOf, takes_last: bool) -> Shape {
    let time = Some(Temporal { times, takes_last });
    Shape { is_disjoint: true, time, ..Shape::default() }
}

fn sampler(store: &Store, fanouts: Vec<Vec<i64>>, shape: Shape) -> Sampler {
    let fanouts = Fanouts::new(fanouts).expect("fanouts");
    let spec = SampleSpec { shape, ..SampleSpec::uniform(fanouts, 17) };
    Sampler::new(store.snapshot(), spec, Vec::new()).expect("sampler")
}

/// Source and time of each entry of the list of a node.
fn list(snapshot: &Snapshot, edge_type: u16, node: u64) -> Vec<(u64, i64)> {
    let mut found = Expansion::default();
    snapshot.neighbors(EdgeTypeId(edge_type), &[node], &mut found).expect("list");
    found.sources.into_iter().zip(found.times).collect()
}

fn make(sampler: &Sampler, seeds: &[u64], times: &[i64], stream: u64) -> MiniBatch {
    let inputs = Inputs::listed(NODE, seeds.to_vec()).with_times(times.to_vec());
    sampler.make(&inputs.whole(stream)).expect("batch")
}

#[test]
fn no_edge_is_later_than_the_seed_of_its_subgraph() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let plain = sampler(&store, vec![vec![5, 4]; 6], shape(TimesOf::Edges, false));
    let held = plain.clone().with_topology_within(u64::MAX).expect("fits");
    let last = sampler(&store, vec![vec![5, 4]; 6], shape(TimesOf::Edges, true));
    let between = EdgeSet::Induced(vec![true; 6]);
    let shape = Shape { edges: between, ..shape(TimesOf::Edges, false) };
    let induced = sampler(&store, vec![vec![5, 4]; 6], shape);
    let (mut edges, mut batches) = (0, 0);
    for stream in 0..10_000 {
        let sampler = [&plain, &held, &last, &induced][stream as usize % 4];
        let seeds = [stream % 60, (stream * 7) % 60, 0];
        let times = [stream as i64 % 130 - 5, 40, stream as i64 % 2600];
        let batch = make(sampler, &seeds, &times, stream);
        batches += 1;
        // Edge types 0 and 1 keep times and lead to nodes of type 0.
        for edges_of in &batch.edges[..2] {
            let subgraphs = &batch.extras.subgraphs[0];
            for (col, time) in edges_of.cols.iter().zip(&edges_of.times) {
                assert!(*time <= times[subgraphs[*col as usize] as usize], "stream {stream}");
                edges += 1;
            }
        }
    }
    println!("{batches} batches, {edges} edges");
    assert!(edges > 100_000);
}

#[test]
fn the_last_entries_are_taken_and_all_of_them_where_they_are_few() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let snapshot = store.snapshot();
    let fanouts = vec![vec![7], vec![0], vec![0], vec![0], vec![0], vec![0]];
    let takes_last = sampler(&store, fanouts.clone(), shape(TimesOf::Edges, true));
    let all = sampler(
        &store,
        fanouts.iter().map(|list| list.iter().map(|f| -f.signum()).collect()).collect(),
        shape(TimesOf::Edges, false),
    );
    for node in 0..60 {
        for until in [-1, 0, 3, 50, 119, 1700, 5000] {
            let known: Vec<(u64, i64)> =
                list(&snapshot, 0, node).into_iter().filter(|(_, time)| *time <= until).collect();
            let found = |batch: &MiniBatch| -> Vec<(u64, i64)> {
                let of_row = |row: &i64| batch.nodes[0].ids[*row as usize] as u64;
                let edges = &batch.edges[0];
                edges.rows.iter().map(of_row).zip(edges.times.iter().copied()).collect()
            };
            let batch = make(&takes_last, &[node], &[until], 0);
            assert_eq!(found(&batch), known[known.len().saturating_sub(7)..], "{node} at {until}");
            assert_eq!(found(&make(&all, &[node], &[until], 0)), known, "{node} at {until}");
        }
    }
}

#[test]
fn draws_are_uniform_among_the_entries_that_are_left() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let fanouts = vec![vec![3], vec![0], vec![0], vec![0], vec![0], vec![0]];
    // Node 0 has a list of 2,500 entries that is searched on pages.
    for (node, until) in [(0, 19), (0, 1200), (11, 15)] {
        let sampler = sampler(&store, fanouts.clone(), shape(TimesOf::Edges, false));
        let left = list(&store.snapshot(), 0, node).iter().filter(|e| e.1 <= until).count();
        let mut counts: BTreeMap<i64, u64> = (0..left as i64).map(|time| (time, 0)).collect();
        let rounds = 40 * left as u64;
        for stream in 0..rounds {
            for time in &make(&sampler, &[node], &[until], stream).edges[0].times {
                *counts.get_mut(time).expect("one of those that are left") += 1;
            }
        }
        let expected = rounds as f64 * 3.0_f64.min(left as f64) / left as f64;
        let statistic: f64 =
            counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
        // Draws of a list are without replacement, which lowers the variance by this factor.
        let statistic = statistic / (1.0 - 2.0 / (left as f64 - 1.0));
        let p = chi_square_p(statistic, left as f64 - 1.0);
        println!("node {node} at {until}: {left} entries, p = {p:.3}");
        assert!(p > 1e-4, "node {node}: p = {p}");
    }
}

/// Nodes of two types, of which the first has times; edges of the first type have none.
fn build_dated(dir: &std::path::Path, nodes: u64) {
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("event", nodes).expect("type");
    let other = builder.node_type("place", 5).expect("type");
    for (source, relation) in [(node, "after"), (other, "at")] {
        let spec = EdgeTypeSpec {
            source,
            relation: relation.into(),
            destination: node,
            undirected: false,
            unique: false,
            has_edge_ids: false,
            has_time: false,
            has_weight: false,
        };
        let edge_type = builder.edge_type(spec).expect("edge type");
        let mut writer = builder.topology(edge_type).expect("writer");
        for destination in 0..nodes {
            let degree = if destination == 3 { 40_000 } else { destination % 9 };
            let bound = if source == node { nodes } else { 5 };
            for at in 0..degree {
                let source = (destination * 31 + at * 17) % bound;
                let entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
                writer.push(destination, entry).expect("push");
            }
        }
        builder.add(writer.finish().expect("finish")).expect("add");
    }
    let (name, shape) = ("time".into(), Vec::new());
    let spec = TensorSpec { name, dtype: Dtype::I64, shape, mask_width: None };
    let mut writer = builder.tensor(Owner::Node(node), spec).expect("tensor");
    (0..nodes).for_each(|id| writer.push_rows(&time_of(id).to_le_bytes()).expect("row"));
    builder.add(writer.finish().expect("finish")).expect("add");
    builder.commit().expect("commit");
}

fn time_of(node: u64) -> i64 {
    (node * 37 % 101) as i64 - 20
}

#[test]
fn nodes_may_have_the_times_and_seeds_take_their_own() {
    let dir = tempfile::tempdir().expect("directory");
    build_dated(dir.path(), 300);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let snapshot = store.snapshot();
    let time = snapshot.catalog().find_tensor(Owner::Node(NODE), "time");
    let times = || TimesOf::Nodes(vec![time, None]);
    for takes_last in [false, true] {
        for fanout in [-1, 4] {
            let plain = sampler(&store, vec![vec![fanout]; 2], shape(times(), takes_last));
            let held = plain.clone().with_topology_within(u64::MAX).expect("fits");
            for node in 0..300 {
                let inputs = Inputs::listed(NODE, vec![node]);
                let batch = plain.make(&inputs.whole(3)).expect("batch");
                assert!(held.make(&inputs.whole(3)).expect("batch") == batch);
                assert_eq!(batch.extras.times, [time_of(node)]);
                let of_row = |row: &i64| batch.nodes[0].ids[*row as usize] as u64;
                let found: Vec<u64> = batch.edges[0].rows.iter().map(of_row).collect();
                let mut found_new = Expansion::default();
                snapshot.neighbors(EdgeTypeId(0), &[node], &mut found_new).expect("list");
                let mut left = found_new.sources;
                left.retain(|source| time_of(*source) <= time_of(node));
                if takes_last {
                    left.sort_by_key(|source| time_of(*source));
                }
                match fanout {
                    -1 => assert_eq!(found, left, "node {node}"),
                    _ if takes_last => {
                        assert_eq!(found, left[left.len().saturating_sub(4)..], "node {node}");
                    }
                    _ => {
                        assert_eq!(found.len(), left.len().min(4), "node {node}");
                        assert!(found.iter().all(|source| left.contains(source)));
                    }
                }
                // Places have no times.
                let degree = if node == 3 { 40_000 } else { node % 9 };
                let taken = if fanout < 0 { degree } else { degree.min(4) };
                assert_eq!(batch.edges[1].rows.len() as u64, taken);
            }
        }
    }
}

#[test]
fn draws_by_the_times_of_nodes_are_uniform() {
    let dir = tempfile::tempdir().expect("directory");
    build_dated(dir.path(), 300);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let time = store.snapshot().catalog().find_tensor(Owner::Node(NODE), "time");
    let times = TimesOf::Nodes(vec![time, None]);
    let sampler = sampler(&store, vec![vec![2], vec![0]], shape(times, false));
    let node = (0..300).rfind(|node| node % 9 == 8 && time_of(*node) > 60).expect("a node");
    let mut found = Expansion::default();
    store.snapshot().neighbors(EdgeTypeId(0), &[node], &mut found).expect("list");
    found.sources.retain(|source| time_of(*source) <= time_of(node));
    let left = found.sources;
    let mut counts: BTreeMap<u64, u64> = left.iter().map(|source| (*source, 0)).collect();
    assert_eq!(counts.len(), left.len(), "no parallels");
    let rounds = 4000;
    for stream in 0..rounds {
        let batch = make(&sampler, &[node], &[time_of(node)], stream);
        for row in &batch.edges[0].rows {
            *counts.get_mut(&(batch.nodes[0].ids[*row as usize] as u64)).expect("left") += 1;
        }
    }
    let expected = rounds as f64 * 2.0 / left.len() as f64;
    let statistic: f64 =
        counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let statistic = statistic / (1.0 - 1.0 / (left.len() as f64 - 1.0));
    let p = chi_square_p(statistic, left.len() as f64 - 1.0);
    println!("{} entries, p = {p:.3}", left.len());
    assert!(p > 1e-4, "p = {p}");
}

#[test]
fn what_has_no_times_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    build_dated(dir.path(), 300);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let new = |shape, method| {
        let fanouts = Fanouts::uniform(&[2], 2).expect("fanouts");
        let spec = SampleSpec { shape, method, ..SampleSpec::uniform(fanouts, 0) };
        Sampler::new(store.snapshot(), spec, Vec::new())
    };
    let uniform = Method::Uniform { replace: false };
    let refused = |shape, method| new(shape, method).err().expect("refused").to_string();
    assert!(refused(shape(TimesOf::Edges, false), uniform).contains("has times"));
    let time = store.snapshot().catalog().find_tensor(Owner::Node(NODE), "time");
    let times = || TimesOf::Nodes(vec![time, None]);
    let labor = Method::Labor { dependent: 1 };
    assert!(refused(shape(times(), false), labor).contains("does not support times"));
    let joined = Shape { is_disjoint: false, ..shape(times(), false) };
    assert!(refused(joined, uniform).contains("disjoint subgraphs"));
    let sampler = new(shape(times(), false), uniform).expect("sampler");
    let seeds = Inputs::listed(NodeTypeId(1), vec![2]);
    let error = sampler.make(&seeds.whole(0)).expect_err("no times");
    assert!(matches!(&error, SampleError::Spec(what) if what.contains("no times")), "{error}");
}
