//! Devices that are replaced while a model answers: all rows of an answer are of one set of
//! devices, those that were kept, too.
#![allow(clippy::expect_used)]

mod help;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use help::{common, folder};
use ng_engine::{Computing, EmbeddingCache};
use ng_infer::dfg::Op;
use ng_infer::kernel::{Context, DataMut, Kernel, KernelError, Scalar, View, ViewMut};
use ng_infer::run::{Compute, Devices, SharedDevices};
use ng_rpc::v1;
use ng_server::schedule::{Answered, Bounds, Question, Scheduler, Switches};
use ng_server::{Graph, Model, Targets};
use ng_testing::Random;
use tokio::runtime::{Builder, Runtime};

const NODES: u64 = 60;

/// Products with one added to each element.
struct More;

impl Kernel for More {
    fn is_exact_by_row(&self) -> bool {
        true
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        Scalar.run(op, inputs, outputs, context)?;
        for output in outputs {
            if let DataMut::F32(all) = &mut output.data {
                all.iter_mut().for_each(|number| *number += 1.0);
            }
        }
        Ok(())
    }
}

fn devices(is_more: bool) -> Devices {
    let mut devices = Devices::with_cpu();
    if is_more {
        devices.register_device("more", 99);
        for op in ["GEMM", "Linear", "MatMul", "SegmentMatmul"] {
            devices.register_op_definition(op, "more", Arc::new(More)).expect("an operation");
        }
    }
    devices
}

/// A model whose devices the test replaces, and what asks it.
struct Served {
    devices: Arc<SharedDevices>,
    model: Arc<Model>,
    scheduler: Scheduler,
    runtime: Runtime,
}

impl Served {
    fn new(folder: &std::path::Path, is_more: bool) -> Self {
        let graph = Graph::open("small", folder, "small.ng".as_ref(), (Some(64 << 20), 2));
        let request = v1::ModelRegisterRequest { fanouts: vec![25, 10], ..Default::default() };
        let devices = Arc::new(SharedDevices::new(devices(is_more)));
        let cache = Some(Arc::new(EmbeddingCache::new(1 << 20)));
        let how = (Compute::Devices(Arc::clone(&devices)), 1, cache);
        let graph = Arc::new(graph.expect("store"));
        let model = Model::open(("mean", 1), graph, &request, common::model(), how);
        let scheduler = Scheduler::start(2, Switches::default(), Bounds::default());
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("runtime");
        let (model, scheduler) = (model.expect("model"), scheduler.expect("threads"));
        Self { devices, model: Arc::new(model), scheduler, runtime }
    }

    fn question(&self, nodes: &[u64]) -> Question {
        Question {
            model: Arc::clone(&self.model),
            targets: Targets::Nodes(nodes.to_vec()),
            seed: 0,
            at: None,
            lag: 0,
            deadline: None,
            permit: None,
        }
    }

    fn ask(&self, nodes: &[u64]) -> Answered {
        self.runtime.block_on(self.scheduler.ask(self.question(nodes))).expect("answer")
    }

    fn ask_of(&self, nodes: &[u64], computing: Computing) -> Answered {
        let asked = self.scheduler.ask_of(self.question(nodes), Some(computing));
        self.runtime.block_on(asked).expect("answer")
    }
}

/// By node, what both sets of devices give.
fn both(folder: &std::path::Path) -> [Vec<Vec<u8>>; 2] {
    [false, true].map(|is_more| {
        let served = Served::new(folder, is_more);
        (0..NODES).map(|node| served.ask(&[node]).rows.data).collect()
    })
}

fn of(rows: &[Vec<u8>], nodes: &[u64]) -> Vec<u8> {
    nodes.iter().flat_map(|node| rows[*node as usize].clone()).collect()
}

