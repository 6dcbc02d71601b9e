//! Which rows of each value are needed, and in which order: the heart of fusion along edges and of
//! trimming.
//!
//! What lives here: forms of values, recipes that make a form of an operation's result from forms
//! of what it takes, and the walk from the outputs to the inputs that finds which are needed. What
//! must not: nodes of the new graph.
//!
//! A batch is in hop order: its seeds first, then the nodes that are one hop away, and so on. The
//! outputs are needed for the seeds alone. Rows that edges bring to nodes of hop `k` come from
//! nodes up to hop `k + 1`, so each operation along edges needs rows of one hop more, and whatever
//! treats rows one by one needs as many as it gives. An operation that is none of these takes all
//! rows of what it takes, and its result is cut: so all cuts are right, whatever a model does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ng_types::Dtype;

use super::edges::{EdgeSet, Facts};
use super::row_by_row::{RowByRow, row_by_row};
use crate::dfg::{Binary, Node, Op, Reduction, Source, Value};
use crate::run::devices::Devices;

/// The nodes whose edges are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Depth {
    /// Those up to a hop.
    Hops(usize),
    All,
}

/// Rows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// The value as it is.
    Whole,
    /// The first rows: those of nodes up to a hop.
    Nodes(usize),
    /// A row for each edge of a set, in the order of the nodes that edges come to.
    List(usize, Depth),
}

/// What an operation of the new graph takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
    Value(Value, Form),
    /// The offsets of the lists of a set.
    Offsets(usize, Depth),
    /// For each edge of the lists its place before.
    Places(usize, Depth),
    /// 0, 1, 2 and so on, for each edge of the lists.
    Numbers(usize, Depth),
    /// How many nodes there are.
    Count(usize, Depth),
    List(Vec<i64>),
}

/// How a form of a value is made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recipe {
    pub op: Op,
    pub inputs: Vec<Input>,
}

/// Which forms of a value are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    pub whole: bool,
    pub nodes: Option<usize>,
    pub lists: BTreeMap<usize, Depth>,
}

impl Needs {
    fn add(&mut self, form: Form) {
        match form {
            Form::Whole => self.whole = true,
            Form::Nodes(hop) => self.nodes = self.nodes.max(Some(hop)),
            Form::List(set, depth) => {
                let known = self.lists.entry(set).or_insert(depth);
                *known = depth.max(*known);
            }
        }
    }

    /// The forms that are made; what else is needed is part of them.
    pub fn made(&self) -> Vec<Form> {
        if self.whole {
            return vec![Form::Whole];
        }
        let nodes = self.nodes.map(Form::Nodes);
        let lists = self.lists.iter().map(|(set, depth)| Form::List(*set, *depth));
        nodes.into_iter().chain(lists).collect()
    }
}

/// Which forms of all values are needed.
pub(super) struct Forms<'a> {
    pub facts: Facts<'a>,
    pub sets: Vec<EdgeSet>,
    /// By value.
    pub needs: Vec<Needs>,
    /// Nodes that were asked for some rows and compute all of them.
    pub whole: BTreeSet<usize>,
    by_index: HashMap<(Value, Value), usize>,
    /// The devices by which operations are fused, if they are.
    fused: Option<&'a Devices>,
    is_trimmed: bool,
}

impl<'a> Forms<'a> {
    /// Walks from the outputs to the inputs.
    pub fn find(facts: Facts<'a>, fused: Option<&'a Devices>, is_trimmed: bool) -> Self {
        let needs = vec![Needs::default(); facts.known.len()];
        let (sets, whole, by_index) = (Vec::new(), BTreeSet::new(), HashMap::new());
        let mut this = Self { facts, sets, needs, whole, by_index, fused, is_trimmed };
        let draft = this.facts.draft;
        for (_, value) in draft.dfg.outputs() {
            let form = this.output(*value);
            this.needs[value.0].add(form);
        }
        for at in draft.needed().into_iter().rev() {
            this.visit(at, &draft.dfg.nodes()[at]);
        }
        this
    }

