//! Many writers of one graph at a time.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Barrier;

use ng_rpc::v1;
use ng_store::{BuildOptions, EdgeTypeSpec, StoreBuilder};
use v1::change::Change as Kind;

use super::Graph;

fn build(path: &Path) {
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).expect("fresh");
    let node = builder.node_type("node", 100).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: true,
        has_time: false,
        has_weight: false,
    };
    let edge = builder.edge_type(spec).expect("type");
    let part = builder.topology(edge).expect("topology").finish().expect("whole");
    builder.add(part).expect("added");
    builder.commit().expect("published");
}

#[test]
fn commits_of_many_writers_share_syncs_and_none_is_lost() {
    let folder = tempfile::tempdir().expect("made");
    let path = folder.path().join("g.ng");
    ng_io::ensure_folder(&path).expect("made");
    build(&path);
    let limits = (Some(64 << 20), 1);
    let graph = Graph::open("g", folder.path(), Path::new("g.ng"), limits).expect("opens");
    let (writers, commits) = (16, 20);
    let barrier = Barrier::new(writers);
    let node = |id: usize| Some(v1::NodeRef { node: Some(v1::node_ref::Node::Id(id as u64)) });
    let heard = graph.commits();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (graph, barrier, node) = (&graph, &barrier, &node);
            scope.spawn(move || {
                barrier.wait();
                for commit in 0..commits {
                    let edge = v1::AddEdge {
                        source: node(writer),
                        destination: node(commit),
                        ..v1::AddEdge::default()
                    };
                    let change = v1::Change { change: Some(Kind::AddEdge(edge)) };
                    let key = [writer as u8, commit as u8];
                    let applied = graph.apply(&[change], (&key, None)).expect("applied");
                    assert!(!applied.repeated && applied.results[0].edge.is_some());
                }
            });
        }
    });
    let (total, stats) = ((writers * commits) as u64, graph.store.update_stats().expect("writes"));
    println!("{} commits, {} syncs", stats.commits, stats.syncs);
    assert_eq!((stats.commits, graph.store.snapshot().lsn()), (total, total + 1));
    assert_eq!(*heard.borrow(), total + 1);
    // Each alone would take one.
    assert!(stats.syncs < total, "{} syncs", stats.syncs);
    let ids = (0..commits as u64).collect();
    let request = v1::GetNeighborsRequest { ids, ..v1::GetNeighborsRequest::default() };
    let lists = graph.neighbors(&request, &|_| Ok(())).expect("lists");
    assert_eq!(lists.degrees, vec![writers as u64; commits]);
    let mut edges = lists.edge_ids;
    edges.sort_unstable();
    assert_eq!(edges, (0..total).collect::<Vec<_>>());
}
