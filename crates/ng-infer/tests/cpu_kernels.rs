//! The device `cpu` does what the reference does, and gives the same bytes at any number of threads
//! and with any kernels that the processor may have.

use std::sync::Arc;

use crate::common::{f32s, i64s};
use crate::cpu_support;
use crate::cpu_support::cases::cases;
use crate::cpu_support::{Answer, answer, answer_in_place, assert_near, views};
use ng_infer::dfg::{Binary, Constant, Elements, Op, Reduction};
use ng_infer::kernel::{Context, Cpu, Data, DataMut, Kernel, Scalar, TableRows, View, ViewMut};
use ng_infer::run::Devices;
use ng_simd::{Path, Rows};
use ng_testing::Random;

const SEED: u64 = 0xC9;
const PATHS: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

fn contexts() -> Vec<Context> {
    [1, 2, 3, 5].map(Context::new).to_vec()
}

/// The kernel itself, and those that it prepares where some inputs are constants.
fn kernels(cpu: Cpu, op: &Op, inputs: &[Constant]) -> Vec<Arc<dyn Kernel>> {
    let constants = views(inputs).into_iter().enumerate();
    let constants: Vec<_> = constants.map(|(at, view)| (at > 0).then_some(view)).collect();
    let prepared = cpu.prepare(op, &constants).expect("fits");
    [Arc::new(cpu) as Arc<dyn Kernel>].into_iter().chain(prepared).collect()
}

/// What the kernels of one device make of an operation, which is the same for all of them.
fn one_answer(
    make: impl Fn(Path) -> Option<Cpu>,
    op: &Op,
    inputs: &[Constant],
    contexts: &[Context],
) -> Answer {
    let mut first: Option<Answer> = None;
    for path in PATHS {
        let Some(cpu) = make(path) else { continue };
        for context in contexts {
            for kernel in kernels(cpu, op, inputs) {
                let found = answer(&*kernel, op, &views(inputs), context);
                let wanted = first.get_or_insert_with(|| found.clone());
                let threads = context.threads();
                assert!(found.is_same(wanted), "{op:?}, {path:?}, {threads} threads");
            }
        }
    }
    first.expect("plain Rust is there")
}

#[test]
fn every_operation_gives_what_the_reference_gives() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED);
    let contexts = contexts();
    for name in Cpu::op_names() {
        let cases = cases(&name, &mut random);
        assert!(!cases.is_empty(), "no cases of {name}");
        for (op, inputs) in cases {
            assert_eq!(op.name(), name);
            let wanted = answer(&Scalar, &op, &views(&inputs), &contexts[0]);
            let found = one_answer(Cpu::on, &op, &inputs, &contexts);
            let dims: Vec<_> = inputs.iter().map(Constant::dims).collect();
            // Steps are whole numbers.
            let gap = if op == Op::QuantisedLinear { 0.0 } else { 1e-5 };
            assert_near(&found, &wanted, gap, &format!("{op:?} of {dims:?}"));
        }
    }
}

#[test]
fn what_is_done_in_place_gives_the_same_bytes() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED + 3);
    let (cpu, mut count) = (Cpu::default(), 0);
    for name in Cpu::op_names() {
        for (op, inputs) in cases(&name, &mut random) {
            for context in contexts() {
                let wanted = answer(&cpu, &op, &views(&inputs), &context);
                for at in (0..inputs.len()).filter(|at| cpu.in_place(&op, *at)) {
                    if wanted.dims() == Some(inputs[at].dims()) {
                        let found = answer_in_place(&cpu, &op, at, &inputs, &context);
                        assert!(found.is_same(&wanted), "{op:?} in input {at}");
                        count += 1;
                    }
                }
            }
        }
    }
    assert!(count > 500, "{count} in place");
}

#[test]
fn operations_are_known_and_preferred_to_the_reference() {
    let devices = Devices::with_cpu();
    for name in Cpu::op_names() {
        assert!(Op::names().any(|known| known == name), "{name}");
    }
    let device = |op: &Op| devices.choose(op).map(|found| found.device.to_string());
    assert_eq!(device(&Op::MatMul).as_deref(), Some("cpu"));
    assert_eq!(device(&Op::Sddmm(Binary::Max)).as_deref(), Some("cpu-scalar"));
    assert_eq!(device(&Op::Scatter(Reduction::Mul)).as_deref(), Some("cpu-scalar"));
}

#[test]
fn weights_of_8_bits_are_near_and_odd_rows_are_nan() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED + 1);
    let contexts = contexts();
    let int8 = |path| Cpu::on(path).map(Cpu::with_int8_weights);
    for (m, k, n) in [(1, 1, 1), (5, 17, 3), (97, 64, 65), (300, 130, 120), (0, 4, 4), (4, 0, 3)] {
        let x = cpu_support::floats(&mut random, &[m, k]);
        let weight = cpu_support::floats(&mut random, &[k, n]);
        let bias = cpu_support::floats(&mut random, &[n]);
        let inputs = [x, weight, bias];
        for relu in [false, true] {
            let op = Op::Linear { relu };
            let prepared: Vec<_> = contexts
                .iter()
                .flat_map(|context| {
                    PATHS.into_iter().filter_map(int8).map(|cpu| {
                        let kernel = kernels(cpu, &op, &inputs).pop().expect("prepared");
                        answer(&*kernel, &op, &views(&inputs), context)
                    })
                })
                .collect();
            assert!(prepared.iter().all(|found| found.is_same(&prepared[0])));
            let wanted = answer(&Scalar, &op, &views(&inputs), &contexts[0]);
            // Half a step of 127 for each of the two factors of k products.
            assert_near(&prepared[0], &wanted, k as f32 / 127.0, "int8");
            let differs = !prepared[0].is_same(&wanted);
            assert!(differs || m * k * n < 100, "weights of 8 bits are not exact");
        }
    }
    let x = f32s(&[3, 2], &[1.0, 2.0, f32::NAN, 1.0, 3.0, f32::INFINITY]);
    let inputs = [x, f32s(&[2, 1], &[127.0, 0.0])];
    let kernel = kernels(Cpu::default().with_int8_weights(), &Op::MatMul, &inputs);
    let found = answer(&**kernel.last().expect("one"), &Op::MatMul, &views(&inputs), &contexts[0]);
    let wanted = Answer::of(vec![f32s(&[3, 1], &[127.0, f32::NAN, f32::NAN])]);
    assert_near(&found, &wanted, 0.01, "odd rows");
    let inputs = [f32s(&[1, 1], &[2.0]), f32s(&[1, 1], &[f32::NAN])];
    let kernel = kernels(Cpu::default().with_int8_weights(), &Op::MatMul, &inputs);
    assert_eq!(kernel.len(), 2);
    let found = answer(&*kernel[1], &Op::MatMul, &views(&inputs), &contexts[0]);
    assert_near(&found, &Answer::of(vec![f32s(&[1, 1], &[f32::NAN])]), 0.0, "weights");
}

