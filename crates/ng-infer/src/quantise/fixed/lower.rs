//! The graph of whole numbers: each value with its fraction bits, each operation on whole numbers.
//!
//! A product has the fraction bits of both factors together. Sums are done after all terms have as
//! many as the one that has most, so nothing is rounded before a value has a format of its own.

use std::collections::HashMap;

use super::formats::by_value;
use super::kinds::{Kind, Kinds, is_added};
use crate::dfg::{
    Binary, Constant, Dfg, Elements, FixedFormat, Node, Op, Reduction, Source, TensorType, Unary,
    Value,
};
use crate::kernel::{Context, Kernel, Scalar, View, ViewMut};
use crate::quantise::copy::Copy;
use crate::quantise::{QuantiseError, Quantised};

/// Sums of products have as many bits as whole numbers have.
const WIDE: u32 = 62;
/// More fraction bits in a mean, which is a quotient.
const MEAN_BITS: i32 = 16;

/// Names of the values that have a format, in the order of the graph; `given` as of [`Dfg::check`].
///
/// # Errors
///
/// Types do not match.
pub fn fixed_values<'a>(
    dfg: &'a Dfg,
    given: &[(&str, TensorType)],
) -> Result<Vec<&'a str>, QuantiseError> {
    let kinds = Kinds::new(dfg, &dfg.check(given)?);
    Ok(points(dfg, &kinds).into_iter().map(|value| dfg.name(value)).collect())
}

pub(super) fn points(dfg: &Dfg, kinds: &Kinds) -> Vec<Value> {
    dfg.values().filter(|value| kinds.is_point(dfg, *value)).collect()
}

/// The graph in whole numbers, where each of [`fixed_values`] has the format of its name.
///
/// Sums, products, extremes and moved elements are exact, but for the rounding to a format. The
/// others are done in single precision, on the numbers that the whole numbers stand for.
///
/// # Errors
///
/// Types do not fit, a value has no format, or a weight is not finite.
pub fn fixed_point(
    dfg: &Dfg,
    given: &[(&str, TensorType)],
    formats: &[(String, FixedFormat)],
) -> Result<Quantised, QuantiseError> {
    let kinds = Kinds::new(dfg, &dfg.check(given)?);
    let formats = by_value(dfg, &points(dfg, &kinds), formats)?;
    let mut lowering = Lowering {
        copy: Copy::new(dfg)?,
        kinds: &kinds,
        formats: &formats,
        fractions: HashMap::new(),
        floats: HashMap::new(),
        zero: None,
        narrowed: Vec::new(),
    };
    for (value, _) in dfg.inputs().filter(|(value, _)| kinds.is_number(*value)) {
        let input = lowering.copy.value(value)?;
        lowering.round("input", value, input, None)?;
    }
    for at in 0..dfg.nodes().len() {
        lowering.node(at)?;
    }
    lowering.finish()
}

struct Lowering<'a> {
    copy: Copy<'a>,
    kinds: &'a Kinds,
    formats: &'a HashMap<Value, FixedFormat>,
    /// By value of the graph as it was, fraction bits of what stands for it, if that is whole.
    fractions: HashMap<Value, i32>,
    /// By value, it in single precision where it is whole.
    floats: HashMap<Value, Value>,
    zero: Option<Value>,
    narrowed: Vec<String>,
}

