//! Graphs that are served: devices change under them, or another program has the whole model.

use std::sync::{Arc, Mutex};

use ng_infer::dfg::{Constant, Dfg, Elements, Op};
use ng_infer::kernel::{Context, Data, Kernel, KernelError, TableRows, View, ViewMut};
use ng_infer::plan::{Options, WholeModel};
use ng_infer::run::{Compute, Devices, RunError, SharedDevices};
use ng_simd::Rows;

const TWO: &str = "in={\"x\", \"n\"}\n1: \"Abs\"\n in={\"x\"}\n out={\"a\"}\n2: \"Neg\"\n \
                   in={\"n\"}\n out={\"b\"}\nout={\"abs\"=\"a\", \"neg\"=\"b\"}";

fn graph(text: &str) -> Arc<Dfg> {
    Arc::new(Dfg::from_text(text).expect("a graph"))
}

fn f32s(dims: &[usize], all: &[f32]) -> Constant {
    Constant::new(dims.to_vec(), Elements::F32(all.to_vec())).expect("fits")
}

/// Gives its outputs in another order than the graph, and notes what it is given.
fn other_program(seen: &Arc<Mutex<Vec<Vec<f32>>>>) -> WholeModel {
    let seen = Arc::clone(seen);
    let run = move |inputs: &[(&str, View<'_>)]| {
        let mut seen = seen.lock().expect("no panic");
        for (_, view) in inputs {
            match view.data {
                Data::F32(all) => seen.push(all.to_vec()),
                _ => return Err("not plain".to_owned()),
            }
        }
        Ok(vec![f32s(&[1], &[2.0]), f32s(&[1], &[1.0])])
    };
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    WholeModel {
        device: Arc::from("elsewhere"),
        inputs: names(["n", "x"]),
        outputs: names(["neg", "abs"]),
        run: Arc::new(run),
    }
}

#[test]
fn a_whole_model_sees_plain_rows_and_its_outputs_go_by_name() {
    let seen = Arc::default();
    let compute = Compute::Model(other_program(&seen));
    let plan = compute.serve(graph(TWO), Options::default()).expect("the same names").plan();
    let table = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
    let rows = TableRows { table: Rows::F32(&table), len: 3, rows: &[2, 0] };
    let x = View { dims: &[2, 2], data: Data::Rows(rows) };
    let n = View { dims: &[1], data: Data::F32(&[-7.0]) };
    let answer = plan.run(&[("x", x), ("n", n)], &[], &Context::default()).expect("runs");
    assert_eq!((answer.output(0).f32(), answer.output(1).f32()), (&[1.0][..], &[2.0][..]));
    assert_eq!(*seen.lock().expect("no panic"), [vec![4.0, 5.0, 0.0, 1.0], vec![-7.0]]);
    assert_eq!(plan.counted_nodes().count(), 0);
    let steps = plan.explain().steps;
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].device.as_deref(), Some("elsewhere"));
    let (_, costs) = plan.profile(&[("x", n), ("n", n)], &[], &Context::default()).expect("runs");
    assert_eq!(costs[0].bytes, 16);
    let error = plan.run(&[("x", x)], &[], &Context::default()).err();
    assert_eq!(error, Some(RunError::MissingInput { name: "n".to_owned() }));
    let hops = plan.run(&[("x", x), ("n", n)], &[("nodes", &[1])], &Context::default()).err();
    assert!(hops.expect("no hops").to_string().contains("does not support hops"));
    let outside = TableRows { rows: &[3, 0], ..rows };
    let outside = View { dims: &[2, 2], data: Data::Rows(outside) };
    let error = plan.run(&[("x", outside), ("n", n)], &[], &Context::default()).err();
    assert!(error.expect("row 3").to_string().contains("index 3"));
}

#[test]
fn a_model_of_another_graph_is_refused_by_what_differs() {
    let refused = |text: &str| {
        let compute = Compute::Model(other_program(&Arc::default()));
        let served = compute.serve(graph(text), Options::default());
        served.err().expect("another graph").to_string()
    };
    let error = refused(&TWO.replace("\"n\"", "\"m\""));
    assert!(error.contains(r#"has inputs ["n", "x"], but the graph has ["m", "x"]"#), "{error}");
    let error = refused(&TWO.replace("\"neg\"", "\"minus\""));
    assert!(error.contains(r#"has no output "minus""#), "{error}");
}

/// Refuses the weights of one model.
struct Fussy;

impl Kernel for Fussy {
    fn prepare(
        &self,
        _: &Op,
        constants: &[Option<View<'_>>],
    ) -> Result<Option<Arc<dyn Kernel>>, KernelError> {
        match constants.iter().flatten().any(|weight| weight.dims.contains(&3)) {
            true => Err(KernelError::Misfit("no weights of 3 columns".to_owned())),
            false => Ok(None),
        }
    }

    fn run(
        &self,
        _: &Op,
        _: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        outputs[0].f32().fill(9.0);
        Ok(())
    }
}

fn product(columns: usize) -> Arc<Dfg> {
    let mut dfg = Dfg::default();
    let x = dfg.create_in("x", None).expect("new");
    let weight = f32s(&[2, columns], &vec![1.0; 2 * columns]);
    let weight = dfg.create_weight("w", weight).expect("new");
    let made = dfg.create_op(Op::MatMul, &[x, weight]).expect("fits");
    dfg.create_out("y", made[0]).expect("new");
    Arc::new(dfg)
}

#[test]
fn devices_that_one_graph_does_not_run_on_are_refused_for_all() {
    let devices = SharedDevices::new(Devices::default());
    let narrow = devices.serve(product(2), Options::default()).expect("runs");
    let wide = devices.serve(product(3), Options::default()).expect("runs");
    let bound = |served: &ng_infer::run::Served| served.plan().explain().steps[0].device.clone();
    let mut fussy = Devices::default();
    fussy.register_device("fussy", 5);
    fussy.register_op_definition("MatMul", "fussy", Arc::new(Fussy)).expect("both known");
    let error = devices.replace(fussy.clone()).expect_err("a graph of 3 columns").to_string();
    assert!(error.contains("no weights of 3 columns"), "{error}");
    assert_eq!(bound(&narrow).as_deref(), Some("cpu-scalar"));
    assert_eq!(devices.devices().priorities(), [("cpu-scalar", 0)]);
    drop(wide);
    let before = narrow.plan();
    devices.replace(fussy).expect("nobody serves the other one any more");
    assert_eq!(bound(&narrow).as_deref(), Some("fussy"));
    let x = View { dims: &[1, 2], data: Data::F32(&[1.0, 2.0]) };
    let run = |plan: &ng_infer::plan::Plan| {
        plan.run(&[("x", x)], &[], &Context::default()).expect("runs").output(0).f32().to_vec()
    };
    assert_eq!((run(&before), run(&narrow.plan())), (vec![3.0; 2], vec![9.0; 2]));
}
