//! [`WholeModel`]: a graph that another program computes from its inputs to its outputs.
//!
//! What must not live here: that program. The invariant: it sees plain tensors, with all their
//! rows.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::bind::Bound;
use super::draft::Draft;
use super::explain::{Cost, StepInfo};
use super::inputs::{Hops, PlanInput, in_order};
use super::prepare::{Options, Plan, edge_inputs};
use crate::dfg::{Constant, Dfg};
use crate::kernel::{Context, Data, View};
use crate::run::error::RunError;

/// Takes inputs by name, gives outputs in order, or says what is wrong.
pub type RunModel = dyn Fn(&[(&str, View<'_>)]) -> Result<Vec<Constant>, String> + Send + Sync;

/// A model in the hands of another program.
#[derive(Clone)]
pub struct WholeModel {
    /// The name of the device that the program is.
    pub device: Arc<str>,
    /// Names of the inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs, in the order in which they are given.
    pub outputs: Vec<String>,
    /// What computes.
    pub run: Arc<RunModel>,
}

impl std::fmt::Debug for WholeModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WholeModel").field("device", &self.device).finish_non_exhaustive()
    }
}

impl WholeModel {
    /// An error of the other program.
    fn failed(&self, problem: impl ToString) -> RunError {
        RunError::Model { device: self.device.to_string(), problem: problem.to_string() }
    }

    /// That the model is that of a graph, as far as names say.
    fn check(&self, dfg: &Dfg) -> Result<(), RunError> {
        let mut wanted: Vec<&str> = dfg.inputs().map(|(value, _)| dfg.name(value)).collect();
        let mut found: Vec<&str> = self.inputs.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        if wanted != found {
            return Err(self
                .failed(format!("its model has inputs {found:?}, but the graph has {wanted:?}")));
        }
        let is_lacking = |(name, _): &&(String, _)| !self.outputs.contains(name);
        match dfg.outputs().iter().find(is_lacking) {
            Some((name, _)) => Err(self.failed(format!("its model has no output {name:?}"))),
            None => Ok(()),
        }
    }
}

/// Rows that lie in a table as a tensor of their own, which `copy` holds.
fn plain<'a>(
    view: View<'a>,
    copy: &'a mut Vec<f32>,
    context: &Context,
) -> Result<View<'a>, crate::kernel::KernelError> {
    let Data::Rows(rows) = view.data else { return Ok(view) };
    let width = view.dims[1..].iter().product::<usize>();
    copy.resize(view.dims[0] * width, 0.0);
    rows.copy_to(width, copy, context)?;
    Ok(View { dims: view.dims, data: Data::F32(copy) })
}

impl Plan {
    /// A graph that another program computes as a whole. Nothing is trimmed: a run takes no hops,
    /// and outputs have a row for each node of a batch.
    ///
    /// # Errors
    ///
    /// The graph is wrong, or the model has other inputs or outputs.
    pub fn of_model(dfg: &Dfg, model: &WholeModel, options: &Options) -> Result<Self, RunError> {
        model.check(dfg)?;
        let draft = Draft::new(dfg);
        let known = draft.known(&options.types)?;
        let edges = edge_inputs(&draft, known.as_deref());
        let input = |(value, wanted): (_, Option<&_>)| PlanInput {
            name: draft.dfg.name(value).to_owned(),
            wanted: wanted.cloned(),
            is_edges: edges.contains(draft.dfg.name(value)),
        };
        Ok(Self {
            inputs: draft.dfg.inputs().map(input).collect(),
            outputs: draft.dfg.outputs().iter().map(|(_, value)| *value).collect(),
            draft,
            known,
            hops: Vec::new(),
            nodes: Vec::new(),
            bound: Bound::default(),
            arenas: Mutex::default(),
            whole: Vec::new(),
            model: Some(model.clone()),
            bytes_max: options.bytes_max,
        })
    }

    /// Runs such a plan: outputs in the order of the graph, and what that cost.
    pub(super) fn run_model(
        &self,
        model: &WholeModel,
        (inputs, hops): (&[(&str, View<'_>)], &Hops<'_>),
        context: &Context,
    ) -> Result<(Vec<Constant>, Cost), RunError> {
        if !hops.is_empty() {
            return Err(
                model.failed("it computes all rows of a batch, so it does not support hops")
            );
        }
        let views = in_order(&self.inputs, inputs)?;
        let mut copies = vec![Vec::new(); views.len()];
        let mut given = Vec::with_capacity(views.len());
        for ((view, copy), input) in views.into_iter().zip(&mut copies).zip(&self.inputs) {
            let view = plain(view, copy, context).map_err(|error| model.failed(error))?;
            given.push((input.name.as_str(), view));
        }
        let begin = Instant::now();
        let made = (model.run)(&given).map_err(|problem| model.failed(problem))?;
        let time = begin.elapsed();
        let output = |(name, _): &(String, _)| {
            let at = model.outputs.iter().position(|known| known == name);
            let missing = || model.failed(format!("its model did not return output {name:?}"));
            at.and_then(|at| made.get(at)).cloned().ok_or_else(missing)
        };
        let outputs = self.draft.dfg.outputs().iter().map(output);
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let taken = given.iter().map(|(_, view)| view.data.len() * view.dtype().size_bytes());
        let gave = outputs.iter().map(|tensor| tensor.elements().bytes());
        let bytes = taken.chain(gave).sum::<usize>() as u64;
        Ok((outputs, Cost { time, bytes }))
    }

    /// The one step of such a plan.
    pub(super) fn step_of_model(&self, model: &WholeModel) -> StepInfo {
        let origins = self.draft.origins.iter().flatten();
        StepInfo {
            op: "Model".to_owned(),
            device: Some(model.device.to_string()),
            in_place: false,
            nodes: origins.map(|of| (of.node.clone(), of.op.clone())).collect(),
            shapes: self.outputs.iter().filter_map(|value| self.shape(value.0, &[])).collect(),
        }
    }
}
