//! Links as seeds: every edge has a number, negative links are no edges and are drawn uniformly,
//! and the ends of links are found again in the batch.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{build_every_kind, chi_square_p, one_type, open};
use ng_io::BackendChoice;
use ng_sample::{
    Fanouts, Inputs, LinkSpec, MiniBatch, Negatives, SampleError, SampleSpec, Sampler, Shape,
    Temporal, TimesOf,
};
use ng_store::{Expansion, Store};
use ng_types::EdgeTypeId;

/// From nodes of type 1 to nodes of type 0, with times and without ids.
const CROSS: EdgeTypeId = EdgeTypeId(1);

fn sampler(store: &Store, links: LinkSpec, shape: Shape) -> Sampler {
    let types = store.snapshot().catalog().edge_types.len();
    let fanouts = Fanouts::uniform(&[2], types).expect("fanouts");
    let spec = SampleSpec { shape, links: Some(links), ..SampleSpec::uniform(fanouts, 5) };
    Sampler::new(store.snapshot(), spec, Vec::new()).expect("sampler")
}

fn links(store: &Store, edge_type: EdgeTypeId, negatives: Negatives) -> LinkSpec {
    LinkSpec::new(&store.snapshot(), edge_type, negatives, true).expect("links")
}

/// Source, destination and time of all edges, list by list.
fn edges(store: &Store, edge_type: EdgeTypeId) -> Vec<(u64, u64, i64)> {
    let snapshot = store.snapshot();
    let meta = &snapshot.catalog().edge_types[usize::from(edge_type.0)];
    let count = snapshot.catalog().node_types[usize::from(meta.destination.0)].num_nodes;
    let (nodes, mut found): (Vec<u64>, _) = ((0..count).collect(), Expansion::default());
    snapshot.neighbors(edge_type, &nodes, &mut found).expect("lists");
    let mut all = Vec::new();
    for (node, ends) in nodes.into_iter().zip(found.offsets.windows(2)) {
        for at in ends[0]..ends[1] {
            all.push((found.sources[at], node, found.times.get(at).copied().unwrap_or(0)));
        }
    }
    all
}

/// The ends of the links of a batch: sources, then destinations, as ids.
fn ends(batch: &MiniBatch, [from, to]: [usize; 2], sources: usize) -> (Vec<u64>, Vec<u64>) {
    let (first, second) = batch.extras.targets.split_at(sources);
    let ids = |node_type: usize, numbers: &[u32]| {
        numbers.iter().map(|at| batch.nodes[node_type].ids[*at as usize] as u64).collect()
    };
    (ids(from, first), ids(to, second))
}

#[test]
fn every_edge_is_found_by_its_number_and_joined_ends_are_there_once() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    for (edge_type, types) in [(EdgeTypeId(0), [0, 0]), (CROSS, [1, 0]), (EdgeTypeId(3), [0, 1])] {
        let spec = links(&store, edge_type, Negatives::None);
        let all = edges(&store, edge_type);
        assert_eq!(spec.places.as_ref().expect("places").num_edges(), all.len() as u64);
        let sampler = sampler(&store, spec, Shape::default());
        for first in (0..all.len()).step_by(97) {
            let numbers: Vec<u64> =
                (first..all.len().min(first + 97)).map(|at| at as u64).collect();
            let wanted: Vec<_> = numbers.iter().map(|at| all[*at as usize]).collect();
            let inputs = Inputs::edges(Some(numbers));
            let batch = sampler.make(&inputs.whole(1)).expect("batch");
            let (sources, destinations) = ends(&batch, types, wanted.len());
            let found: Vec<_> = sources.into_iter().zip(destinations).collect();
            assert_eq!(found, wanted.iter().map(|e| (e.0, e.1)).collect::<Vec<_>>());
            for nodes in &batch.nodes {
                let once: BTreeSet<&i64> = nodes.ids.iter().collect();
                assert_eq!(once.len(), nodes.ids.len(), "all ends in one subgraph");
            }
        }
        let beyond = Inputs::edges(Some(vec![all.len() as u64]));
        let error = sampler.make(&beyond.whole(0)).expect_err("no such edge");
        assert!(matches!(error, SampleError::Spec(_)), "{error}");
    }
}