    /// The rows of an output that are needed.
    pub fn output(&self, value: Value) -> Form {
        match self.facts.nodes_of(value) {
            Some(_) if self.is_trimmed => Form::Nodes(0),
            _ => Form::Whole,
        }
    }

    fn visit(&mut self, at: usize, node: &Node) {
        let value = node.outputs[0];
        let forms = self.needs[value.0].made();
        let made = |this: &mut Self, form: &Form| this.recipe(node, *form).is_some();
        if node.outputs.len() > 1 || !forms.iter().all(|form| made(self, form)) {
            let is_cut =
                |form: &Form| matches!(form, Form::Nodes(_) | Form::List(_, Depth::Hops(_)));
            // Indices are cheap, and edges come in another order in any case.
            let is_f32 = self.facts.known(value).dtype == Dtype::F32;
            if is_f32 && forms.iter().any(is_cut) {
                self.whole.insert(at);
            }
            node.outputs.iter().for_each(|value| self.needs[value.0].add(Form::Whole));
        }
        for form in self.needs[value.0].made() {
            let Some(recipe) = self.recipe(node, form) else { continue };
            for input in recipe.inputs {
                self.need(&input);
            }
        }
    }

    fn need(&mut self, input: &Input) {
        let set = match input {
            Input::Value(value, form) => {
                self.needs[value.0].add(*form);
                match form {
                    Form::List(set, _) => *set,
                    _ => return,
                }
            }
            Input::Offsets(set, _)
            | Input::Places(set, _)
            | Input::Numbers(set, _)
            | Input::Count(set, _) => *set,
            Input::List(_) => return,
        };
        let EdgeSet { index, size, ends, .. } = self.sets[set].clone();
        for value in [Some(index), Some(size), ends].into_iter().flatten() {
            self.needs[value.0].add(Form::Whole);
        }
    }

    fn set(&mut self, index: Value, size: Value) -> usize {
        if let Some(known) = self.by_index.get(&(index, size)) {
            return *known;
        }
        self.sets.push(self.facts.edge_set(index, size, self.is_trimmed));
        self.by_index.insert((index, size), self.sets.len() - 1);
        self.sets.len() - 1
    }

    /// How a form of what `node` gives is made; `None` if only from all of it.
    pub fn recipe(&mut self, node: &Node, form: Form) -> Option<Recipe> {
        let special = match &node.op {
            Op::Scatter(how) => self.scatter(*how, node, form),
            Op::EdgeSoftmax => self.softmax(node, form),
            Op::Gather { .. } => self.gather(node, form),
            Op::Binary(binary) => self.pairs(*binary, node, form),
            _ => None,
        };
        if special.is_some() {
            return special;
        }
        if form == Form::Whole {
            let inputs = node.inputs.iter().map(|value| Input::Value(*value, form));
            return Some(Recipe { op: node.op.clone(), inputs: inputs.collect() });
        }
        self.rows(node, form)
    }

    /// An operation that treats rows one by one.
    fn rows(&self, node: &Node, form: Form) -> Option<Recipe> {
        let known: Vec<_> = node.inputs.iter().map(|value| self.facts.known(*value)).collect();
        let how = row_by_row(&node.op, &known, self.facts.known(node.outputs[0]))?;
        let shaped = |first: i64, row: Vec<i64>| {
            let shape = [vec![first], row].concat();
            vec![Input::Value(node.inputs[0], form), Input::List(shape)]
        };
        let (op, inputs) = match how {
            RowByRow::Inputs(has_rows) => {
                let input = |(value, has_rows): (&Value, bool)| {
                    Input::Value(*value, if has_rows { form } else { Form::Whole })
                };
                (node.op.clone(), node.inputs.iter().zip(has_rows).map(input).collect())
            }
            RowByRow::Reshape(row) => (Op::Reshape { allow_zero: false }, shaped(-1, row)),
            RowByRow::Expand(row) => (Op::Expand, shaped(1, row)),
        };
        Some(Recipe { op, inputs })
    }

