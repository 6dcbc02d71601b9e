//! HolisticGNN's example (Figure 10): the program, the file, the run, and another device for one of
//! its operations.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{f32s, i64s};
use ng_infer::dfg::{Constant, Dfg, DfgError, Op, Reduction};
use ng_infer::kernel::{Context, Kernel, KernelError, Scalar, View, ViewMut};
use ng_infer::run::{Devices, RegisterError, RunError, run};
use ng_types::Dtype;

/// Figure 10c has its second and third node; the others are those of Figure 10a.
const FIGURE_10: &str = r#"
1: "Batchpre"
  in={"Batch"}
  out={"1_0", "1_1"}
2: "SpMMMean"
  in={"1_0", "1_1"}
  out={"2_0"}
3: "GEMM"
  in={"2_0", "Weight"}
  out={"3_0"}
4: "ReLU"
  in={"3_0"}
  out={"4_0"}
"#;

/// A store of three nodes: each batch is all of it.
struct Store;

impl Kernel for Store {
    fn shapes(&self, _: &Op, _: &[View<'_>]) -> Result<Vec<(Dtype, Vec<usize>)>, KernelError> {
        Ok(vec![(Dtype::I64, vec![2, 3]), (Dtype::F32, vec![3, 2])])
    }

    fn run(
        &self,
        _: &Op,
        _: &[View<'_>],
        out: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        out[0].i64().copy_from_slice(&[1, 2, 0, 0, 0, 1]);
        out[1].f32().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        Ok(())
    }
}

fn devices() -> Devices {
    let mut devices = Devices::default();
    devices.register_device("store", 1);
    devices.register_op_definition("BatchPre", "store", Arc::new(Store)).expect("known");
    devices
}

fn inputs() -> [(&'static str, Constant); 2] {
    [("Batch", i64s(&[1], &[0])), ("Weight", f32s(&[2, 1], &[1.0, -1.5]))]
}

/// Means are (4, 5), (1, 2) and (0, 0).
fn wanted() -> Constant {
    f32s(&[3, 1], &[0.0; 3])
}

#[test]
fn the_program_of_the_paper_runs_from_its_file() {
    let dfg = Dfg::from_text(FIGURE_10).expect("the paper's form");
    assert_eq!(dfg.nodes().len(), 4);
    let inputs = inputs();
    assert_eq!(run(&dfg, &devices(), &inputs, &Context::default()), Ok(vec![wanted()]));
    let [batch, _] = inputs;
    let positive = [batch, ("Weight", f32s(&[2, 1], &[1.0, 1.5]))];
    assert_eq!(
        run(&dfg, &devices(), &positive, &Context::default()),
        Ok(vec![f32s(&[3, 1], &[11.5, 4.0, 0.0])])
    );
}

#[test]
fn the_program_that_is_built_is_the_one_that_is_read() {
    let mut dfg = Dfg::default();
    let build = |dfg: &mut Dfg| -> Result<(), DfgError> {
        let batch = dfg.create_in("Batch", None)?;
        let weight = dfg.create_in("Weight", None)?;
        let sub = dfg.create_op(Op::BatchPre, &[batch])?;
        let mean = dfg.create_op(Op::Spmm(Reduction::Mean), &sub)?;
        let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
        let product = dfg.create_op(gemm, &[mean[0], weight])?;
        let relu = dfg.create_op(Op::Unary(ng_infer::dfg::Unary::Relu), &product)?;
        dfg.create_out("4_0", relu[0])
    };
    build(&mut dfg).expect("builds");
    assert_eq!(Dfg::from_text(FIGURE_10), Ok(dfg.clone()));
    assert_eq!(Dfg::from_text(&dfg.text()), Ok(dfg.clone()));
    assert!(dfg.text().contains("2: \"SpMM_Mean\"\n  in={\"1_0\", \"1_1\"}\n  out={\"2_0\"}\n"));
}

/// Counts what it does.
struct Counting(AtomicUsize);

impl Kernel for Counting {
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Scalar.run(op, inputs, outputs, context)
    }
}

#[test]
fn the_device_with_the_highest_priority_does_an_operation() {
    let dfg = Dfg::from_text(FIGURE_10).expect("the paper's form");
    let (quick, slow) = (Arc::new(Counting(0.into())), Arc::new(Counting(0.into())));
    let mut devices = devices();
    devices.register_device("quick", 150);
    devices.register_device("slow", 50);
    devices.register_op_definition("gemm", "slow", slow.clone()).expect("known");
    devices.register_op_definition("GEMM", "quick", quick.clone()).expect("known");
    let counts = || (quick.0.load(Ordering::Relaxed), slow.0.load(Ordering::Relaxed));
    let before = devices.clone();
    assert_eq!(run(&dfg, &devices, &inputs(), &Context::default()), Ok(vec![wanted()]));
    assert_eq!(counts(), (1, 0));
    devices.register_device("quick", 10);
    assert_eq!(run(&dfg, &devices, &inputs(), &Context::default()), Ok(vec![wanted()]));
    assert_eq!(counts(), (1, 1));
    // A run that began with the table of before goes on with it.
    assert_eq!(run(&dfg, &before, &inputs(), &Context::default()), Ok(vec![wanted()]));
    assert_eq!(counts(), (2, 1));
    let nobody = devices.register_op_definition("GEMM", "gpu", quick.clone());
    assert_eq!(nobody, Err(RegisterError::NoDevice { device: "gpu".to_owned() }));
    let nothing = devices.register_op_definition("Gemn", "quick", quick.clone());
    assert_eq!(nothing, Err(RegisterError::NoOp { op: "Gemn".to_owned() }));
}

#[test]
fn a_run_that_cannot_be_says_why() {
    let dfg = Dfg::from_text(FIGURE_10).expect("the paper's form");
    let check = |devices: &Devices, inputs: &[(&str, Constant)], words: &str| {
        let error: RunError =
            run(&dfg, devices, inputs, &Context::default()).expect_err("cannot be");
        assert!(error.to_string().contains(words), "{error}");
    };
    let [batch, weight] = inputs();
    check(&Devices::default(), &inputs(), "node 1: no device has a kernel for BatchPre");
    check(&devices(), from_ref(&batch), "input \"Weight\" is missing");
    let more = [batch.clone(), weight, ("Wieght", i64s(&[], &[1]))];
    check(&devices(), &more, "the graph has no input \"Wieght\"");
    let wide = [batch, ("Weight", f32s(&[3, 1], &[0.0; 3]))];
    check(&devices(), &wide, "node 3: GEMM: the inner dimensions of the matrices differ: 2 and 3");
}

#[test]
fn an_engine_does_batch_pre_and_weights_may_belong_to_the_program() {
    let dfg = Dfg::from_text(FIGURE_10).expect("the paper's form");
    let [(_, batch), (name, weight)] = inputs();
    let weights = [(name.to_owned(), weight)].into();
    let dfg = dfg.with_weights(&weights).expect("it is an input");
    assert_eq!(dfg.weights().count(), 1);
    let given = [("Batch", batch)];
    assert_eq!(run(&dfg, &devices(), &given, &Context::default()), Ok(vec![wanted()]));
    let bare = dfg.without_batch_pre("edge_index", "x").expect("one such node");
    let names: Vec<&str> = bare.inputs().map(|(value, _)| bare.name(value)).collect();
    assert_eq!(names, ["edge_index", "x"]);
    assert_eq!(bare.nodes().len(), 3);
    let rows = f32s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let given = [("edge_index", i64s(&[2, 3], &[1, 2, 0, 0, 0, 1])), ("x", rows)];
    let found = run(&bare, &Devices::default(), &given, &Context::default());
    assert_eq!(found, Ok(vec![wanted()]));
    assert_eq!(bare.without_batch_pre("edge_index", "x"), Ok(bare.clone()));
    let unknown = [("Wieght".to_owned(), f32s(&[1], &[1.0]))].into();
    let error = dfg.with_weights(&unknown).expect_err("is not there").to_string();
    assert_eq!(error, "a weight: value \"Wieght\" is not defined");
}
