//! What requests are foreseen to cost: what the engine foresees, and never more than the bound.
#![allow(clippy::expect_used)]

mod help;

use std::sync::Arc;

use help::calls::until;
use help::{common, folder};
use ng_infer::run::Devices;
use ng_rpc::v1;
use ng_server::guard::cost::cost_of;
use ng_server::{Graph, Model, Targets};

const NODES: u64 = 300;
/// Of a row: 256 columns of f32.
const ROW: u64 = 1024;
/// Nodes of a sample of one seed, at most.
const SAMPLE: u64 = 1 + 25 + 250;

fn opened(folder: &std::path::Path, prepare: &str) -> Model {
    let graph = Graph::open("small", folder, "small.ng".as_ref(), (Some(64 << 20), 2));
    let (fanouts, prepare) = (vec![25, 10], prepare.to_owned());
    let request = v1::ModelRegisterRequest { fanouts, prepare, ..Default::default() };
    let (graph, how) = (Arc::new(graph.expect("store")), (Devices::with_cpu().into(), 1, None));
    Model::open(("mean", 1), graph, &request, common::model(), how).expect("model")
}

#[test]
fn a_request_costs_rows_that_are_read_once_each_and_less_for_those_in_memory() {
    let folder = folder(NODES);
    let nodes = |count: u64| Targets::Nodes((0..count).collect());
    let pairs = |count: u64| Targets::Edges((0..count).collect(), (0..count).collect());
    for (prepare, row) in [("metadata", ROW), ("all", ROW / 16)] {
        let model = opened(folder.path(), prepare);
        let mut bounds = 0;
        until(|| {
            let cost = cost_of(&model, &nodes(64));
            let is_ready = model.engine.prepared().is_some();
            if !is_ready {
                assert_eq!(cost, 64 * SAMPLE * ROW, "nothing is known yet");
                bounds += 1;
            }
            is_ready
        });
        println!("{prepare}: the bound was asked for {bounds} times");
        assert_eq!(model.engine.prepared(), Some(Ok(())));
        // Samples of 64 seeds have every node, once.
        assert_eq!(cost_of(&model, &nodes(64)), NODES * row, "{prepare}");
        assert_eq!(cost_of(&model, &pairs(32)), NODES * row, "{prepare}");
        assert_eq!(cost_of(&model, &nodes(1)), SAMPLE * row, "{prepare}");
        // No node of a graph is known before it is read.
        assert_eq!(cost_of(&model, &Targets::Graphs(vec![1])), 64 * ROW, "{prepare}");
        assert!(cost_of(&model, &nodes(0)) <= 1);
    }
}
