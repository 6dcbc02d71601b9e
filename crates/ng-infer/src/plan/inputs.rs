//! What a run is given: inputs by name, and the hops of its batch.

use std::collections::HashMap;

use ng_types::canary::planted;

use crate::dfg::{Dim, TensorType};
use crate::kernel::{Data, View};
use crate::run::error::RunError;

/// An input of the user's graph.
#[derive(Clone, Debug)]
pub(super) struct PlanInput {
    pub name: String,
    pub wanted: Option<TensorType>,
    /// Whether it has numbers of nodes at the ends of edges or pairs.
    pub is_edges: bool,
}

/// The inputs in the order of the plan.
pub(super) fn in_order<'a>(
    wanted: &[PlanInput],
    given: &[(&str, View<'a>)],
) -> Result<Vec<View<'a>>, RunError> {
    for (name, _) in given {
        if !wanted.iter().any(|input| input.name == *name) {
            return Err(RunError::UnknownInput { name: (*name).to_owned() });
        }
    }
    let mut lengths = HashMap::new();
    let mut views = Vec::with_capacity(wanted.len());
    for PlanInput { name, wanted, is_edges } in wanted {
        let found = given.iter().find(|(given, _)| given == name);
        let view = found.ok_or_else(|| RunError::MissingInput { name: name.clone() })?.1;
        let wrong = |problem| RunError::WrongInput { name: name.clone(), problem };
        is_whole(&view).map_err(wrong)?;
        if let Some(wanted) = wanted {
            fits(&view, wanted, &mut lengths).map_err(wrong)?;
        }
        if *is_edges {
            are_nodes(&view).map_err(wrong)?;
        }
        views.push(view);
    }
    Ok(views)
}

/// Whether there are as many elements as the shape says.
fn is_whole(view: &View<'_>) -> Result<(), String> {
    let count = match view.data {
        Data::Rows(_) if view.dims.is_empty() => {
            return Err("expected a tensor with rows, found a scalar".to_owned());
        }
        Data::Rows(_) => Some(view.dims[0]),
        _ => view.dims.iter().try_fold(1_usize, |all, dim| all.checked_mul(*dim)),
    };
    let found = view.data.len();
    if count == Some(found) {
        return Ok(());
    }
    Err(format!("the shape {:?} does not match {found} elements", view.dims))
}

/// A gather alone counts negative numbers from the end, which a fused one does not.
fn are_nodes(view: &View<'_>) -> Result<(), String> {
    let Data::I64(all) = view.data else { return Ok(()) };
    if planted("negative_nodes_are_let_in") {
        return Ok(());
    }
    // Without branches, as edges are many and negative numbers are rare.
    if all.iter().fold(0, |bits, number| bits | number) >= 0 {
        return Ok(());
    }
    let place = all.iter().position(|number| *number < 0).unwrap_or_default();
    Err(format!(
        "node number {} at place {place} is negative; nodes are numbered from 0",
        all[place]
    ))
}

/// Whether an input is what the graph wants; the same symbol stands for one length.
fn fits(
    view: &View<'_>,
    wanted: &TensorType,
    lengths: &mut HashMap<Dim, usize>,
) -> Result<(), String> {
    let (dtype, dims) = (view.dtype(), view.dims);
    if dtype != wanted.dtype {
        return Err(format!("expected {}, found {}", wanted.dtype.name(), dtype.name()));
    }
    if dims.len() != wanted.shape.len() {
        return Err(format!("expected {} dimensions, found shape {dims:?}", wanted.shape.len()));
    }
    for (axis, (dim, found)) in wanted.shape.iter().zip(dims).enumerate() {
        let (known, meaning) = match dim.number() {
            Some(number) => (number, String::new()),
            None => {
                let known = *lengths.entry(dim.clone()).or_insert(*found);
                (known as i64, format!(", which is {known}"))
            }
        };
        if known != *found as i64 {
            return Err(format!("axis {axis} has length {found}, expected {dim}{meaning}"));
        }
    }
    Ok(())
}

/// How many nodes there are in each hop of a batch, from the seeds on, by what counts the nodes:
/// the symbol of the first dimension of their rows.
pub type Hops<'a> = [(&'a str, &'a [usize])];

/// Checks hops: `nodes` are the symbols that there may be, with the number of all nodes.
pub(super) fn check_hops(hops: &Hops<'_>, nodes: &[(&str, usize)]) -> Result<(), RunError> {
    for (at, (name, counts)) in hops.iter().enumerate() {
        let wrong = |problem| Err(RunError::Hops { nodes: (*name).to_owned(), problem });
        if hops[..at].iter().any(|(known, _)| known == name) {
            return wrong("the counts are given twice".to_owned());
        }
        let Some((_, all)) = nodes.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = nodes.iter().map(|(name, _)| *name).collect();
            return wrong(format!("the graph has no node count of this name, only {known:?}"));
        };
        let sum = counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count));
        if sum != Some(*all) {
            return wrong(format!("the counts {counts:?} do not add up to the {all} nodes"));
        }
    }
    Ok(())
}

/// How many nodes there are up to a hop.
pub(super) fn up_to(hops: &Hops<'_>, nodes: &str, hop: usize, all: usize) -> usize {
    let counts = hops.iter().find(|(name, _)| *name == nodes).map(|(_, counts)| *counts);
    let whole = counts.map_or(all, |counts| counts.iter().take(hop.saturating_add(1)).sum());
    if planted("trim_one_row_too_many") { whole.saturating_sub(1) } else { whole }
}
