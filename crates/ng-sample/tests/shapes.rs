//! Batches of every shape are the same from pages and from memory, made one by one or far ahead of
//! reading, and kept on disk meanwhile.

use std::sync::Arc;

use crate::common::{build_every_kind_with_rows, open};
use ng_io::BackendChoice;
use ng_sample::{
    Budgets, EdgeSet, Fanouts, Inputs, Jobs, LinkSpec, Method, MiniBatch, Negatives, Pipeline,
    Reading, Roots, RootsOf, SampleSpec, Sampler, SeedPlan, Settings, Shape, Spread, Temporal,
    TimesOf, Visits, Walks, Way,
};
use ng_store::Store;
use ng_types::{EdgeTypeId, NodeTypeId};

const NODE: NodeTypeId = NodeTypeId(0);
/// The edge type that joins nodes of type 0 with themselves, with ids, times and weights.
const OWN: EdgeTypeId = EdgeTypeId(0);
const BATCHES: u64 = 10;

/// A kind of batches: what is sampled, around what, and how many seeds a batch has.
struct Kind {
    name: &'static str,
    spec: SampleSpec,
    inputs: Inputs,
    batch_size: u64,
}

fn spec(fanouts: &[i64], shape: Shape) -> SampleSpec {
    let fanouts = Fanouts::uniform(fanouts, 6).expect("fanouts");
    SampleSpec { shape, ..SampleSpec::uniform(fanouts, 21) }
}

fn nodes() -> Inputs {
    Inputs::listed(NODE, (0..60).chain(0..20).collect())
}

fn times() -> Vec<i64> {
    (0..80).map(|seed| seed % 70 - 5).collect()
}

fn induced() -> EdgeSet {
    EdgeSet::Induced(vec![true, false, true, true, false, false])
}

fn kinds(store: &Store) -> Vec<Kind> {
    let snapshot = store.snapshot();
    let disjoint = Shape { is_disjoint: true, ..Shape::default() };
    let temporal = |takes_last| Shape {
        time: Some(Temporal { times: TimesOf::Edges, takes_last }),
        ..disjoint.clone()
    };
    let around = |name, spec| Kind { name, spec, inputs: nodes(), batch_size: 8 };
    let timed = |name, spec| Kind { inputs: nodes().with_times(times()), ..around(name, spec) };
    let method = |method, shape| SampleSpec { method, ..spec(&[4, 3], shape) };
    let both = vec![Some(OWN), None, None, None, None, None];
    let both = Shape { edges: EdgeSet::BothWays(both), ..Shape::default() };
    let all = Shape { edges: induced(), ..Shape::default() };
    let drawn = |name, how, spread: Spread| {
        let roots = Roots::new(&snapshot, how, 12, OWN).expect("roots");
        let shape = Shape { spread, edges: induced(), ..Shape::default() };
        let spec = SampleSpec { roots: Some(roots), ..spec(&[], shape) };
        Kind { name, spec, inputs: Inputs::drawn(), batch_size: 1 }
    };
    let walks = Walks { path: vec![OWN], length: 3, bias: None };
    let biased = Walks { bias: Some((0.5, 2.0)), ..walks.clone() };
    let (path, neighbors) = (vec![OWN], vec![4, 2]);
    let visits = Visits { path, walks: 6, length: 3, restart: 0.3, neighbors, held_out: None };
    let grown =
        |name, spread, edges| around(name, spec(&[], Shape { spread, edges, ..Shape::default() }));
    let budgets = Budgets { nodes: vec![vec![9, 4]; 3], edge_types: vec![true; 6] };
    vec![
        around("disjoint", spec(&[4, 3], disjoint.clone())),
        around("disjoint, all", spec(&[-1], disjoint.clone())),
        around("disjoint, weighted", {
            let mut spec = method(Method::Weighted { replace: true }, disjoint.clone());
            spec.fanouts = Fanouts::new(
                [[4, 3], [0, 0], [0, 0], [4, 3], [0, 0], [0, 0]].map(Vec::from).to_vec(),
            )
            .expect("fanouts");
            spec
        }),
        around("disjoint, labor", method(Method::Labor { dependent: 1 }, disjoint.clone())),
        around("disjoint, induced", spec(&[4, 3], Shape { edges: induced(), ..disjoint.clone() })),
        timed("by the times of edges", spec(&[4, 3], temporal(false))),
        timed("the last edges", spec(&[4, 3], temporal(true))),
        timed("all edges until then", spec(&[-1], temporal(true))),
        timed("with replacement", method(Method::Uniform { replace: true }, temporal(false))),
        around("induced", spec(&[4, 3], all)),
        around("both ways", spec(&[4, 3], both)),
        drawn("roots by degree", RootsOf::Degrees, Spread::Hops),
        drawn("roots and walks", RootsOf::Nodes, Spread::Walks(walks)),
        drawn("roots and biased walks", RootsOf::Nodes, Spread::Walks(biased)),
        grown("visits", Spread::Visits(visits), EdgeSet::Drawn),
        grown("budgets", Spread::Budgets(budgets), induced()),
    ]
}

