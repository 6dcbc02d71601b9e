//! The facts of each value, from those of the values that its node takes.

use crate::dfg::constant::Elements;
use crate::dfg::{Dfg, Dim, Op, Source, TensorType, Value};

use super::error::LevelsError;
use super::facts::{Barrier, Cut, Domain, Fact, Level, MadeOf, Rows};
use super::spaces::{Space, SpaceId, Spaces, is_pairs};
use super::{edges, elements, layout};

/// The facts so far.
pub(super) struct Analysis<'a> {
    pub dfg: &'a Dfg,
    pub types: &'a [TensorType],
    pub facts: Vec<Option<Fact>>,
    pub spaces: Spaces,
    pub cuts: Vec<Cut>,
    pub barriers: Vec<Barrier>,
}

/// A node under analysis.
pub(super) struct Step<'a> {
    pub at: usize,
    pub op: &'a Op,
    pub inputs: &'a [Value],
    pub outputs: &'a [Value],
}

impl<'a> Analysis<'a> {
    pub fn new(dfg: &'a Dfg, types: &'a [TensorType]) -> Self {
        let spaces = Spaces::new(dfg, types);
        let (cuts, barriers) = (Vec::new(), Vec::new());
        Self { dfg, types, facts: vec![None; types.len()], spaces, cuts, barriers }
    }

    pub fn set(&mut self, value: Value, fact: Fact) {
        self.facts[value.0] = Some(fact);
    }

    /// What is known of a value that came before.
    pub fn fact(&self, value: Value) -> Fact {
        self.facts[value.0].unwrap_or(Fact::CONSTANT)
    }

