//! The estimate that is given first fits what the import then takes.

use crate::common::random_rows;
use ng_import::{EdgeTypeSpec, IdSlice, ImportOptions, Importer, PlannedEdges, estimate};

#[test]
fn the_estimate_is_near_what_is_used_and_temporary_data_stays_in_its_bound() {
    let directory = tempfile::tempdir().unwrap();
    let rows = random_rows(500_000, 40_000, 2);
    let nodes = Some(40_000);
    let between = || EdgeTypeSpec::between("node", "edge", "node");
    let specs = [
        between(),
        EdgeTypeSpec { undirected: true, ..between() },
        EdgeTypeSpec { edge_ids: true, undirected: true, ..between() },
        EdgeTypeSpec { time: true, weight: true, reverse: true, ..between() },
        EdgeTypeSpec { weight: true, ..between() },
    ];
    for (number, spec) in specs.into_iter().enumerate() {
        let options = ImportOptions { memory: Some(8 << 20), ..ImportOptions::default() };
        let planned = PlannedEdges { spec: spec.clone(), rows: 500_000, num_nodes: nodes };
        let expected = estimate(&options, &[planned], 0).unwrap();
        let path = directory.path().join(format!("{number}.ng"));
        let mut import = Importer::new(&path, options).unwrap();
        import.node_type("node", nodes, false).unwrap();
        let edges = import.edge_type(spec.clone()).unwrap();
        let sources: Vec<u64> = rows.iter().map(|row| row.source).collect();
        let destinations: Vec<u64> = rows.iter().map(|row| row.destination).collect();
        let times: Vec<i64> = rows.iter().map(|row| row.time).collect();
        let weights: Vec<f32> = rows.iter().map(|row| row.weight).collect();
        let (sources, destinations) = (IdSlice::U64(&sources), IdSlice::U64(&destinations));
        let (times, weights) =
            (spec.time.then_some(&times[..]), spec.weight.then_some(&weights[..]));
        import.push_edges(edges, sources, destinations, None, times, weights).unwrap();
        let report = import.finish(&mut |_| true).unwrap();
        let near = |estimated: u64, used: u64| {
            let ratio = estimated as f64 / used as f64;
            assert!((0.7..1.5).contains(&ratio), "{spec:?}: {estimated} for {used}");
        };
        near(expected.disk_bytes, report.disk_bytes);
        near(expected.temp_bytes, report.temp_bytes);
        // Where sorting is slow more of the runs are shorter, and each ends with a part of a block.
        let bound = expected.entries_bytes * 5 / 2 + (256 << 10);
        assert!(report.temp_bytes <= bound, "{spec:?}: {} of {bound}", report.temp_bytes);
    }
}
