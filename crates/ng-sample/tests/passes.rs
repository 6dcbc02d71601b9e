//! Loaders of one store that take turns, as training and validation do: one pipeline makes the
//! batches of both, which are those that each would make by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::Numbers;
use crate::common::one_type::{self, Edges, Rows, open, skewed_list};
use ng_sample::{
    Fanouts, Inputs, Loader, MiniBatch, Reading, SampleSpec, Sampler, SeedPlan, Settings,
};
use ng_store::{Owner, Store, TensorRef};
use ng_types::{Dtype, NodeTypeId};

const NODES: u64 = 20_000;
const BATCH: u64 = 50;
const NODE: NodeTypeId = NodeTypeId(0);
const TRAIN: u64 = 70;

fn build(dir: &Path) {
    let tensors = [Rows::new("x", Dtype::F32, &[64]), Rows::new("y", Dtype::I64, &[])];
    one_type::build(dir, NODES, Edges::Nothing, &skewed_list(NODES), &tensors);
}

fn sampler(store: &Store, fanouts: &[i64], columns: u16) -> Sampler {
    let spec = SampleSpec::uniform(Fanouts::uniform(fanouts, 1).expect("fanouts"), 11);
    let tensor = |index| TensorRef { owner: Owner::Node(NODE), index };
    Sampler::new(store.snapshot(), spec, (0..columns).map(tensor).collect()).expect("sampler")
}

/// A loader with what its batches shall be.
struct User {
    loader: Arc<Loader>,
    sampled: Sampler,
    plain: Sampler,
    inputs: Arc<Inputs>,
    plan: SeedPlan,
}

impl User {
    /// A loader of `batches` batches from `store`, and the same from `plain` to compare with.
    fn new(
        (store, plain): (&Store, &Store),
        (first, batches): (u64, u64),
        shuffle: bool,
        (fanouts, columns): (&[i64], u16),
    ) -> Self {
        let nodes = (first..first + batches * BATCH).map(|place| place * 7 % NODES).collect();
        let inputs = Arc::new(Inputs::listed(NODE, nodes));
        let plan = SeedPlan { shuffle, ..SeedPlan::in_order(batches * BATCH, BATCH) };
        let (prefetch, threads) = (Some(2), Some(2));
        let settings =
            Settings { reading: Reading::Scan, prefetch, threads, ..Settings::default() };
        let sampled = sampler(store, fanouts, columns);
        let given = sampled.clone();
        let loader = Loader::new(given, Arc::clone(&inputs), plan, settings, None, true);
        let plain = sampler(plain, fanouts, columns);
        Self { loader: loader.expect("starts"), sampled, plain, inputs, plan }
    }

    fn expected(&self, epoch: u64, batch: u64) -> MiniBatch {
        let seeds = self.inputs.nodes(self.plan.places(epoch, batch..batch + 1));
        self.plain.sample(&[(NODE, &seeds)], self.plan.stream(epoch, batch)).expect("batch")
    }

    /// Takes the first `count` batches of an epoch, and compares them.
    fn take(&self, epoch: u64, count: u64) {
        self.take_doing(epoch, count, &mut |_| {});
    }

    /// The same; whether another loader's threads have read the rows.
    fn is_served(&self, epoch: u64, count: u64) -> bool {
        let read = || {
            let stages = self.sampled.worked_seconds();
            stages.iter().find(|(stage, _)| *stage == "read").expect("a stage").1
        };
        let before = read();
        self.take(epoch, count);
        read() == before
    }

    fn take_doing(&self, epoch: u64, count: u64, beside: &mut dyn FnMut(u64)) {
        let mut run = self.loader.run(epoch, 0);
        for batch in 0..count {
            beside(batch);
            let found = run.next_within(Duration::from_secs(60)).expect("in time").expect("one");
            let found = found.expect("batch");
            assert!(found == self.expected(epoch, batch), "epoch {epoch}, batch {batch}");
        }
        if count == self.plan.steps() {
            assert!(run.next_within(Duration::from_secs(60)).expect("in time").is_none());
        }
    }
}