/// Operations on rows that lie in a table, and their other inputs.
fn operations_on_rows(random: &mut Random, count: usize) -> Vec<(Op, Vec<Constant>)> {
    let offsets = i64s(&[4], &[0, 3, 3, 700]);
    let sources: Vec<i64> = (0..700).map(|_| random.below(count as u64) as i64).collect();
    let sources = i64s(&[700], &sources);
    let index = i64s(&[5], &[0, -1, 7, 7, count as i64 - 1]);
    let weight = cpu_support::floats(random, &[20, 9]);
    let how = [Reduction::Sum, Reduction::Mean, Reduction::Max, Reduction::Min];
    let lists = how.map(|how| (Op::Aggregate(how), vec![offsets.clone(), sources.clone()]));
    let others = [(Op::Gather { axis: 0 }, vec![index]), (Op::Linear { relu: true }, vec![weight])];
    lists.into_iter().chain(others).collect()
}

#[test]
fn rows_of_a_table_are_read_where_they_lie() {
    println!("seed {SEED:#x}");
    let mut random = Random::new(SEED + 2);
    let (len, width, count) = (1000, 20, 600);
    let all = cpu_support::floats(&mut random, &[len, width]);
    let Elements::F32(table) = all.elements() else { panic!("floats") };
    let rows: Vec<u32> = (0..count).map(|_| random.below(len as u64) as u32).collect();
    let row = |row: &u32| table[*row as usize * width..][..width].to_vec();
    let copied: Vec<f32> = rows.iter().flat_map(row).collect();
    let halves: Vec<u8> = copied_as_bf16(table);
    let steps: Vec<u8> = (0..len * width).map(|at| (at * 7 % 251) as u8).collect();
    let scales: Vec<f32> = (0..width).map(|column| column as f32 * 0.1).collect();
    let tables =
        [Rows::F32(table), Rows::Bf16(&halves), Rows::I8 { steps: &steps, scales: &scales }];
    for table in tables {
        let rows = TableRows { table, len, rows: &rows };
        let mut copies = vec![0.0; count * width];
        for context in contexts() {
            rows.copy_to(width, &mut copies, &context).expect("fits");
        }
        if matches!(table, Rows::F32(_)) {
            assert_eq!(copies, copied);
        }
        let dims = [count, width];
        for (op, others) in operations_on_rows(&mut random, count) {
            assert!(Cpu::default().takes_rows(&op, 0) && !Cpu::default().takes_rows(&op, 1));
            let behind = views(&others);
            let with = |data| {
                let first = View { dims: &dims, data };
                std::iter::once(first).chain(behind.iter().copied()).collect::<Vec<_>>()
            };
            let wanted = answer(&Scalar, &op, &with(Data::F32(&copies)), &Context::default());
            for context in contexts() {
                let found = answer(&Cpu::default(), &op, &with(Data::Rows(rows)), &context);
                assert_near(&found, &wanted, 1e-5, &format!("{op:?}"));
            }
            let outside = TableRows { len: 10, ..rows };
            let found =
                answer(&Cpu::default(), &op, &with(Data::Rows(outside)), &Context::default());
            assert!(found.error().expect("outside").contains("expected less than 10"), "{op:?}");
            let refused = answer(&Scalar, &op, &with(Data::Rows(rows)), &Context::default());
            assert!(
                refused.error().expect("not here").contains("does not support references"),
                "{op:?}"
            );
        }
    }
    let rows = TableRows { table: Rows::F32(table), len, rows: &rows };
    assert!(rows.copy_to(width, &mut [0.0; 3], &Context::default()).is_err());
    let none = TableRows { rows: &[], ..rows };
    for context in contexts() {
        none.copy_to(width, &mut [], &context).expect("a batch without such nodes");
    }
}

/// The upper halves of f32.
fn copied_as_bf16(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

#[test]
fn prefixes_of_larger_tensors_are_served() {
    let all = [1.0; 50];
    let view = View { dims: &[3, 4], data: Data::F32(&all[..12]) };
    let weight = View { dims: &[4, 2], data: Data::F32(&all[..8]) };
    let mut out = [9.0; 8];
    let to = ViewMut { dims: &[3, 2], data: DataMut::F32(&mut out[..6]) };
    let context = Context::default();
    Cpu::default().run(&Op::MatMul, &[view, weight], &mut [to], &context).expect("fits");
    assert_eq!(out, [4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 9.0, 9.0]);
}
