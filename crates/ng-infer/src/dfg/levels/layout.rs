//! Operations that move elements: where the rows are afterwards.

use crate::dfg::{Dim, Op};

use super::elements::aligned;
use super::facts::{Domain, Fact, Pointer, Rows};
use super::rules::{Analysis, Step, mix, place};
use super::spaces::{End, Loops, Space};

/// The product of lengths that are numbers.
fn product(lengths: &[Dim]) -> Option<usize> {
    let number = |length: &Dim| length.number().and_then(|n| usize::try_from(n).ok());
    lengths.iter().map(number).try_fold(1_usize, |all, n| all.checked_mul(n?))
}

/// The same elements in another shape. Elements before and behind the members of a space stay so.
pub(super) fn reshaped(
    of: &mut Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
) -> Result<Fact, String> {
    let fact = all[0];
    let (from, to) = (of.shape(step.inputs[0]), of.shape(step.outputs[0]));
    let rows = match fact.domain {
        Domain::Rows(rows) => rows,
        Domain::Edges(_) if from == to => return Ok(fact),
        _ => return Err("it changes the shape of an edge index".to_owned()),
    };
    if all.iter().skip(1).any(|fact| fact.rows().is_some()) {
        return Err("its new shape is computed from rows of nodes or edges".to_owned());
    }
    let split = || {
        let before = product(&from[..rows.axis])?.checked_mul(rows.outer)?;
        let is_space = |length: &Dim| of.spaces.multiple(length, rows.space);
        let (axis, times) =
            to.iter().enumerate().find_map(|(at, length)| Some((at, is_space(length)?)))?;
        let outer = exact(before, product(&to[..axis])?)?;
        Some(Rows { axis, outer, inner: exact(times, outer)?, ..rows })
    };
    let rows = split()
        .ok_or("its new shape does not keep the rows of nodes or edges apart on one axis")?;
    // Ends stay ends if each edge still has one number.
    let is_list = product(&to[rows.axis + 1..]) == Some(1) && rows.inner == 1 && rows.outer == 1;
    let pointer = fact.pointer.filter(|_| is_list);
    Ok(Fact { domain: Domain::Rows(rows), pointer, ..fact })
}

fn exact(n: usize, by: usize) -> Option<usize> {
    (by > 0 && n.is_multiple_of(by)).then_some(n / by)
}

pub(super) fn facts(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    match step.op {
        Op::Transpose { perm } => {
            let rows = all[0].rows().ok_or("it transposes an edge index")?;
            let axis = match perm {
                Some(perm) => perm.iter().position(|from| *from == rows.axis),
                None => Some(of.rank(step.inputs[0]) - 1 - rows.axis),
            };
            let axis = axis.ok_or("it drops the axis of the rows")?;
            Ok(Fact { domain: Domain::Rows(Rows { axis, ..rows }), ..mix(all) })
        }
        Op::Concat { axis } => concat(of, step, all, *axis),
        Op::Slice => slice(of, step, all),
        Op::Tile | Op::Expand => {
            let rank = of.rank(step.outputs[0]);
            let rows = aligned(of, &step.inputs[..1], rank)?;
            Ok(Fact { domain: Domain::Rows(rows), ..mix(all) })
        }
        _ => Err("the input rows that each row of its result needs are unknown".to_owned()),
    }
}

fn concat(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact], axis: i64) -> Result<Fact, String> {
    let axis = place(axis, of.rank(step.inputs[0]))?;
    let rows: Option<Vec<Rows>> = all.iter().map(Fact::rows).collect();
    let rows =
        rows.ok_or("it concatenates rows of nodes or edges with a value without such rows")?;
    let first = rows[0];
    if rows.iter().all(|rows| *rows == first) {
        if first.axis != axis {
            return Ok(Fact { domain: Domain::Rows(first), ..mix(all) });
        }
        if first.inner == 1 && product(&of.shape(step.inputs[0])[..axis]) == Some(1) {
            let outer = first.outer * rows.len();
            return Ok(Fact { domain: Domain::Rows(Rows { outer, ..first }), ..mix(all) });
        }
    }
    // Rows of edges, then one row for the loop of each node.
    if let [edges, nodes] = rows[..]
        && edges.is_plain()
        && nodes.is_plain()
        && axis == 0
        && let Space::Edges { loops, .. } = of.spaces.all[edges.space.0]
        && matches!(of.spaces.all[nodes.space.0], Space::Nodes { .. })
    {
        let length = &of.shape(step.outputs[0])[0];
        let loops = Loops { added: true, ..loops };
        let space = of.spaces.with_loops(edges.space, loops, length).ok_or("it has no edges")?;
        return Ok(Fact { domain: Domain::Rows(Rows::plain(space, 0)), ..mix(all) });
    }
    Err("it concatenates rows of different sets of nodes or edges".to_owned())
}

fn slice(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    let rank = of.rank(step.inputs[0]);
    let numbers = |at: usize| step.inputs.get(at).and_then(|value| of.numbers(*value));
    let axes = match step.inputs.get(3) {
        None => (0..rank).collect(),
        Some(_) => {
            let axes = numbers(3).ok_or("its axes are not constant")?;
            axes.iter().map(|axis| place(*axis, rank)).collect::<Result<Vec<_>, _>>()?
        }
    };
    match all[0].domain {
        Domain::Edges(edges) => match (&axes[..], numbers(1), numbers(2)) {
            ([0], Some([start]), Some([_])) if of.shape(step.outputs[0])[0].number() == Some(1) => {
                let end = row_of(*start)?;
                let pointer = Some(Pointer { edges, end, times: 1 });
                let domain = Domain::Rows(Rows::plain(edges, 1));
                Ok(Fact { domain, pointer, ..mix(all) })
            }
            _ => Err("it selects some of the edges".to_owned()),
        },
        Domain::Rows(rows) if !axes.contains(&rows.axis) => {
            Ok(Fact { domain: all[0].domain, ..mix(all) })
        }
        _ => Err("it selects some of the rows".to_owned()),
    }
}

/// Which end of edges a row of an edge index is.
pub(super) fn row_of(index: i64) -> Result<End, String> {
    match index {
        0 | -2 => Ok(End::Source),
        1 | -1 => Ok(End::Destination),
        _ => Err(format!("row {index} of an edge index does not exist; the rows are 0 and 1")),
    }
}
