//! Bundles are swapped while graphs run: runs in flight end on the old one, later ones take the new
//! one, and a broken one changes nothing.

#![allow(clippy::expect_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use ng_infer::dfg::{Op, Unary};
use ng_infer::kernel::{Context, Data, Kernel, KernelError, View, ViewMut};
use ng_infer::plan::{Options, Plan};
use ng_infer::run::Devices;
use ng_plugin_host::{Bundle, Plugin, PluginError, Program, ProgramError};
use support::{compiled, folder, graph_of, loaded, root};

/// Fills with a number; says when it begins, and waits until it may go on.
struct Fill {
    number: f32,
    begun: mpsc::SyncSender<()>,
    may_go_on: Arc<AtomicBool>,
}

impl Kernel for Fill {
    fn run(
        &self,
        _: &Op,
        _: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        let _ = self.begun.try_send(());
        while !self.may_go_on.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        outputs[0].f32().fill(self.number);
        Ok(())
    }
}

fn filling(number: f32, may_go_on: bool) -> (Bundle, mpsc::Receiver<()>, Arc<AtomicBool>) {
    let (begun, begins) = mpsc::sync_channel(1);
    let may_go_on = Arc::new(AtomicBool::new(may_go_on));
    let kernel = Fill { number, begun, may_go_on: Arc::clone(&may_go_on) };
    let mut bundle = Bundle::preset("cpu").expect("a preset");
    bundle.name = format!("fills with {number}");
    bundle.devices.register_device("filler", 1000);
    bundle.devices.register_op_definition("Relu", "filler", Arc::new(kernel)).expect("both known");
    (bundle, begins, may_go_on)
}

fn first_of(plan: &Plan) -> f32 {
    let x = View { dims: &[2], data: Data::F32(&[-1.0, 2.0]) };
    plan.run(&[("a", x)], &[], &Context::default()).expect("runs").output(0).f32()[0]
}

fn relu() -> Arc<ng_infer::dfg::Dfg> {
    Arc::new(graph_of(&Op::Unary(Unary::Relu), 1))
}

fn swapped(program: &Program, bundle: Bundle) -> Result<Arc<Bundle>, ProgramError> {
    program.swap(|_| Ok(bundle))
}

#[test]
fn a_run_in_flight_ends_on_the_old_bundle_and_the_next_begins_on_the_new_one() {
    let (slow, begins, may_go_on) = filling(1.0, false);
    let program = Program::new(slow).expect("a bundle");
    let served = program.devices().serve(relu(), Options::default()).expect("runs");
    std::thread::scope(|scope| {
        let in_flight = scope.spawn(|| first_of(&served.plan()));
        begins.recv().expect("the run has begun");
        let old = swapped(&program, filling(2.0, true).0).expect("a bundle");
        assert_eq!(old.name, "fills with 1");
        assert_eq!(first_of(&served.plan()), 2.0);
        assert!(!in_flight.is_finished());
        may_go_on.store(true, Ordering::Release);
        assert_eq!(in_flight.join().expect("ends"), 1.0);
    });
    assert_eq!(program.bundle().name, "fills with 2");
}

