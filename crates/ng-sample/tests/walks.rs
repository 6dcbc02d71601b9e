//! Walks, the nodes that they visit, roots and budgets: each draw against its exact distribution.

use std::collections::BTreeMap;

use crate::common::{chi_square_p, one_type};
use ng_sample::{
    Budgets, EdgeSet, Fanouts, HeldOut, Inputs, Roots, RootsOf, SampleSpec, Sampler, Shape, Spread,
    Visits, Walks,
};
use ng_store::Store;
use ng_types::{EdgeTypeId, NodeTypeId};

const NODE: NodeTypeId = NodeTypeId(0);
const EDGES: EdgeTypeId = EdgeTypeId(0);
const COUNT: u64 = 9;

/// A small symmetric graph with a hub, a triangle and a node without neighbours.
fn list(node: u64) -> Vec<u64> {
    let pairs =
        [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (1, 2), (3, 4), (5, 6), (6, 7), (2, 7)];
    let other = |(a, b): &(u64, u64)| match node {
        _ if *a == node => Some(*b),
        _ if *b == node => Some(*a),
        _ => None,
    };
    let mut found: Vec<u64> = pairs.iter().filter_map(other).collect();
    found.sort_unstable();
    found
}

fn store(dir: &std::path::Path) -> Store {
    one_type::build(dir, COUNT, one_type::Edges::Nothing, &list, &[]);
    one_type::open(dir, 64 << 20)
}

fn sampler(store: &Store, seed: u64, shape: Shape, roots: Option<Roots>) -> Sampler {
    let fanouts = Fanouts::uniform(&[], 1).expect("fanouts");
    let spec = SampleSpec { shape, roots, ..SampleSpec::uniform(fanouts, seed) };
    Sampler::new(store.snapshot(), spec, Vec::new()).expect("sampler")
}

/// Compares counts with their expectations, cells with too little left out.
fn check<K: Ord + std::fmt::Debug + Clone>(
    name: &str,
    counts: &BTreeMap<K, u64>,
    chances: &BTreeMap<K, f64>,
) {
    assert!(counts.keys().all(|key| chances.get(key).is_some_and(|p| *p > 0.0)), "{counts:?}");
    let total = counts.values().sum::<u64>() as f64;
    let cells: Vec<(f64, f64)> = chances
        .iter()
        .map(|(key, p)| (counts.get(key).copied().unwrap_or(0) as f64, p * total))
        .filter(|(_, expected)| *expected >= 5.0)
        .collect();
    let statistic: f64 = cells.iter().map(|(count, e)| (count - e).powi(2) / e).sum();
    let p = chi_square_p(statistic, cells.len() as f64 - 1.0);
    println!("{name}: {} cells, {total} draws, p = {p:.3}", cells.len());
    assert!(p > 1e-4, "{name}: p = {p}");
}

/// The chance of each pair of steps (next, after next) of a walk that came from `before`.
fn turn_chances(before: u64, at: u64, (p, q): (f64, f64)) -> BTreeMap<u64, f64> {
    let weight = |next: &u64| match next {
        _ if *next == before => 1.0 / p,
        _ if list(before).contains(next) => 1.0,
        _ => 1.0 / q,
    };
    let total: f64 = list(at).iter().map(weight).sum();
    list(at).iter().map(|next| (*next, weight(next) / total)).collect()
}

