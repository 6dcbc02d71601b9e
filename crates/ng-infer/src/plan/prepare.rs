//! [`Plan`]: a graph that is ready to run.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::arena::Arena;
use super::bind::{Bound, Work, bind};
use super::build::{HopCount, build};
use super::draft::Draft;
use super::edges::Facts;
use super::explain::{Explanation, StepInfo};
use super::forms::Forms;
use super::inputs::PlanInput;
use super::linear::linear_layers;
use super::simplify::simplify;
use super::unfold::unfold;
use super::whole_model::WholeModel;
use crate::dfg::{Binary, Dfg, Dim, Known, Op, TensorType, Value};
use crate::run::devices::Devices;
use crate::run::error::RunError;

/// What a plan may do to a graph. Each of them leaves the results as they are, but for rounding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether operations become one: messages and their aggregation, pairs of rows of edges,
    /// linear layers.
    pub fuse: bool,
    /// Whether rows are computed only as far from the seeds as outputs need them, where a run says
    /// the hops of its batch. Outputs with a row for each node are then those of the seeds.
    pub trim: bool,
    /// Types of inputs that have none in the graph.
    pub types: Vec<(String, TensorType)>,
    /// Bytes that the values of a run may take together, but for inputs and weights.
    pub bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { fuse: true, trim: true, types: Vec::new(), bytes_max: usize::MAX }
    }
}

/// A graph that is ready to run, with the kernels that were best when it was made. Runs share it:
/// each takes memory of its own, which the plan keeps for the next.
///
/// ```
/// use ng_infer::dfg::Dfg;
/// use ng_infer::kernel::{Context, Data, View};
/// use ng_infer::plan::{Options, Plan};
/// use ng_infer::run::Devices;
/// let text = "1: \"Abs\"\n in={\"x\"}\n out={\"1_0\"}\n2: \"Neg\"\n in={\"1_0\"}\n out={\"2_0\"}";
/// let dfg = Dfg::from_text(text)?;
/// let plan = Plan::new(&dfg, &Devices::default(), &Options::default())?;
/// let x = View { dims: &[2], data: Data::F32(&[-2.0, 1.0]) };
/// let answer = plan.run(&[("x", x)], &[], &Context::default())?;
/// assert_eq!(answer.output(0).f32(), [-2.0, -1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan {
    pub(super) draft: Draft,
    pub(super) known: Option<Vec<Known>>,
    pub(super) inputs: Vec<PlanInput>,
    pub(super) hops: Vec<HopCount>,
    /// What counts nodes, and the input that has a row for each.
    pub(super) nodes: Vec<(String, usize)>,
    pub(super) bound: Bound,
    pub(super) outputs: Vec<Value>,
    pub(super) arenas: Mutex<Vec<Arena>>,
    /// Nodes whose result is needed for some rows, and that compute all of them.
    pub(super) whole: Vec<StepNode>,
    /// What computes the graph in place of steps.
    pub(super) model: Option<WholeModel>,
    pub(super) bytes_max: usize,
}

/// A node's name and operation.
pub(super) type StepNode = (String, String);

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("graph", &self.draft.dfg.text()).finish_non_exhaustive()
    }
}

impl Plan {
    /// Makes a graph ready to run on `devices`.
    ///
    /// # Errors
    ///
    /// The graph is wrong, or no device has a kernel for an operation, or a kernel refuses the
    /// weights.
    pub fn new(dfg: &Dfg, devices: &Devices, options: &Options) -> Result<Self, RunError> {
        let types = &options.types;
        let draft = Draft::new(dfg);
        let known = draft.known(types)?;
        let follows_rows = known.is_some() && (options.fuse || options.trim);
        let mut draft = if follows_rows { unfold(&draft, devices)? } else { draft };
        draft = simplify(&draft, draft.known(types)?.as_deref())?;
        if options.fuse {
            draft = linear_layers(&draft, draft.known(types)?.as_deref(), devices)?;
        }
        let known = draft.known(types)?;
        let edges = edge_inputs(&draft, known.as_deref());
        let (mut hops, mut nodes, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(known) = known.filter(|_| follows_rows) {
            let facts = Facts::new(&draft, &known);
            let counted = |name: &String| Some((name.clone(), facts.input_of(name)?));
            let counted: Vec<_> = facts.nodes.iter().filter_map(counted).collect();
            let names = counted
                .iter()
                .map(|(name, input)| (name.clone(), draft.dfg.name(*input).to_owned()));
            let names: Vec<_> = names.collect();
            let forms = Forms::find(facts, options.fuse.then_some(devices), options.trim);
            let node = |at: &usize| draft.origins[*at].last();
            let origins = forms.whole.iter().filter_map(node);
            whole = origins.map(|of| (of.node.clone(), of.op.clone())).collect();
            let (built, counts) = build(forms)?;
            (draft, hops) = (built, counts);
            if options.trim {
                let place =
                    |name: &str| user_inputs(&draft.dfg, &hops).position(|(n, ..)| n == name);
                let counted = names.into_iter();
                nodes = counted.filter_map(|(name, input)| Some((name, place(&input)?))).collect();
            }
        }
        let known = draft.known(types)?;
        let counts: Vec<Value> =
            hops.iter().filter_map(|count| draft.dfg.value(&count.input)).collect();
        let bound = bind(&draft, devices, known.as_deref(), &counts)?;
        let inputs = user_inputs(&draft.dfg, &hops).map(|(name, wanted)| PlanInput {
            name: name.to_owned(),
            wanted: wanted.cloned(),
            is_edges: edges.contains(name),
        });
        let inputs = inputs.collect();
        let outputs = draft.dfg.outputs().iter().map(|(_, value)| *value).collect();
        let arenas = Mutex::new(Vec::new());
        let (model, bytes_max) = (None, options.bytes_max);
        Ok(Self {
            inputs,
            outputs,
            draft,
            known,
            hops,
            nodes,
            bound,
            arenas,
            whole,
            model,
            bytes_max,
        })
    }

    /// The names of the inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|input| input.name.as_str())
    }