impl Lowering<'_> {
    fn node(&mut self, at: usize) -> Result<(), QuantiseError> {
        let dfg = self.copy.from;
        let node = &dfg.nodes()[at];
        let (kind, is_whole) = (self.kinds.nodes[at], self.kinds.is_whole(dfg, at));
        match (kind, is_whole) {
            (Kind::Product, _) => self.product(node),
            (Kind::Times, true) => {
                let [(one, f), (other, g)] =
                    [self.whole(node.inputs[0])?, self.whole(node.inputs[1])?];
                self.give(node, node.op.clone(), &[one, other], f + g)
            }
            (Kind::Sum, true) => self.sum(node),
            (Kind::Move, _) => self.moved(node),
            _ => self.float(node),
        }
    }

    /// Adds the node of `op` that gives what `node` gives, with so many fraction bits.
    fn give(
        &mut self,
        node: &Node,
        op: Op,
        inputs: &[Value],
        fraction: i32,
    ) -> Result<(), QuantiseError> {
        let out = node.outputs[0];
        let name = format!("{}.fixed", self.copy.from.name(out));
        let made = self.copy.node(&node.name, op, inputs, &name)?;
        self.round(&node.name, out, made, Some(fraction))
    }

    /// Lets `made` stand for `old`, rounded to its format if it has one.
    fn round(
        &mut self,
        label: &str,
        old: Value,
        made: Value,
        fraction: Option<i32>,
    ) -> Result<(), QuantiseError> {
        let mut made = made;
        let mut fraction = fraction;
        if let Some(format) = self.formats.get(&old) {
            let op = match fraction {
                None => Op::ToFixed(*format),
                Some(known) => {
                    let shift = (known - format.fraction).clamp(-126, 126);
                    Op::FixedRescale { bits: format.bits, shift }
                }
            };
            let name = format!("{}.rounded", self.copy.from.name(old));
            made = self.copy.node(label, op, &[made], &name)?;
            fraction = Some(format.fraction);
        }
        self.copy.set(old, made);
        self.fractions.extend(fraction.map(|fraction| (old, fraction)));
        Ok(())
    }

    /// A value that is whole, and its fraction bits.
    fn whole(&mut self, old: Value) -> Result<(Value, i32), QuantiseError> {
        if matches!(self.copy.from.source(old), Source::Weight(_)) {
            let format = self.formats[&old];
            return Ok((self.weight(old, format, "")?, format.fraction));
        }
        Ok((self.copy.value(old)?, self.fractions[&old]))
    }

    /// A weight in a format.
    fn weight(
        &mut self,
        old: Value,
        format: FixedFormat,
        purpose: &str,
    ) -> Result<Value, QuantiseError> {
        let name = self.copy.from.name(old).to_owned();
        let Some((tensor, _)) = self.copy.weight(old) else { unreachable!() };
        let purpose = format!("{purpose}.q{}_{}", format.bits, format.fraction);
        let made = self.copy.derived(old, &purpose, || whole_numbers(&name, tensor, format))?;
        self.narrowed.push(name);
        Ok(made)
    }

    /// A matrix of the model or of the batch; one of the model in bytes if they hold it.
    fn matrix(&mut self, old: Value, is_turned: bool) -> Result<(Value, i32), QuantiseError> {
        let Some((tensor, _)) = self.copy.weight(old) else {
            let (value, fraction) = self.whole(old)?;
            if !is_turned {
                return Ok((value, fraction));
            }
            let name = format!("{}.turned", self.copy.from.name(old));
            let turned = Op::Transpose { perm: None };
            return Ok((self.copy.node("matrix", turned, &[value], &name)?, fraction));
        };
        let (name, format) = (self.copy.from.name(old).to_owned(), self.formats[&old]);
        let turn = if is_turned { ".T" } else { "" };
        let purpose = format!("{turn}.q{}_{}m", format.bits, format.fraction);
        let made = self.copy.derived(old, &purpose, || {
            let whole = whole_numbers(&name, tensor, format)?;
            Ok::<_, QuantiseError>(narrow(&whole, is_turned, format.bits))
        })?;
        self.narrowed.push(name);
        Ok((made, format.fraction))
    }

    fn product(&mut self, node: &Node) -> Result<(), QuantiseError> {
        let (is_turned, relu) = match node.op {
            Op::Gemm { trans_b, .. } => (trans_b, false),
            Op::Linear { relu } => (false, relu),
            _ => (false, false),
        };
        let (rows, f) = self.whole(node.inputs[0])?;
        let (matrix, g) = self.matrix(node.inputs[1], is_turned)?;
        let name = self.copy.from.name(node.outputs[0]).to_owned();
        let label = &node.name;
        let mut fraction = f + g;
        let inputs = [rows, matrix];
        let mut made =
            self.copy.node(label, Op::FixedMatMul, &inputs, &format!("{name}.product"))?;
        if let Some(bias) = node.inputs.get(2) {
            let (bias, of_bias) = self.term(*bias, fraction)?;
            let terms = self.aligned(&[(made, fraction), (bias, of_bias)])?;
            fraction = fraction.max(of_bias);
            let add = Op::Binary(Binary::Add);
            made = self.copy.node(label, add, &terms, &format!("{name}.sum"))?;
        }
        if relu {
            let inputs = [made, self.zero()?];
            let op = Op::Binary(Binary::Max);
            made = self.copy.node(label, op, &inputs, &format!("{name}.relu"))?;
        }
        self.round(label, node.outputs[0], made, Some(fraction))
    }

    /// What is added; a weight without a format has as many fraction bits as the sum.
    fn term(&mut self, old: Value, fraction: i32) -> Result<(Value, i32), QuantiseError> {
        let is_weight = matches!(self.copy.from.source(old), Source::Weight(_));
        if is_weight && !self.formats.contains_key(&old) {
            let format = FixedFormat { bits: WIDE, fraction };
            return Ok((self.weight(old, format, "")?, fraction));
        }
        self.whole(old)
    }

    /// Whole numbers with as many fraction bits as the one that has most.
    fn aligned(&mut self, terms: &[(Value, i32)]) -> Result<Vec<Value>, QuantiseError> {
        let most = terms.iter().map(|(_, fraction)| *fraction).max().unwrap_or(0);
        let mut all = Vec::with_capacity(terms.len());
        for (value, fraction) in terms {
            all.push(match most - fraction {
                0 => *value,
                more => {
                    let op = Op::FixedRescale { bits: WIDE, shift: (-more).max(-126) };
                    let name = format!("{}.aligned", self.copy.to.name(*value));
                    self.copy.node("alignment", op, &[*value], &name)?
                }
            });
        }
        Ok(all)
    }

    fn zero(&mut self) -> Result<Value, QuantiseError> {
        if let Some(zero) = self.zero {
            return Ok(zero);
        }
        let tensor = Constant::new(Vec::new(), Elements::I64(vec![0]));
        let zero = self.copy.constant("zero", tensor.unwrap_or_else(|| unreachable!()))?;
        self.zero = Some(zero);
        Ok(zero)
    }

    fn sum(&mut self, node: &Node) -> Result<(), QuantiseError> {
        match node.op {
            Op::Unary(Unary::Relu) => {
                let (of, fraction) = self.whole(node.inputs[0])?;
                let inputs = [of, self.zero()?];
                self.give(node, Op::Binary(Binary::Max), &inputs, fraction)
            }
            Op::Scatter(how) => self.scatter(node, how),
            _ => self.combined(node),
        }
    }

    fn scatter(&mut self, node: &Node, how: Reduction) -> Result<(), QuantiseError> {
        let (mut messages, mut fraction) = self.whole(node.inputs[0])?;
        let more = MEAN_BITS.min(WIDE as i32 - 2 - fraction).max(0);
        if how == Reduction::Mean && more > 0 {
            let op = Op::FixedRescale { bits: WIDE, shift: -more };
            let name = format!("{}.finer", self.copy.from.name(node.outputs[0]));
            messages = self.copy.node(&node.name, op, &[messages], &name)?;
            fraction += more;
        }
        let (index, size) = (self.copy.value(node.inputs[1])?, self.copy.value(node.inputs[2])?);
        self.give(node, Op::FixedScatter(how), &[messages, index, size], fraction)
    }

    /// An operation whose terms need equal fraction bits.
    fn combined(&mut self, node: &Node) -> Result<(), QuantiseError> {
        let numbers: Vec<Value> =
            node.inputs.iter().copied().filter(|value| self.kinds.is_number(*value)).collect();
        let known = numbers.iter().filter_map(|value| self.fractions.get(value).copied());
        let most = known.max().unwrap_or(0);
        let mut terms = Vec::with_capacity(numbers.len());
        for value in numbers {
            terms.push(match is_added(&node.op) {
                true => self.term(value, most)?,
                false => self.whole(value)?,
            });
        }
        let fraction = terms.iter().map(|(_, fraction)| *fraction).max().unwrap_or(0);
        let mut aligned = self.aligned(&terms)?.into_iter();
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for value in &node.inputs {
            inputs.push(match self.kinds.is_number(*value) {
                true => aligned.next().unwrap_or_else(|| unreachable!()),
                false => self.copy.value(*value)?,
            });
        }
        self.give(node, node.op.clone(), &inputs, fraction)
    }

    fn moved(&mut self, node: &Node) -> Result<(), QuantiseError> {
        let of = node.inputs[0];
        let is_rounded = self.formats.contains_key(&of);
        let is_weight = matches!(self.copy.from.source(of), Source::Weight(_));
        let fraction = match is_weight && is_rounded {
            true => Some(self.formats[&of].fraction),
            false => self.fractions.get(&of).copied(),
        };
        let Some(fraction) = fraction else { return Ok(self.copy.same(node)?) };
        let mut inputs = vec![self.whole(of)?.0];
        for value in &node.inputs[1..] {
            inputs.push(self.copy.value(*value)?);
        }
        self.give(node, node.op.clone(), &inputs, fraction)
    }

    /// A value in single precision.
    fn number(&mut self, label: &str, old: Value) -> Result<Value, QuantiseError> {
        let Some(fraction) = self.fractions.get(&old).copied() else {
            return Ok(self.copy.value(old)?);
        };
        if let Some(known) = self.floats.get(&old) {
            return Ok(*known);
        }
        let value = self.copy.value(old)?;
        let name = self.copy.from.name(old);
        let made = self.copy.node(label, Op::FromFixed { fraction }, &[value], name)?;
        self.floats.insert(old, made);
        Ok(made)
    }

    fn float(&mut self, node: &Node) -> Result<(), QuantiseError> {
        let is_shape = matches!(node.op, Op::Shape { .. });
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for value in &node.inputs {
            inputs.push(match is_shape {
                true => self.copy.value(*value)?,
                false => self.number(&node.name, *value)?,
            });
        }
        self.copy.with_inputs(node, &inputs)?;
        for out in &node.outputs {
            if self.formats.contains_key(out) {
                let made = self.copy.value(*out)?;
                self.round(&node.name, *out, made, None)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Quantised, QuantiseError> {
        let dfg = self.copy.from;
        for (_, value) in dfg.outputs() {
            let made = self.number("output", *value)?;
            self.copy.set(*value, made);
            // What is an output twice is there once.
            self.fractions.remove(value);
        }
        self.narrowed.sort_unstable();
        self.narrowed.dedup();
        let kept = dfg
            .weights()
            .filter(|(value, _)| self.copy.has(*value) && self.kinds.is_number(*value))
            .map(|(value, _)| {
                (
                    dfg.name(value).to_owned(),
                    "is used by an operation that computes in f32".to_owned(),
                )
            })
            .collect();
        Ok(Quantised { dfg: self.copy.finish()?, narrowed: self.narrowed, kept })
    }
}

/// A weight in a format, as the reference device rounds it.
fn whole_numbers(
    name: &str,
    tensor: &Constant,
    format: FixedFormat,
) -> Result<Constant, QuantiseError> {
    let wrong = |problem: String| QuantiseError::Weight { name: name.to_owned(), problem };
    let view = View::new(tensor.dims(), tensor.elements());
    if let Some(at) = view.f32().iter().position(|x| !x.is_finite()) {
        return Err(wrong(format!("element {at} is {}", view.f32()[at])));
    }
    let mut elements = Elements::I64(vec![0; view.f32().len()]);
    let mut out = [ViewMut::new(tensor.dims(), &mut elements)];
    let op = Op::ToFixed(format);
    let run = Scalar.run(&op, &[view], &mut out, &Context::default());
    run.map_err(|error| wrong(error.to_string()))?;
    let made = Constant::new(tensor.dims().to_vec(), elements);
    Ok(made.unwrap_or_else(|| unreachable!()))
}

/// A matrix, turned if wanted, in bytes if numbers of so many bits are.
fn narrow(of: &Constant, is_turned: bool, bits: u32) -> Constant {
    let Elements::I64(all) = of.elements() else { return of.clone() };
    let (rows, columns) = (of.dims()[0], of.dims()[1]);
    let (dims, all): (_, Vec<i64>) = match is_turned {
        false => (vec![rows, columns], all.clone()),
        true => {
            let at = |i: usize| all[i % rows * columns + i / rows];
            (vec![columns, rows], (0..all.len()).map(at).collect())
        }
    };
    let elements = match bits <= 8 {
        true => Elements::I8(all.into_iter().map(|x| x as i8).collect()),
        false => Elements::I64(all),
    };
    Constant::new(dims, elements).unwrap_or_else(|| unreachable!())
}