#[test]
fn steps_are_uniform_or_turn_as_node2vec_says() {
    let dir = tempfile::tempdir().expect("directory");
    let store = store(dir.path());
    for bias in [None, Some((0.25, 4.0)), Some((4.0, 0.5)), Some((2.0, 2.0))] {
        let plain = sampler(&store, 8, Shape::default(), None);
        let held = plain.clone().with_topology_within(u64::MAX).expect("fits");
        let walks = Walks { path: vec![EDGES], length: 3, bias };
        let starts: Vec<u64> = (0..4000).map(|_| 0).collect();
        let mut counts: BTreeMap<(u64, u64, u64), u64> = BTreeMap::new();
        for stream in 0..10 {
            let found = plain.walk(&walks, &starts, stream).expect("walks");
            assert_eq!(found, held.walk(&walks, &starts, stream).expect("walks"));
            for walk in found.nodes.chunks(found.len) {
                let [start, a, b, c] = [0, 1, 2, 3].map(|at| walk[at].expect("goes on"));
                assert_eq!(start, 0);
                *counts.entry((a, b, c)).or_default() += 1;
            }
        }
        let mut chances = BTreeMap::new();
        for a in list(0) {
            let first = 1.0 / list(0).len() as f64;
            for (b, second) in turn_chances(0, a, bias.unwrap_or((1.0, 1.0))) {
                for (c, third) in turn_chances(a, b, bias.unwrap_or((1.0, 1.0))) {
                    *chances.entry((a, b, c)).or_insert(0.0) += first * second * third;
                }
            }
        }
        check(&format!("walks with {bias:?}"), &counts, &chances);
    }
    let alone = sampler(&store, 8, Shape::default(), None);
    let walks = Walks { path: vec![EDGES], length: 2, bias: None };
    let found = alone.walk(&walks, &[8, 7], 0).expect("walks");
    assert_eq!(found.nodes[..3], [Some(8); 3], "it stays where there is no neighbour");
}

/// Nodes of the batch of a stream, and the batch's roots are in it.
fn drawn(sampler: &Sampler, stream: u64) -> Vec<u64> {
    let job = ng_sample::Job { seeds: ng_sample::Seeds::Drawn, stream, first: 0 };
    let batch = sampler.make(&job).expect("batch");
    batch.nodes[0].ids.iter().map(|id| *id as u64).collect()
}

#[test]
fn roots_have_the_chances_of_the_publication() {
    let dir = tempfile::tempdir().expect("directory");
    let list = |node: u64| list(node);
    one_type::build(dir.path(), COUNT, one_type::Edges::Nothing, &list, &[]);
    let store = one_type::open(dir.path(), 64 << 20);
    let degrees: Vec<f64> = (0..COUNT).map(|node| list(node).len() as f64).collect();
    let total: f64 = degrees.iter().sum();
    let of = |how, count| {
        let roots = Roots::new(&store.snapshot(), how, count, EDGES).expect("roots");
        sampler(&store, 3, Shape::default(), Some(roots))
    };
    for (name, how, chance) in [
        (
            "roots by degree",
            RootsOf::Degrees,
            Box::new(|n: u64| degrees[n as usize] / total) as Box<dyn Fn(u64) -> f64>,
        ),
        ("roots", RootsOf::Nodes, Box::new(|_| 1.0 / COUNT as f64)),
    ] {
        let one = of(how, 1);
        let mut counts = BTreeMap::new();
        for stream in 0..20_000 {
            *counts.entry(drawn(&one, stream)[0]).or_default() += 1;
        }
        let chances = (0..COUNT).map(|node| (node, chance(node))).filter(|(_, p)| *p > 0.0);
        check(name, &counts, &chances.collect());
        // Draws of a batch are with replacement: the chance to be in it is 1 - (1 - p)^m.
        let five = of(how, 5);
        let (mut inside, rounds) = (vec![0_u64; COUNT as usize], 10_000);
        for stream in 0..rounds {
            drawn(&five, stream).iter().for_each(|node| inside[*node as usize] += 1);
        }
        for (node, count) in (0..).zip(inside) {
            let p = 1.0 - (1.0 - chance(node)).powi(5);
            let spread = (rounds as f64 * p * (1.0 - p)).sqrt();
            let off = (count as f64 - rounds as f64 * p).abs();
            assert!(off <= 4.5 * spread, "{name}, node {node}: {count} of {rounds}, p = {p}");
        }
    }
}

