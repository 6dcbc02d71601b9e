//! Induced subgraphs are those of the raw lists.
#![allow(clippy::expect_used)]

mod common;

use ng_io::BackendChoice;
use ng_sample::{SampleError, induced};
use ng_types::EdgeTypeId;

#[test]
fn edges_between_nodes_are_those_of_the_raw_lists_in_order_of_destination() {
    let graph = common::Graph::new(11);
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path();
    graph.build(path, 4096);
    let store = common::open(path, 64 << 20, BackendChoice::Auto);
    let snapshot = store.snapshot();
    // Hubs (multiples of 97) among them, and no order.
    let nodes: Vec<u64> = (0..common::PAPERS).filter(|n| n % 3 == 0).map(|n| n * 7 % 900).collect();
    let mut wanted = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for (source, edge_id) in &graph.lists[0][*node as usize] {
            if let Some(number) = nodes.iter().position(|n| n == source) {
                wanted.push((number as i64, at as i64, *edge_id as i64));
            }
        }
    }
    let found = induced(&snapshot, EdgeTypeId(0), &nodes).expect("induced");
    let got: Vec<_> = found.sources.iter().zip(&found.destinations).collect();
    assert_eq!(got.len(), wanted.len());
    assert!(got.iter().zip(&wanted).all(|((s, d), w)| (**s, **d) == (w.0, w.1)));
    let ids: Vec<i64> = wanted.iter().map(|w| w.2).collect();
    assert!(found.edge_ids == ids || found.edge_ids.is_empty());
    assert!(found.held.bytes() >= 16 * wanted.len() as u64);
    let none = induced(&snapshot, EdgeTypeId(0), &[]).expect("induced");
    assert_eq!((none.sources.len(), none.held.bytes()), (0, 0));
}

#[test]
fn what_induces_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path();
    common::Graph::new(12).build(path, 4096);
    let store = common::open(path, 64 << 20, BackendChoice::Auto);
    let refused = |edge_type, nodes: &[u64]| {
        let error = induced(&store.snapshot(), EdgeTypeId(edge_type), nodes).expect_err("refused");
        error.to_string()
    };
    assert!(refused(0, &[4, 5, 4]).contains("node 4 is given twice"));
    assert!(refused(1, &[4]).contains("joins two"));
    let far = induced(&store.snapshot(), EdgeTypeId(0), &[1 << 40]).expect_err("refused");
    assert!(matches!(far, SampleError::Read(_)));
}
