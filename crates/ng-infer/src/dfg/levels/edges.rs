//! Gathers, and operations that reduce along edges.

use crate::dfg::Op;

use super::facts::{Cut, Domain, Fact, Level, MadeOf, Pointer, Rows};
use super::layout::row_of;
use super::rules::{Analysis, Step, mix, place};
use super::spaces::{End, Loops, Space, SpaceId};

/// Rows, ends of edges, or constants, by an index.
pub(super) fn gathered(
    of: &mut Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
) -> Result<Fact, String> {
    let (data, index) = (all[0], all[1]);
    let rank = of.rank(step.inputs[0]);
    let axis = match step.op {
        Op::Gather { axis } => place(*axis, rank)?,
        // The last axis of the index says how many axes of the data it leads through.
        _ => match of.shape(step.inputs[1]).last().and_then(crate::dfg::Dim::number) {
            Some(1) => 0,
            _ => return Err("each row of its result needs elements of other rows".to_owned()),
        },
    };
    match (data.domain, index.domain) {
        (Domain::Edges(edges), Domain::Constant) if axis == 0 => {
            let Some([row]) = of.numbers(step.inputs[1]) else {
                return Err("it does not select a single, constant row of an edge index".to_owned());
            };
            let pointer = Some(Pointer { edges, end: row_of(*row)?, times: 1 });
            let place = of.rank(step.inputs[1]);
            let rows = Rows::plain(edges, place);
            Ok(Fact { domain: Domain::Rows(rows), pointer, ..mix(all) })
        }
        (Domain::Rows(rows), Domain::Constant) if rows.axis != axis => {
            let more = of.rank(step.inputs[1]) as isize - 1;
            let moved =
                if rows.axis > axis { rows.axis as isize + more } else { rows.axis as isize };
            let rows = Rows { axis: moved as usize, ..rows };
            Ok(Fact { domain: Domain::Rows(rows), ..mix(all) })
        }
        (Domain::Constant | Domain::Whole, Domain::Rows(rows)) => {
            let rows = Rows { axis: rows.axis + axis, ..rows };
            Ok(Fact { domain: Domain::Rows(rows), ..mix(all) })
        }
        (Domain::Rows(rows), Domain::Rows(by)) if rows.axis == axis => {
            along(of, step, all, rows, by)
        }
        _ => Err("it indexes rows by numbers that are not ends of edges".to_owned()),
    }
}

/// Rows of nodes by the ends of edges.
fn along(
    of: &mut Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
    rows: Rows,
    by: Rows,
) -> Result<Fact, String> {
    let (data, index) = (all[0], all[1]);
    let is_one_each = rows.outer == 1 && rows.inner == 1 && by.outer == 1 && by.inner == 1;
    let nodes = matches!(of.spaces.all[rows.space.0], Space::Nodes { .. });
    let Some(pointer) = index.pointer.filter(|ends| ends.times == 1 && is_one_each && nodes) else {
        return Err("it indexes rows by numbers that are not ends of edges".to_owned());
    };
    let axis = by.axis + rows.axis;
    let fact = Fact { domain: Domain::Rows(Rows::plain(by.space, axis)), ..mix(all) };
    if let Space::Pairs { .. } = of.spaces.all[pointer.edges.0] {
        return Ok(Fact { level: data.level, ..fact });
    }
    of.spaces.tie(pointer.edges, pointer.end, rows.space)?;
    if pointer.end == End::Destination {
        return Ok(fact);
    }
    of.cuts.push(Cut { table: step.inputs[0], node: step.at, edges: pointer.edges });
    Ok(Fact { level: level_at_sources(&fact), ..fact })
}

/// Functions of the edges alone are made of all edges of a batch, so they cost no hop.
fn level_at_sources(fact: &Fact) -> Level {
    if fact.made_of <= MadeOf::EdgeRows { fact.level } else { fact.level.gathered() }
}

pub(super) fn facts(
    of: &mut Analysis<'_>,
    step: &Step<'_>,
    all: &[Fact],
) -> Result<Vec<Fact>, String> {
    match step.op {
        Op::Scatter(_) => scattered(of, step, all).map(|fact| vec![fact]),
        Op::EdgeSoftmax => {
            if let Some(rows) = grouped(of, all) {
                let fact = of.barrier(step, rows.space, all);
                return Ok(vec![Fact { domain: all[0].domain, ..fact }]);
            }
            let (edges, _) = destination(of, &all[1])?;
            rows_of(&all[0], edges)?;
            Ok(vec![Fact { domain: all[0].domain, ..mix(all) }])
        }
        Op::Spmm(_) => {
            let edges = all_edges(&all[0])?;
            let rows = all[1].rows().filter(Rows::is_plain).ok_or("expected one row per node")?;
            if let Some(weights) = all.get(2) {
                rows_of(weights, edges)?;
            }
            of.spaces.tie(edges, End::Source, rows.space)?;
            of.spaces.tie(edges, End::Destination, rows.space)?;
            of.cuts.push(Cut { table: step.inputs[1], node: step.at, edges });
            let fact = Fact { domain: all[1].domain, ..mix(all) };
            Ok(vec![Fact { level: level_at_sources(&fact).reduced(), ..fact }])
        }
        Op::Degree => {
            let (edges, pointer) = destination(of, &all[0])?;
            if pointer.times != 1 {
                return Err("it counts edges by type".to_owned());
            }
            let rows = reduced_rows(of, step, edges)?;
            Ok(vec![Fact { domain: Domain::Rows(rows), ..mix(all) }])
        }
        Op::GcnNorm => {
            let edges = all_edges(&all[0])?;
            rows_of(&all[1], edges)?;
            if all[1].made_of > MadeOf::EdgeRows {
                return Err("it uses edge weights that are computed from nodes".to_owned());
            }
            Ok(vec![Fact { domain: all[1].domain, ..mix(all) }])
        }
        _ => loops(of, step, all),
    }
}

