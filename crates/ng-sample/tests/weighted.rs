//! Weighted sampling draws entries in proportion to their weights, and the same ones everywhere.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Numbers, chi_square_p, open};
use ng_io::BackendChoice;
use ng_sample::{Fanouts, Method, MiniBatch, SampleError, SampleSpec, Sampler};
use ng_store::{BuildOptions, EdgeTypeSpec, Entry, Snapshot, StoreBuilder};
use ng_types::{DrawKey, EdgeTypeId, NodeTypeId};

const NODE: NodeTypeId = NodeTypeId(0);
const SEED: u64 = 77;

/// Neighbour lists of one edge type: (source, weight).
type Lists = Vec<Vec<(u64, f32)>>;

fn build(dir: &Path, lists: &Lists, page_bytes: u32, has_weight: bool) {
    let options = BuildOptions { page_bytes, ..BuildOptions::default() };
    let mut builder = StoreBuilder::create(dir, options).expect("builder");
    let node = builder.node_type("node", lists.len() as u64).expect("nodes");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "likes".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight,
    };
    let edges = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edges).expect("writer");
    for (node, list) in (0..).zip(lists) {
        for (source, weight) in list {
            let weight = if has_weight { *weight } else { 0.0 };
            let entry = Entry { source: *source, edge_id: 0, time: 0, weight };
            writer.push(node, entry).expect("push");
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    builder.commit().expect("commit");
}

/// Weights of all sizes, some of them 0, in lists of all lengths: some take many pages.
fn lists(nodes: u64, hub: u64) -> Lists {
    let mut numbers = Numbers(5, 0);
    let mut list = |node: u64| {
        let degree = match node % 40 {
            0 => hub + node,
            1..=5 => 0,
            _ => numbers.next(50),
        };
        let weight =
            |bits: u64| if bits.is_multiple_of(8) { 0.0 } else { (bits % 1000) as f32 * 0.37 };
        let entries = (0..degree).map(|_| (numbers.next(nodes), weight(numbers.next(1 << 40))));
        let mut list: Vec<(u64, f32)> = entries.collect();
        list.sort_unstable_by_key(|entry| entry.0);
        list
    };
    (0..nodes).map(&mut list).collect()
}

fn sampler(snapshot: &Arc<Snapshot>, fanouts: &[i64], replace: bool) -> Sampler {
    let fanouts = Fanouts::uniform(fanouts, 1).expect("fanouts");
    let method = Method::Weighted { replace };
    let spec = SampleSpec::new(fanouts, method, SEED);
    Sampler::new(Arc::clone(snapshot), spec, Vec::new()).expect("sampler").without_held_topologies()
}

fn in_memory(paged: &Sampler) -> Sampler {
    let topology = paged.snapshot().load_topology(EdgeTypeId(0)).expect("loads");
    paged.clone().with_resident(vec![Some(topology)]).expect("fits")
}

/// Positions as the document has them, with the logarithm of the standard library.
fn reference(
    list: &[(u64, f32)],
    node: u64,
    stream: u64,
    fanout: u32,
    replace: bool,
) -> Vec<usize> {
    let draws = DrawKey::new(SEED, stream).draws(EdgeTypeId(0), node);
    if replace {
        let total: f64 = list.iter().map(|entry| f64::from(entry.1)).sum();
        let find = |draw| {
            let target = (draws.bits(draw) >> 11) as f64 / 2_f64.powi(53) * total;
            let sums = list.iter().scan(0.0, |sum, entry| {
                *sum += f64::from(entry.1);
                Some(*sum)
            });
            sums.take_while(|sum| *sum <= target).count()
        };
        return if total > 0.0 { (0..fanout).map(find).collect() } else { Vec::new() };
    }
    let key = |(position, entry): (usize, &(u64, f32))| {
        let number = ((draws.bits(position as u32) >> 12) as f64 + 0.5) / 2_f64.powi(52);
        (-number.ln() / f64::from(entry.1), position)
    };
    let positive = list.iter().enumerate().filter(|(_, entry)| entry.1 > 0.0);
    let mut keys: Vec<(f64, usize)> = positive.map(key).collect();
    keys.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
    keys.into_iter().take(fanout as usize).map(|(_, position)| position).collect()
}

/// The sources and weights that a batch of one hop has for its seed number `seed`.
fn taken(batch: &MiniBatch, seed: usize) -> Vec<(u64, f32)> {
    let edges = &batch.edges[0];
    let of_seed = edges.cols.iter().zip(&edges.rows).zip(&edges.weights);
    let of_seed = of_seed.filter(|((col, _), _)| **col == seed as i64);
    of_seed.map(|((_, row), weight)| (batch.nodes[0].ids[*row as usize] as u64, *weight)).collect()
}

#[test]
fn every_destination_takes_what_the_reference_takes_in_its_order() {
    let lists = lists(400, 3000);
    for page_bytes in [4096, 65536] {
        let dir = tempfile::tempdir().expect("directory");
        build(dir.path(), &lists, page_bytes, true);
        let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
        let seeds: Vec<u64> = (0..400).collect();
        for (fanout, replace) in
            [(1, false), (7, false), (200, false), (5000, false), (7, true), (300, true)]
        {
            let paged = sampler(&store.snapshot(), &[i64::from(fanout)], replace);
            for (stream, sampler) in (0..).zip([in_memory(&paged), paged]) {
                let batch = sampler.sample(&[(NODE, &seeds)], stream).expect("samples");
                for (node, list) in lists.iter().enumerate() {
                    let positions = reference(list, node as u64, stream, fanout, replace);
                    let wanted: Vec<(u64, f32)> = positions.iter().map(|at| list[*at]).collect();
                    assert_eq!(taken(&batch, node), wanted, "{fanout}, {replace}, node {node}");
                }
            }
        }
    }
}

#[test]
fn batches_are_the_same_from_pages_and_memory_and_for_lists_of_100_000_entries() {
    let mut lists = lists(200, 3000);
    let mut numbers = Numbers(6, 0);
    for hub in [17, 18, 90] {
        lists[hub] =
            (0..100_000).map(|at| (at / 500, 1.0 / (1 + numbers.next(90)) as f32)).collect();
    }
    // Each of its entries replaces one that was taken before.
    lists[91] = (0..100_000).map(|at| (at / 500, (at + 1) as f32 * 1e30)).collect();
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &lists, 4096, true);
    let store = open(dir.path(), 48 << 20, BackendChoice::Auto);
    for (fanouts, replace) in
        [(vec![15, 10], false), (vec![3, -1], false), (vec![40, 4, 2], true), (vec![20_000], false)]
    {
        let paged = sampler(&store.snapshot(), &fanouts, replace);
        let memory = in_memory(&paged);
        for stream in 0..2 {
            let seeds = [(NODE, &[3, 17, 90, 91, 17, 160][..])];
            let expected = memory.sample(&seeds, stream).expect("from memory");
            assert!(paged.sample(&seeds, stream).expect("from pages") == expected);
        }
    }
}

