//! Inputs of the protocol as targets, and dtypes by its names.

use ng_rpc::open_inference::{InferTensorContents, ModelInferRequest};
use ng_rpc::{Problem, v1};

use crate::targets::Targets;

/// The input that has ids of nodes.
pub const NODES: &str = "nodes";
/// The input that has pairs of nodes.
pub const EDGES: &str = "edges";
/// The input that has numbers of graphs.
pub const GRAPHS: &str = "graph_ids";

/// The name of a dtype in the protocol.
///
/// # Errors
/// It has none.
pub fn datatype(dtype: v1::Dtype) -> Result<&'static str, Problem> {
    Ok(match dtype {
        v1::Dtype::F64 => "FP64",
        v1::Dtype::F32 => "FP32",
        v1::Dtype::F16 => "FP16",
        v1::Dtype::Bf16 => "BF16",
        v1::Dtype::I8 => "INT8",
        v1::Dtype::I16 => "INT16",
        v1::Dtype::I32 => "INT32",
        v1::Dtype::I64 => "INT64",
        v1::Dtype::U8 => "UINT8",
        v1::Dtype::Bool => "BOOL",
        v1::Dtype::Unspecified => {
            return Err(Problem::argument("outputs", "the model's rows have no dtype"));
        }
    })
}

/// What a request asks answers for. Its contents are taken.
///
/// # Errors
/// It has not exactly one input of the three, or that is wrong.
pub fn targets(request: &mut ModelInferRequest) -> Result<Targets, Problem> {
    let raw = std::mem::take(&mut request.raw_input_contents);
    let [input] = request.inputs.as_mut_slice() else {
        let message = format!("the request has {} inputs", request.inputs.len());
        return Err(Problem::argument("inputs", message)
            .remedy(format!("give exactly one of {NODES:?}, {EDGES:?} and {GRAPHS:?}")));
    };
    let (name, contents) = (input.name.as_str(), input.contents.take());
    if let Some((other, _)) = input.parameters.iter().next() {
        let message = format!("parameter {other:?} of an input is unknown");
        return Err(
            Problem::argument("inputs.parameters", message).remedy("leave out the parameter")
        );
    }
    let is_pairs = match name {
        NODES | GRAPHS => false,
        EDGES => true,
        other => {
            return Err(Problem::argument("inputs.name", format!("input {other:?} is unknown"))
                .remedy(format!("give {NODES:?}, {EDGES:?} or {GRAPHS:?}")));
        }
    };
    let count = counted(&input.shape, is_pairs)?;
    let ids = match (raw.as_slice(), contents) {
        ([bytes], None) => from_raw(&input.datatype, bytes)?,
        ([], Some(contents)) => from_contents(&input.datatype, contents)?,
        (raw, contents) => {
            let given = raw.len() + usize::from(contents.is_some());
            let message = format!("the values of input {name:?} are given {given} times");
            return Err(Problem::argument("raw_input_contents", message)
                .remedy("give them once, in contents or in raw_input_contents"));
        }
    };
    if ids.len() as u64 != count {
        let message =
            format!("input {name:?} has {} values, but its shape needs {count}", ids.len());
        return Err(
            Problem::argument("inputs.shape", message).remedy("correct the shape, or the values")
        );
    }
    Ok(match name {
        NODES => Targets::Nodes(ids),
        GRAPHS => Targets::Graphs(ids),
        _ => {
            let mut sources = ids;
            let destinations = sources.split_off(sources.len() / 2);
            Targets::Edges(sources, destinations)
        }
    })
}

/// How many numbers a shape has.
fn counted(shape: &[i64], is_pairs: bool) -> Result<u64, Problem> {
    let count = match (is_pairs, shape) {
        (false, [n]) => u64::try_from(*n).ok(),
        (true, [2, n]) => u64::try_from(*n).ok().and_then(|n| n.checked_mul(2)),
        _ => None,
    };
    count.ok_or_else(|| {
        let wanted = if is_pairs { "[2, n]" } else { "[n]" };
        Problem::argument("inputs.shape", format!("the shape is {shape:?}, expected {wanted}"))
            .remedy(format!("give {wanted}, where n is the number of targets"))
    })
}

fn from_raw(datatype: &str, bytes: &[u8]) -> Result<Vec<u64>, Problem> {
    let width = match datatype {
        "INT64" | "UINT64" => 8,
        "INT32" | "UINT32" => 4,
        other => return Err(no_ids(other)),
    };
    let is_signed = datatype.starts_with('I');
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    };
    if !bytes.len().is_multiple_of(width) {
        let message = format!("{} bytes are not a whole number of {datatype} values", bytes.len());
        return Err(Problem::argument("raw_input_contents", message)
            .remedy(format!("give {width} bytes for each value, little-endian")));
    }
    let negative = 1 << (width * 8 - 1);
    let ids = bytes.chunks_exact(width).map(number);
    let checked =
        ids.map(|id| if is_signed && id >= negative { Err(below_zero()) } else { Ok(id) });
    checked.collect()
}

fn from_contents(datatype: &str, contents: InferTensorContents) -> Result<Vec<u64>, Problem> {
    let id = |id: i64| u64::try_from(id).map_err(|_| below_zero());
    match datatype {
        "INT64" => contents.int64_contents.into_iter().map(id).collect(),
        "INT32" => contents.int_contents.into_iter().map(|one| id(one.into())).collect(),
        "UINT64" => Ok(contents.uint64_contents),
        "UINT32" => Ok(contents.uint_contents.into_iter().map(u64::from).collect()),
        other => Err(no_ids(other)),
    }
}

fn no_ids(datatype: &str) -> Problem {
    Problem::argument("inputs.datatype", format!("{datatype:?} is not a valid type for ids"))
        .remedy("give INT64, INT32, UINT64 or UINT32")
}

fn below_zero() -> Problem {
    Problem::argument("inputs", "an id is below 0").remedy("use ids from 0")
}