#[test]
fn edges_are_drawn_by_the_degrees_of_both_ends_without_replacement() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshot = store(dir.path()).snapshot();
    let error = Roots::new(&snapshot, RootsOf::Edges, 2, EDGES).expect_err("refused");
    assert!(error.to_string().contains("does not keep the reverse"), "{error}");

    let dir = tempfile::tempdir().expect("directory");
    build_undirected(dir.path());
    let store = one_type::open(dir.path(), 64 << 20);
    let edges: Vec<[u64; 2]> =
        (0..COUNT).flat_map(|to| list(to).into_iter().map(move |from| [from, to])).collect();
    let weight = |[from, to]: [u64; 2]| 1.0 / list(to).len() as f64 + 1.0 / list(from).len() as f64;
    let total: f64 = edges.iter().map(|edge| weight(*edge)).sum();
    // Two edges one after the other: the second by its weight among those that are left.
    let mut chances: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
    for first in &edges {
        for second in edges.iter().filter(|edge| *edge != first) {
            let left = total - weight(*first);
            let mut nodes = [*first, *second].concat();
            nodes.sort_unstable();
            nodes.dedup();
            *chances.entry(nodes).or_insert(0.0) += weight(*first) / total * weight(*second) / left;
        }
    }
    let roots = Roots::new(&store.snapshot(), RootsOf::Edges, 2, EDGES).expect("roots");
    let two = sampler(&store, 3, Shape::default(), Some(roots));
    let mut counts: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
    for stream in 0..40_000 {
        let mut nodes = drawn(&two, stream);
        nodes.sort_unstable();
        *counts.entry(nodes).or_default() += 1;
    }
    check("ends of two edges", &counts, &chances);
    let many = Roots::new(&store.snapshot(), RootsOf::Edges, 23, EDGES).expect("roots");
    let many = sampler(&store, 3, Shape::default(), Some(many));
    let job = ng_sample::Job { seeds: ng_sample::Seeds::Drawn, stream: 0, first: 0 };
    assert!(many.make(&job).expect_err("22 edges").to_string().contains("cannot have 23 edges"));
}