/// The edges whose destinations an index holds.
fn destination(of: &Analysis<'_>, index: &Fact) -> Result<(SpaceId, Pointer), String> {
    let Some(pointer) = index.pointer else {
        return Err("its index does not come from an edge index".to_owned());
    };
    if !matches!(of.spaces.all[pointer.edges.0], Space::Edges { .. }) {
        return Err("its index does not come from an edge index".to_owned());
    }
    if pointer.end == End::Source {
        return Err("it reduces by source; only reduction by destination is supported".to_owned());
    }
    if index.rows().is_none_or(|rows| rows.axis != 0) {
        return Err("the first axis of its index does not run over edges".to_owned());
    }
    Ok((pointer.edges, pointer))
}

/// That a value has one row for each of certain edges.
fn rows_of(fact: &Fact, edges: SpaceId) -> Result<(), String> {
    match fact.rows() {
        Some(rows) if rows == Rows::plain(edges, 0) => Ok(()),
        _ => Err("its rows do not belong to the edges of the edge index".to_owned()),
    }
}

/// The rows of nodes that a reduction gives, by its length.
fn reduced_rows(of: &mut Analysis<'_>, step: &Step<'_>, edges: SpaceId) -> Result<Rows, String> {
    let length = &of.shape(step.outputs[0])[0];
    let (space, inner) = of.spaces.of_multiple(length).ok_or("the number of nodes is unknown")?;
    if !matches!(of.spaces.all[space.0], Space::Nodes { .. }) {
        return Err("the rows of its result do not belong to nodes".to_owned());
    }
    of.spaces.tie(edges, End::Destination, space)?;
    Ok(Rows { inner, ..Rows::plain(space, 0) })
}

/// Rows of nodes that are reduced by which graph each belongs to.
fn grouped(of: &Analysis<'_>, all: &[Fact]) -> Option<Rows> {
    let rows = all[0].rows().filter(|_| all[1].pointer.is_none())?;
    matches!(of.spaces.all[rows.space.0], Space::Nodes { .. }).then_some(rows)
}

fn scattered(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Fact, String> {
    if let Some(rows) = grouped(of, all) {
        let fact = of.barrier(step, rows.space, all);
        let length = &of.shape(step.outputs[0])[0];
        if length.number().is_some() {
            return Ok(fact);
        }
        let space = of.spaces.other(length);
        return Ok(Fact { domain: Domain::Rows(Rows::plain(space, 0)), ..fact });
    }
    let (edges, pointer) = destination(of, &all[1])?;
    rows_of(&all[0], edges)?;
    let rows = reduced_rows(of, step, edges)?;
    if rows.inner != pointer.times {
        return Err(format!(
            "its result has {} rows per node, but its index assumes {}",
            rows.inner, pointer.times
        ));
    }
    let fact = Fact { domain: Domain::Rows(rows), ..mix(all) };
    Ok(Fact { level: fact.level.reduced(), ..fact })
}

fn all_edges(fact: &Fact) -> Result<SpaceId, String> {
    match fact.domain {
        Domain::Edges(space) => Ok(space),
        _ => Err("its first input is not an edge index".to_owned()),
    }
}

/// Edges with other loops, and the rows of such edges.
fn loops(of: &mut Analysis<'_>, step: &Step<'_>, all: &[Fact]) -> Result<Vec<Fact>, String> {
    let edges = all_edges(&all[0])?;
    let Space::Edges { loops, .. } = of.spaces.all[edges.0] else {
        return Err("its first input is not an edge index".to_owned());
    };
    if let Op::SelfLoopAttr = step.op {
        rows_of(&all[1], edges)?;
        let rows = all[2].rows().filter(Rows::is_plain).ok_or("expected one row per node")?;
        of.spaces.tie(edges, End::Destination, rows.space)?;
        return Ok(vec![Fact { domain: all[2].domain, ..mix(all) }]);
    }
    let changed = match step.op {
        Op::AddSelfLoops if loops.added => Err("it adds self-loops twice"),
        Op::AddSelfLoops => Ok(Loops { added: true, ..loops }),
        _ if loops.added => Err("it removes self-loops that were added"),
        _ => Ok(Loops { removed: true, ..loops }),
    }?;
    let length = &of.shape(step.outputs[0])[1];
    let space = of.spaces.with_loops(edges, changed, length);
    let space = space.ok_or("its first input is not an edge index")?;
    let fact = Fact { domain: Domain::Edges(space), ..mix(&all[..1]) };
    if let Op::RemoveSelfLoopsAttr = step.op {
        rows_of(&all[1], edges)?;
        let rows = Fact { domain: Domain::Rows(Rows::plain(space, 0)), ..mix(&all[1..]) };
        return Ok(vec![fact, rows]);
    }
    Ok(vec![fact])
}
