//! How rows are read is decided by what the consumer gains from it, and again while batches are
//! made. Each decision can be heard once, and the batches are the same whatever is decided.

use std::time::Duration;

use crate::common;
use crate::common::one_type::{self, Edges, Rows, number, open};
use ng_sample::{
    Chosen, Decided, Fanouts, MiniBatch, Note, Pipeline, Reading, SampleSpec, Sampler, Settings,
    Way,
};
use ng_store::{DiskCosts, Owner, Store, TensorRef};
use ng_types::{Dtype, NodeTypeId};

const NODES: u64 = 20_000;
const BATCH: u64 = 50;
const NODE: NodeTypeId = NodeTypeId(0);

/// More than a batch takes of the disks below by a scan. These are so slow that the work of this
/// machine beside the test does not count.
const SLOW: Duration = Duration::from_millis(450);
const FAST: Duration = Duration::ZERO;

/// Whether samples or rows are written follows the policy.
type Kind = (Reading, bool);

const SCAN: Kind = (Reading::Scan, false);
const TWO_PHASES: Kind = (Reading::Scan, true);
const DISTRIBUTION: Kind = (Reading::Distribute, true);

/// A store of rows of `width` elements, how it is read, and the memory for that.
struct Case {
    dir: tempfile::TempDir,
    memory: u64,
    settings: Settings,
    expected: Vec<MiniBatch>,
}

impl Case {
    fn new((width, degree): (u64, u64), memory: u64, batches: u64, settings: Settings) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let list = |destination| {
            let source = |at: u64| number(2, destination * 512 + at) % NODES;
            (0..number(1, destination) % degree).map(source).collect()
        };
        let tensors = [Rows::new("x", Dtype::F32, &[width])];
        one_type::build(dir.path(), NODES, Edges::Nothing, &list, &tensors);
        let plain = sampler(&open(dir.path(), 1 << 30));
        // Comparing every batch would make a slow consumer of each.
        let sample = |at| plain.sample(&[(NODE, &seeds(at))], at).expect("batch");
        let expected = (0..batches).step_by(16).map(sample).collect();
        Self { dir, memory: memory << 20, settings, expected }
    }

    /// Rows that are worth distributing in little memory.
    fn wide(batches: u64) -> Self {
        let costs = DiskCosts { reads_per_s: 200.0, bytes_per_s: 1e8 };
        Self::new((1500, 12), 64, batches, settings(Reading::Auto, costs))
    }

    /// A topology whose memory makes windows much longer.
    fn with_long_lists(batches: u64) -> Self {
        let costs = DiskCosts { reads_per_s: 20.0, bytes_per_s: 1e7 };
        Self::new((256, 300), 42, batches, settings(Reading::Scan, costs))
    }

    /// Takes batches of `jobs`, and keeps each as long as `keep` says by its number and by what was
    /// decided until then, if it does not end; returns what was decided.
    fn run(&self, jobs: u64, keep: impl Fn(u64, &[Decided]) -> Option<Duration>) -> Vec<Decided> {
        let store = open(self.dir.path(), self.memory);
        let settings =
            Settings { spill_dir: Some(self.dir.path().into()), ..self.settings.clone() };
        let jobs = common::jobs(NODE, jobs, seeds);
        let mut made = Pipeline::new(sampler(&store), jobs, Way::Ahead(settings)).expect("starts");
        let mut heard = Vec::new();
        let mut at = 0;
        while let Some(batch) = made.next() {
            let batch = batch.expect("batch");
            if at % 16 == 0
                && let Some(expected) = self.expected.get(at / 16)
            {
                assert!(batch == *expected, "batch {at}");
            }
            let Some(time) = keep(at as u64, &heard) else { break };
            std::thread::sleep(time);
            drop(batch);
            while let Some(Note::Decided(decided)) = made.take_note() {
                println!("batch {at}: {decided:?}");
                heard.push(*decided);
            }
            at += 1;
        }
        let now = made.chosen().expect("chosen");
        assert_eq!(heard.last().map(kind), Some(how(&now)));
        assert!(store.budget().peak_bytes() <= self.memory);
        heard
    }

    /// What is decided for a loop that keeps each batch for so long.
    fn first(&self, time: Duration) -> Decided {
        let heard = self.run(60, |_, heard| heard.is_empty().then_some(time));
        assert_eq!(heard.len(), 1);
        heard[0].clone()
    }
}