    pub fn shape(&self, value: Value) -> &'a [Dim] {
        &self.types[value.0].shape
    }

    pub fn rank(&self, value: Value) -> usize {
        self.shape(value).len()
    }

    /// Whole numbers that belong to the model.
    pub fn numbers(&self, value: Value) -> Option<&'a [i64]> {
        match self.dfg.source(value) {
            Source::Weight(tensor) => match tensor.elements() {
                Elements::I64(all) => Some(all),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn input(&self, value: Value) -> Result<Fact, LevelsError> {
        let kind = &self.types[value.0];
        let space = |length: Option<&Dim>| length.and_then(|length| self.spaces.of_length(length));
        let pairs = if is_pairs(kind) { space(kind.shape.get(1)) } else { None };
        if let Some(space) = pairs {
            let made_of = match self.spaces.all[space.0] {
                Space::Edges { .. } => MadeOf::Topology,
                _ => MadeOf::NodeRows,
            };
            return Ok(Fact::new(Domain::Edges(space), made_of));
        }
        let Some(space) = space(kind.shape.first()) else {
            // In the text form weights are inputs.
            let is_count = kind.dtype == ng_types::Dtype::I64;
            let counts = Fact::new(Domain::Counts, MadeOf::Counts);
            return Ok(if is_count { counts } else { Fact::CONSTANT });
        };
        let made_of = match self.spaces.all[space.0] {
            Space::Edges { .. } => MadeOf::EdgeRows,
            _ => MadeOf::NodeRows,
        };
        let fact = Fact::new(Domain::Rows(Rows::plain(space, 0)), made_of);
        self.rest_is_fixed(value, &fact).map_err(|problem| LevelsError::Node {
            node: format!("input {:?}", self.dfg.name(value)),
            op: "input".to_owned(),
            problem,
        })?;
        Ok(fact)
    }

    pub fn node(&mut self, at: usize) -> Result<(), LevelsError> {
        let node = &self.dfg.nodes()[at];
        let step = Step { at, op: &node.op, inputs: &node.inputs, outputs: &node.outputs };
        let (name, op) = (node.name.clone(), node.op.name());
        let facts = self.facts_of(&step).and_then(|facts| {
            for (value, fact) in node.outputs.iter().zip(&facts) {
                self.rest_is_fixed(*value, fact)?;
            }
            Ok(facts)
        });
        let failed = |problem| LevelsError::Node { node: name, op, problem };
        for (value, fact) in node.outputs.iter().zip(facts.map_err(failed)?) {
            self.set(*value, fact);
        }
        Ok(())
    }

    /// Checks that rows lie where a fact says, and that no other length varies.
    fn rest_is_fixed(&self, value: Value, fact: &Fact) -> Result<(), String> {
        let rows = match fact.domain {
            Domain::Rows(rows) => Some(rows),
            Domain::Edges(space) => Some(Rows::plain(space, 1)),
            Domain::Whole | Domain::Constant | Domain::Counts => None,
        };
        for (axis, length) in self.shape(value).iter().enumerate() {
            match rows {
                Some(rows) if rows.axis == axis => {
                    let times = self.spaces.multiple(length, rows.space);
                    if times != Some(rows.outer * rows.inner) {
                        return Err(format!(
                            "its result has {length} rows, more or fewer than its inputs"
                        ));
                    }
                }
                _ if length.number().is_none() => {
                    return Err(format!(
                        "the length {length} of one of its axes, other than the axis of the rows, \
                         is not constant"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn facts_of(&mut self, step: &Step<'_>) -> Result<Vec<Fact>, String> {
        let facts: Vec<Fact> = step.inputs.iter().map(|value| self.fact(*value)).collect();
        if let Op::Shape { .. } = step.op {
            return Ok(vec![self.shape_of(step)]);
        }
        if facts
            .iter()
            .all(|f| matches!(f.domain, Domain::Constant | Domain::Counts | Domain::Whole))
        {
            return self.without_rows(step, &facts).map(|fact| vec![fact]);
        }
        match step.op {
            Op::Scatter(_)
            | Op::EdgeSoftmax
            | Op::Spmm(_)
            | Op::Degree
            | Op::GcnNorm
            | Op::AddSelfLoops
            | Op::RemoveSelfLoops
            | Op::RemoveSelfLoopsAttr
            | Op::SelfLoopAttr => edges::facts(self, step, &facts),
            Op::Gather { .. } | Op::GatherNd => edges::gathered(self, step, &facts).map(one),
            Op::Reshape { .. } | Op::Squeeze | Op::Unsqueeze => {
                layout::reshaped(self, step, &facts).map(one)
            }
            Op::Transpose { .. } | Op::Concat { .. } | Op::Slice | Op::Tile | Op::Expand => {
                layout::facts(self, step, &facts).map(one)
            }
            _ => elements::facts(self, step, &facts).map(one),
        }
    }

    /// Lengths: counts if one of them varies.
    fn shape_of(&self, step: &Step<'_>) -> Fact {
        let varies = self.shape(step.inputs[0]).iter().any(|length| length.number().is_none());
        if varies { Fact::new(Domain::Counts, MadeOf::Counts) } else { Fact::CONSTANT }
    }

    /// Of nothing that has rows: a number, or rows that are all equal.
    fn without_rows(&mut self, step: &Step<'_>, facts: &[Fact]) -> Result<Fact, String> {
        let mixed = mix(facts);
        let lengths = self.shape(step.outputs[0]);
        let Some(axis) = lengths.iter().position(|length| length.number().is_none()) else {
            let is = |domain| facts.iter().any(|fact| fact.domain == domain);
            let domain = match (is(Domain::Whole), is(Domain::Counts)) {
                (true, _) => Domain::Whole,
                (_, true) => Domain::Counts,
                _ => Domain::Constant,
            };
            return Ok(Fact { domain, ..mixed });
        };
        if !matches!(step.op, Op::Expand | Op::ConstantOfShape { .. }) {
            return Err("it creates rows whose values depend on the number of rows".to_owned());
        }
        // With two lengths that vary, the check of the other axes fails.
        let found = self.spaces.of_multiple(&lengths[axis]);
        let (space, times) = match found {
            Some(found) => found,
            None => (self.spaces.other(&lengths[axis]), 1),
        };
        let rows = Rows { space, axis, outer: 1, inner: times };
        Ok(Fact { domain: Domain::Rows(rows), ..mixed })
    }

    /// The axes of a reduction; all if they are not said.
    pub fn axes(&self, step: &Step<'_>) -> Result<Vec<usize>, String> {
        let rank = self.rank(step.inputs[0]);
        let Some(list) = step.inputs.get(1) else { return Ok((0..rank).collect()) };
        let numbers = self.numbers(*list).ok_or("its axes are not constant")?;
        if numbers.is_empty() && matches!(step.op, Op::Reduce { .. }) {
            return Ok((0..rank).collect());
        }
        numbers.iter().map(|axis| place(*axis, rank)).collect()
    }

    pub fn barrier(&mut self, step: &Step<'_>, space: SpaceId, facts: &[Fact]) -> Fact {
        self.barriers.push(Barrier { node: step.at, space });
        Fact { domain: Domain::Whole, pointer: None, ..mix(facts) }
    }
}

fn one(fact: Fact) -> Vec<Fact> {
    vec![fact]
}

/// The place of an axis that may count from the end.
pub(super) fn place(axis: i64, rank: usize) -> Result<usize, String> {
    crate::dfg::place(axis, rank)
}

/// The largest level and all that is taken; nothing of rows.
pub(super) fn mix(facts: &[Fact]) -> Fact {
    let level = facts.iter().map(|fact| fact.level).max().unwrap_or(Level::default());
    let made_of = facts.iter().map(|fact| fact.made_of).max().unwrap_or(MadeOf::Weights);
    Fact { level, made_of, ..Fact::CONSTANT }
}
