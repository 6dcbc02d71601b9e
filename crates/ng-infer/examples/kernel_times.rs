//! Times kernels of the device `cpu`, as `benchmarks/kernels.py` asks: a line with threads, runs
//! and a case comes in, a line with seconds a run goes out. Between two lines nothing runs, so that
//! another system can be timed in turn.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::time::Instant;

use ng_infer::dfg::{Binary, Op, Reduction};
use ng_infer::kernel::{Context, Cpu, Data, DataMut, Kernel, TableRows, View, ViewMut};
use ng_simd::{Finish, GraphKernels, PackedWeights, QuantisedRows, Rows, StepRange};
use ng_testing::Random;

/// Columns of the table that rows are picked from: 512 MB of f32.
const TABLE: (usize, usize) = (500_000, 256);

/// One case: what is run, with everything that it needs.
type Case = Box<dyn FnMut(&Context) -> Result<(), Box<dyn Error>>>;

fn floats(random: &mut Random, len: usize) -> Vec<f32> {
    (0..len).map(|_| random.below(2_001) as f32 / 1e3 - 1.0).collect()
}

fn f32_view<'a>(dims: &'a [usize], all: &'a [f32]) -> View<'a> {
    View { dims, data: Data::F32(all) }
}

fn i64_view<'a>(dims: &'a [usize], all: &'a [i64]) -> View<'a> {
    View { dims, data: Data::I64(all) }
}

