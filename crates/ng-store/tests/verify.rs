//! A sound store has no problems, whatever its shape and however small the budget.
#![allow(clippy::expect_used)]

mod common;

use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{OpenOptions, Owner, verify_on};
use ng_types::{EdgeTypeId, NodeTypeId};

#[test]
fn sound_stores_have_no_problems_and_progress_reaches_the_end() {
    for seed in 0..12 {
        let mut random = seeded(seed);
        let nodes = 1 + random.below(5_000);
        let page_bytes = 4096 << random.below(5);
        let mut model = Model::new(&[nodes, 100_000], page_bytes);
        let mut degrees = std::collections::BTreeMap::new();
        for _ in 0..nodes {
            let degree = if random.below(50) == 0 { random.below(9_000) } else { random.below(20) };
            degrees.insert(random.below(100_000), 1 + degree as usize);
        }
        let degrees: Vec<(u64, usize)> = degrees.into_iter().collect();
        let edges = ModelEdges {
            destination: 1,
            has_edge_ids: true,
            has_weight: seed % 2 == 0,
            ..ModelEdges::default()
        };
        model.edges(edges, &degrees, &mut random);
        model.edges(ModelEdges::default(), &[], &mut random);
        model.tensor(Owner::Node(NodeTypeId(0)), 1 + random.below(9_000) as usize, &mut random);
        model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
        model.names(0, &mut random);
        let memory = if seed % 3 == 0 { 4 << 20 } else { 64 << 20 };
        let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
        let mut last = (0, 0);
        let mut progress = |done, total| {
            assert!(done > last.0 && done <= total);
            last = (done, total);
            true
        };
        let report = verify_on(model.build(), &options, &mut progress).expect("opens");
        assert_eq!(report.problems, []);
        assert_eq!((last.0, report.blocks), (last.1, last.1));
    }
}
