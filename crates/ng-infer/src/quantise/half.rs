//! Weights in half precision: half the file and half the memory, widened when they are used.

use ng_simd::RowEncoder;
use ng_types::Dtype;

use super::Quantised;
use super::copy::Copy;
use super::error::QuantiseError;
use crate::dfg::{Constant, Dfg, Elements, Node, Op, Value};

/// Smaller weights stay as they are: a cast costs more than they do.
const ELEMENTS_MIN: usize = 16;

/// The graph with its weights in half precision. All is computed in single precision as before;
/// rows that a gather takes are widened behind it.
///
/// # Errors
///
/// A weight is not finite or beyond half precision, or there is none to narrow.
pub fn half(dfg: &Dfg) -> Result<Quantised, QuantiseError> {
    let mut copy = Copy::new(dfg)?;
    let mut narrowed = Vec::new();
    for node in dfg.nodes() {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        let mut is_gathered = false;
        for (at, value) in node.inputs.iter().enumerate() {
            let Some((tensor, all)) =
                copy.weight(*value).filter(|(_, all)| all.len() >= ELEMENTS_MIN)
            else {
                inputs.push(copy.value(*value)?);
                continue;
            };
            let name = dfg.name(*value);
            let halves = copy.derived(*value, "", || narrow(name, tensor, all))?;
            narrowed.push(name.to_owned());
            is_gathered = matches!(node.op, Op::Gather { .. }) && at == 0;
            inputs.push(if is_gathered { halves } else { wide(&mut copy, node, *value, halves)? });
        }
        if is_gathered {
            let out = dfg.name(node.outputs[0]);
            let rows = copy.node(&node.name, node.op.clone(), &inputs, &format!("{out}.f16"))?;
            let made = copy.node(&node.name, Op::Cast(Dtype::F32), &[rows], out)?;
            copy.set(node.outputs[0], made);
        } else {
            copy.with_inputs(node, &inputs)?;
        }
    }
    let kept: Vec<(String, String)> = dfg
        .weights()
        .filter(|(_, tensor)| tensor.elements().dtype() == Dtype::F32)
        .filter(|(value, _)| !narrowed.iter().any(|name| name == dfg.name(*value)))
        .map(|(value, _)| {
            (dfg.name(value).to_owned(), format!("has fewer than {ELEMENTS_MIN} elements"))
        })
        .collect();
    if narrowed.is_empty() {
        return Err(QuantiseError::Nothing { kept });
    }
    narrowed.sort_unstable();
    narrowed.dedup();
    Ok(Quantised { dfg: copy.finish()?, narrowed, kept })
}

/// The weight as a cast gives it; one cast for all that take it.
fn wide(
    copy: &mut Copy<'_>,
    node: &Node,
    old: Value,
    halves: Value,
) -> Result<Value, QuantiseError> {
    if !copy.has(old) {
        let name = format!("{}.f32", copy.from.name(old));
        let made = copy.node(&node.name, Op::Cast(Dtype::F32), &[halves], &name)?;
        copy.set(old, made);
    }
    Ok(copy.value(old)?)
}

fn narrow(name: &str, tensor: &Constant, all: &[f32]) -> Result<Constant, QuantiseError> {
    let wrong = |at: usize| QuantiseError::Weight {
        name: name.to_owned(),
        problem: format!("element {at} is {}, which f16 cannot represent", all[at]),
    };
    if let Some(at) = all.iter().position(|x| !x.is_finite()) {
        return Err(wrong(at));
    }
    let bytes: Vec<u8> = all.iter().flat_map(|x| x.to_le_bytes()).collect();
    let encoder = RowEncoder::new(Dtype::F16, all.len(), None).map_err(|_| wrong(0))?;
    let mut out = Vec::new();
    encoder.encode_rows(&bytes, &mut out).map_err(|misfit| wrong(misfit.column))?;
    let halves = out.as_chunks().0.iter().map(|raw| u16::from_le_bytes(*raw)).collect();
    let narrow = Constant::new(tensor.dims().to_vec(), Elements::F16(halves));
    // As many elements as before.
    Ok(narrow.unwrap_or_else(|| unreachable!()))
}
