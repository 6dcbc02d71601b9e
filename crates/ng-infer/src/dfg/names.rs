//! Operations by name, and names of operations.
//!
//! A name is found whatever its case, with or without underscores: HolisticGNN writes `SpMM_Mean`
//! and `SpMMMean`.

use std::collections::BTreeMap;

use ng_types::Dtype;

use super::attributes::{Attribute, Attributes};
use super::constant::Elements;
use super::error::DfgError;
use super::op::{Binary, FixedFormat, Op, Reduction, Unary};

/// Those that are alone of their kind.
const ALONE: [&str; 41] = [
    "AddSelfLoops",
    "BatchPre",
    "Cast",
    "Compress",
    "Concat",
    "ConstantOfShape",
    "Degree",
    "EdgeLists",
    "EdgeSoftmax",
    "Elu",
    "Expand",
    "FixedMatMul",
    "FixedRescale",
    "FromFixed",
    "GEMM",
    "Gather",
    "GatherElements",
    "GatherND",
    "Tile",
    "GcnNorm",
    "Identity",
    "LeakyRelu",
    "Linear",
    "LinearSum",
    "LogSoftmax",
    "MatMul",
    "QuantisedLinear",
    "Range",
    "RemoveSelfLoops",
    "RemoveSelfLoopsAttr",
    "Reshape",
    "SegmentMatmul",
    "SelfLoopAttr",
    "Shape",
    "Slice",
    "Softmax",
    "Squeeze",
    "ToFixed",
    "Transpose",
    "Unsqueeze",
    "Where",
];

impl Op {
    /// The names of all operations.
    pub fn names() -> impl Iterator<Item = String> {
        let alone = ALONE.iter().map(|name| (*name).to_owned());
        let unary = Unary::ALL.iter().map(|(_, name)| (*name).to_owned());
        let binary = Binary::ALL.iter().map(|(_, name)| (*name).to_owned());
        let families = ["Aggregate", "Reduce", "Scatter", "SpMM_"]
            .into_iter()
            .flat_map(|family| Reduction::ALL.iter().map(move |(_, how)| format!("{family}{how}")));
        let named = |name| if name == "ReduceMul" { "ReduceProd".to_owned() } else { name };
        let fixed = Reduction::ALL.iter().filter(|(how, _)| *how != Reduction::Mul);
        let fixed = fixed.map(|(_, how)| format!("FixedScatter{how}"));
        let pairs = Binary::ALL.iter().filter(|(binary, _)| binary.is_arithmetic());
        let pairs = pairs.map(|(_, name)| format!("SDDMM_{name}"));
        alone.chain(unary).chain(binary).chain(families.map(named)).chain(pairs).chain(fixed)
    }

    /// Its name in files and messages.
    pub fn name(&self) -> String {
        let name = match self {
            Self::Unary(unary) => unary.name(),
            Self::Binary(binary) => binary.name(),
            Self::Reduce { how: Reduction::Mul, .. } => "ReduceProd",
            Self::Reduce { how, .. } => return format!("Reduce{}", how.name()),
            Self::Scatter(how) => return format!("Scatter{}", how.name()),
            Self::Spmm(how) => return format!("SpMM_{}", how.name()),
            Self::FixedScatter(how) => return format!("FixedScatter{}", how.name()),
            Self::Aggregate(how) => return format!("Aggregate{}", how.name()),
            Self::Sddmm(binary) => return format!("SDDMM_{}", binary.name()),
            Self::EdgeLists => "EdgeLists",
            Self::Linear { .. } => "Linear",
            Self::LinearSum { .. } => "LinearSum",
            Self::Elu { .. } => "Elu",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::Where => "Where",
            Self::Cast(_) => "Cast",
            Self::Identity => "Identity",
            Self::MatMul => "MatMul",
            Self::QuantisedLinear => "QuantisedLinear",
            Self::ToFixed(_) => "ToFixed",
            Self::FromFixed { .. } => "FromFixed",
            Self::FixedRescale { .. } => "FixedRescale",
            Self::FixedMatMul => "FixedMatMul",
            Self::Gemm { .. } => "GEMM",
            Self::Softmax { .. } => "Softmax",
            Self::LogSoftmax { .. } => "LogSoftmax",
            Self::Shape { .. } => "Shape",
            Self::Reshape { .. } => "Reshape",
            Self::Expand => "Expand",
            Self::Transpose { .. } => "Transpose",
            Self::Concat { .. } => "Concat",
            Self::Slice => "Slice",
            Self::Squeeze => "Squeeze",
            Self::Unsqueeze => "Unsqueeze",
            Self::Gather { .. } => "Gather",
            Self::GatherNd => "GatherND",
            Self::GatherElements { .. } => "GatherElements",
            Self::Tile => "Tile",
            Self::Compress { .. } => "Compress",
            Self::Range => "Range",
            Self::ConstantOfShape { .. } => "ConstantOfShape",
            Self::EdgeSoftmax => "EdgeSoftmax",
            Self::AddSelfLoops => "AddSelfLoops",
            Self::RemoveSelfLoops => "RemoveSelfLoops",
            Self::RemoveSelfLoopsAttr => "RemoveSelfLoopsAttr",
            Self::SelfLoopAttr => "SelfLoopAttr",
            Self::GcnNorm => "GcnNorm",
            Self::Degree => "Degree",
            Self::SegmentMatmul => "SegmentMatmul",
            Self::BatchPre => "BatchPre",
        };
        name.to_owned()
    }

