//! Graphs without detours: values that are others in disguise, and counts by their shortest way.
//!
//! What must not live here: fusion. The invariant: each value that is left has the same bytes.

use ng_types::Dtype;

use super::draft::{Draft, Rewrite};
use crate::dfg::{DfgError, Known, Node, Op, Source, Value, place, places};

/// The graph without nodes that nobody needs, that do nothing, that are there twice, or whose
/// result is known. `known` is what is known of the values, if all inputs have types.
pub(super) fn simplify(draft: &Draft, known: Option<&[Known]>) -> Result<Draft, DfgError> {
    let mut to = Rewrite::new(draft)?;
    for at in draft.needed() {
        to.work_of(&[at]);
        let node = &draft.dfg.nodes()[at];
        let made = match known {
            Some(known) => Simplify { draft, known }.of(node, &mut to)?,
            None if node.op == Op::Identity => Some(to.value(node.inputs[0])?),
            None => None,
        };
        match made {
            Some(made) => to.set(node.outputs[0], made),
            None => to.copy(at)?,
        }
    }
    to.finish()
}

struct Simplify<'a> {
    draft: &'a Draft,
    known: &'a [Known],
}

impl Simplify<'_> {
    /// A shorter way to what a node gives.
    fn of(&self, node: &Node, to: &mut Rewrite<'_>) -> Result<Option<Value>, DfgError> {
        let [output] = node.outputs[..] else { return Ok(None) };
        let (of, becomes) = (node.inputs[0], &self.known[output.0]);
        let same_type =
            |known: &Known| (known.dtype, &known.shape) == (becomes.dtype, &becomes.shape);
        let is_same = match &node.op {
            Op::Identity => true,
            Op::Reshape { .. } | Op::Cast(_) => same_type(&self.known[of.0]),
            _ => false,
        };
        if is_same {
            return to.value(of).map(Some);
        }
        let is_short = becomes.dtype == Dtype::I64 && becomes.shape.len() < 2;
        if let Some(numbers) = becomes.numbers().filter(|_| is_short) {
            let is_list = !becomes.shape.is_empty();
            return if is_list { to.list(&numbers) } else { to.number(numbers[0]) }.map(Some);
        }
        match &node.op {
            Op::Shape { .. } => self.shape(of, becomes, to),
            Op::Squeeze => self.row(node, to),
            Op::GatherNd => self.gather(node, to),
            Op::Gather { axis } if *axis < 0 => {
                let Ok(axis) = place(*axis, self.known[of.0].shape.len()) else { return Ok(None) };
                let inputs = [to.value(of)?, to.value(node.inputs[1])?];
                to.one(Op::Gather { axis: axis as i64 }, &inputs).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Lengths by the inputs that have them, so that nothing is computed for its shape alone.
    fn shape(
        &self,
        of: Value,
        becomes: &Known,
        to: &mut Rewrite<'_>,
    ) -> Result<Option<Value>, DfgError> {
        if let Source::Input { .. } = self.draft.dfg.source(of) {
            return Ok(None);
        }
        let Some(content) = &becomes.content else { return Ok(None) };
        let mut parts = Vec::new();
        for dim in content {
            parts.push(match (dim.number(), self.input_with(dim)) {
                (Some(number), _) => to.list(&[number])?,
                (None, Some((input, axis))) => {
                    let input = to.value(input)?;
                    to.one(Op::Shape { start: axis, end: Some(axis + 1) }, &[input])?
                }
                (None, None) => return Ok(None),
            });
        }
        match parts[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => to.one(Op::Concat { axis: 0 }, &parts).map(Some),
        }
    }

    /// An input that has a length, and the axis.
    fn input_with(&self, dim: &crate::dfg::Dim) -> Option<(Value, i64)> {
        self.draft.dfg.inputs().find_map(|(value, _)| {
            let axis = self.known[value.0].shape.iter().position(|known| known == dim)?;
            Some((value, axis as i64))
        })
    }

    /// One row of a tensor, by `Slice` and `Squeeze`, as a `Gather`.
    fn row(&self, node: &Node, to: &mut Rewrite<'_>) -> Result<Option<Value>, DfgError> {
        let Some(slice) = self.draft.maker(node.inputs[0]).filter(|made| made.op == Op::Slice)
        else {
            return Ok(None);
        };
        let one = |at: usize, missing: i64| match slice.inputs.get(at) {
            None => Some(missing),
            Some(value) => match self.known[value.0].numbers()?[..] {
                [number] => Some(number),
                _ => None,
            },
        };
        let of = &self.known[slice.inputs[0].0].shape;
        let axes = node.inputs.get(1).and_then(|axes| self.known[axes.0].numbers());
        let is_first = axes.is_some_and(|axes| axes == [0] || axes == [-(of.len() as i64)]);
        let ranges = (one(1, 0), one(2, 0), one(3, 0), one(4, 1));
        let (Some(start), Some(end), Some(0), Some(step)) = ranges else { return Ok(None) };
        let Some(len) = of.first().and_then(|dim| dim.number()).filter(|_| is_first) else {
            return Ok(None);
        };
        let Some(row) = (step != 0).then(|| places(start, end, step, len).next()).flatten() else {
            return Ok(None);
        };
        let inputs = [to.value(slice.inputs[0])?, to.number(row)?];
        to.one(Op::Gather { axis: 0 }, &inputs).map(Some)
    }

    /// `GatherND` with an index of one axis, as a `Gather`.
    fn gather(&self, node: &Node, to: &mut Rewrite<'_>) -> Result<Option<Value>, DfgError> {
        let Some(lists) = self.draft.maker(node.inputs[1]).filter(|made| made.op == Op::Unsqueeze)
        else {
            return Ok(None);
        };
        let axes = self.known[lists.inputs[1].0].numbers();
        let rank = self.known[lists.inputs[0].0].shape.len() as i64;
        if axes.is_none_or(|axes| axes != [-1] && axes != [rank]) {
            return Ok(None);
        }
        let inputs = [to.value(node.inputs[0])?, to.value(lists.inputs[0])?];
        to.one(Op::Gather { axis: 0 }, &inputs).map(Some)
    }
}