/// Runs one operation that gives f32.
fn run(
    kernel: &dyn Kernel,
    op: &Op,
    inputs: &[View<'_>],
    (dims, out): (&[usize], &mut [f32]),
    context: &Context,
) -> Result<(), Box<dyn Error>> {
    let out = ViewMut { dims, data: DataMut::F32(out) };
    Ok(kernel.run(op, inputs, &mut [out], context)?)
}

/// `linear M K N` with bias and ReLU, `sum M K N` with rows that are added, too, `product M K N`
/// without, `int8 M K N` with weights of 8 bits.
fn product(kind: &str, sizes: &[usize], random: &mut Random) -> Result<Case, Box<dyn Error>> {
    let [m, k, n] = *sizes else { return Err("three sizes".into()) };
    let (x, weight) = (floats(random, m * k), floats(random, k * n));
    let bias = floats(random, n);
    let op = match kind {
        "linear" => Op::Linear { relu: true },
        "sum" => Op::LinearSum { relu: true },
        _ => Op::Linear { relu: false },
    };
    let count = if kind == "linear" { 3 } else { op.inputs().0 };
    let others = floats(random, if kind == "sum" { m * n } else { 0 });
    let cpu = Cpu::default();
    let cpu = if kind == "int8" { cpu.with_int8_weights() } else { cpu };
    let kernel = cpu.prepare(&op, &[None, Some(f32_view(&[k, n], &weight))])?;
    let kernel = kernel.ok_or("weights are constants")?;
    let mut out = vec![0.0; m * n];
    Ok(Box::new(move |context| {
        let (left, right, dims) = ([m, k], [k, n], [n]);
        let added = f32_view(&dims, &bias);
        let of_result = [m, n];
        let others = f32_view(&of_result, &others);
        let inputs = [f32_view(&left, &x), f32_view(&right, &weight), added, others];
        run(&*kernel, &op, &inputs[..count], (&[m, n], &mut out), context)
    }))
}

/// `steps M K N`: the product alone, of rows that are in steps of 8 bits. One thread.
fn steps(sizes: &[usize], random: &mut Random) -> Result<Case, Box<dyn Error>> {
    let [m, k, n] = *sizes else { return Err("three sizes".into()) };
    let weights = PackedWeights::quantise(&floats(random, k * n), k, n)?;
    let (steps, scales, mut out) = (random.bytes(m * k), vec![0.01; m], vec![0.0; m * n]);
    Ok(Box::new(move |_| {
        let rows = QuantisedRows { steps: &steps, scales: &scales, range: StepRange::Signed };
        Ok(GraphKernels::best().multiply_quantised(
            &rows,
            &weights,
            &Finish::default(),
            &mut out,
        )?)
    }))
}

/// Lists of one length, and sources of `rows` rows.
fn lists(lists: usize, len: usize, rows: usize, random: &mut Random) -> (Vec<i64>, Vec<i64>) {
    let offsets = (0..=lists as i64).map(|list| list * len as i64).collect();
    (offsets, (0..lists * len).map(|_| random.below(rows as u64) as i64).collect())
}

/// `aggregate D F W`: means of F rows of W columns for D destinations, of 0.8 x D x F rows.
/// `spmm D F W`: the same from edges in the order of their destinations.
fn aggregate(kind: &str, sizes: &[usize], random: &mut Random) -> Result<Case, Box<dyn Error>> {
    let [size, fanout, width] = *sizes else { return Err("three sizes".into()) };
    let rows = (size * fanout * 4 / 5).max(size);
    let (offsets, sources) = lists(size, fanout, rows, random);
    let destinations = (0..size as i64).flat_map(|list| vec![list; fanout]);
    let edges: Vec<i64> = sources.iter().copied().chain(destinations).collect();
    let x = floats(random, rows * width);
    let is_spmm = kind == "spmm";
    let results = if is_spmm { rows } else { size };
    let mut out = vec![0.0; results * width];
    Ok(Box::new(move |context| {
        let (of_rows, of_edges) = ([rows, width], [2, sources.len()]);
        let (of_offsets, of_sources) = ([offsets.len()], [sources.len()]);
        let x = f32_view(&of_rows, &x);
        let to = (&[results, width][..], &mut out[..]);
        let kernel = Cpu::default();
        if is_spmm {
            let inputs = [i64_view(&of_edges, &edges), x];
            return run(&kernel, &Op::Spmm(Reduction::Mean), &inputs, to, context);
        }
        let lists = [i64_view(&of_offsets, &offsets), i64_view(&of_sources, &sources)];
        run(&kernel, &Op::Aggregate(Reduction::Mean), &[x, lists[0], lists[1]], to, context)
    }))
}

/// The large table: f32, and steps of 8 bits.
struct Table {
    all: Vec<f32>,
    steps: Vec<u8>,
}

/// `gathered D F W`: rows of the large table are copied, then aggregated. `fused D F W`: they are
/// aggregated where they lie. `fused8 D F W`: from rows of 8 bits.
fn first_layer(
    kind: &str,
    sizes: &[usize],
    table: &Arc<Table>,
    random: &mut Random,
) -> Result<Case, Box<dyn Error>> {
    let [size, fanout, width] = *sizes else { return Err("three sizes".into()) };
    let (len, columns) = TABLE;
    if width != columns {
        return Err("the table has another width".into());
    }
    let count = (size * fanout * 4 / 5).max(size);
    let (offsets, sources) = lists(size, fanout, count, random);
    let rows: Vec<u32> = (0..count).map(|_| random.below(len as u64) as u32).collect();
    let (mut out, mut copies) = (vec![0.0; size * width], vec![0.0; count * width]);
    let (kind, table, scales) = (kind.to_owned(), Arc::clone(table), vec![0.01; width]);
    Ok(Box::new(move |context| {
        let (of_rows, of_offsets, of_sources) = ([count, width], [offsets.len()], [sources.len()]);
        let lists = [i64_view(&of_offsets, &offsets), i64_view(&of_sources, &sources)];
        let table = match kind.as_str() {
            "fused8" => Rows::I8 { steps: &table.steps, scales: &scales },
            _ => Rows::F32(&table.all),
        };
        let rows = TableRows { table, len, rows: &rows };
        let to = (&[size, width][..], &mut out[..]);
        let op = Op::Aggregate(Reduction::Mean);
        let data = if kind == "gathered" {
            rows.copy_to(width, &mut copies, context)?;
            Data::F32(&copies)
        } else {
            Data::Rows(rows)
        };
        let x = View { dims: &of_rows, data };
        run(&Cpu::default(), &op, &[x, lists[0], lists[1]], to, context)
    }))
}

/// `NAME N W`: an operation on N x W elements, and a row of W that is added.
fn elementwise(op: Op, sizes: &[usize], random: &mut Random) -> Result<Case, Box<dyn Error>> {
    let [rows, width] = *sizes else { return Err("two sizes".into()) };
    let (x, row) = (floats(random, rows * width), floats(random, width));
    let mut out = vec![0.0; rows * width];
    Ok(Box::new(move |context| {
        let (dims, of_row) = ([rows, width], [width]);
        let inputs = [f32_view(&dims, &x), f32_view(&of_row, &row)];
        let inputs = &inputs[..op.inputs().0];
        run(&Cpu::default(), &op, inputs, (&dims, &mut out), context)
    }))
}

/// `attention D F H`: softmax of the logits of H heads over the F edges of each destination.
fn attention(sizes: &[usize], random: &mut Random) -> Result<Case, Box<dyn Error>> {
    let [size, fanout, heads] = *sizes else { return Err("three sizes".into()) };
    let edges = size * fanout;
    let logits = floats(random, edges * heads);
    let index: Vec<i64> = (0..size as i64).flat_map(|list| vec![list; fanout]).collect();
    let mut out = vec![0.0; edges * heads];
    Ok(Box::new(move |context| {
        let (dims, of_index) = ([edges, heads], [edges]);
        let count = [size as i64];
        let inputs = [f32_view(&dims, &logits), i64_view(&of_index, &index), i64_view(&[], &count)];
        run(&Cpu::default(), &Op::EdgeSoftmax, &inputs, (&dims, &mut out), context)
    }))
}

fn case(words: &[&str], table: &mut Option<Arc<Table>>) -> Result<Case, Box<dyn Error>> {
    let [kind, sizes @ ..] = words else { return Err("a case has a name".into()) };
    let sizes = sizes.iter().map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
    let mut random = Random::new(7);
    match *kind {
        "linear" | "sum" | "product" | "int8" => product(kind, &sizes, &mut random),
        "steps" => steps(&sizes, &mut random),
        "aggregate" | "spmm" => aggregate(kind, &sizes, &mut random),
        "gathered" | "fused" | "fused8" => {
            let table = table.get_or_insert_with(|| {
                let len = TABLE.0 * TABLE.1;
                let all = (0..len).map(|at| (at % 1_000) as f32).collect();
                Arc::new(Table { all, steps: vec![0x35; len] })
            });
            first_layer(kind, &sizes, table, &mut random)
        }
        "attention" => attention(&sizes, &mut random),
        "add" => elementwise(Op::Binary(Binary::Add), &sizes, &mut random),
        "elu" => elementwise(Op::Elu { alpha: 1.0 }, &sizes, &mut random),
        "log_softmax" => elementwise(Op::LogSoftmax { axis: -1 }, &sizes, &mut random),
        other => Err(format!("{other:?} is not a case").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut cases: HashMap<String, Case> = HashMap::new();
    let mut contexts: HashMap<usize, Context> = HashMap::new();
    let mut table = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [threads, runs, name] = words[..] else { return Err("three words".into()) };
        let (threads, runs) = (threads.parse()?, runs.parse::<u32>()?);
        let context = contexts.entry(threads).or_insert_with(|| Context::new(threads));
        if !cases.contains_key(name) {
            let words: Vec<&str> = name.split_whitespace().collect();
            cases.insert(name.to_owned(), case(&words, &mut table)?);
        }
        let Some(run) = cases.get_mut(name) else { continue };
        let start = Instant::now();
        for _ in 0..runs {
            run(context)?;
        }
        println!("{:.9}", start.elapsed().as_secs_f64() / f64::from(runs));
        stdout().flush()?;
    }
    Ok(())
}