    /// What a file says of it beside its name; those of [`Op::from_name`].
    pub fn attributes(&self) -> BTreeMap<String, Attribute> {
        let int = |number: i64| Attribute::Int(number);
        let all: Vec<(&str, Attribute)> = match self {
            Self::Elu { alpha } | Self::LeakyRelu { alpha } => {
                vec![("alpha", Attribute::Float(*alpha))]
            }
            Self::Reshape { allow_zero } => vec![("allowzero", int((*allow_zero).into()))],
            Self::Cast(dtype) => vec![("to", Attribute::Text(dtype.name().to_owned()))],
            Self::Gemm { alpha, beta, trans_a, trans_b } => vec![
                ("alpha", Attribute::Float(*alpha)),
                ("beta", Attribute::Float(*beta)),
                ("transA", int((*trans_a).into())),
                ("transB", int((*trans_b).into())),
            ],
            Self::ToFixed(FixedFormat { bits, fraction }) => {
                vec![("bits", int((*bits).into())), ("fraction", int((*fraction).into()))]
            }
            Self::FromFixed { fraction } => vec![("fraction", int((*fraction).into()))],
            Self::FixedRescale { bits, shift } => {
                vec![("bits", int((*bits).into())), ("shift", int((*shift).into()))]
            }
            Self::Linear { relu } | Self::LinearSum { relu } => vec![("relu", int((*relu).into()))],
            Self::Reduce { keep_dims, .. } => vec![("keepdims", int((*keep_dims).into()))],
            Self::Softmax { axis }
            | Self::LogSoftmax { axis }
            | Self::Concat { axis }
            | Self::Gather { axis }
            | Self::GatherElements { axis }
            | Self::Compress { axis: Some(axis) } => vec![("axis", int(*axis))],
            Self::Shape { start, end } => {
                let end = end.map(|end| ("end", int(end)));
                [("start", int(*start))].into_iter().chain(end).collect()
            }
            Self::Transpose { perm: Some(perm) } => {
                let perm = perm.iter().map(|axis| *axis as i64).collect();
                vec![("perm", Attribute::Ints(perm))]
            }
            Self::ConstantOfShape { value, dtype } => vec![
                ("value", Attribute::Float(*value as f32)),
                ("to", Attribute::Text(dtype.name().to_owned())),
            ],
            _ => Vec::new(),
        };
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The operation of a name, with the attributes that it has.
    ///
    /// # Errors
    ///
    /// There is none of the name; an attribute is unknown, missing, or of the wrong kind.
    pub fn from_name(mut given: Attributes<'_>) -> Result<Self, DfgError> {
        let op = match given.op().replace('_', "").to_lowercase().as_str() {
            "elu" => Self::Elu { alpha: given.float("alpha")?.unwrap_or(1.0) },
            "leakyrelu" => Self::LeakyRelu { alpha: given.float("alpha")?.unwrap_or(0.01) },
            "where" => Self::Where,
            "cast" => Self::Cast(dtype(&mut given)?),
            "identity" => Self::Identity,
            "matmul" => Self::MatMul,
            "quantisedlinear" => Self::QuantisedLinear,
            "tofixed" => {
                let (bits, fraction) = (bits(&mut given)?, places(&mut given, "fraction")?);
                Self::ToFixed(FixedFormat { bits, fraction })
            }
            "fromfixed" => Self::FromFixed { fraction: places(&mut given, "fraction")? },
            "fixedrescale" => {
                let (bits, shift) = (bits(&mut given)?, places(&mut given, "shift")?);
                Self::FixedRescale { bits, shift }
            }
            "fixedmatmul" => Self::FixedMatMul,
            "gemm" => Self::Gemm {
                alpha: given.float("alpha")?.unwrap_or(1.0),
                beta: given.float("beta")?.unwrap_or(1.0),
                trans_a: given.flag("transA")?.unwrap_or(false),
                trans_b: given.flag("transB")?.unwrap_or(false),
            },
            "softmax" => Self::Softmax { axis: given.int("axis")?.unwrap_or(-1) },
            "logsoftmax" => Self::LogSoftmax { axis: given.int("axis")?.unwrap_or(-1) },
            "shape" => {
                Self::Shape { start: given.int("start")?.unwrap_or(0), end: given.int("end")? }
            }
            "reshape" => Self::Reshape { allow_zero: given.flag("allowzero")?.unwrap_or(false) },
            "expand" => Self::Expand,
            "transpose" => Self::Transpose { perm: perm(&mut given)? },
            "concat" => Self::Concat { axis: required(&mut given, "axis")? },
            "slice" => Self::Slice,
            "squeeze" => Self::Squeeze,
            "unsqueeze" => Self::Unsqueeze,
            "gather" => Self::Gather { axis: given.int("axis")?.unwrap_or(0) },
            "gatherelements" => Self::GatherElements { axis: given.int("axis")?.unwrap_or(0) },
            "tile" => Self::Tile,
            "gathernd" => gather_nd(&mut given)?,
            "compress" => Self::Compress { axis: given.int("axis")? },
            "range" => Self::Range,
            "constantofshape" => filled(&mut given)?,
            "edgelists" => Self::EdgeLists,
            "linear" => Self::Linear { relu: given.flag("relu")?.unwrap_or(false) },
            "linearsum" => Self::LinearSum { relu: given.flag("relu")?.unwrap_or(false) },
            "edgesoftmax" => Self::EdgeSoftmax,
            "addselfloops" => Self::AddSelfLoops,
            "removeselfloops" => Self::RemoveSelfLoops,
            "removeselfloopsattr" => Self::RemoveSelfLoopsAttr,
            "selfloopattr" => Self::SelfLoopAttr,
            "gcnnorm" => Self::GcnNorm,
            "degree" => Self::Degree,
            "segmentmatmul" => Self::SegmentMatmul,
            "batchpre" => Self::BatchPre,
            name => of_family(name, &mut given)?.ok_or_else(|| DfgError::UnknownOp {
                node: given.node().to_owned(),
                name: given.op().to_owned(),
            })?,
        };
        given.finish()?;
        Ok(op)
    }
}

/// Those that are many of one kind.
fn of_family(name: &str, given: &mut Attributes<'_>) -> Result<Option<Op>, DfgError> {
    let is = |known: &&(Unary, &str)| known.1.eq_ignore_ascii_case(name);
    if let Some((unary, _)) = Unary::ALL.iter().find(is) {
        return Ok(Some(Op::Unary(*unary)));
    }
    if let Some((binary, _)) =
        Binary::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name))
    {
        return Ok(Some(Op::Binary(*binary)));
    }
    let reduction = |prefix: &str| {
        let rest = name.strip_prefix(prefix)?;
        let found = Reduction::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(rest));
        found.map(|(how, _)| *how)
    };
    if let Some(how) = reduction("scatter") {
        return Ok(Some(Op::Scatter(how)));
    }
    if let Some(how) = reduction("fixedscatter").filter(|how| *how != Reduction::Mul) {
        return Ok(Some(Op::FixedScatter(how)));
    }
    if let Some(how) = reduction("spmm") {
        return Ok(Some(Op::Spmm(how)));
    }
    if let Some(how) = reduction("aggregate") {
        return Ok(Some(Op::Aggregate(how)));
    }
    if let Some(rest) = name.strip_prefix("sddmm") {
        let is = |(binary, known): &&(Binary, &str)| {
            binary.is_arithmetic() && known.eq_ignore_ascii_case(rest)
        };
        return Ok(Binary::ALL.iter().find(is).map(|(binary, _)| Op::Sddmm(*binary)));
    }
    let how = if name == "reduceprod" { Some(Reduction::Mul) } else { reduction("reduce") };
    let Some(how) = how else { return Ok(None) };
    if given.flag("noop_with_empty_axes")? == Some(true) {
        return Err(given.wrong("noop_with_empty_axes", "only 0 is supported"));
    }
    let keep_dims = given.flag("keepdims")?.unwrap_or(true);
    Ok(Some(Op::Reduce { how, keep_dims }))
}