    /// Which rows of `rows` an index needs that is in the order of a set.
    fn rows_of(&self, rows: Value, index: Value, set: usize, depth: Depth) -> Form {
        let Depth::Hops(hop) = depth else { return Form::Whole };
        match self.facts.end(index).filter(|_| self.facts.nodes_of(rows).is_some()) {
            Some((edges, end)) if Some(edges) == self.sets[set].ends => {
                Form::Nodes(if end == 0 { hop + 1 } else { hop })
            }
            _ => Form::Whole,
        }
    }

    fn gather(&self, node: &Node, form: Form) -> Option<Recipe> {
        let (rows, index) = self.facts.gathered(node.outputs[0])?;
        let of = match form {
            Form::List(set, depth) => self.rows_of(rows, index, set, depth),
            _ => Form::Whole,
        };
        let inputs = vec![Input::Value(rows, of), Input::Value(index, form)];
        Some(Recipe { op: Op::Gather { axis: 0 }, inputs })
    }

    /// Pairs of rows of the nodes at both ends.
    fn pairs(&self, binary: Binary, node: &Node, form: Form) -> Option<Recipe> {
        let (a, first) = self.facts.gathered(node.inputs[0])?;
        let (b, second) = self.facts.gathered(node.inputs[1])?;
        let (known, other) = (self.facts.known(a), self.facts.known(b));
        let is_same = known.shape[1..] == other.shape[1..];
        let is_f32 = known.dtype == Dtype::F32 && other.dtype == Dtype::F32;
        let gather = Op::Gather { axis: 0 };
        let fits = binary.is_arithmetic() && is_same && is_f32;
        if !fits || !self.may_fuse(&[&node.op, &gather], &Op::Sddmm(binary)) {
            return None;
        }
        let of = |rows, index| match form {
            Form::Whole => Some(Form::Whole),
            Form::List(set, depth) => Some(self.rows_of(rows, index, set, depth)),
            Form::Nodes(_) => None,
        };
        let inputs = vec![
            Input::Value(a, of(a, first)?),
            Input::Value(b, of(b, second)?),
            Input::Value(first, form),
            Input::Value(second, form),
        ];
        Some(Recipe { op: Op::Sddmm(binary), inputs })
    }

    /// The set and depth of edges that give a form of what they come to.
    fn edges_to(&mut self, node: &Node, form: Form) -> Option<(usize, Depth)> {
        if self.facts.known(node.inputs[1]).shape.len() != 1 {
            return None;
        }
        let set = self.set(node.inputs[1], node.inputs[2]);
        match form {
            Form::Whole => Some((set, Depth::All)),
            Form::Nodes(hop) => self.sets[set].nodes.is_some().then_some((set, Depth::Hops(hop))),
            Form::List(..) => None,
        }
    }

    fn scatter(&mut self, how: Reduction, node: &Node, form: Form) -> Option<Recipe> {
        let (set, depth) = self.edges_to(node, form)?;
        let (messages, index) = (node.inputs[0], node.inputs[1]);
        let list = Form::List(set, depth);
        let aggregate = Op::Aggregate(how);
        if !self.may_fuse(&[&node.op], &aggregate) {
            let inputs = vec![
                Input::Value(messages, list),
                Input::Value(index, list),
                Input::Count(set, depth),
            ];
            return (depth != Depth::All).then_some(Recipe { op: node.op.clone(), inputs });
        }
        let offsets = Input::Offsets(set, depth);
        let inputs = if let Some((rows, index, weights)) = self.fused_messages(messages, how) {
            let of = self.rows_of(rows, index, set, depth);
            let weights = weights.map(|weights| Input::Value(weights, list));
            let rows = [Input::Value(rows, of), offsets, Input::Value(index, list)];
            rows.into_iter().chain(weights).collect()
        } else if self.sets[set].ends.is_some() && self.facts.draft.maker(messages).is_some() {
            vec![Input::Value(messages, list), offsets, Input::Numbers(set, depth)]
        } else {
            vec![Input::Value(messages, Form::Whole), offsets, Input::Places(set, depth)]
        };
        Some(Recipe { op: aggregate, inputs })
    }

