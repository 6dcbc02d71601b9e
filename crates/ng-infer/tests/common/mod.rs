//! Small tensors, and graphs of one operation.

#![allow(dead_code)]

use ng_infer::dfg::{Constant, Dfg, Elements, Op, TensorType};
use ng_infer::kernel::Context;
use ng_infer::run::{Devices, RunError, run};

/// Single precision.
pub fn f32s(dims: &[usize], all: &[f32]) -> Constant {
    Constant::new(dims.to_vec(), Elements::F32(all.to_vec())).expect("as many as the shape says")
}

/// Whole numbers.
pub fn i64s(dims: &[usize], all: &[i64]) -> Constant {
    Constant::new(dims.to_vec(), Elements::I64(all.to_vec())).expect("as many as the shape says")
}

/// Flags.
pub fn bools(dims: &[usize], all: &[u8]) -> Constant {
    let all = all.iter().map(|flag| *flag == 1).collect();
    Constant::new(dims.to_vec(), Elements::Bool(all)).expect("as many as the shape says")
}

/// A graph of one operation on inputs called a, b, c and so on.
pub fn graph_of(op: &Op, inputs: usize) -> Dfg {
    let mut dfg = Dfg::default();
    let names = ["a", "b", "c", "d", "e"].iter().take(inputs);
    let inputs: Vec<_> = names.map(|name| dfg.create_in(name, None).expect("new")).collect();
    let made = dfg.create_op(op.clone(), &inputs).expect("takes so many");
    dfg.create_out("out", made[0]).expect("new");
    dfg
}

/// What the reference device makes of `op`.
pub fn run_op(op: &Op, inputs: &[Constant]) -> Result<Constant, RunError> {
    let dfg = graph_of(op, inputs.len());
    let named = ["a", "b", "c", "d", "e"].into_iter().zip(inputs.iter().cloned());
    let named: Vec<_> = named.collect();
    Ok(run(&dfg, &Devices::default(), &named, &Context::default())?.remove(0))
}

/// The type of a tensor that is there.
pub fn type_of(tensor: &Constant) -> TensorType {
    let shape = tensor.dims().iter().map(|dim| (*dim as i64).into()).collect();
    TensorType { dtype: tensor.elements().dtype(), shape }
}
