//! LABOR takes the entries whose sources have small numbers, of all destinations alike.

use std::sync::Arc;

use crate::common::{
    AUTHORS, EDGE_TYPES, Graph, Numbers, PAPERS, build_every_kind, chi_square_p, open,
};
use ng_io::BackendChoice;
use ng_sample::{Engine, Fanouts, Method, MiniBatch, SampleSpec, Sampler};
use ng_store::Snapshot;
use ng_types::{EdgeTypeId, NodeTypeId, SourceKey};

const SEED: u64 = 404;

fn labor(fanouts: Fanouts, dependent: u32) -> SampleSpec {
    SampleSpec { method: Method::Labor { dependent }, ..SampleSpec::uniform(fanouts, SEED) }
}

fn sampler(snapshot: &Arc<Snapshot>, spec: SampleSpec) -> Sampler {
    Sampler::new(Arc::clone(snapshot), spec, Vec::new()).expect("sampler").without_held_topologies()
}

/// The same with the edge types in memory for which `chosen` has a bit.
fn in_memory(paged: &Sampler, chosen: u64) -> Sampler {
    let snapshot = paged.snapshot();
    let load = |index: usize| {
        let edge_type = EdgeTypeId(index as u16);
        (chosen >> index & 1 == 1).then(|| snapshot.load_topology(edge_type).expect("loads"))
    };
    let loaded = (0..snapshot.catalog().edge_types.len()).map(load).collect();
    paged.clone().with_resident(loaded).expect("fits")
}

/// Where expanded destinations of each type end, by the nodes that each hop added.
fn expanded(batch: &MiniBatch, node_type: usize) -> usize {
    let per_hop = &batch.nodes[node_type].per_hop;
    per_hop[..per_hop.len() - 1].iter().sum()
}

#[test]
fn every_destination_takes_the_entries_with_small_numbers_and_no_others() {
    let graph = Graph::new(21);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let (fanout, stream, dependent) = (5_u64, 11, 3);
    let fanouts = Fanouts::uniform(&[fanout as i64; 2], EDGE_TYPES.len()).expect("fanouts");
    let sampler = sampler(&store.snapshot(), labor(fanouts, dependent));
    // Hubs among them, whose lists are longer than what is read together.
    let seeds: Vec<u64> = (0..PAPERS).step_by(97).chain(30..60).collect();
    let batch = sampler.sample(&[(NodeTypeId(1), &seeds)], stream).expect("samples");
    let mut lists = 0;
    for (edge_type, (from, to)) in EDGE_TYPES.into_iter().enumerate() {
        let key = SourceKey::new(SEED, stream / u64::from(dependent), NodeTypeId(from));
        let (block, sources) = (&batch.edges[edge_type], &batch.nodes[usize::from(from)].ids);
        let destinations = &batch.nodes[usize::from(to)].ids;
        for (number, id) in destinations.iter().take(expanded(&batch, usize::from(to))).enumerate()
        {
            let list = &graph.lists[edge_type][*id as usize];
            let taken = |(source, _): &&(u64, u64)| {
                let number = u128::from(key.number(*source));
                list.len() as u64 <= fanout
                    || number < (u128::from(fanout) << 32) / list.len() as u128
            };
            let expected: Vec<u64> = list.iter().filter(taken).map(|entry| entry.0).collect();
            let edges = block.cols.iter().zip(&block.rows);
            let found: Vec<u64> = edges
                .filter(|(col, _)| **col == number as i64)
                .map(|(_, row)| sources[*row as usize] as u64)
                .collect();
            assert_eq!(found, expected, "edge type {edge_type}, node {id}");
            lists += 1;
        }
    }
    assert!(lists > 100);
}

#[test]
fn batches_are_the_same_from_memory_and_from_pages() {
    // Sources of the last type take 5 bytes in the second store.
    for nodes in [[700, 300, 5000], [700, 300, 1 << 33]] {
        let dir = tempfile::tempdir().expect("temporary directory");
        build_every_kind(dir.path(), nodes);
        let store = open(dir.path(), 256 << 20, BackendChoice::Auto);
        let mut numbers = Numbers(29, 0);
        let same = |hops: &[i64]| vec![hops.to_vec(); 6];
        let mixed = vec![vec![3, 0], vec![0, 4], vec![-1, 2], vec![2, -1], vec![0, 0], vec![60, 1]];
        for fanouts in [same(&[15, 10]), same(&[4000]), same(&[1, 1, 1]), same(&[]), mixed] {
            let fanouts = Fanouts::new(fanouts).expect("fanouts");
            let paged = sampler(&store.snapshot(), labor(fanouts, 1));
            let others = [0b11_1111, 0b01_0101, 0b10_1010].map(|chosen| in_memory(&paged, chosen));
            let streaming = paged.clone().with_engine(Engine::Streaming);
            for stream in 0..2 {
                let hubs = (0..nodes[0]).step_by(53);
                let zero: Vec<u64> = (0..20).map(|_| numbers.next(nodes[0])).chain(hubs).collect();
                let one: Vec<u64> = [0, 5, 0, 7, 5].into_iter().chain(10..20).collect();
                let seeds = [(NodeTypeId(1), &one[..]), (NodeTypeId(0), &zero)];
                let expected = paged.sample(&seeds, stream).expect("from pages");
                for other in others.iter().chain([&streaming]) {
                    assert!(other.sample(&seeds, stream).expect("samples") == expected);
                }
                let nobody = others[0].sample(&[], stream).expect("samples");
                assert!(nobody == paged.sample(&[], stream).expect("samples"));
            }
        }
    }
}