fn settings(reading: Reading, costs: DiskCosts) -> Settings {
    Settings {
        reading,
        threads: Some(2),
        costs: Some(costs),
        temporary_writes: Some(99.0),
        ..Settings::default()
    }
}

fn sampler(store: &Store) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(&[6, 4], 1).expect("fanouts"), 11);
    let tensors = vec![TensorRef { owner: Owner::Node(NODE), index: 0 }];
    Sampler::new(store.snapshot(), spec, tensors).expect("sampler")
}

fn seeds(index: u64) -> Vec<u64> {
    (0..BATCH).map(|i| number(5, index * BATCH + i) % NODES).collect()
}

fn how(chosen: &Chosen) -> Kind {
    (chosen.reading, chosen.sampled_first.is_some())
}

fn kind(decided: &Decided) -> Kind {
    how(&decided.chosen)
}

#[test]
fn a_slow_loop_gets_no_distribution_unless_it_asks_for_one() {
    let mut case = Case::wide(12);
    let fast = case.first(FAST);
    assert_eq!(kind(&fast), DISTRIBUTION);
    let writes = fast.writes.expect("writes");
    assert!(writes.epoch_bytes as f64 >= 60.0 * fast.chosen.write_bytes, "{writes:?}");
    assert_eq!((writes.directory.as_path(), writes.is_asked), (case.dir.path(), false));
    let slow = case.first(SLOW);
    assert_eq!((kind(&slow), slow.writes), (SCAN, None));
    assert!(slow.others.iter().any(|other| how(other) == DISTRIBUTION), "{:?}", slow.others);
    assert!(slow.measured.consumer.is_some_and(|seconds| seconds >= SLOW.as_secs_f64()));
    case.settings.reading = Reading::Distribute;
    case.settings.temporary_writes = None;
    let asked = case.first(SLOW);
    assert_eq!(kind(&asked), DISTRIBUTION);
    assert!(asked.writes.is_some_and(|writes| writes.is_asked));
}

#[test]
fn a_slow_loop_keeps_the_topology_in_memory_unless_it_asks_for_two_phases() {
    let mut case = Case::with_long_lists(12);
    let fast = case.first(FAST);
    assert_eq!(kind(&fast), TWO_PHASES);
    assert!(fast.writes.is_some_and(|writes| writes.epoch_bytes > 0));
    let slow = case.first(SLOW);
    assert_eq!((kind(&slow), slow.writes), (SCAN, None));
    case.settings.two_phase = Some(true);
    assert_eq!(kind(&case.first(SLOW)), TWO_PHASES);
}

#[test]
fn a_distribution_ends_with_its_stretch_once_the_consumer_gains_too_little() {
    let mut case = Case::wide(300);
    case.settings.window = Some(70);
    let heard = case.run(300, |at, heard| match heard.len() {
        // The pace is that of the last batches, and a stretch has 70.
        0..=1 => Some(if at < 62 { FAST } else { SLOW }),
        _ => (at < 220).then_some(FAST),
    });
    let kinds: Vec<Kind> = heard.iter().map(kind).collect();
    assert_eq!(kinds[..2], [DISTRIBUTION, SCAN]);
    let before = heard[1].before.as_ref().expect("one that was in force");
    assert_eq!(how(before), DISTRIBUTION);
    assert!(heard[1].measured.reading.is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn the_topology_goes_and_stays_as_the_loop_becomes_fast_and_slow() {
    let mut case = Case::with_long_lists(900);
    case.settings.window = Some(30);
    case.settings.spill_bytes = Some(3 << 20);
    let heard = case.run(900, |at, heard| match heard.len() {
        0 => Some(SLOW),
        1 => Some(FAST),
        2 => Some(SLOW / 20),
        _ => (at < 800).then_some(SLOW / 200),
    });
    let kinds: Vec<Kind> = heard.iter().map(kind).collect();
    assert_eq!(kinds, [SCAN, TWO_PHASES, SCAN]);
}
