//! Orders of rows are what they say, are worth what they say, and leave batches as they are.

use std::path::Path;

use crate::common::one_type::{self, Edges, Rows, number};
use ng_sample::{
    Batches, By, Fanouts, Reorganization, ReorganizeError, ReorganizeReport, SampleSpec, Sampler,
    reorganize,
};
use ng_store::{OpenOptions, Owner, Store, TensorRef, verify};
use ng_types::{Dtype, NodeTypeId};

const NODES: u64 = 6_000;
const GROUP: u64 = 30;
const NODE: NodeTypeId = NodeTypeId(0);
const X: TensorRef = TensorRef { owner: Owner::Node(NODE), index: 0 };

/// The place of a node among the groups: ids say nothing about it.
fn place(node: u64) -> u64 {
    node * 3701 % NODES
}

/// Nodes of one group are neighbours; every tenth edge comes from one of few hubs.
fn build(dir: &Path) {
    std::fs::create_dir(dir).expect("made");
    let mut members: Vec<u64> = (0..NODES).collect();
    members.sort_unstable_by_key(|node| place(*node));
    let list = |destination| {
        let first = place(destination) / GROUP * GROUP;
        let source = |at: u64| {
            let draw = number(2, destination * 16 + at);
            if at == 0 { draw % 20 * 131 } else { members[(first + draw % GROUP) as usize] }
        };
        (0..10).map(source).collect()
    };
    one_type::build(dir, NODES, Edges::Nothing, &list, &[Rows::new("x", Dtype::F32, &[256])]);
}

fn options(memory: u64) -> OpenOptions {
    OpenOptions { memory: Some(memory), ..OpenOptions::default() }
}

fn wanted(by: By) -> Reorganization {
    let fanouts = Fanouts::uniform(&[5, 5], 1).expect("fanouts");
    let batches = Batches { node_type: NODE, seeds: None, batch_size: 20, fanouts };
    Reorganization { by, batches, counted_batches: 32, dry_run: false }
}

fn run(path: &Path, wanted: &Reorganization) -> ReorganizeReport {
    let mut phases = Vec::new();
    let report = reorganize(path, &options(48 << 20), wanted, &mut |phase, done, total| {
        assert!(done <= total, "{phase}: {done} of {total}");
        phases.push(phase);
        true
    });
    phases.dedup();
    let last = if wanted.dry_run { "count pages" } else { "rewrite" };
    assert_eq!(phases.last(), Some(&last));
    report.expect("done")
}

fn batches(path: &Path) -> Vec<ng_sample::MiniBatch> {
    let store = Store::open(path, &options(64 << 20)).expect("opens");
    let fanouts = Fanouts::uniform(&[5, 5], 1).expect("fanouts");
    let spec = SampleSpec::uniform(fanouts, 3);
    let sampler = Sampler::new(store.snapshot(), spec, vec![X]).expect("sampler");
    let seeds = |index: u64| (0..20).map(move |at| number(4, index * 20 + at) % NODES);
    let seeds = |index: u64| seeds(index).collect::<Vec<u64>>();
    (0..10).map(|i| sampler.sample(&[(NODE, &seeds(i))], i).expect("batch")).collect()
}

/// The nodes in the order of their rows.
fn nodes(path: &Path) -> Vec<u64> {
    let store = Store::open(path, &options(64 << 20)).expect("opens");
    let nodes = store.snapshot().load_nodes_of_rows(NODE).expect("reads").expect("ordered");
    (0..NODES).map(|row| nodes.row(row)).collect()
}

#[test]
fn every_order_leaves_batches_as_they_are_and_touches_fewer_pages() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("graph.ng");
    build(&path);
    let expected = batches(&path);
    let trace: Vec<u64> =
        expected.iter().flat_map(|b| &b.nodes[0].ids).map(|id| *id as u64).collect();
    let mut before = None;
    for by in [By::Heat, By::Visits(trace), By::Locality] {
        let report = run(&path, &wanted(by.clone()));
        let [pages] = report.pages.as_slice() else { panic!("{report:?}") };
        assert!(batches(&path) == expected, "{by:?}");
        let verified = verify(&path, &options(64 << 20), &mut |_, _| true).expect("opens");
        assert!(verified.is_ok(), "{verified:?}");
        // What one run leaves is what the next one finds.
        let found = before.replace(pages.pages[1]).unwrap_or(pages.pages[0]);
        assert!((found - pages.pages[0]).abs() < 1e-9, "{by:?} {pages:?}");
        if by == By::Locality {
            assert!(pages.pages[1] < 0.7 * pages.pages[0], "{pages:?}");
            assert!(pages.pages_together[1] < pages.pages_together[0], "{pages:?}");
        }
    }
}

#[test]
fn heat_is_how_often_batches_have_a_node_and_a_dry_run_changes_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("graph.ng");
    build(&path);
    let dry = Reorganization { dry_run: true, ..wanted(By::Heat) };
    let estimate = run(&path, &dry);
    assert!(
        !Store::open(&path, &options(64 << 20)).expect("opens").snapshot().catalog().node_types[0]
            .has_order()
    );
    let written = run(&path, &wanted(By::Heat));
    assert_eq!((&estimate.pages, estimate.space_bytes), (&written.pages, written.space_bytes));
    assert!(estimate.written.is_none() && written.written.is_some());
    let order = nodes(&path);
    let mut hubs: Vec<u64> = order[..20].to_vec();
    hubs.sort_unstable();
    assert_eq!(hubs, (0..20).map(|hub| hub * 131).collect::<Vec<u64>>());
    // Seeds of one group alone make their neighbourhood hot, and the rest comes by id.
    let seeds: Vec<u64> = (0..NODES).filter(|node| place(*node) < GROUP).collect();
    let mut some = wanted(By::Heat);
    some.batches.seeds = Some(seeds.clone());
    run(&path, &some);
    let order = nodes(&path);
    assert!(seeds.iter().all(|seed| order[..60].contains(seed)));
    assert!(order[30 + 20 + 20 * GROUP as usize..].is_sorted());
    let trace = vec![9, 5, 7, 7, 5, 7];
    run(&path, &wanted(By::Visits(trace)));
    assert_eq!(nodes(&path)[..5], [7, 5, 9, 0, 1]);
}

#[test]
fn what_does_not_fit_is_refused_and_a_stop_leaves_the_store() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("graph.ng");
    build(&path);
    let expected = batches(&path);
    let refused = |wanted: &Reorganization, memory| {
        reorganize(&path, &options(memory), wanted, &mut |_, _, _| true).expect_err("refused")
    };
    let small = refused(&wanted(By::Locality), 12 << 20);
    let ReorganizeError::Memory { minimum_bytes, .. } = small else { panic!("{small}") };
    assert!(small.to_string().contains("to order 6000 nodes"), "{small}");
    reorganize(
        &path,
        &options(minimum_bytes + (8 << 20)),
        &wanted(By::Locality),
        &mut |_, _, _| true,
    )
    .expect("enough");
    let mut none = wanted(By::Heat);
    none.batches.seeds = Some(Vec::new());
    assert!(matches!(refused(&none, 48 << 20), ReorganizeError::Spec(_)));
    let error = refused(&wanted(By::Visits(vec![NODES])), 48 << 20);
    assert!(error.to_string().contains("6000"), "{error}");
    for phase in ["heat", "locality", "count pages", "rewrite"] {
        let stopped =
            reorganize(&path, &options(48 << 20), &wanted(By::Locality), &mut |now, _, _| {
                now != phase
            });
        assert!(stopped.is_err(), "{phase}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "{phase}");
    }
    assert!(batches(&path) == expected);
}
