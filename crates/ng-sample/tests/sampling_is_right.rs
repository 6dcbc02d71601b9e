//! G2: samples equal a plain reference, every edge exists, and draws are uniform.

use crate::common;
use crate::common::{Graph, PAPERS, chi_square_p, features, open, row};
use ng_io::BackendChoice;
use ng_sample::{ColumnSpec, Fanouts, Method, MiniBatch, SampleSpec, Sampler};
use ng_types::{DrawKey, Dtype, EdgeTypeId, NodeTypeId};

fn sampler(dir: &std::path::Path, fanouts: &[i64], replace: bool, seed: u64) -> Sampler {
    let store = open(dir, 64 << 20, BackendChoice::Pread);
    let fanouts = Fanouts::uniform(fanouts, common::EDGE_TYPES.len()).expect("fanouts");
    let method = Method::Uniform { replace };
    let spec = SampleSpec { method, ..SampleSpec::uniform(fanouts, seed) };
    Sampler::new(store.snapshot(), spec, features()).expect("sampler").without_held_topologies()
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
fn scaled_rows_come_as_what_was_asked_for() {
    let graph = Graph::new(3);
    let dir = tempfile::tempdir().expect("temporary directory");
    graph.build(dir.path(), 4096);
    let store = open(dir.path(), 64 << 20, BackendChoice::Auto);
    let fanouts = Fanouts::uniform(&[4], common::EDGE_TYPES.len()).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 5);
    let tensor = common::scaled()[1];
    let wanted = [None, Some(Dtype::I8), Some(Dtype::F16), Some(Dtype::Bf16)];
    let column = |tensor, dtype| ColumnSpec { dtype, ..ColumnSpec::from(tensor) };
    let mut columns: Vec<_> = wanted.into_iter().map(|dtype| column(tensor, dtype)).collect();
    // Rows that are wider on disk than in the batch.
    columns.push(column(common::features()[1], Some(Dtype::F16)));
    let sampler = Sampler::with_columns(store.snapshot(), spec.clone(), &columns)
        .expect("sampler")
        .without_held_topologies();
    let batch = sampler.sample(&[(NodeTypeId(1), &[3, 700, 8])], 2).expect("batch");
    let dtypes: Vec<Dtype> = batch.columns.iter().map(|column| column.dtype).collect();
    assert_eq!(dtypes, [Dtype::F32, Dtype::I8, Dtype::F16, Dtype::Bf16, Dtype::F16]);
    let ids = &batch.nodes[1].ids;
    let stored: Vec<u8> = ids.iter().flat_map(|id| common::steps(*id as u64)).collect();
    let values = |stored: &[u8]| -> Vec<u8> {
        let rows = stored.chunks(common::ROW).flat_map(|row| row.iter().zip(common::scales()));
        rows.flat_map(|(step, scale)| (f32::from(*step as i8) * scale).to_le_bytes()).collect()
    };
    assert_eq!(batch.columns[0].bytes.as_slice(), values(&stored));
    assert_eq!(batch.columns[1].bytes.as_slice(), stored);
    for column in &batch.columns[2..] {
        assert_eq!(column.bytes.as_slice().len(), ids.len() * common::ROW * 2);
    }
    let third = &batch.columns[4].bytes.as_slice()[2 * (2 * common::ROW)..][..2];
    assert_eq!(third, [0x40, 0x48], "8.5 in f16");
    let ints = [column(tensor, Some(Dtype::I32))];
    let refused = Sampler::with_columns(store.snapshot(), spec, &ints).err().expect("refused");
    assert!(refused.to_string().contains("stored as i8 cannot be read as i32"), "{refused}");
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