    /// Whether each row has the same bytes whatever other rows are computed with it, as far as
    /// kernels decide that: [`crate::kernel::Kernel::is_exact_by_row`] of all of them.
    pub fn is_exact_by_row(&self) -> bool {
        let is_exact = |work: &Work| match work {
            Work::View => true,
            Work::Kernel { kernel, .. } => kernel.is_exact_by_row(),
        };
        self.model.is_none() && self.bound.steps.iter().all(|step| is_exact(&step.work))
    }

    /// The names of the outputs.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.draft.dfg.outputs().iter().map(|(name, _)| name.as_str())
    }

    /// What counts nodes whose hops a run may give; none if the plan does not trim.
    pub fn counted_nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|(name, _)| name.as_str())
    }

    /// Bytes of memory that idle runs have left behind.
    pub fn idle_bytes(&self) -> usize {
        self.arenas.lock().map_or(0, |arenas| arenas.iter().map(Arena::bytes).sum())
    }

    /// Gives that memory back.
    pub fn release(&self) {
        if let Ok(mut arenas) = self.arenas.lock() {
            arenas.clear();
        }
    }

    /// The steps of a run.
    pub fn explain(&self) -> Explanation {
        let labels = self.labels();
        let steps = self.bound.steps.iter().map(|step| {
            let (device, in_place) = match &step.work {
                Work::View => (None, false),
                Work::Kernel { device, in_place, .. } => {
                    (Some(device.to_string()), in_place.is_some())
                }
            };
            let origins = self.draft.origins[step.node].iter();
            let shape = |value: &usize| self.shape(*value, &labels);
            StepInfo {
                op: step.op.name(),
                device,
                in_place,
                nodes: origins.map(|of| (of.node.clone(), of.op.clone())).collect(),
                shapes: step.outputs.iter().filter_map(shape).collect(),
            }
        });
        let of_model = self.model.iter().map(|model| self.step_of_model(model));
        Explanation {
            steps: steps.chain(of_model).collect(),
            whole: self.whole.clone(),
            slots: self.bound.slots,
        }
    }

    /// The type and shape of a value, if they are known.
    pub(super) fn shape(&self, value: usize, labels: &[(Dim, String)]) -> Option<String> {
        let known = &self.known.as_ref()?[value];
        let dims = known.shape.iter().map(|dim| shown(dim, labels));
        Some(format!("{}[{}]", known.dtype.name(), dims.collect::<Vec<_>>().join(", ")))
    }

    /// Symbols of lengths that hops tell, and what they are.
    fn labels(&self) -> Vec<(Dim, String)> {
        let Some(known) = &self.known else { return Vec::new() };
        let label = |value: Value| {
            let name = self.draft.dfg.name(value);
            self.hops.iter().find(|count| count.input == name).map(|count| count.input.clone())
        };
        let mut labels = Vec::new();
        for node in self.draft.dfg.nodes().iter().filter(|node| node.op == Op::Slice) {
            let dim = known[node.outputs[0].0].shape.first().filter(|dim| dim.number().is_none());
            let Some(dim) = dim.cloned() else { continue };
            if let Some(nodes) = label(node.inputs[2]) {
                labels.push((dim, nodes));
                continue;
            }
            let Some(end) = self.draft.maker(node.inputs[2]) else { continue };
            match (&end.op, label(end.inputs[0]), end.inputs.get(1).and_then(|at| label(*at))) {
                // Offsets, of which there is one more than nodes.
                (Op::Binary(Binary::Add), Some(nodes), _) => {
                    labels.push((dim.clone() - Dim::from(1), nodes));
                }
                (Op::Gather { .. }, _, Some(nodes)) => {
                    labels.push((dim, format!("edges to {nodes}")))
                }
                _ => {}
            }
        }
        labels
    }
}

fn shown(dim: &Dim, labels: &[(Dim, String)]) -> String {
    let label = labels.iter().find(|(known, _)| known == dim).map(|(_, label)| label.clone());
    label.unwrap_or_else(|| dim.to_string())
}

/// The inputs that a run is given by name.
fn user_inputs<'a>(
    dfg: &'a Dfg,
    hops: &'a [HopCount],
) -> impl Iterator<Item = (&'a str, Option<&'a TensorType>)> {
    let counts: BTreeSet<&str> = hops.iter().map(|count| count.input.as_str()).collect();
    dfg.inputs().filter_map(move |(value, wanted)| {
        let name = dfg.name(value);
        (!counts.contains(name)).then_some((name, wanted))
    })
}

/// The names of the inputs whose numbers are rows to gather.
pub(super) fn edge_inputs(draft: &Draft, known: Option<&[Known]>) -> BTreeSet<String> {
    let inputs = known.map(|known| Facts::new(draft, known).edge_inputs()).unwrap_or_default();
    inputs.into_iter().map(|value| draft.dfg.name(value).to_owned()).collect()
}