#[test]
fn a_broken_bundle_leaves_the_old_one_in_place() {
    let program = Program::new(filling(1.0, true).0).expect("a bundle");
    let served = program.devices().serve(relu(), Options::default()).expect("runs");
    let mut none = Bundle::preset("hetero").expect("a preset");
    none.accelerator.rows = 0;
    let error = swapped(&program, none).expect_err("no rows").to_string();
    assert!(error.contains("bundle \"hetero\": ") && error.contains("accelerator.rows"), "{error}");
    // A plug-in that does not pass its trial.
    let folder = folder();
    let file = folder.path().join("crash.so");
    compiled(&root().join("attacks/plugins/crash.c"), &file);
    enum Failed {
        Plugin(PluginError),
        Program(ProgramError),
    }
    impl From<ProgramError> for Failed {
        fn from(error: ProgramError) -> Self {
            Self::Program(error)
        }
    }
    let found = program.swap(|bundle| {
        let plugin: Arc<Plugin> = loaded(&file, 30).map_err(Failed::Plugin)?;
        let mut bundle = bundle.clone();
        bundle.add(plugin).map_err(Failed::Plugin)?;
        Ok(bundle)
    });
    match found {
        Err(Failed::Plugin(error)) => assert!(error.to_string().contains("SIGSEGV"), "{error}"),
        Err(Failed::Program(error)) => panic!("{error}"),
        Ok(_) => panic!("it was put into force"),
    }
    // A kernel that refuses the weights of a graph that is served.
    struct Refuses;
    impl Kernel for Refuses {
        fn prepare(
            &self,
            _: &Op,
            _: &[Option<View<'_>>],
        ) -> Result<Option<Arc<dyn Kernel>>, KernelError> {
            Err(KernelError::Misfit("not these weights".to_owned()))
        }

        fn run(
            &self,
            _: &Op,
            _: &[View<'_>],
            _: &mut [ViewMut<'_>],
            _: &Context,
        ) -> Result<(), KernelError> {
            Ok(())
        }
    }
    let mut refusing = Bundle::preset("cpu").expect("a preset");
    refusing.devices.register_device("fussy", 2000);
    let fussy = Arc::new(Refuses);
    refusing.devices.register_op_definition("Relu", "fussy", fussy).expect("both known");
    let error = swapped(&program, refusing).expect_err("refuses").to_string();
    assert!(error.contains("not these weights"), "{error}");
    assert_eq!(program.bundle().name, "fills with 1");
    assert_eq!(first_of(&served.plan()), 1.0);
}

#[test]
fn a_plug_in_of_higher_priority_is_bound_by_a_plan_that_is_served() {
    let folder = folder();
    let file = folder.path().join("chip.so");
    let source = folder.path().join("chip.c");
    let header = root().join("attacks/plugins/honest.h");
    let text = format!(
        "#define CHANGE_KERNEL device.priority = 500; kernel.device = device.name = \
         (NgText)TEXT(\"new chip\");\n#include {:?}\n",
        header.display().to_string()
    );
    std::fs::write(&source, text).expect("written");
    compiled(&source, &file);
    let program = Program::new(Bundle::preset("cpu").expect("a preset")).expect("a bundle");
    let served = program.devices().serve(relu(), Options::default()).expect("runs");
    let device = || served.plan().explain().steps[0].device.clone();
    assert_eq!(device().as_deref(), Some("cpu"));
    let plugin = loaded(&file, 30).expect("loads");
    let changed = |bundle: &Bundle| {
        let mut bundle = bundle.clone();
        bundle.add(plugin).expect("a device of its own");
        Ok::<_, ProgramError>(bundle)
    };
    program.swap(changed).expect("put into force");
    assert_eq!(device().as_deref(), Some("new chip"));
    assert_eq!(first_of(&served.plan()), 0.0);
}

#[test]
fn every_run_sees_one_whole_bundle_while_others_swap_it() {
    let program = Program::new(filling(0.0, true).0).expect("a bundle");
    // Two steps: both results have to be of one bundle.
    let text = "in={\"a\"}\n1: \"Relu\"\n in={\"a\"}\n out={\"b\"}\n2: \"Abs\"\n in={\"b\"}\n \
                out={\"c\"}\n3: \"Relu\"\n in={\"c\"}\n out={\"d\"}\nout={\"one\"=\"b\", \
                \"two\"=\"d\"}";
    let dfg = Arc::new(ng_infer::dfg::Dfg::from_text(text).expect("a graph"));
    let served = program.devices().serve(dfg, Options::default()).expect("runs");
    let (is_over, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) || runs.load(Ordering::Relaxed) == 0 {
                    let plan = served.plan();
                    let x = View { dims: &[2], data: Data::F32(&[-1.0, 2.0]) };
                    let answer = plan.run(&[("a", x)], &[], &Context::default()).expect("runs");
                    assert_eq!(answer.output(0).f32(), answer.output(1).f32());
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 1..200 {
            swapped(&program, filling(number as f32, true).0).expect("a bundle");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        first_of(&Devices::default().choose(&Op::MatMul).map(|_| served.plan()).expect("one")),
        199.0
    );
}
