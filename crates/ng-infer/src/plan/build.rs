//! The graph that makes the needed forms of all values.
//!
//! What must not live here: which forms are needed. The invariant: each form is made once, and
//! fewer rows of a value are the first rows of more.

use std::collections::HashMap;

use ng_types::Dtype;

use super::draft::{Draft, Rewrite};
use super::forms::{Depth, Form, Forms, Input};
use crate::dfg::{Binary, DfgError, Dim, Op, Source, TensorType, Value};

/// How many nodes there are up to a hop: an input that a run fills from the hops of its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HopCount {
    /// The symbol that counts all of them.
    pub nodes: String,
    pub hop: usize,
    /// The input's name.
    pub input: String,
}

/// The graph, and its inputs that come from the hops of a batch.
pub(super) fn build(mut forms: Forms<'_>) -> Result<(Draft, Vec<HopCount>), DfgError> {
    let draft = forms.facts.draft;
    let mut build = Build {
        to: Rewrite::new(draft)?,
        made: HashMap::new(),
        hops: Vec::new(),
        counts: HashMap::new(),
    };
    for at in draft.needed() {
        let node = &draft.dfg.nodes()[at];
        if node.outputs.len() > 1 {
            build.to.work_of(&[at]);
            build.to.copy(at)?;
            continue;
        }
        let value = node.outputs[0];
        for form in forms.needs[value.0].made() {
            let Some(recipe) = forms.recipe(node, form) else { continue };
            let inputs = recipe.inputs.iter().map(|input| build.input(&forms, input));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let fused: Vec<usize> = if recipe.op == node.op {
                vec![at]
            } else {
                forms.absorbed(at).into_iter().chain([at]).collect()
            };
            build.to.work_of(&fused);
            let made = build.to.one(recipe.op, &inputs)?;
            if form == Form::Whole {
                build.to.set(value, made);
            }
            build.made.insert((value, form), made);
        }
    }
    let outputs = draft.dfg.outputs().iter();
    let outputs = outputs.map(|(name, value)| {
        let form = forms.output(*value);
        Ok((name.clone(), build.form(&forms, *value, form)?))
    });
    let outputs = outputs.collect::<Result<Vec<_>, DfgError>>()?;
    Ok((build.to.finish_with(&outputs)?, build.hops))
}

struct Build<'a> {
    to: Rewrite<'a>,
    made: HashMap<(Value, Form), Value>,
    hops: Vec<HopCount>,
    counts: HashMap<(String, usize), Value>,
}

