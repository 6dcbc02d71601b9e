//! Parts of a model's graph: what is computed for some rows, or for some edges, of values that are
//! at hand.
//!
//! The invariant: a part takes lengths of rows as inputs, and never numbers of rows from elsewhere,
//! so it may be run for any rows.

use std::collections::HashMap;
use std::sync::Arc;

use ng_infer::dfg::levels::{Domain, End, Levels, Rows};
use ng_infer::dfg::{Binary, Constant, Dfg, Dim, Elements, Op, Source, TensorType, Value};
use ng_infer::kernel::{Context, Data, View};
use ng_infer::plan::{Answer, Options, Plan};
use ng_infer::run::{Devices, RunError, run};
use ng_types::Dtype;

use super::error::LayerwiseError;

/// What a part takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leaf {
    /// Rows of a node value.
    Own(Value),
    /// For each edge the row of its source.
    AtSource(Value),
    /// For each edge the row of its destination.
    AtDestination(Value),
    /// For each edge its row of an input.
    OfEdge(Value),
    /// For each edge the number of its destination.
    Destinations(Value),
    /// The lengths of a value's dimensions.
    Lengths(Value),
    /// For each edge whether it is a loop that was added; as many dimensions as the value has.
    IsAdded(Value),
    /// For each edge whether it leads from a node to itself.
    IsLoop(Value),
}

impl Leaf {
    /// The type of what is given for it, where all lengths but that of the rows are known.
    fn type_of(self, levels: &Levels) -> Option<TensorType> {
        let of_edges = |value: Value| {
            let mut found = levels.type_of(value).clone();
            let Domain::Rows(Rows { axis, outer: 1, .. }) = levels.fact(value).domain else {
                return None;
            };
            found.shape[axis] = Dim::symbol("edges");
            Some(found)
        };
        let edges = || Dim::symbol("edges");
        let rank = |value: Value| levels.type_of(value).shape.len();
        match self {
            Self::Own(value) => Some(levels.type_of(value).clone()),
            Self::AtSource(value)
            | Self::AtDestination(value)
            | Self::OfEdge(value)
            | Self::IsLoop(value) => of_edges(value),
            Self::Destinations(_) => Some(TensorType { dtype: Dtype::I64, shape: vec![edges()] }),
            Self::Lengths(value) => {
                let shape = vec![Dim::from(rank(value) as i64)];
                Some(TensorType { dtype: Dtype::I64, shape })
            }
            Self::IsAdded(value) => {
                let ones = (1..rank(value)).map(|_| Dim::from(1));
                let shape = std::iter::once(edges()).chain(ones).collect();
                Some(TensorType { dtype: Dtype::Bool, shape })
            }
        }
    }
}

/// What a part is given for a leaf.
pub(super) struct Given<'a> {
    dims: Vec<usize>,
    held: Held<'a>,
}

enum Held<'a> {
    Own(Elements),
    Lent(Data<'a>),
}

impl<'a> Given<'a> {
    /// As many elements as `dims` say.
    pub fn own(dims: Vec<usize>, elements: Elements) -> Self {
        Self { dims, held: Held::Own(elements) }
    }

    /// The same, which stay where they are.
    pub fn lent(dims: Vec<usize>, data: Data<'a>) -> Self {
        Self { dims, held: Held::Lent(data) }
    }

    pub fn numbers(all: Vec<i64>) -> Self {
        Self::own(vec![all.len()], Elements::I64(all))
    }

    fn view(&self) -> View<'_> {
        match &self.held {
            Held::Own(elements) => View::new(&self.dims, elements),
            Held::Lent(data) => View { dims: &self.dims, data: *data },
        }
    }
}

/// A graph of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub graph: Dfg,
    /// By name of an input, what it is.
    pub leaves: Vec<(String, Leaf)>,
    plan: Option<Arc<Plan>>,
}

impl Part {
    /// Makes it ready to run.
    pub fn prepare(&mut self, levels: &Levels, devices: &Devices) -> Result<(), LayerwiseError> {
        if self.graph.outputs().is_empty() {
            return Ok(());
        }
        let typed = |(name, leaf): &(String, Leaf)| Some((name.clone(), leaf.type_of(levels)?));
        let types: Option<Vec<_>> = self.leaves.iter().map(typed).collect();
        let untyped = Options { trim: false, ..Options::default() };
        let typed = Options { types: types.unwrap_or_default(), ..untyped.clone() };
        // With types a plan does more. Lengths that only a run knows may look as if they differed.
        let plan = Plan::new(&self.graph, devices, &typed)
            .or_else(|_| Plan::new(&self.graph, devices, &untyped))?;
        self.plan = Some(Arc::new(plan));
        Ok(())
    }