#[test]
fn sources_are_taken_equally_often_and_independently_by_chi_square() {
    const STREAMS: u64 = 4000;
    const FANOUT: u64 = 30;
    // All papers around one, and a third of them around another.
    let mut lists = vec![vec![Vec::new(); PAPERS as usize]; EDGE_TYPES.len()];
    lists[2].truncate(AUTHORS as usize);
    let degrees = [PAPERS, PAPERS / 3];
    for (destination, degree) in degrees.into_iter().enumerate() {
        let base = destination as u64 * PAPERS;
        lists[0][destination] = (0..degree).map(|source| (source, base + source)).collect();
    }
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph { lists }.build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[FANOUT as i64], EDGE_TYPES.len()).expect("fanouts");
    let sampler = in_memory(&sampler(&store.snapshot(), labor(fanouts, 1)), 1);
    let mut singles = degrees.map(|degree| vec![0_u64; degree as usize]);
    let mut pairs = degrees.map(|degree| vec![0_u64; degree as usize / 2]);
    for stream in 0..STREAMS {
        let batch = sampler.sample(&[(NodeTypeId(1), &[0, 1])], stream).expect("samples");
        let mut taken = degrees.map(|degree| vec![false; degree as usize]);
        for (row, col) in batch.edges[0].rows.iter().zip(&batch.edges[0].cols) {
            taken[*col as usize][batch.nodes[1].ids[*row as usize] as usize] = true;
        }
        for (at, taken) in taken.iter().enumerate() {
            let halves = taken.iter().zip(&taken[taken.len() / 2..]);
            singles[at].iter_mut().zip(taken).for_each(|(count, is)| *count += u64::from(*is));
            pairs[at].iter_mut().zip(halves).for_each(|(n, (a, b))| *n += u64::from(*a && *b));
        }
        // Whoever is taken by the longer list is taken by the shorter one that has it.
        assert!(taken[0].iter().zip(&taken[1]).all(|(long, short)| !long || *short));
    }
    let mut smallest: f64 = 1.0;
    for (degree, (singles, pairs)) in degrees.iter().zip(singles.iter().zip(&pairs)) {
        let share = FANOUT as f64 / *degree as f64;
        for (counts, share) in [(singles, share), (pairs, share * share)] {
            let expected = STREAMS as f64 * share;
            let square = |count: &u64| (*count as f64 - expected).powi(2);
            let statistic = counts.iter().map(square).sum::<f64>() / (expected * (1.0 - share));
            smallest = smallest.min(chi_square_p(statistic, counts.len() as f64));
        }
    }
    println!(
        "figure: {{\"id\":\"G2\",\"what\":\"chi-square of labor\",\"tried\":4,\"failed\":0,\
         \"smallest_p\":{smallest:.4},\"seed\":{SEED}}}"
    );
    assert!(smallest > 1e-3 / 4.0, "smallest p {smallest} of 4 tests, seed {SEED}");
}

#[test]
fn dependent_batches_choose_alike_and_all_have_fewer_nodes_than_uniform_ones() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(22).build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[6], EDGE_TYPES.len()).expect("fanouts");
    let seeds: Vec<u64> = (20..400).collect();
    let seeds = [(NodeTypeId(1), &seeds[..])];
    let batches = |spec| -> Vec<MiniBatch> {
        let sampler = sampler(&store.snapshot(), spec);
        (0..8).map(|stream| sampler.sample(&seeds, stream).expect("samples")).collect()
    };
    let dependent = batches(labor(fanouts.clone(), 4));
    assert!(dependent[..4].iter().all(|batch| *batch == dependent[0]));
    assert!(dependent[4..].iter().all(|batch| *batch == dependent[4]));
    assert!(dependent[0] != dependent[4]);
    let alone = batches(labor(fanouts.clone(), 1));
    assert!(alone[0] == dependent[0] && alone[1] == dependent[4], "groups are numbered");
    assert!(alone.windows(2).all(|two| two[0] != two[1]));
    let uniform = batches(SampleSpec::uniform(fanouts, SEED));
    let count = |batches: &[MiniBatch]| -> [usize; 2] {
        let sum = |of: fn(&MiniBatch) -> usize| batches.iter().map(of).sum();
        [sum(|b| b.nodes.iter().map(|n| n.ids.len()).sum()), sum(|b| b.edges[0].rows.len())]
    };
    let ([nodes, edges], [nodes_uniform, edges_uniform]) = (count(&alone), count(&uniform));
    assert!(nodes < nodes_uniform, "{nodes} nodes, uniform draws {nodes_uniform}");
    let share = edges as f64 / edges_uniform as f64;
    assert!((0.95..1.05).contains(&share), "{edges} edges, uniform draws {edges_uniform}");
}

#[test]
fn what_labor_cannot_do_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    Graph::new(23).build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[6], EDGE_TYPES.len()).expect("fanouts");
    let refused = |spec| {
        let made = Sampler::new(store.snapshot(), spec, Vec::new());
        made.err().expect("refused").to_string()
    };
    let text = refused(labor(fanouts, 0));
    assert!(text.contains("expected 1 or more"), "{text}");
}