fn required(given: &mut Attributes<'_>, name: &str) -> Result<i64, DfgError> {
    given.int(name)?.ok_or_else(|| given.wrong(name, "is missing"))
}

/// Widths of fixed-point numbers.
fn bits(given: &mut Attributes<'_>) -> Result<u32, DfgError> {
    let bits = required(given, "bits")?;
    let known = u32::try_from(bits).ok().filter(|bits| (2..=62).contains(bits));
    known.ok_or_else(|| given.wrong("bits", format!("{bits} is out of range: expected 2 to 62")))
}

/// Places of the point of fixed-point numbers.
fn places(given: &mut Attributes<'_>, name: &str) -> Result<i32, DfgError> {
    let places = required(given, name)?;
    let known = i32::try_from(places).ok().filter(|places| (-252..=252).contains(places));
    known
        .ok_or_else(|| given.wrong(name, format!("{places} is out of range: expected -252 to 252")))
}

/// The types that are computed with.
fn dtype(given: &mut Attributes<'_>) -> Result<Dtype, DfgError> {
    let name = given.text("to")?.ok_or_else(|| given.wrong("to", "is missing"))?;
    let known = name.parse().ok().filter(|d| matches!(d, Dtype::F32 | Dtype::I64 | Dtype::Bool));
    known.ok_or_else(|| {
        given.wrong("to", format!("{name:?} is not valid: expected f32, i64 or bool"))
    })
}

