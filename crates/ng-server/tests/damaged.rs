//! Files of one graph that are damaged: an error that names graph and page, for requests about it
//! alone.
#![allow(clippy::expect_used)]

mod help;

use std::path::Path;

use help::{client, common, folder, register, run, started};
use ng_rpc::{Code, Status, v1};
use ng_server::Config;

/// Overwrites some bytes of each page of the rows of a store but the first.
fn rot(store: &Path) {
    let files = std::fs::read_dir(store).expect("listed").map(|file| file.expect("a file").path());
    let rows = files.max_by_key(|path| path.metadata().expect("a size").len()).expect("rows");
    let mut bytes = std::fs::read(&rows).expect("read");
    bytes.chunks_mut(4096).skip(1).for_each(|page| page[100..110].fill(0xee));
    std::fs::write(&rows, bytes).expect("written");
}

#[test]
fn damage_is_an_error_that_names_graph_and_page_and_others_are_answered() {
    let folder = folder(3_000);
    let other = folder.path().join("other.ng");
    std::fs::create_dir(&other).expect("folder");
    common::build(&other, 3_000, 8);
    let serving = started(folder.path(), |config| Config { cache: 0, ..config });
    let good = client(&serving, 0);
    register(&good);
    rot(&other);
    let of = |graph: &str, node: u64| {
        let nodes = v1::Nodes { ids: vec![node], ..v1::Nodes::default() };
        let (graph, tensor) = (graph.to_owned(), "x".to_owned());
        good.get_embed(v1::GetEmbedRequest {
            graph,
            nodes: Some(nodes),
            tensor,
            ..v1::GetEmbedRequest::default()
        })
    };
    let mut damaged = 0;
    for node in (0..3_000).step_by(100) {
        of("small", node).expect("rows of a graph that is whole");
        good.run(run(&[node])).expect("answers of a graph that is whole");
        if let Err(status) = of("other", node) {
            check(&status);
            damaged += 1;
        }
    }
    assert!(damaged > 20, "{damaged} of 30 requests met the damage");
    serving.end();
}

fn check(status: &Status) {
    assert_eq!(status.code(), Code::DataLoss, "{status:?}");
    let told = status.message();
    assert!(told.contains("graph \"other\"") && told.contains("page "), "{told}");
}