    /// Runs it on what `given` has for each leaf, in their order.
    pub fn run<'a>(
        &'a self,
        context: &Context,
        given: &'a [Given<'a>],
    ) -> Result<Answer<'a>, LayerwiseError> {
        let names = self.leaves.iter().map(|(name, _)| name.as_str());
        let inputs: Vec<_> = names.zip(given.iter().map(Given::view)).collect();
        match &self.plan {
            Some(plan) => Ok(plan.run(&inputs, &[], context)?),
            None => unreachable!("a model prepares its parts before it runs"),
        }
    }
}

/// An output of f32.
pub(super) fn f32s<'a>(answer: &'a Answer<'_>, at: usize) -> &'a [f32] {
    match answer.output(at).data {
        Data::F32(all) => all,
        _ => &[],
    }
}

/// Makes one part.
pub(super) struct PartMaker<'a> {
    of: &'a Dfg,
    levels: &'a Levels,
    /// Node values that are at hand.
    is_there: &'a dyn Fn(Value) -> bool,
    part: Part,
    made: HashMap<Value, Value>,
    leaves: HashMap<Leaf, Value>,
}

impl<'a> PartMaker<'a> {
    pub fn new(of: &'a Dfg, levels: &'a Levels, is_there: &'a dyn Fn(Value) -> bool) -> Self {
        let (part, made, leaves) = (Part::default(), HashMap::new(), HashMap::new());
        Self { of, levels, is_there, part, made, leaves }
    }

    /// Has the part give a value; its place among the outputs.
    pub fn output(&mut self, value: Value) -> Result<usize, LayerwiseError> {
        let made = self.get(value)?;
        let place = self.part.graph.outputs().len();
        self.part.graph.create_out(&format!("{place}"), made)?;
        Ok(place)
    }

    /// Has the part give the sum of some values of equal shape.
    pub fn sum(&mut self, name: &str, values: &[Value]) -> Result<(), LayerwiseError> {
        let mut sum = self.get(values[0])?;
        for (at, value) in values.iter().enumerate().skip(1) {
            let other = self.get(*value)?;
            let name = format!("{name} so far {at}");
            let op = Op::Binary(Binary::Add);
            sum = self.part.graph.create_named(
                &name,
                op,
                &[sum, other],
                std::slice::from_ref(&name),
            )?[0];
        }
        let place = self.part.graph.outputs().len();
        self.part.graph.create_out(&format!("{place}"), sum)?;
        Ok(())
    }

    pub fn finish(self) -> Part {
        self.part
    }

    fn leaf(&mut self, leaf: Leaf) -> Result<Value, LayerwiseError> {
        if let Some(known) = self.leaves.get(&leaf) {
            return Ok(*known);
        }
        let (what, value) = match leaf {
            Leaf::Own(value) => ("", value),
            Leaf::AtSource(value) => (" of sources", value),
            Leaf::AtDestination(value) => (" of destinations", value),
            Leaf::OfEdge(value) => (" of edges", value),
            Leaf::Destinations(value) => (" as destinations", value),
            Leaf::Lengths(value) => (" lengths", value),
            Leaf::IsAdded(value) => (" is an added loop", value),
            Leaf::IsLoop(value) => (" is a loop", value),
        };
        let name = format!("{}{what}", self.of.name(value));
        let made = self.part.graph.create_in(&name, None)?;
        self.part.leaves.push((name, leaf));
        self.leaves.insert(leaf, made);
        Ok(made)
    }

    /// The value in the part.
    fn get(&mut self, value: Value) -> Result<Value, LayerwiseError> {
        if let Some(made) = self.made.get(&value) {
            return Ok(*made);
        }
        let made = self.make(value)?;
        self.made.insert(value, made);
        Ok(made)
    }