#[test]
fn negative_links_are_no_edges_and_are_drawn_uniformly_from_all_that_are_none() {
    let dir = tempfile::tempdir().expect("directory");
    // Most pairs are edges, so that a negative one is often drawn anew.
    let list =
        |node: u64| (0..12).filter(|source| !(source * node + source).is_multiple_of(3)).collect();
    one_type::build(dir.path(), 12, one_type::Edges::Nothing, &list, &[]);
    let store = one_type::open(dir.path(), 64 << 20);
    let known: BTreeSet<(u64, u64)> =
        edges(&store, EdgeTypeId(0)).into_iter().map(|e| (e.0, e.1)).collect();
    let none = |(s, d): &(u64, u64)| s != d && !known.contains(&(*s, *d));
    let free: Vec<(u64, u64)> =
        (0..12).flat_map(|s| (0..12).map(move |d| (s, d))).filter(none).collect();
    let spec = links(&store, EdgeTypeId(0), Negatives::Binary(2.5));
    let binary = sampler(&store, spec, Shape::default());
    let mut counts: BTreeMap<(u64, u64), u64> = free.iter().map(|pair| (*pair, 0)).collect();
    for stream in 0..3000 {
        let numbers: Vec<u64> = (0..4).map(|at| (stream * 3 + at) % known.len() as u64).collect();
        let batch = binary.make(&Inputs::edges(Some(numbers)).whole(stream)).expect("batch");
        assert_eq!(batch.extras.targets.len(), 2 * (4 + 10), "2.5 for each link");
        let (sources, destinations) = ends(&batch, [0, 0], 14);
        for pair in sources.into_iter().zip(destinations).skip(4) {
            *counts.get_mut(&pair).unwrap_or_else(|| panic!("{pair:?} is an edge")) += 1;
        }
    }
    let expected = 30_000.0 / free.len() as f64;
    let statistic: f64 =
        counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let p = chi_square_p(statistic, free.len() as f64 - 1.0);
    println!("{} pairs, p = {p:.3}", free.len());
    assert!(p > 1e-4, "p = {p}");

    let spec = links(&store, EdgeTypeId(0), Negatives::Triplet(3));
    let triplet = sampler(&store, spec, Shape::default());
    let (source, destination) = *known.first().expect("an edge");
    let mut counts: BTreeMap<u64, u64> =
        free.iter().filter(|pair| pair.0 == source).map(|pair| (pair.1, 0)).collect();
    for stream in 0..3000 {
        let inputs = Inputs::links(vec![source, source], vec![destination, destination]);
        let batch = triplet.make(&inputs.whole(stream)).expect("batch");
        let (_, destinations) = ends(&batch, [0, 0], 2);
        assert_eq!(destinations.len(), 2 + 6);
        for end in &destinations[2..] {
            *counts.get_mut(end).unwrap_or_else(|| panic!("({source}, {end}) is an edge")) += 1;
        }
    }
    let expected = 18_000.0 / counts.len() as f64;
    let statistic: f64 =
        counts.values().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    let p = chi_square_p(statistic, counts.len() as f64 - 1.0);
    println!("{} destinations, p = {p:.3}", counts.len());
    assert!(p > 1e-4, "p = {p}");
}

#[test]
fn ranks_draw_the_negative_links_of_their_own_part() {
    let dir = tempfile::tempdir().expect("directory");
    one_type::build(dir.path(), 90, one_type::Edges::Nothing, &|node| vec![node / 2], &[]);
    let store = one_type::open(dir.path(), 64 << 20);
    let spec = links(&store, EdgeTypeId(0), Negatives::Triplet(3));
    let triplet = sampler(&store, spec, Shape::default());
    let negatives = |numbers: Vec<u64>, first: u64| -> Vec<Vec<u64>> {
        let count = numbers.len();
        let job = Inputs::edges(Some(numbers)).part(9, first, 6);
        let (_, all) = ends(&triplet.make(&job).expect("batch"), [0, 0], count);
        (0..count)
            .map(|link| all[count..].iter().skip(link).step_by(count).copied().collect())
            .collect()
    };
    let whole = negatives((10..16).collect(), 0);
    let parts = [negatives((10..13).collect(), 0), negatives((13..16).collect(), 3)].concat();
    assert_eq!(whole, parts);
    assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 6, "{whole:?}");
}

#[test]
fn a_graph_without_negative_links_is_an_error() {
    let dir = tempfile::tempdir().expect("directory");
    let list = |_: u64| (0..9).collect();
    one_type::build(dir.path(), 9, one_type::Edges::Nothing, &list, &[]);
    let store = one_type::open(dir.path(), 64 << 20);
    for negatives in [Negatives::Binary(1.0), Negatives::Triplet(1)] {
        let sampler = sampler(&store, links(&store, EdgeTypeId(0), negatives), Shape::default());
        let error = sampler.make(&Inputs::edges(Some(vec![3])).whole(0)).expect_err("complete");
        assert!(matches!(error, SampleError::NoNegative { .. }), "{error}");
    }
    for negatives in [Negatives::Binary(0.0), Negatives::Binary(f64::NAN), Negatives::Triplet(0)] {
        let fanouts = Fanouts::uniform(&[2], 1).expect("fanouts");
        let links = Some(links(&store, EdgeTypeId(0), negatives));
        let spec = SampleSpec { links, ..SampleSpec::uniform(fanouts, 5) };
        assert!(Sampler::new(store.snapshot(), spec, Vec::new()).is_err(), "{negatives:?}");
    }
}

#[test]
fn an_edge_is_not_in_its_own_sample_and_negative_links_may_become_edges_later() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind(dir.path(), [60, 40, 50]);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    let all = edges(&store, CROSS);
    let time = Some(Temporal { times: TimesOf::Edges, takes_last: true });
    let shape = Shape { is_disjoint: true, time, ..Shape::default() };
    let sampler = sampler(&store, links(&store, CROSS, Negatives::Triplet(2)), shape);
    let first: BTreeMap<(u64, u64), i64> = all
        .iter()
        .rev()
        .map(|(source, destination, time)| ((*source, *destination), *time))
        .collect();
    let mut later = 0;
    for number in (0..all.len() as u64).step_by(13) {
        let batch = sampler.make(&Inputs::edges(Some(vec![number])).whole(number)).expect("batch");
        let (source, destination, time) = all[number as usize];
        assert_eq!(batch.extras.times, [time - 1; 3], "just before the edge");
        // Edges of this type alone have times that count, and lead to nodes of type 0.
        let own = &batch.edges[usize::from(CROSS.0)];
        assert!(own.times.iter().all(|found| *found < time));
        let (sources, destinations) = ends(&batch, [1, 0], 1);
        assert_eq!((sources[0], destinations[0]), (source, destination));
        for negative in &destinations[1..] {
            let known = first.get(&(source, *negative));
            assert!(known.is_none_or(|known| *known > time - 1), "edge {number}");
            later += u64::from(known.is_some());
        }
    }
    assert!(later > 0, "some negative links are edges later on");
}
