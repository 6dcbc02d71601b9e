//! G2: samples equal a plain reference, every edge exists, and draws are uniform.

#![allow(clippy::expect_used)]

mod common;

use common::{Graph, PAPERS, features, open, row};
use ng_io::BackendChoice;
use ng_sample::{Fanouts, MiniBatch, SampleSpec, Sampler};
use ng_types::{DrawKey, EdgeTypeId, NodeTypeId};

fn sampler(dir: &std::path::Path, fanouts: &[i64], replace: bool, seed: u64) -> Sampler {
    let store = open(dir, 64 << 20, BackendChoice::Pread);
    let fanouts = Fanouts::uniform(fanouts, common::EDGE_TYPES.len()).expect("fanouts");
    let spec = SampleSpec { fanouts, replace, seed };
    Sampler::new(store.snapshot(), spec, features()).expect("sampler")
}

fn assert_equals_reference(batch: &MiniBatch, reference: &common::Reference) {
    for (node_type, block) in batch.nodes.iter().enumerate() {
        let ids: Vec<u64> = block.ids.iter().map(|id| *id as u64).collect();
        assert_eq!(ids, reference.nodes[node_type]);
        assert_eq!(block.per_hop.iter().sum::<usize>(), ids.len());
        let rows: Vec<u8> = ids.iter().flat_map(|id| row(node_type as u16, *id)).collect();
        assert!(
            batch.columns[node_type].bytes.as_slice() == rows,
            "features of node type {node_type}"
        );
    }
    for (edge_type, block) in batch.edges.iter().enumerate() {
        let (rows, cols, edge_ids) = &reference.edges[edge_type];
        assert_eq!((&block.rows, &block.cols), (rows, cols), "edge type {edge_type}");
        // Edge type 2 keeps no edge ids.
        assert_eq!(&block.edge_ids, if edge_type == 2 { &[][..] } else { &edge_ids[..] });
        assert_eq!(block.per_hop.iter().sum::<usize>(), rows.len());
    }
}

#[test]
fn samples_equal_a_plain_reference_with_and_without_replacement_and_in_full() {
    let graph = Graph::new(2);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let mut compared = 0;
    for (fanouts, replace) in
        [(&[4, 3][..], false), (&[4, 3], true), (&[-1], false), (&[2, 0, 2], false), (&[], false)]
    {
        let sampler = sampler(dir.path(), fanouts, replace, 21);
        for stream in 0..6 {
            let seeds: Vec<u64> = (0..24).map(|i| (i * 37 + stream * 11) % PAPERS).collect();
            let batch = sampler.sample(&[(NodeTypeId(1), &seeds)], stream).expect("sample");
            assert_equals_reference(&batch, &graph.sample(&seeds, fanouts, replace, 21, stream));
            compared += 1;
        }
    }
    println!("figure: {{\"id\":\"G2\",\"what\":\"reference\",\"tried\":{compared},\"failed\":0}}");
}

#[test]
fn a_repeated_seed_keeps_its_place_and_is_expanded_each_time() {
    let graph = Graph::new(3);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let sampler = sampler(dir.path(), &[5], false, 1);
    let batch = sampler.sample(&[(NodeTypeId(1), &[50, 60, 50])], 0).expect("sample");
    assert_eq!(batch.nodes[1].ids[..3], [50, 60, 50]);
    let of = |number: i64| -> Vec<i64> {
        let pairs = batch.edges[0].cols.iter().zip(&batch.edges[0].rows);
        pairs.filter(|(col, _)| **col == number).map(|(_, row)| *row).collect()
    };
    assert!(!of(0).is_empty());
    assert_eq!(of(0), of(2));
}

#[test]
fn a_seed_out_of_range_is_named() {
    let graph = Graph::new(3);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let sampler = sampler(dir.path(), &[5], false, 1);
    let error = sampler.sample(&[(NodeTypeId(1), &[PAPERS])], 0).expect_err("out of range");
    assert!(error.to_string().contains(&PAPERS.to_string()), "{error}");
}

/// The upper tail of chi-square, by the cube-root normal approximation (Wilson and Hilferty 1931).
fn chi_square_p(statistic: f64, freedom: f64) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    let z = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    // Abramowitz and Stegun 26.2.17, one-sided.
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_53
            + t * (-0.356_563_782
                + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * poly;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

#[test]
fn draws_are_uniform_by_chi_square() {
    const STREAMS: u64 = 20_000;
    let mut smallest: f64 = 1.0;
    let mut tests = 0;
    for (degree, count, replace) in
        [(7_u64, 3, false), (7, 3, true), (40, 10, false), (40, 10, true), (300, 15, false)]
    {
        // Each position overall, and the position of each single draw.
        let mut overall = vec![0_u64; degree as usize];
        let mut first = vec![0_u64; degree as usize];
        let mut last = vec![0_u64; degree as usize];
        for stream in 0..STREAMS {
            let mut positions = Vec::new();
            let draws = DrawKey::new(5, stream).draws(EdgeTypeId(1), 1234);
            if replace {
                draws.with_replacement(degree, count, |at| positions.push(at));
            } else {
                draws.without_replacement(degree, count, |at| positions.push(at));
            }
            positions.iter().for_each(|p| overall[*p as usize] += 1);
            first[positions[0] as usize] += 1;
            last[positions[count as usize - 1] as usize] += 1;
        }
        for counts in [overall, first, last] {
            let total: u64 = counts.iter().sum();
            let expected = total as f64 / degree as f64;
            let statistic: f64 =
                counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
            // Without replacement the counts of one sample are less spread than independent ones.
            let scale = if !replace && total > STREAMS {
                (degree - 1) as f64 / (degree - u64::from(count)) as f64
            } else {
                1.0
            };
            smallest = smallest.min(chi_square_p(statistic * scale, (degree - 1) as f64));
            tests += 1;
        }
    }
    println!(
        "figure: {{\"id\":\"G2\",\"what\":\"chi-square\",\"tried\":{tests},\"failed\":0,\
         \"smallest_p\":{smallest:.4},\"seed\":5}}"
    );
    assert!(smallest > 1e-3 / f64::from(tests), "smallest p {smallest} of {tests} tests, seed 5");
}