    fn make(&mut self, value: Value) -> Result<Value, LayerwiseError> {
        if (self.is_there)(value) {
            return self.leaf(Leaf::Own(value));
        }
        let fact = *self.levels.fact(value);
        let (node, output) = match self.of.source(value) {
            Source::Weight(tensor) => {
                return Ok(self.part.graph.create_weight(self.of.name(value), tensor.clone())?);
            }
            Source::Input { .. } if matches!(fact.domain, Domain::Rows(_)) => {
                return self.leaf(Leaf::OfEdge(value));
            }
            Source::Input { .. } => {
                let problem = "the model computes rows from this input, but the input has no rows \
                               of nodes or edges";
                return self.refused(value, problem);
            }
            Source::Node { node, output } => (&self.of.nodes()[*node], *output),
        };
        match fact.domain {
            Domain::Constant => {
                let tensor = folded(self.of, value)?;
                return Ok(self.part.graph.create_weight(self.of.name(value), tensor)?);
            }
            Domain::Rows(_) => {}
            _ => return self.refused(value, "it cannot be computed row by row"),
        }
        if let Some(pointer) = fact.pointer
            && pointer.times == 1
            && self.is_row_of_edges(value)
        {
            return match pointer.end {
                End::Destination => self.leaf(Leaf::Destinations(value)),
                End::Source => self.refused(value, "it computes with the ids of source nodes"),
            };
        }
        match &node.op {
            Op::Binary(Binary::Equal) if self.are_both_ends(&node.inputs) => {
                return self.leaf(Leaf::IsLoop(value));
            }
            Op::Gather { .. } | Op::GatherNd => {
                if let Some(pointer) = self.levels.fact(node.inputs[1]).pointer
                    && let Domain::Rows(_) = self.levels.fact(node.inputs[0]).domain
                {
                    return self.gathered(value, node.inputs[0], pointer.end);
                }
            }
            Op::RemoveSelfLoopsAttr if output == 1 => return self.get(node.inputs[1]),
            Op::Concat { .. } if self.joins_loops(value) => {
                return self.with_loops(value, node.inputs[0], node.inputs[1]);
            }
            Op::Expand | Op::Reshape { .. } | Op::ConstantOfShape { .. } => {
                let at = node.inputs.len() - 1;
                let lengths = node.inputs[at];
                if !matches!(self.of.source(lengths), Source::Weight(_))
                    && self.levels.fact(lengths).domain != Domain::Constant
                {
                    let lengths = self.leaf(Leaf::Lengths(value))?;
                    let inputs: Result<Vec<Value>, _> =
                        node.inputs[..at].iter().map(|input| self.get(*input)).collect();
                    let inputs = [inputs?, vec![lengths]].concat();
                    // Lengths that are given in full keep nothing and leave nothing open.
                    return self.node(value, node.op.clone(), &inputs);
                }
            }
            _ => {}
        }
        let inputs: Result<Vec<Value>, _> =
            node.inputs.iter().map(|input| self.get(*input)).collect();
        self.node(value, node.op.clone(), &inputs?)
    }

    /// Rows of edges, followed by rows of nodes for the added self loops.
    fn with_loops(
        &mut self,
        value: Value,
        edges: Value,
        nodes: Value,
    ) -> Result<Value, LayerwiseError> {
        let inputs = [
            self.leaf(Leaf::IsAdded(value))?,
            self.leaf(Leaf::AtDestination(nodes))?,
            self.get(edges)?,
        ];
        self.node(value, Op::Where, &inputs)
    }

    fn node(&mut self, value: Value, op: Op, inputs: &[Value]) -> Result<Value, LayerwiseError> {
        if op.outputs() != 1 {
            return self.refused(value, "the operation has several outputs");
        }
        let Source::Node { node, .. } = self.of.source(value) else {
            return self.refused(value, "it is not the result of an operation");
        };
        let (node, name) = (&self.of.nodes()[*node], self.of.name(value).to_owned());
        let made = self.part.graph.create_named(&node.name, op, inputs, &[name])?;
        Ok(made[0])
    }

    fn gathered(&mut self, value: Value, of: Value, end: End) -> Result<Value, LayerwiseError> {
        let is_plain = |value| match self.levels.fact(value).domain {
            Domain::Rows(rows) => rows.is_plain(),
            _ => false,
        };
        if !is_plain(value) || !is_plain(of) {
            return self.refused(value, "it gathers along an axis other than the first");
        }
        match end {
            End::Source => self.leaf(Leaf::AtSource(of)),
            End::Destination => self.leaf(Leaf::AtDestination(of)),
        }
    }

    /// Whether a value is one row of an edge index, as it is.
    fn is_row_of_edges(&self, value: Value) -> bool {
        let Source::Node { node, .. } = self.of.source(value) else { return false };
        let node = &self.of.nodes()[*node];
        matches!(node.op, Op::Gather { .. })
            && matches!(self.levels.fact(node.inputs[0]).domain, Domain::Edges(_))
    }

    /// Whether two values are the sources and the destinations of the same edges.
    fn are_both_ends(&self, values: &[Value]) -> bool {
        let pointer = |at: usize| self.levels.fact(values[at]).pointer;
        matches!((pointer(0), pointer(1)), (Some(one), Some(other))
            if one.edges == other.edges && one.end != other.end && one.times == other.times)
    }

    /// Whether a value has rows of edges and then those of loops.
    fn joins_loops(&self, value: Value) -> bool {
        joins_loops(self.of, self.levels, value)
    }

    fn refused<T>(&self, value: Value, problem: &str) -> Result<T, LayerwiseError> {
        Err(refused(self.of, value, problem))
    }
}

