//! A graph that is saved is read as the same graph; what ONNX does not have is refused by name.

use std::collections::BTreeMap;
use std::io;

use crate::common::{f32s, i64s};
use ng_infer::convert::{ConvertError, ModelFiles, SaveError, has_counterpart};
use ng_infer::dfg::{
    Attribute, Attributes, Dfg, DfgError, Dim, FixedFormat, Op, Reduction, TensorType, Unary,
};
use ng_infer::kernel::Context;
use ng_infer::onnx::{ExternalFiles, Model, Range};
use ng_infer::quantise::{fixed_point, fixed_values, half, steps};
use ng_infer::run::{Devices, run};
use ng_types::Dtype;

const WEIGHTS: &str = "model.safetensors";

fn typed(dtype: Dtype, dims: &[Dim]) -> Option<TensorType> {
    Some(TensorType { dtype, shape: dims.to_vec() })
}

fn saved(dfg: &Dfg) -> ModelFiles {
    dfg.to_onnx(&[], WEIGHTS).expect("can be saved")
}

fn opened(files: &ModelFiles) -> Result<Dfg, ConvertError> {
    let model = Model::decode(&files.model)?;
    let read = |range: &Range, to: &mut [u8]| -> io::Result<()> {
        assert_eq!(range.file, WEIGHTS);
        let start = range.offset as usize;
        to.copy_from_slice(&files.weights[start..start + to.len()]);
        Ok(())
    };
    let mut external = ExternalFiles::new(&model, |_| Ok(files.weights.len() as u64), read)?;
    let mut bytes = |tensor: &_| external.bytes(tensor).map(|bytes| bytes.into_owned());
    Dfg::from_onnx(&model, &mut bytes)
}

/// Sums over neighbours with weights, a product, an activation; two outputs.
fn example() -> Result<Dfg, DfgError> {
    let (nodes, edges) = (Dim::symbol("nodes"), Dim::symbol("edges"));
    let mut dfg = Dfg::default();
    let x = dfg.create_in("x", typed(Dtype::F32, &[nodes, 4.into()]))?;
    let ends = dfg.create_in("edge_index", typed(Dtype::I64, &[2.into(), edges.clone()]))?;
    let weight = dfg.create_in("edge_weight", typed(Dtype::F32, &[edges]))?;
    let matrix: Vec<f32> = (0..20).map(|n| n as f32 / 8.0 - 1.0).collect();
    let matrix = dfg.create_weight("lin.weight", f32s(&[4, 5], &matrix))?;
    let bias = dfg.create_weight("lin.bias", f32s(&[5], &[0.5, 0.0, -0.5, 1.0, 0.0]))?;
    let axes = dfg.create_weight("axes", i64s(&[1], &[1]))?;
    let sum = dfg.create_op(Op::Spmm(Reduction::Sum), &[ends, x, weight])?;
    let most = dfg.create_op(Op::Spmm(Reduction::Max), &[ends, x])?;
    let both = dfg.create_op(Op::Binary(ng_infer::dfg::Binary::Add), &[sum[0], most[0]])?;
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
    let product = dfg.create_op(gemm, &[both[0], matrix, bias])?;
    let h = dfg.create_op(Op::Unary(Unary::Relu), &product)?;
    let total = Op::Reduce { how: Reduction::Sum, keep_dims: false };
    let total = dfg.create_op(total, &[h[0], axes])?;
    dfg.create_out("5_0", h[0])?;
    dfg.create_out("total", total[0])?;
    dfg.create_out("x again", x)?;
    Ok(dfg)
}

#[test]
fn a_saved_graph_is_read_as_itself_and_gives_the_same() {
    let dfg = example().expect("builds");
    let files = saved(&dfg);
    let read = opened(&files).expect("is read");
    assert_eq!(saved(&read), saved(&opened(&saved(&read)).expect("is read")));
    let names = |dfg: &Dfg| dfg.outputs().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&read), ["5_0", "total", "x again"]);
    let ops = |dfg: &Dfg| dfg.nodes().iter().map(|node| node.op.clone()).collect::<Vec<_>>();
    assert_eq!(ops(&read)[..6], ops(&dfg)[..]);
    // An input that is an output, too, is copied.
    assert_eq!(ops(&read)[6..], [Op::Identity]);
    let inputs = [
        ("x", f32s(&[3, 4], &[1.0, 2.0, 3.0, 4.0, -1.0, 0.5, 0.0, 2.0, 9.0, 8.0, 7.0, 6.0])),
        ("edge_index", i64s(&[2, 4], &[0, 1, 2, 0, 1, 1, 0, 0])),
        ("edge_weight", f32s(&[4], &[0.5, 2.0, 1.0, -1.0])),
    ];
    let results = |dfg: &Dfg| run(dfg, &Devices::default(), &inputs, &Context::default());
    assert_eq!(results(&read), results(&dfg));
    assert!(results(&dfg).is_ok());
}