/// Those whose seeds are links.
fn kinds_of_links(store: &Store) -> Vec<Kind> {
    let snapshot = store.snapshot();
    let links = |negatives, by_number| {
        Some(LinkSpec::new(&snapshot, OWN, negatives, by_number).expect("links"))
    };
    let both = vec![Some(OWN), None, None, None, None, None];
    let both = Shape { edges: EdgeSet::BothWays(both), ..Shape::default() };
    let time = Some(Temporal { times: TimesOf::Edges, takes_last: true });
    let timed = Shape { is_disjoint: true, time, ..Shape::default() };
    let pairs = |count: u64| {
        let sources = (0..count).map(|at| at * 7 % 60).collect();
        let destinations = (0..count).map(|at| at * 11 % 60).collect();
        Inputs::links(sources, destinations)
    };
    let link_times = (0..80).map(|at| 20 + at % 90).collect();
    let binary = SampleSpec {
        links: links(Negatives::Binary(1.5), false),
        ..spec(&[4, 3], Shape::default())
    };
    let triplet = SampleSpec { links: links(Negatives::Triplet(2), true), ..spec(&[4], both) };
    let timed_links =
        SampleSpec { links: links(Negatives::Triplet(1), false), ..spec(&[4, 3], timed) };
    let of_links = |name, spec, inputs| Kind { name, spec, inputs, batch_size: 8 };
    vec![
        of_links("links and pairs that are none", binary, pairs(80)),
        of_links("edges and other destinations", triplet, Inputs::edges(None)),
        of_links("links with times", timed_links, pairs(80).with_times(link_times)),
    ]
}

fn jobs(kind: &Kind, store: &Store) -> Jobs {
    let count = match &kind.spec.links {
        Some(links) => links.places.as_ref().map_or(80, |places| places.num_edges()),
        None if kind.spec.roots.is_some() => BATCHES,
        None => 80,
    };
    let plan = SeedPlan { shuffle: true, seed: 4, ..SeedPlan::in_order(count, kind.batch_size) };
    let mut again = kinds(store).into_iter().chain(kinds_of_links(store));
    let again = again.find(|other| other.name == kind.name);
    Jobs::new(Arc::new(again.expect("the same").inputs), plan, (2, 0), false)
}

fn sampler(kind: &Kind, store: &Store) -> Sampler {
    let catalog = store.snapshot();
    let x = catalog.catalog().find_tensor(ng_store::Owner::Node(NODE), "x");
    let made = Sampler::new(store.snapshot(), kind.spec.clone(), x.into_iter().collect());
    made.expect(kind.name)
}

#[test]
fn batches_do_not_depend_on_where_lists_are_or_on_how_they_are_made() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind_with_rows(dir.path(), [60, 40, 50], 3000);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    for kind in kinds(&store).into_iter().chain(kinds_of_links(&store)) {
        let plain = sampler(&kind, &store).without_held_topologies();
        let all = jobs(&kind, &store);
        let make = |sampler: &Sampler, at| sampler.make(&all.job(at)).expect(kind.name);
        let expected: Vec<MiniBatch> = (0..BATCHES).map(|at| make(&plain, at)).collect();
        assert!(expected.iter().any(|batch| batch.nodes[0].ids.len() > 8), "{}", kind.name);
        let held = sampler(&kind, &store).with_topology_within(u64::MAX).expect("fits");
        for (at, expected) in (0..).zip(&expected) {
            assert!(make(&held, at) == *expected, "{}, batch {at} from memory", kind.name);
        }
        for (name, way) in ways(dir.path()) {
            let name = format!("{}, {name}", kind.name);
            let made = Pipeline::new(sampler(&kind, &store), jobs(&kind, &store), way);
            let made = made.expect(&name);
            for (at, (made, expected)) in made.zip(&expected).enumerate() {
                assert!(made.expect(&name) == *expected, "{name}, batch {at}");
            }
        }
    }
}

fn ways(dir: &std::path::Path) -> Vec<(&'static str, Way)> {
    let ahead = |reading, two_phase| {
        Way::Ahead(Settings {
            reading,
            two_phase,
            window: Some(3),
            threads: Some(2),
            spill_dir: Some(dir.to_path_buf()),
            ..Settings::default()
        })
    };
    vec![
        ("one by one", Way::Each { prefetch: 3, threads: 2 }),
        ("scan", ahead(Reading::Scan, Some(false))),
        ("scan in two phases", ahead(Reading::Scan, Some(true))),
        ("window", ahead(Reading::Window, None)),
        ("distribute", ahead(Reading::Distribute, None)),
    ]
}

#[test]
fn another_stream_or_seed_gives_another_batch() {
    let dir = tempfile::tempdir().expect("directory");
    build_every_kind_with_rows(dir.path(), [60, 40, 50], 3000);
    let store = open(dir.path(), 64 << 20, BackendChoice::Pread);
    for kind in kinds(&store).into_iter().chain(kinds_of_links(&store)) {
        let all = jobs(&kind, &store);
        let job = all.job(0);
        let first = sampler(&kind, &store).make(&job).expect(kind.name);
        let takes_last = kind.spec.shape.time.as_ref().is_some_and(|time| time.takes_last);
        let takes_all = kind.spec.fanouts.hops() == 1 && kind.spec.links.is_none();
        if (takes_last && kind.spec.links.is_none()) || takes_all {
            continue;
        }
        let other = ng_sample::Job { stream: job.stream + 1, ..job.clone() };
        assert!(sampler(&kind, &store).make(&other).expect(kind.name) != first, "{}", kind.name);
        let spec = SampleSpec { seed: 22, ..kind.spec.clone() };
        let seeded = Kind { spec, ..kind };
        assert!(sampler(&seeded, &store).make(&job).expect(seeded.name) != first);
    }
}