#[test]
fn kept_rows_are_not_mixed_with_those_of_other_devices_not_even_before_the_model_hears_of_them() {
    let folder = folder(NODES);
    let [plain, more] = both(folder.path());
    assert_ne!(plain, more);
    let served = Served::new(folder.path(), false);
    assert_eq!(served.ask(&[1, 2, 3]).rows.data, of(&plain, &[1, 2, 3]));
    assert_eq!(served.ask(&[2, 3]).cached, 2);
    let before = served.model.engine.computing();
    served.devices.replace(devices(true)).expect("replaced");
    // Nobody has called `renew` yet.
    let nodes = [1, 2, 3, 4];
    let after = served.ask(&nodes);
    assert_eq!((after.cached, after.rows.data), (0, of(&more, &nodes)));
    assert_eq!(served.ask(&nodes).cached, 4);
    // A job that began before ends on the devices that it began with, and keeps nothing.
    let late = served.ask_of(&[1, 2, 7], before.clone());
    assert_eq!((late.cached, late.rows.data), (0, of(&plain, &[1, 2, 7])));
    served.model.renew();
    let again = served.ask(&[4, 7]);
    assert_eq!((again.cached, again.rows.data), (1, of(&more, &[4, 7])));
    served.devices.replace(devices(false)).expect("replaced");
    served.model.renew();
    let back = served.ask(&nodes);
    assert_eq!((back.cached, back.rows.data), (0, of(&plain, &nodes)));
}

#[test]
fn answers_during_replacements_are_of_one_set_of_devices_each() {
    let folder = folder(NODES);
    let [plain, more] = both(folder.path());
    let served = Served::new(folder.path(), false);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("clock");
    let seed = clock.subsec_nanos().into();
    println!("seed {seed}");
    let is_over = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(seed);
            while !is_over.load(Ordering::Relaxed) {
                served.devices.replace(devices(random.below(2) == 0)).expect("replaced");
                if random.below(2) == 0 {
                    served.model.renew();
                }
                std::thread::yield_now();
            }
        });
        let ask = |one: u64| {
            let mut random = Random::new(seed + one);
            let mut counts = [0_u32; 2];
            for _ in 0..150 {
                let nodes: Vec<u64> = (0..12).map(|_| random.below(NODES)).collect();
                let rows = served.ask(&nodes).rows.data;
                let which = [&plain, &more].map(|all| of(all, &nodes) == rows);
                assert!(which[0] || which[1], "seed {seed}: {nodes:?} are of both");
                counts[usize::from(which[1])] += 1;
            }
            counts
        };
        let asking: Vec<_> = (1..4).map(|one| scope.spawn(move || ask(one))).collect();
        let counts: Vec<_> = asking.into_iter().map(|one| one.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        counts
    });
    println!("{counts:?}");
    assert!(counts.iter().all(Result::is_ok));
}

#[test]
fn a_model_that_nobody_asks_lets_go_of_its_snapshot() {
    let folder = folder(NODES);
    let served = Served::new(folder.path(), false);
    let store = &served.model.graph.store;
    let lsn = || served.model.engine.snapshot().lsn();
    let before = lsn();
    let mut batch = store.write().expect("batch");
    batch.add_node(ng_types::NodeTypeId(0)).expect("node");
    batch.commit().expect("commit");
    served.model.keep_up(std::time::Duration::from_secs(60)).expect("it may be asked");
    assert_eq!(lsn(), before);
    served.model.keep_up(std::time::Duration::ZERO).expect("the newest commit");
    assert!(lsn() > before && lsn() == store.snapshot().lsn());
    // Answers are kept with what they were made of from the first commit on, so another one leaves
    // them as they are.
    let first = served.ask(&[1]);
    let mut batch = store.write().expect("batch");
    batch.add_node(ng_types::NodeTypeId(0)).expect("node");
    batch.commit().expect("commit");
    let again = served.ask(&[1]);
    assert_eq!((first.cached, again.cached), (0, 1));
    assert_eq!((again.rows.data, again.snapshot.0), (first.rows.data, store.snapshot().lsn()));
}