#[test]
fn a_graph_whose_outputs_have_the_names_of_their_values_is_equal() {
    let build = || -> Result<Dfg, DfgError> {
        let mut dfg = Dfg::default();
        let x = dfg.create_in("x", typed(Dtype::F32, &[Dim::symbol("n"), 2.into()]))?;
        let exp = dfg.create_op(Op::Unary(Unary::Exp), &[x])?;
        let filled = Op::ConstantOfShape { value: 3.0, dtype: Dtype::I64 };
        let shape = dfg.create_op(Op::Shape { start: 0, end: None }, &exp)?;
        let filled = dfg.create_op(filled, &shape)?;
        let cast = dfg.create_op(Op::Cast(Dtype::F32), &filled)?;
        dfg.create_out("4_0", cast[0])?;
        Ok(dfg)
    };
    let dfg = build().expect("builds");
    assert_eq!(opened(&saved(&dfg)).expect("is read"), dfg);
}

#[test]
fn the_program_of_the_paper_keeps_its_batch_pre_beside_the_computation() {
    let build = || -> Result<Dfg, DfgError> {
        let mut dfg = Dfg::default();
        let batch = dfg.create_in("Batch", typed(Dtype::I64, &[Dim::symbol("seeds")]))?;
        let weight = dfg.create_in("Weight", typed(Dtype::F32, &[2.into(), 1.into()]))?;
        let prepared = dfg.create_op(Op::BatchPre, &[batch])?;
        let mean = dfg.create_op(Op::Spmm(Reduction::Mean), &prepared)?;
        let product = dfg.create_op(Op::MatMul, &[mean[0], weight])?;
        let relu = dfg.create_op(Op::Unary(Unary::Relu), &product)?;
        dfg.create_out("4_0", relu[0])?;
        Ok(dfg)
    };
    let dfg = build().expect("builds");
    let mut files = saved(&dfg);
    let model = Model::decode(&files.model).expect("is a model");
    let inputs: Vec<&str> = model.graph.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(inputs, ["Weight", "1_0", "1_1"]);
    assert_eq!(model.graph.nodes.len(), 3);
    assert_eq!(opened(&files).expect("is read"), dfg);
    let place = |text: &[u8]| files.model.windows(text.len()).position(|part| part == text);
    let at = place(b"\"1_1\"").expect("is in the note");
    files.model[at + 1] = b'9';
    let error = opened(&files).expect_err("is not an input").to_string();
    assert!(error.contains("\"neargraph.batch_pre\" is not valid"), "{error}");
}

