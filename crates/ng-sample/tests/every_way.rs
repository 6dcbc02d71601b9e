//! Whatever way a pipeline makes its batches, and whether memory holds the topology or not, they
//! are the very batches that sampling one by one gives.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::one_type::{self, Edges, Rows, number, open};
use ng_io::BackendChoice;
use ng_sample::{
    EpochFile, EpochId, EpochWriter, Fanouts, Jobs, Method, MiniBatch, Pipeline, Reading,
    SampleError, SampleSpec, Sampler, SeedPlan, Settings, Source, Survey, Way,
};
use ng_store::{DirectFile, DirectOptions, DirectPlan, Owner, Store, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

const NODES: u64 = 20_000;
const NODE: NodeTypeId = NodeTypeId(0);
const TO: EdgeTypeId = EdgeTypeId(0);
/// Batches of an epoch, the last of which is short.
const STEPS: u64 = 12;
/// Some that end, and some that go on.
const FIRST: [((u64, u64), bool); 2] = [((2, 8), false), ((1, 7), true)];
const TAKEN: usize = 17;

/// Nodes with wide and narrow rows, and edges with ids, times, weights and narrow rows.
fn build(dir: &Path) {
    let tensors = [
        Rows::new("x", Dtype::F32, &[64]),
        Rows::new("y", Dtype::I64, &[]),
        Rows { of_edges: true, ..Rows::new("z", Dtype::I8, &[1]) },
    ];
    let list = |destination| {
        let source = |at: u64| number(2, destination * 512 + at) % NODES;
        (0..number(1, destination) % 264).map(source).collect()
    };
    one_type::build(dir, NODES, Edges::All, &list, &tensors);
}

const TENSORS: [TensorRef; 3] = [
    TensorRef { owner: Owner::Node(NODE), index: 1 },
    TensorRef { owner: Owner::Edge(TO), index: 0 },
    TensorRef { owner: Owner::Node(NODE), index: 0 },
];

const UNIFORM: Method = Method::Uniform { replace: false };

fn sampler(store: &Store, method: Method) -> Sampler {
    let fanouts: &[i64] = if method == Method::Induced { &[-1] } else { &[6, 4] };
    let spec = SampleSpec::uniform(Fanouts::uniform(fanouts, 1).expect("fanouts"), 11);
    let spec = SampleSpec { method, ..spec };
    Sampler::new(store.snapshot(), spec, TENSORS.to_vec()).expect("sampler")
}

/// Shuffled epochs from a batch on.
fn jobs(first: (u64, u64), goes_on: bool) -> Jobs {
    let seeds: Vec<u64> = (0..50 * STEPS - 9).map(|i| number(5, i) % NODES).collect();
    let jobs = Jobs::once(NODE, seeds, 50);
    Jobs { plan: SeedPlan { shuffle: true, seed: 3, ..jobs.plan }, first, goes_on, ..jobs }
}

fn settings(
    reading: Reading,
    two_phase: Option<bool>,
    window: Option<u64>,
    dir: &Path,
) -> Settings {
    // Room for some nine samples, so that there are several stretches.
    let (costs, spill_bytes, spill_dir) = (None, Some(400_000), Some(dir.into()));
    let (prefetch, threads) = (Some(2), Some(2));
    let temporary_writes = None;
    Settings {
        reading,
        window,
        prefetch,
        threads,
        costs,
        two_phase,
        temporary_writes,
        spill_dir,
        spill_bytes,
    }
}

/// The sampler of a case, from one of the store.
type With = Box<dyn Fn(Sampler) -> Sampler>;

/// What makes batches: its name, its sampler, and how.
type Case = (String, With, Way);

fn cases(dir: &Path) -> Vec<Case> {
    let each = || Way::Each { prefetch: 3, threads: 2 };
    let files = EpochFile::open_all(dir, &["1.epoch", "2.epoch"], BackendChoice::Pread);
    let files = files.expect("opens");
    let direct = dir.to_owned();
    let direct = move |sampler: Sampler| {
        let file = DirectFile::open(Arc::clone(sampler.snapshot()), &direct, "t.direct");
        sampler.with_direct(Arc::new(file.expect("opens"))).expect("fits")
    };
    let held = |sampler: Sampler| {
        let snapshot = Arc::clone(sampler.snapshot());
        if snapshot.hold(&[TO], &TENSORS, 0) {
            while !snapshot.holds(&[TO], &TENSORS) {
                std::thread::yield_now();
            }
        }
        sampler
    };
    let in_memory = |sampler: Sampler| sampler.with_topology_that_fits().expect("loads");
    let mut cases: Vec<Case> = vec![
        ("each".into(), Box::new(|sampler| sampler), each()),
        ("one".into(), Box::new(|sampler| sampler), Way::Each { prefetch: 1, threads: 1 }),
        ("each, in memory if it fits".into(), Box::new(in_memory), each()),
        ("each, held if it fits".into(), Box::new(held), each()),
        ("direct".into(), Box::new(direct), each()),
        ("replay".into(), Box::new(|sampler| sampler), Way::Replay { files, prefetch: 2 }),
    ];
    for (reading, name) in Reading::ALL {
        for two_phase in [None, Some(false), Some(true)] {
            for window in [None, Some(5)] {
                let ahead = Way::Ahead(settings(reading, two_phase, window, dir));
                let name = format!("{name}, two phases {two_phase:?}, window {window:?}");
                cases.push((name, Box::new(|sampler| sampler), ahead));
            }
        }
    }
    cases
}

/// Writes epochs 1 and 2, and the direct layout.
fn compile(store: &Store, method: Method, dir: &Path) {
    let options = DirectOptions::default();
    let plan = DirectPlan::new(store.snapshot(), dir, &options, &mut |_, _, _| true);
    plan.expect("plan").write(dir, "t", &mut |_, _, _| true).expect("written");
    let mut survey = Survey::new(sampler(store, method)).expect("survey");
    let of_epoch = |epoch| {
        let jobs = jobs((epoch, 0), false);
        (0..STEPS)
            .map(move |at| jobs.job(at))
            .map(|job| (job.nodes().expect("nodes").to_vec(), job.stream))
    };
    (1..3).for_each(|epoch| {
        survey.count(NODE, &of_epoch(epoch).collect::<Vec<_>>()).expect("counts");
    });
    let hot = Arc::new(survey.rows_within(1 << 20));
    let stored = sampler(store, method).storing(&hot).expect("stored");
    for epoch in 1..3 {
        let id = EpochId { key: [].into(), epoch, set: 1..3 };
        let name = format!("{epoch}.epoch");
        let writer = EpochWriter::create(store.snapshot(), dir, &name, id, Arc::clone(&hot));
        let mut writer = writer.expect("writer");
        for (seeds, stream) in of_epoch(epoch) {
            writer.push(&stored.sample(&[(NODE, &seeds)], stream).expect("batch")).expect("pushes");
        }
        writer.finish().expect("finished");
    }
}

/// Whether a look-ahead can be asked for this.
fn is_legal(plan: &Settings) -> bool {
    plan.reading != Reading::OnDemand
        && (plan.reading, plan.two_phase) != (Reading::Distribute, Some(false))
        && (plan.reading, plan.two_phase) != (Reading::Window, Some(true))
}

/// Makes the batches of a case and compares them.
fn check(
    (store, method): (&Store, Method),
    (with, way): (&With, Way),
    jobs: Jobs,
    fits: bool,
    expected: &[MiniBatch],
) {
    let (goes_on, memory) = (jobs.goes_on, store.budget().limit_bytes());
    let asked = if let Way::Ahead(plan) = &way { Some(plan.clone()) } else { None };
    let made = Pipeline::new(with(sampler(store, method)), jobs, way);
    assert_eq!(made.is_ok(), asked.as_ref().is_none_or(is_legal));
    let Ok(mut made) = made else { return };
    for (number, expected) in expected.iter().enumerate() {
        let batch = made.next().expect("one more").expect("batch");
        assert!(batch == *expected, "batch {number}");
    }
    assert!(goes_on || made.next().is_none());
    assert_eq!(made.chosen().is_some(), asked.is_some());
    let chosen = made.choose_within(Duration::from_secs(60)).expect("no error");
    if let (Some(chosen), Some(asked)) = (chosen, asked)
        && asked.reading != Reading::Auto
    {
        assert_eq!(chosen.reading, asked.reading);
        let is_first = asked.reading == Reading::Distribute
            || (asked.two_phase == Some(true) && fits && !asked.reading.is_naive());
        assert!(asked.two_phase.is_none() || chosen.sampled_first.is_some() == is_first);
    }
    drop(made);
    let peak = store.budget().peak_bytes();
    assert!(peak <= memory, "{peak} of {memory}");
}

/// The batches of plain sampling, of all [`FIRST`].
fn sampled(store: &Store, method: Method) -> [Vec<MiniBatch>; 2] {
    FIRST.map(|(first, goes_on)| {
        let (jobs, plain) =
            (jobs(first, goes_on), sampler(store, method).without_held_topologies());
        let jobs = (0..jobs.len().min(TAKEN as u64)).map(|at| jobs.job(at));
        jobs.map(|job| plain.make(&job).expect("batch")).collect()
    })
}

#[test]
fn every_way_gives_the_batches_of_plain_sampling() {
    let (dir, out) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    build(dir.path());
    let plain = open(dir.path(), 512 << 20);
    compile(&plain, UNIFORM, out.path());
    let expected = sampled(&plain, UNIFORM);
    assert_eq!(expected.each_ref().map(Vec::len), [STEPS as usize - 8, TAKEN]);
    let topology = plain.snapshot().resident_bytes(TO);
    for (memory, fits) in [(128 << 20, true), (56 << 20, false)] {
        assert!(if fits { topology < memory / 2 } else { topology > memory / 4 * 3 });
        for (expected, (first, goes_on)) in expected.iter().zip(FIRST) {
            for (name, with, way) in cases(out.path()) {
                // What the test prints if it fails ends with the case.
                println!("{name}, topology fits: {fits}, goes on: {goes_on}");
                let store = open(dir.path(), memory);
                check((&store, UNIFORM), (&with, way), jobs(first, goes_on), fits, expected);
            }
        }
    }
}

#[test]
fn every_method_is_served_by_what_the_table_says_and_refused_by_the_rest() {
    let dir = tempfile::tempdir().expect("dir");
    build(dir.path());
    let plain = open(dir.path(), 512 << 20);
    for method in [
        Method::Labor { dependent: 2 },
        Method::Weighted { replace: false },
        Method::Weighted { replace: true },
        Method::Induced,
    ] {
        assert!(method.works_with(Source::Pages) && method.works_with(Source::Memory));
        assert!(method.works_with(Source::Compiled));
        let out = tempfile::tempdir().expect("dir");
        compile(&plain, method, out.path());
        let expected = &sampled(&plain, method)[1];
        for (name, with, way) in cases(out.path()) {
            println!("{name}, {method:?}");
            if name == "direct" && !method.works_with(Source::Sections) {
                let file = DirectFile::open(plain.snapshot(), out.path(), "t.direct");
                let file = Arc::new(file.expect("opens"));
                let refused = sampler(&plain, method).with_direct(file).err().expect("refused");
                let named = format!("{} sampling needs", method.row().name);
                assert!(refused.to_string().contains(&named), "{refused}");
                continue;
            }
            let store = open(dir.path(), 128 << 20);
            let (first, goes_on) = FIRST[1];
            check((&store, method), (&with, way), jobs(first, goes_on), true, expected);
        }
    }
}

#[test]
fn a_plan_whose_numbers_do_not_fit_is_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    build(dir.path());
    let store = open(dir.path(), 56 << 20);
    let whole = jobs((0, 0), false);
    for plan in [
        SeedPlan { batch_size: 0, ..whole.plan },
        SeedPlan { rank: 1, ..whole.plan },
        SeedPlan { world_size: 3, ..whole.plan },
    ] {
        let way = Way::Each { prefetch: 1, threads: 1 };
        let jobs = Jobs { plan, ..whole.clone() };
        let refused = Pipeline::new(sampler(&store, UNIFORM), jobs, way).err().expect("refused");
        assert!(matches!(refused, SampleError::Spec(_)), "{refused}");
    }
}