#[test]
fn draws_of_a_smaller_fanout_are_the_first_of_a_larger() {
    let lists = lists(120, 2000);
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &lists, 4096, true);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let seeds: Vec<u64> = (0..120).collect();
    for replace in [false, true] {
        let batch = |fanout| {
            let sampler = in_memory(&sampler(&store.snapshot(), &[fanout], replace));
            sampler.sample(&[(NODE, &seeds)], 9).expect("samples")
        };
        let (few, many) = (batch(6), batch(300));
        for seed in 0..seeds.len() {
            let (few, many) = (taken(&few, seed), taken(&many, seed));
            assert_eq!(few, many[..few.len()]);
            assert!(few.len() == 6 || few.len() == many.len());
        }
    }
}

#[test]
fn entries_of_weight_0_are_never_drawn() {
    let some = vec![(0, 0.0), (1, 2.0), (2, -0.0), (3, 1.0), (4, 0.0)];
    let lists =
        vec![some, vec![(1, 0.0); 700], Vec::new(), vec![(2, 1e-45)], vec![(1, f32::MAX); 3]];
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &lists, 4096, true);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    for (fanout, replace, counts) in [
        (4, false, [2, 0, 0, 1, 3]),
        (4, true, [4, 0, 0, 4, 4]),
        // All is all, whatever the weights.
        (-1, true, [5, 700, 0, 1, 3]),
    ] {
        let paged = sampler(&store.snapshot(), &[fanout], replace);
        for sampler in [in_memory(&paged), paged] {
            for stream in 0..50 {
                let batch = sampler.sample(&[(NODE, &[0, 1, 2, 3, 4])], stream).expect("samples");
                assert_eq!([0, 1, 2, 3, 4].map(|seed| taken(&batch, seed).len()), counts);
                let is_positive = |taken: &(u64, f32)| taken.1 > 0.0;
                assert!(fanout < 0 || taken(&batch, 0).iter().all(is_positive));
            }
        }
    }
}

#[test]
fn weights_that_nothing_can_be_drawn_by_are_named() {
    for (weight, text) in
        [(f32::NAN, "NaN"), (-1.5, "-1.5"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")]
    {
        let mut lists = vec![vec![(0, 1.0); 20], vec![(0, 1.0); 100_000], vec![(0, 1.0); 3]];
        lists[0][13].1 = weight;
        lists[1][70_001].1 = weight;
        let dir = tempfile::tempdir().expect("directory");
        build(dir.path(), &lists, 4096, true);
        let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
        for replace in [false, true] {
            let paged = sampler(&store.snapshot(), &[2], replace);
            for sampler in [in_memory(&paged), paged] {
                for (node, position) in [(0, 13), (1, 70_001)] {
                    let error = sampler.sample(&[(NODE, &[2, node])], 0).expect_err("refused");
                    let named = match &error {
                        SampleError::Weight { relation, destination, position, .. } => {
                            (relation.as_str(), *destination, *position)
                        }
                        _ => panic!("{error}"),
                    };
                    assert_eq!(named, ("likes", node, position));
                    assert!(
                        error.to_string().contains(&format!("weight {text} is not")),
                        "{error}"
                    );
                }
                sampler.sample(&[(NODE, &[2])], 0).expect("lists that are not drawn from");
            }
            let all = sampler(&store.snapshot(), &[-1], replace);
            all.sample(&[(NODE, &[0, 1])], 0).expect("nothing is drawn");
        }
    }
}

#[test]
fn edges_without_weights_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &lists(50, 10), 4096, false);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let made = |fanouts: &[i64]| {
        let fanouts = Fanouts::uniform(fanouts, 1).expect("fanouts");
        let spec = SampleSpec::new(fanouts, Method::Weighted { replace: false }, 1);
        Sampler::new(store.snapshot(), spec, Vec::new())
    };
    let error = made(&[-1, 3]).err().expect("refused").to_string();
    assert!(error.contains("edges (node, likes, node) have no weights"), "{error}");
    made(&[-1, 0]).expect("nothing is drawn by weight");
}