fn gather_nd(given: &mut Attributes<'_>) -> Result<Op, DfgError> {
    match given.int("batch_dims")? {
        None | Some(0) => Ok(Op::GatherNd),
        Some(_) => Err(given.wrong("batch_dims", "only 0 is supported")),
    }
}

fn perm(given: &mut Attributes<'_>) -> Result<Option<Vec<usize>>, DfgError> {
    let Some(perm) = given.ints("perm")? else { return Ok(None) };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..perm.len() as i64) {
        let problem = format!("{perm:?} does not contain each axis once");
        return Err(given.wrong("perm", problem));
    }
    Ok(Some(perm.into_iter().map(|axis| axis as usize).collect()))
}

/// The number is a tensor in ONNX, and a number with its type in the text form.
fn filled(given: &mut Attributes<'_>) -> Result<Op, DfgError> {
    let tensor = match given.any("value") {
        None => return Ok(Op::ConstantOfShape { value: 0.0, dtype: Dtype::F32 }),
        Some(Attribute::Float(value)) => {
            return Ok(Op::ConstantOfShape { value: value.into(), dtype: dtype(given)? });
        }
        Some(Attribute::Int(value)) => {
            return Ok(Op::ConstantOfShape { value: value as f64, dtype: dtype(given)? });
        }
        Some(Attribute::Tensor(tensor)) => tensor,
        Some(other) => {
            return Err(given.wrong("value", format!("expected a tensor, found {other}")));
        }
    };
    let value = match tensor.elements() {
        Elements::F32(all) => all.first().map(|first| f64::from(*first)),
        Elements::I64(all) => all.first().map(|first| *first as f64),
        Elements::Bool(all) => all.first().map(|first| f64::from(u8::from(*first))),
        Elements::F16(_) | Elements::I8(_) => None,
    };
    let value = value.filter(|_| tensor.elements().len() == 1);
    let value = value.ok_or_else(|| given.wrong("value", "expected one element"))?;
    Ok(Op::ConstantOfShape { value, dtype: tensor.elements().dtype() })
}