fn build_undirected(dir: &std::path::Path) {
    use ng_store::{BuildOptions, EdgeTypeSpec, Entry, StoreBuilder};
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("node", COUNT).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "with".into(),
        destination: node,
        undirected: true,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edge_type).expect("writer");
    for to in 0..COUNT {
        for source in list(to) {
            let entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
            writer.push(to, entry).expect("push");
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    builder.commit().expect("commit");
}

#[test]
fn walks_take_all_edges_but_those_that_are_held_out() {
    let dir = tempfile::tempdir().expect("directory");
    let store = store(dir.path());
    let mut left_out = 0;
    for (seed, percent) in [(1, 0.0), (1, 30.0), (2, 80.0), (3, 100.0)] {
        let rule = HeldOut { seed, percent, is_symmetric: true };
        let visits = Visits {
            path: vec![EDGES],
            walks: 2000,
            length: 1,
            restart: 0.0,
            neighbors: vec![COUNT as u32],
            held_out: Some(rule),
        };
        let shape = Shape { spread: Spread::Visits(visits), ..Shape::default() };
        let all = sampler(&store, seed, shape, None);
        for start in 0..COUNT {
            let batch = all.make(&Inputs::listed(NODE, vec![start]).whole(1)).expect("batch");
            let visits = &batch.extras.visits;
            let mut found: Vec<i64> =
                visits.rows.iter().map(|row| batch.nodes[0].ids[*row as usize]).collect();
            found.sort_unstable();
            let (out, kept): (Vec<u64>, Vec<u64>) =
                list(start).into_iter().partition(|source| rule.has(*source, start));
            left_out += out.len();
            let kept: Vec<i64> = kept.into_iter().map(|node| node as i64).collect();
            assert_eq!(found, kept, "{start}, {percent} % with seed {seed}");
            let even = 1.0 / found.len() as f32;
            assert!(visits.weights.iter().all(|share| *share < 2.0 * even), "{start}: {visits:?}");
        }
    }
    assert!(left_out > 0);
}

#[test]
fn visits_have_the_shares_that_walks_with_restart_lead_to() {
    let dir = tempfile::tempdir().expect("directory");
    let store = store(dir.path());
    let (restart, length) = (0.4, 3_u32);
    let visits = Visits {
        path: vec![EDGES],
        walks: 4000,
        length,
        restart,
        neighbors: vec![9],
        held_out: None,
    };
    let shape = Shape { spread: Spread::Visits(visits), ..Shape::default() };
    let all = sampler(&store, 3, shape, None);
    for start in [0, 2, 7] {
        // How often a walker is expected at each node, step by step.
        let (mut at, mut expected) = (vec![0.0; COUNT as usize], vec![0.0; COUNT as usize]);
        at[start as usize] = 1.0;
        for _ in 0..length {
            let mut next = vec![0.0; COUNT as usize];
            for node in 0..COUNT {
                let neighbours = list(node);
                for other in &neighbours {
                    next[*other as usize] += at[node as usize] / neighbours.len() as f64;
                }
            }
            expected.iter_mut().zip(&next).for_each(|(sum, next)| *sum += next);
            at = next.iter().map(|p| p * (1.0 - restart)).collect();
            at[start as usize] += restart;
        }
        expected[start as usize] = 0.0;
        let total: f64 = expected.iter().sum();
        let batch = all.make(&Inputs::listed(NODE, vec![start]).whole(1)).expect("batch");
        let found = &batch.extras.visits;
        assert_eq!(found.counts, [found.rows.len() as u32]);
        assert!(found.weights.is_sorted_by(|a, b| a >= b), "most visited first");
        assert!((found.weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        for (row, weight) in found.rows.iter().zip(&found.weights) {
            let node = batch.nodes[0].ids[*row as usize] as usize;
            let share = expected[node] / total;
            assert!(
                (f64::from(*weight) - share).abs() < 0.03,
                "{start} to {node}: {weight} {share}"
            );
        }
    }
    let alone = all.make(&Inputs::listed(NODE, vec![8]).whole(1)).expect("batch");
    assert_eq!((alone.extras.visits.rows.len(), alone.nodes[0].ids.len()), (0, 1));
}

#[test]
fn budgets_draw_by_the_squares_of_what_lists_name() {
    let dir = tempfile::tempdir().expect("directory");
    let store = store(dir.path());
    let budgets = Budgets { nodes: vec![vec![2]], edge_types: vec![true] };
    let edges = EdgeSet::Induced(vec![true]);
    let shape = Shape { spread: Spread::Budgets(budgets), edges, ..Shape::default() };
    let two = sampler(&store, 3, shape, None);
    // Seeds 1 and 6: nodes 0 and 2 are named by node 1, nodes 0, 5 and 7 by node 6.
    let weights = [(0, 1.0 / 2.0 + 1.0 / 3.0), (2, 1.0 / 2.0), (5, 1.0 / 3.0), (7, 1.0 / 3.0)];
    let weights = weights.map(|(node, weight): (u64, f64)| (node, weight * weight));
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let (mut chances, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for (first, a) in weights {
        for (second, b) in weights.into_iter().filter(|(node, _)| *node != first) {
            chances.insert((first, second), a / total * b / (total - a));
        }
    }
    for stream in 0..20_000 {
        let batch = two.make(&Inputs::listed(NODE, vec![1, 6]).whole(stream)).expect("batch");
        let ids = &batch.nodes[0].ids;
        assert_eq!(ids[..2], [1, 6]);
        *counts.entry((ids[2] as u64, ids[3] as u64)).or_default() += 1;
        let edges: usize = ids
            .iter()
            .map(|to| list(*to as u64).iter().filter(|from| ids.contains(&(**from as i64))).count())
            .sum();
        assert_eq!(batch.edges[0].rows.len(), edges, "all edges between the nodes");
    }
    check("budget of 2", &counts, &chances);
}