/// Counts over many streams of what `which` says of the draws from one list.
fn count(weights: &[f32], fanout: i64, replace: bool, which: &mut dyn FnMut(&[usize])) {
    let list: Vec<(u64, f32)> = (0..).zip(weights.iter().copied()).collect();
    let mut lists = vec![Vec::new(); weights.len()];
    lists[0] = list;
    let dir = tempfile::tempdir().expect("directory");
    build(dir.path(), &lists, 4096, true);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let sampler = in_memory(&sampler(&store.snapshot(), &[fanout], replace));
    for stream in 0..STREAMS {
        let batch = sampler.sample(&[(NODE, &[0])], stream).expect("samples");
        let sources = taken(&batch, 0).into_iter().map(|(source, _)| source as usize);
        which(&sources.collect::<Vec<_>>());
    }
}

const STREAMS: u64 = 20_000;

/// The p-value of counts of events that exclude each other, given their probabilities.
fn p_value(counts: &[u64], shares: &[f64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let terms = counts.iter().zip(shares).filter(|(_, share)| **share > 0.0);
    let square = |(count, share): (&u64, &f64)| {
        let expected = total as f64 * share;
        (*count as f64 - expected).powi(2) / expected
    };
    let freedom = terms.clone().count() - 1;
    chi_square_p(terms.map(square).sum(), freedom as f64)
}

#[test]
fn draws_are_in_proportion_to_weights_by_chi_square() {
    let mut values: Vec<f64> = Vec::new();
    let weights: Vec<f32> =
        (0..90).map(|at| [0.0, 0.5, 1.0, 3.25][at % 4] + at as f32 / 40.0).collect();
    let total: f32 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| f64::from(weight / total)).collect();
    // The first of the draws without replacement, and each of those with it.
    let mut first = vec![0; weights.len()];
    count(&weights, 5, false, &mut |drawn| first[drawn[0]] += 1);
    values.push(p_value(&first, &shares));
    let mut each = vec![vec![0; weights.len()]; 4];
    count(&weights, 4, true, &mut |drawn| {
        each.iter_mut().zip(drawn).for_each(|(counts, at)| counts[*at] += 1);
    });
    values.extend(each.iter().map(|counts| p_value(counts, &shares)));
    // Draws of one list are independent where entries may come again.
    let mut pairs = vec![0; 16];
    count(&[1.0, 2.0, 3.0, 4.0], 2, true, &mut |drawn| pairs[drawn[0] * 4 + drawn[1]] += 1);
    let of_pair = |pair: usize| ((pair / 4 + 1) * (pair % 4 + 1)) as f64 / 100.0;
    values.push(p_value(&pairs, &(0..16).map(of_pair).collect::<Vec<_>>()));
    // Without replacement, ordered triples of a short list beside all of them enumerated.
    let weights = [0.5_f32, 1.0, 4.0, 2.0, 0.0];
    let of_triple = |triple: usize| -> f64 {
        let (mut left, mut share) = (7.5, 1.0);
        let drawn = [triple / 25, triple / 5 % 5, triple % 5];
        for (at, position) in drawn.into_iter().enumerate() {
            let weight = f64::from(weights[position]);
            share *= if drawn[..at].contains(&position) { 0.0 } else { weight / left };
            left -= weight;
        }
        share
    };
    let shares: Vec<f64> = (0..125).map(of_triple).collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let mut triples = vec![0; 125];
    count(&weights, 3, false, &mut |drawn| triples[drawn[0] * 25 + drawn[1] * 5 + drawn[2]] += 1);
    values.push(p_value(&triples, &shares));
    assert!(triples.iter().zip(&shares).all(|(count, share)| *count == 0 || *share > 0.0));
    let (tests, smallest) = (values.len(), values.iter().copied().fold(1.0, f64::min));
    println!(
        "figure: {{\"id\":\"G2\",\"what\":\"chi-square of weighted\",\"tried\":{tests},\
         \"failed\":0,\"smallest_p\":{smallest:.4},\"seed\":{SEED}}}"
    );
    assert!(smallest > 1e-3 / tests as f64, "{values:?}, seed {SEED}");
}