/// Whether a value has rows of edges and then those of the loops of nodes.
pub(super) fn joins_loops(of: &Dfg, levels: &Levels, value: Value) -> bool {
    let Source::Node { node, .. } = of.source(value) else { return false };
    let node = &of.nodes()[*node];
    let space = |value: Value| match levels.fact(value).domain {
        Domain::Rows(rows) => Some(rows.space),
        _ => None,
    };
    matches!(node.op, Op::Concat { .. })
        && node.inputs.len() == 2
        && space(node.inputs[0]) != space(node.inputs[1])
}

/// The error that a value cannot be computed layer by layer.
pub(super) fn refused(of: &Dfg, value: Value, problem: &str) -> LayerwiseError {
    let (node, op) = match of.source(value) {
        Source::Node { node, .. } => (of.nodes()[*node].name.clone(), of.nodes()[*node].op.name()),
        Source::Input { .. } => (format!("{:?}", of.name(value)), "input".to_owned()),
        Source::Weight(_) => (format!("{:?}", of.name(value)), "weight".to_owned()),
    };
    LayerwiseError::Model { node, op, problem: problem.to_owned() }
}

/// A value that is made of weights alone.
fn folded(of: &Dfg, value: Value) -> Result<Constant, LayerwiseError> {
    fn copy(
        of: &Dfg,
        value: Value,
        to: &mut Dfg,
        made: &mut HashMap<Value, Value>,
    ) -> Result<Value, LayerwiseError> {
        if let Some(made) = made.get(&value) {
            return Ok(*made);
        }
        let new = match of.source(value) {
            Source::Weight(tensor) => to.create_weight(of.name(value), tensor.clone())?,
            Source::Input { .. } => {
                return Err(refused(of, value, "it is an input, but a constant is needed"));
            }
            Source::Node { node, output } => {
                let node = &of.nodes()[*node];
                let inputs: Result<Vec<Value>, _> =
                    node.inputs.iter().map(|input| copy(of, *input, to, made)).collect();
                let names: Vec<String> =
                    node.outputs.iter().map(|value| of.name(*value).to_owned()).collect();
                let all = to.create_named(&node.name, node.op.clone(), &inputs?, &names)?;
                made.extend(node.outputs.iter().copied().zip(all.iter().copied()));
                all[*output]
            }
        };
        made.insert(value, new);
        Ok(new)
    }
    let mut graph = Dfg::default();
    let made = copy(of, value, &mut graph, &mut HashMap::new())?;
    graph.create_out("folded", made)?;
    let found = run(&graph, &Devices::default(), &[], &Context::default());
    let missing = || refused(of, value, "it returns no value");
    found
        .map_err(RunError::into)
        .and_then(|found: Vec<Constant>| found.into_iter().next().ok_or_else(missing))
}

/// A message that is the row of a source, or that row times something.
pub(super) fn scaled(of: &Dfg, levels: &Levels, message: Value) -> Option<Scaled> {
    let at_source = |value: Value| {
        let Source::Node { node, .. } = of.source(value) else { return None };
        let node = &of.nodes()[*node];
        if !matches!(node.op, Op::Gather { .. } | Op::GatherNd) {
            return None;
        }
        let pointer = levels.fact(node.inputs[1]).pointer?;
        let is_plain =
            |value| matches!(levels.fact(value).domain, Domain::Rows(rows) if rows.is_plain());
        let is_rows = is_plain(value) && is_plain(node.inputs[0]);
        (pointer.end == End::Source && is_rows).then_some(node.inputs[0])
    };
    if let Some(table) = at_source(message) {
        return Some(Scaled { table, factor: None });
    }
    let Source::Node { node, .. } = of.source(message) else { return None };
    let node = &of.nodes()[*node];
    if node.op != Op::Binary(Binary::Mul) {
        return None;
    }
    let [one, other] = node.inputs[..] else { return None };
    let shape = |value: Value| levels.type_of(value).shape.get(1..).unwrap_or_default();
    let number =
        |value: Value| shape(value).iter().map(|dim| dim.number()).collect::<Option<Vec<i64>>>();
    let pick = |rows: Value, factor: Value| {
        let table = at_source(rows)?;
        let (rows, factors) = (number(rows)?, number(factor)?);
        // A factor for each edge, or for each head of it: leading lengths are equal, the others 1.
        let leading = rows.iter().zip(&factors).take_while(|(a, b)| a == b).count();
        let is_prefix = rows.len() == factors.len() && factors[leading..].iter().all(|n| *n == 1);
        let is_whole = leading == rows.len() && rows.iter().product::<i64>() > 1;
        let has_rows = matches!(levels.fact(factor).domain, Domain::Rows(rows) if rows.is_plain());
        (is_prefix && !is_whole && has_rows).then_some(Scaled { table, factor: Some(factor) })
    };
    pick(one, other).or_else(|| pick(other, one))
}

/// Rows of sources, times a factor for each edge and head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaled {
    pub table: Value,
    pub factor: Option<Value>,
}