    fn may_fuse(&self, ops: &[&Op], into: &Op) -> bool {
        self.fused.is_some_and(|devices| devices.may_replace(ops, into))
    }

    /// Messages that an aggregation makes itself.
    fn fused_messages(
        &self,
        value: Value,
        how: Reduction,
    ) -> Option<(Value, Value, Option<Value>)> {
        let found = self.messages(value)?;
        let (gather, product) = (Op::Gather { axis: 0 }, Op::Binary(Binary::Mul));
        let replaced = if found.2.is_some() { vec![&gather, &product] } else { vec![&gather] };
        self.may_fuse(&replaced, &Op::Aggregate(how)).then_some(found)
    }

    /// Messages that are rows gathered by an index, perhaps with a weight for each edge or head.
    fn messages(&self, value: Value) -> Option<(Value, Value, Option<Value>)> {
        if let Some((rows, index)) = self.facts.gathered(value) {
            return Some((rows, index, None));
        }
        let node = self.facts.draft.maker(value)?;
        let Op::Binary(Binary::Mul) = node.op else { return None };
        let (message, [one, other]) = (self.facts.known(value), node.inputs[..].try_into().ok()?);
        let weighted = |(of, weights): (Value, Value)| {
            let (rows, index) = self.facts.gathered(of)?;
            let known = self.facts.known(weights);
            let heads = known.shape.iter().rposition(|dim| dim.number() != Some(1)).unwrap_or(0);
            let is_prefix = known.shape.len() == message.shape.len()
                && message.shape.starts_with(&known.shape[..=heads])
                && (heads == 0 || heads + 1 < known.shape.len());
            let is_all = self.facts.known(of).shape == message.shape;
            (is_prefix && is_all).then_some((rows, index, Some(weights)))
        };
        [(one, other), (other, one)].into_iter().find_map(weighted)
    }

    fn softmax(&mut self, node: &Node, form: Form) -> Option<Recipe> {
        let Form::List(set, depth) = form else { return None };
        let (values, index, size) = (node.inputs[0], node.inputs[1], node.inputs[2]);
        if (self.sets[set].index, self.sets[set].size) != (index, size) {
            return None;
        }
        let inputs =
            vec![Input::Value(values, form), Input::Value(index, form), Input::Count(set, depth)];
        Some(Recipe { op: Op::EdgeSoftmax, inputs })
    }

    /// The nodes whose work a recipe of another operation does beside that of node `at`.
    pub fn absorbed(&self, at: usize) -> Vec<usize> {
        let draft = self.facts.draft;
        let of = |value: &Value| match draft.dfg.source(*value) {
            Source::Node { node, .. } => Some(*node),
            _ => None,
        };
        let is_gather =
            |node: &usize| self.facts.gathered(draft.dfg.nodes()[*node].outputs[0]).is_some();
        let node = &draft.dfg.nodes()[at];
        let gathers = |node: &Node| node.inputs.iter().filter_map(of).filter(is_gather).collect();
        match node.op {
            Op::Binary(_) => gathers(node),
            Op::Scatter(how) if self.fused_messages(node.inputs[0], how).is_some() => {
                let Some(message) = of(&node.inputs[0]) else { return Vec::new() };
                let mut all: Vec<usize> = match draft.dfg.nodes()[message].op {
                    Op::Binary(_) => gathers(&draft.dfg.nodes()[message]),
                    _ => Vec::new(),
                };
                all.push(message);
                all
            }
            _ => Vec::new(),
        }
    }
}