impl Build<'_> {
    fn input(&mut self, forms: &Forms<'_>, input: &Input) -> Result<Value, DfgError> {
        match input {
            Input::Value(value, form) => self.form(forms, *value, *form),
            Input::List(numbers) => self.to.list(numbers),
            Input::Count(set, depth) => self.count(forms, *set, *depth),
            Input::Offsets(set, depth) => {
                let offsets = self.lists(forms, *set)?[0];
                if *depth == Depth::All {
                    return Ok(offsets);
                }
                let (nodes, one) = (self.count(forms, *set, *depth)?, self.to.list(&[1])?);
                let count = self.to.one(Op::Binary(Binary::Add), &[nodes, one])?;
                self.prefix(offsets, count)
            }
            Input::Places(set, depth) => {
                let places = self.lists(forms, *set)?[2];
                self.of_lists(forms, places, *set, *depth)
            }
            Input::Numbers(set, depth) => {
                let edges = self.edges(forms, *set, *depth)?;
                let (zero, one) = (self.to.number(0)?, self.to.number(1)?);
                self.to.one(Op::Range, &[zero, edges, one])
            }
        }
    }

    /// A form of a value: as it was made, or part of what was.
    fn form(&mut self, forms: &Forms<'_>, value: Value, form: Form) -> Result<Value, DfgError> {
        if form == Form::Whole {
            return self.to.value(value);
        }
        if let Some(made) = self.made.get(&(value, form)) {
            return Ok(*made);
        }
        let needs = &forms.needs[value.0];
        match form {
            Form::Whole => self.to.value(value),
            Form::Nodes(hop) => {
                let larger = needs.nodes.map(Form::Nodes).filter(|_| !needs.whole);
                let all = match larger.and_then(|larger| self.made.get(&(value, larger))) {
                    Some(made) => *made,
                    None => self.to.value(value)?,
                };
                let nodes = forms.facts.nodes_of(value).unwrap_or_default();
                let count = self.hop(nodes, hop)?;
                self.prefix(all, count)
            }
            Form::List(set, depth) => {
                let most = needs.lists.get(&set).copied().unwrap_or(depth);
                let all = match self.made.get(&(value, Form::List(set, most))) {
                    Some(made) => *made,
                    None => self.sorted(forms, value, set, most)?,
                };
                if most == depth { Ok(all) } else { self.of_lists(forms, all, set, depth) }
            }
        }
    }

    /// A value of edges in the order of a set.
    fn sorted(
        &mut self,
        forms: &Forms<'_>,
        value: Value,
        set: usize,
        depth: Depth,
    ) -> Result<Value, DfgError> {
        let end = forms.facts.end(value);
        let made =
            if end.is_some_and(|(edges, end)| end == 0 && Some(edges) == forms.sets[set].ends) {
                let sources = self.lists(forms, set)?[1];
                self.of_lists(forms, sources, set, depth)?
            } else {
                let places = self.input(forms, &Input::Places(set, depth))?;
                let all = self.to.value(value)?;
                self.to.one(Op::Gather { axis: 0 }, &[all, places])?
            };
        self.made.insert((value, Form::List(set, depth)), made);
        Ok(made)
    }

    fn lists(&mut self, forms: &Forms<'_>, set: usize) -> Result<Vec<Value>, DfgError> {
        let set = &forms.sets[set];
        let size = self.to.value(set.size)?;
        let index = match (self.to.value(set.index), set.ends) {
            // Something in the order of the lists comes before the end that they are sorted by.
            (Err(_), Some(edges)) => {
                let (edges, one) = (self.to.value(edges)?, self.to.number(1)?);
                self.to.one(Op::Gather { axis: 0 }, &[edges, one])?
            }
            (index, _) => index?,
        };
        if let Source::Node { node, .. } = forms.facts.draft.dfg.source(set.index) {
            self.to.work_of(&[*node]);
        }
        let sources = match set.ends {
            None => index,
            Some(edges) => {
                let (edges, zero) = (self.to.value(edges)?, self.to.number(0)?);
                self.to.one(Op::Gather { axis: 0 }, &[edges, zero])?
            }
        };
        self.to.emit(Op::EdgeLists, &[sources, index, size])
    }

    /// The first of what a set has for each edge.
    fn of_lists(
        &mut self,
        forms: &Forms<'_>,
        all: Value,
        set: usize,
        depth: Depth,
    ) -> Result<Value, DfgError> {
        if depth == Depth::All {
            return Ok(all);
        }
        let edges = self.edges(forms, set, depth)?;
        self.prefix(all, edges)
    }

    /// How many edges come to the nodes of a depth, as a list of one number.
    fn edges(&mut self, forms: &Forms<'_>, set: usize, depth: Depth) -> Result<Value, DfgError> {
        let lists = self.lists(forms, set)?;
        if depth == Depth::All {
            return self.to.one(Op::Shape { start: 0, end: Some(1) }, &[lists[1]]);
        }
        let nodes = self.count(forms, set, depth)?;
        self.to.one(Op::Gather { axis: 0 }, &[lists[0], nodes])
    }

    fn count(&mut self, forms: &Forms<'_>, set: usize, depth: Depth) -> Result<Value, DfgError> {
        match (depth, &forms.sets[set].nodes) {
            (Depth::Hops(hop), Some(nodes)) => self.hop(nodes, hop),
            _ => self.to.value(forms.sets[set].size),
        }
    }

    /// The input that says how many nodes there are up to a hop.
    fn hop(&mut self, nodes: &str, hop: usize) -> Result<Value, DfgError> {
        if let Some(known) = self.counts.get(&(nodes.to_owned(), hop)) {
            return Ok(*known);
        }
        let wanted = TensorType { dtype: Dtype::I64, shape: vec![Dim::from(1)] };
        let value = self.to.input(&format!("{nodes} up to hop {hop}"), wanted)?;
        let input = self.to.made().dfg.name(value).to_owned();
        self.hops.push(HopCount { nodes: nodes.to_owned(), hop, input });
        self.counts.insert((nodes.to_owned(), hop), value);
        Ok(value)
    }

    /// The first rows of a value.
    fn prefix(&mut self, of: Value, count: Value) -> Result<Value, DfgError> {
        let (zero, one) = (self.to.list(&[0])?, self.to.list(&[1])?);
        self.to.one(Op::Slice, &[of, zero, count, zero, one])
    }
}