const ALL: (&[i64], u16) = (&[6, 4], 2);

fn train_and_validation(store: &Store, plain: &Store) -> (User, User) {
    let train = User::new((store, plain), (0, TRAIN), true, ALL);
    (train, User::new((store, plain), (9_000, 12), false, ALL))
}

/// A store with little memory, and the same with enough.
fn stores(dir: &Path) -> (Store, Store) {
    build(dir);
    (open(dir, 24 << 20), open(dir, 512 << 20))
}

#[test]
fn a_validation_after_each_epoch_is_prepared_with_the_training() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (store, plain) = stores(dir.path());
    let (train, validation) = train_and_validation(&store, &plain);
    let mut bytes = Vec::new();
    for epoch in 0..4 {
        let before = store.stats().read_bytes;
        train.take(epoch, TRAIN);
        // Ten of twelve, as users who break off.
        assert_eq!(validation.is_served(epoch, 10), epoch > 0, "epoch {epoch}");
        bytes.push(store.stats().read_bytes - before);
    }
    println!("{bytes:?}");
    assert!(bytes[3] < bytes[0] * 3 / 4, "nothing begins anew: {bytes:?}");
}

#[test]
fn a_loop_that_is_always_left_at_the_same_batch_goes_on_with_the_next_epoch() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (store, plain) = stores(dir.path());
    let (train, validation) = train_and_validation(&store, &plain);
    for epoch in 0..4 {
        train.take(epoch, 30);
        // The epoch of a validation that is always the first is known from the second one on.
        assert_eq!(validation.is_served(0, 12), epoch > 1, "epoch {epoch}");
    }
    // Whoever goes further than before gets the rest.
    train.take(4, TRAIN);
}

#[test]
fn fanouts_may_differ_and_columns_may_not() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (store, plain) = stores(dir.path());
    let train = User::new((&store, &plain), (0, TRAIN), true, ALL);
    for (how, shared) in [((&[4, 3][..], 2), true), ((&[6, 4], 1), false)] {
        let validation = User::new((&store, &plain), (9_000, 8), false, how);
        for epoch in 0..3 {
            train.take(epoch, TRAIN);
            assert_eq!(validation.is_served(epoch, 8), shared && epoch > 0, "{how:?}, {epoch}");
        }
    }
}

#[test]
fn a_validation_outlives_the_loader_that_prepared_it() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (store, plain) = stores(dir.path());
    let (train, validation) = train_and_validation(&store, &plain);
    for epoch in 0..2 {
        train.take(epoch, TRAIN);
        validation.take(epoch, 12);
    }
    train.take(2, TRAIN);
    validation.take_doing(2, 12, &mut |batch| {
        if batch == 5 {
            train.loader.close();
        }
    });
    train.take(3, TRAIN);
    let mut train = Some(train);
    validation.take_doing(3, 12, &mut |batch| {
        if batch == 7 {
            train = None;
        }
    });
    let other = User::new((&store, &plain), (4_000, 20), true, ALL);
    validation.take_doing(4, 12, &mut |batch| {
        if batch % 4 == 2 {
            other.take(batch, 3);
        }
    });
}

#[test]
fn passes_in_any_order_give_the_batches_of_plain_sampling() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (store, plain) = stores(dir.path());
    for seed in 0..3 {
        println!("seed {seed}");
        let mut numbers = Numbers(seed, 0);
        let (train, validation) = train_and_validation(&store, &plain);
        let test = User::new((&store, &plain), (12_000, 6), false, (&[5, 4], 2));
        let users = [&train, &validation, &test];
        let mut epochs = [0; 3];
        for _ in 0..24 {
            let at = numbers.next(3) as usize;
            let steps = users[at].plan.steps();
            let count = if numbers.next(4) == 0 { 1 + numbers.next(steps) } else { steps };
            println!("user {at}, epoch {}, {count} batches", epochs[at]);
            users[at].take(epochs[at], count);
            epochs[at] += [1, 1, 1, 0][numbers.next(4) as usize];
        }
        let peak = store.budget().peak_bytes();
        assert!(peak <= 24 << 20, "{peak}");
    }
}