fn refused(build: impl Fn(&mut Dfg) -> Result<(), DfgError>, words: &str) {
    let mut dfg = Dfg::default();
    build(&mut dfg).expect("builds");
    let error: SaveError = dfg.to_onnx(&[], WEIGHTS).expect_err("cannot be saved");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn what_cannot_be_saved_is_named() {
    let x = |dfg: &mut Dfg| dfg.create_in("x", typed(Dtype::F32, &[3.into(), 2.into()]));
    refused(|dfg| x(dfg).map(drop), "the graph has no output");
    refused(
        |dfg| {
            let x = dfg.create_in("x", None)?;
            dfg.create_out("y", x)
        },
        "input \"x\" has no type",
    );
    refused(
        |dfg| {
            let x = x(dfg)?;
            let y = dfg.create_op(Op::Unary(Unary::Exp), &[x])?;
            dfg.create_out("x", y[0])
        },
        "output \"x\" has the same name as another value",
    );
    refused(
        |dfg| {
            x(dfg)?;
            let w = dfg.create_weight("w", f32s(&[2], &[1.0, f32::NAN]))?;
            dfg.create_out("y", w)
        },
        "weight \"w\" has NaN at index 1",
    );
    refused(
        |dfg| {
            let batch = dfg.create_in("b", typed(Dtype::I64, &[3.into()]))?;
            let copy = dfg.create_op(Op::Identity, &[batch])?;
            let made = dfg.create_op(Op::BatchPre, &copy)?;
            dfg.create_out("y", made[1])
        },
        "node 2: BatchPre cannot be written as ONNX: its node ids must be an input",
    );
}

/// Operations without attributes that they need, so that a new one is not forgotten here.
#[test]
fn each_operation_is_saved_or_refused_by_name() {
    let needs = |name: &str| match name {
        "Cast" => vec![("to", Attribute::Text("f32".to_owned()))],
        "Concat" => vec![("axis", Attribute::Int(0))],
        "GEMM" => vec![("transB", Attribute::Int(1))],
        "FromFixed" => vec![("fraction", Attribute::Int(3))],
        "ToFixed" => vec![("bits", Attribute::Int(8)), ("fraction", Attribute::Int(3))],
        "FixedRescale" => vec![("bits", Attribute::Int(8)), ("shift", Attribute::Int(3))],
        _ => Vec::new(),
    };
    let mut unsaved = Vec::new();
    for name in Op::names() {
        let given: BTreeMap<_, _> =
            needs(&name).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let op = Op::from_name(Attributes::new("node", &name, given)).expect("is known");
        if !has_counterpart(&op) {
            unsaved.push(name);
        }
    }
    // Fusion makes them of others.
    let fused = |name: &&String| name.starts_with("Aggregate") || name.starts_with("SDDMM_");
    let (fused, others): (Vec<_>, Vec<_>) = unsaved.iter().partition(fused);
    assert_eq!(others, ["BatchPre", "EdgeLists", "Linear", "LinearSum"]);
    assert!(fused.len() > 5);
}

/// Rows, a product with a bias, and a gather from a table.
fn narrowed() -> Result<Dfg, DfgError> {
    let mut dfg = Dfg::default();
    let x = dfg.create_in("x", typed(Dtype::F32, &[Dim::symbol("nodes"), 8.into()]))?;
    let ids = dfg.create_in("ids", typed(Dtype::I64, &[Dim::symbol("nodes")]))?;
    let all = |n: usize, by: f32| (0..n).map(|i| (i as f32 - 9.0) * by).collect::<Vec<_>>();
    let matrix = dfg.create_weight("w", f32s(&[8, 16], &all(128, 0.01)))?;
    let bias = dfg.create_weight("b", f32s(&[16], &all(16, 0.1)))?;
    let table = dfg.create_weight("table", f32s(&[5, 16], &all(80, 0.02)))?;
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b: false };
    let product = dfg.create_op(gemm, &[x, matrix, bias])?[0];
    let taken = dfg.create_op(Op::Gather { axis: 0 }, &[table, ids])?[0];
    let y = dfg.create_op(Op::Binary(ng_infer::dfg::Binary::Add), &[product, taken])?[0];
    dfg.create_out("y", y)?;
    Ok(dfg)
}

#[test]
fn graphs_in_fewer_bits_stay_narrow_in_files_and_behind_them() {
    let dfg = narrowed().expect("builds");
    let formats = |bits| {
        let named = |name: &str| (name.to_owned(), FixedFormat { bits, fraction: 5 });
        let all = fixed_values(&dfg, &[]).expect("types fit").into_iter().map(named);
        all.collect::<Vec<_>>()
    };
    let fixed = |bits| fixed_point(&dfg, &[], &formats(bits)).expect("fits").dfg;
    let inputs = || {
        let x: Vec<f32> = (0..16).map(|i| (i % 5) as f32 * 0.3 - 0.5).collect();
        vec![("x", f32s(&[2, 8], &x)), ("ids", i64s(&[2], &[4, 0]))]
    };
    let float = saved(&dfg).weights.len();
    for (graph, bytes, dtypes) in [
        (steps(&dfg).expect("linear").dfg, 128 + 4 * (16 + 16 + 80), vec![Dtype::I8]),
        (half(&dfg).expect("weights").dfg, 2 * (128 + 80) + 32, vec![Dtype::F16]),
        (fixed(8), 128 + 8 * (16 + 80), vec![Dtype::I8]),
        (fixed(16), 128 + 8 * (16 + 80), vec![Dtype::I64]),
    ] {
        let files = saved(&graph);
        let read = opened(&files).expect("is read");
        let found: Vec<_> = read.weights().map(|(_, w)| w.elements().dtype()).collect();
        for dtype in dtypes {
            assert!(found.contains(&dtype), "{dtype:?} is not in {found:?}");
        }
        let data = files.weights.len()
            - 8
            - u64::from_le_bytes(*files.weights.first_chunk().expect("8")) as usize;
        assert!(data <= bytes, "{data} bytes of weights, more than {bytes}; {float} in f32");
        let out = |graph: &Dfg| run(graph, &Devices::default(), &inputs(), &Context::default());
        assert_eq!(out(&read), out(&graph));
    }
}
