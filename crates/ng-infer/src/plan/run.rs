//! One run of a plan.

use std::time::Instant;

use ng_types::Dtype;

use super::arena::{Arena, Lent};
use super::bind::{Home, Step, Work};
use super::explain::Cost;
use super::inputs::{Hops, check_hops, in_order, up_to};
use super::prepare::Plan;
use crate::dfg::{Constant, Elements, Op};
use crate::kernel::{Context, Data, Kernel, KernelError, View, ViewMut, shapes};
use crate::run::error::RunError;

/// What a run gave. It holds the run's memory, and gives it back to the plan when it is dropped.
pub struct Answer<'a> {
    plan: &'a Plan,
    inputs: Vec<View<'a>>,
    arena: Option<Arena>,
    /// Outputs that another program has made.
    made: Vec<Constant>,
}

impl Plan {
    /// Runs the graph on `inputs`, by name, with the threads of `context`. With the hops of a batch
    /// whose nodes are in hop order, outputs with a row for each node are those of the seeds.
    ///
    /// # Errors
    ///
    /// An input is missing, unknown or wrong, hops do not fit, or a kernel fails.
    pub fn run<'a>(
        &'a self,
        inputs: &[(&str, View<'a>)],
        hops: &Hops<'_>,
        context: &Context,
    ) -> Result<Answer<'a>, RunError> {
        if let Some(model) = &self.model {
            let (made, _) = self.run_model(model, (inputs, hops), context)?;
            return Ok(Answer { plan: self, inputs: Vec::new(), arena: None, made });
        }
        match self.run_with(inputs, hops, context, &mut |_, _| {}) {
            // What runs of other shapes have left behind may have been in its way.
            Err(RunError::TooLarge { .. }) => {
                self.release();
                self.run_with(inputs, hops, context, &mut |_, _| {})
            }
            done => done,
        }
    }

    /// [`Plan::run`], and what each step of [`Plan::explain`] cost.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`].
    pub fn profile<'a>(
        &'a self,
        inputs: &[(&str, View<'a>)],
        hops: &Hops<'_>,
        context: &Context,
    ) -> Result<(Answer<'a>, Vec<Cost>), RunError> {
        if let Some(model) = &self.model {
            let (made, cost) = self.run_model(model, (inputs, hops), context)?;
            return Ok((Answer { plan: self, inputs: Vec::new(), arena: None, made }, vec![cost]));
        }
        let mut costs = Vec::with_capacity(self.bound.steps.len());
        let mut begin = Instant::now();
        let answer = self.run_with(inputs, hops, context, &mut |run, step| {
            let time = begin.elapsed();
            let bytes = |value: &usize| {
                let view = run.arena.view(*value, run.lent, true);
                view.dims.iter().product::<usize>() as u64 * view.dtype().size_bytes() as u64
            };
            let bytes = match step.work {
                Work::View => 0,
                Work::Kernel { .. } => step.inputs.iter().chain(&step.outputs).map(bytes).sum(),
            };
            costs.push(Cost { time, bytes });
            begin = Instant::now();
        })?;
        Ok((answer, costs))
    }

    fn run_with<'a>(
        &'a self,
        inputs: &[(&str, View<'a>)],
        hops: &Hops<'_>,
        context: &Context,
        after: &mut (dyn FnMut(&Running<'_>, &Step) + Send),
    ) -> Result<Answer<'a>, RunError> {
        let inputs = in_order(&self.inputs, inputs)?;
        let count = |(name, input): &'a (String, usize)| {
            (name.as_str(), inputs[*input].dims.first().copied().unwrap_or(0))
        };
        let nodes: Vec<(&str, usize)> = self.nodes.iter().map(count).collect();
        check_hops(hops, &nodes)?;
        let mut answer = Answer { plan: self, inputs, arena: None, made: Vec::new() };
        let idle = self.arenas.lock().ok().and_then(|mut arenas| arenas.pop());
        let new = || Arena::new(self.bound.slots, &self.bound.homes, self.hops.len());
        let arena = answer.arena.insert(idle.unwrap_or_else(new));
        arena.begin();
        for (at, count) in self.hops.iter().enumerate() {
            let all =
                nodes.iter().find(|(name, _)| *name == count.nodes).map_or(0, |(_, all)| *all);
            arena.counts[at] = up_to(hops, &count.nodes, count.hop, all) as i64;
        }
        let lent = Lent { inputs: &answer.inputs, constants: &self.bound.constants };
        for (value, home) in self.bound.homes.iter().enumerate() {
            let dims: &[usize] = match home {
                Home::Input(at) => lent.inputs[*at].dims,
                Home::Constant(at) => lent.constants[*at].dims(),
                Home::Count(_) => &[1],
                _ => continue,
            };
            let tensor = &mut arena.tensors[value];
            tensor.dims.clear();
            tensor.dims.extend_from_slice(dims);
        }
        let running = Running { plan: self, arena, lent, context };
        // Most operations take the inputs, or something of their size.
        let work = answer.inputs.iter().map(|view| view.dims.iter().product::<usize>()).sum();
        let done = context.enter(work, || running.all(after));
        if let Err(RunError::TooLarge { .. }) = done {
            answer.arena = None;
        }
        done.map(|()| answer)
    }
}

/// A run that goes on.
struct Running<'a> {
    plan: &'a Plan,
    arena: &'a mut Arena,
    lent: Lent<'a>,
    context: &'a Context,
}

impl Running<'_> {
    fn all(mut self, after: &mut (dyn FnMut(&Running<'_>, &Step) + Send)) -> Result<(), RunError> {
        let plan = self.plan;
        for step in &plan.bound.steps {
            self.step(step)?;
            after(&self, step);
        }
        for (value, (name, _)) in plan.outputs.iter().zip(plan.draft.dfg.outputs()) {
            let wrong = |source: KernelError| RunError::WrongInput {
                name: name.clone(),
                problem: source.to_string(),
            };
            self.arena.copy_rows(value.0, self.lent, self.context).map_err(wrong)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), RunError> {
        match &step.work {
            Work::View => self.view(step).map_err(|source| self.failed(step, source)),
            Work::Kernel { kernel, in_place, .. } => self.kernel(step, &**kernel, *in_place),
        }
    }

    /// What went wrong in a step, in the words of the user's graph.
    fn failed(&self, step: &Step, source: KernelError) -> RunError {
        let (node, op) = self.name_of(step);
        RunError::Kernel { node, op, source }
    }

    /// A step's node and operation in the user's graph.
    fn name_of(&self, step: &Step) -> (String, String) {
        let (mut op, origins) = (step.op.name(), &self.plan.draft.origins[step.node]);
        let last = origins.last();
        if let Some(origin) = last.filter(|origin| origin.op != op) {
            op = format!("{}, run as {op}", origin.op);
        }
        (last.map_or_else(String::new, |origin| origin.node.clone()), op)
    }

    fn views(&self, step: &Step, kernel: Option<&dyn Kernel>) -> Vec<View<'_>> {
        let takes = |at| kernel.is_none_or(|kernel| kernel.takes_rows(&step.op, at));
        let view = |(at, value): (usize, &usize)| self.arena.view(*value, self.lent, takes(at));
        step.inputs.iter().enumerate().map(view).collect()
    }

    /// A tensor that is part of another.
    fn view(&mut self, step: &Step) -> Result<(), KernelError> {
        let (of, value) = (step.inputs[0], step.outputs[0]);
        let inputs = self.views(step, None);
        let (_, dims) = shapes(&step.op, &inputs)?.swap_remove(0);
        let row = || inputs[0].dims[1..].iter().product::<usize>();
        let len = inputs[0].dims.first().copied().unwrap_or(1);
        let from_end = |index: i64| {
            if index < 0 { index.saturating_add(len as i64) } else { index }
        };
        let first = match step.op {
            Op::Slice => from_end(inputs[1].i64()[0]).clamp(0, len as i64) as usize * row(),
            Op::Gather { .. } => {
                let index = inputs[1].i64()[0];
                let at = usize::try_from(from_end(index)).ok().filter(|at| *at < len);
                at.ok_or(KernelError::Index { index, place: 0, len })? * row()
            }
            _ => 0,
        };
        // An empty part may lie behind the end.
        let first = if dims.contains(&0) { 0 } else { first };
        let keeps_rows = matches!(step.op, Op::Slice | Op::Identity)
            || (inputs[0].dims.first() == dims.first() && dims.len() > 1);
        let is_elsewhere = matches!(inputs[0].data, Data::Rows(_));
        let mut home = self.arena.tensors[of].home;
        let mut start = self.arena.tensors[of].start + first;
        if is_elsewhere && !keeps_rows {
            self.arena.copy_rows(of, self.lent, self.context)?;
            (home, start) = (Home::Copy(of), first);
        }
        let tensor = &mut self.arena.tensors[value];
        (tensor.home, tensor.start, tensor.dims) = (home, start, dims);
        Ok(())
    }

    fn kernel(
        &mut self,
        step: &Step,
        kernel: &dyn Kernel,
        in_place: Option<usize>,
    ) -> Result<(), RunError> {
        for (at, value) in step.inputs.iter().enumerate() {
            if !kernel.takes_rows(&step.op, at) {
                let copied = self.arena.copy_rows(*value, self.lent, self.context);
                copied.map_err(|source| self.failed(step, source))?;
            }
        }
        let inputs = self.views(step, Some(kernel));
        let made = kernel.shapes(&step.op, &inputs);
        drop(inputs);
        let made = made.map_err(|source| self.failed(step, source))?;
        if let Some(at) = in_place.filter(|at| self.is_whole(step, *at, &made[0].1)) {
            return self.in_place(step, kernel, at, made);
        }
        let mut memory = Vec::with_capacity(made.len());
        for ((dtype, dims), value) in made.iter().zip(&step.outputs) {
            // Where an input was to be overwritten and has another shape, it stays for now.
            let slot = match self.plan.bound.homes[*value] {
                Home::Slot(slot) if in_place.is_none() => Some(slot),
                _ => None,
            };
            self.check_room(step, slot, (*dtype, dims))?;
            let taken = match slot {
                Some(slot) => self.arena.take(slot, *dtype, dims.iter().product()),
                None => Elements::zeros(*dtype, dims.iter().product()),
            };
            let name = || self.plan.draft.dfg.nodes()[step.node].name.clone();
            let none = || RunError::Memory { node: name(), dims: dims.clone() };
            memory.push(taken.ok_or_else(none)?);
        }
        let inputs = self.views(step, Some(kernel));
        let pairs = made.iter().zip(&mut memory);
        let mut outputs: Vec<ViewMut<'_>> =
            pairs.map(|((_, dims), elements)| ViewMut::first(dims, elements)).collect();
        let done = kernel.run(&step.op, &inputs, &mut outputs, self.context);
        drop(outputs);
        drop(inputs);
        for (((_, dims), elements), value) in made.into_iter().zip(memory).zip(&step.outputs) {
            let home = self.plan.bound.homes[*value];
            if let Home::Slot(slot) = home {
                self.arena.slots[slot] = elements;
            }
            let tensor = &mut self.arena.tensors[*value];
            (tensor.home, tensor.start, tensor.dims) = (home, 0, dims);
        }
        done.map_err(|source| self.failed(step, source))
    }

    /// Refuses a result that the run has no room for, before there is memory for it.
    fn check_room(
        &self,
        step: &Step,
        slot: Option<usize>,
        (dtype, dims): (Dtype, &[usize]),
    ) -> Result<(), RunError> {
        let wanted = dims.iter().product::<usize>().saturating_mul(dtype.size_bytes());
        let has = slot.map_or(0, |slot| self.arena.slots[slot].bytes());
        if wanted <= has {
            return Ok(());
        }
        let (bytes, limit) = (self.arena.bytes().saturating_add(wanted - has), self.plan.bytes_max);
        if bytes <= limit {
            return Ok(());
        }
        let (node, op) = self.name_of(step);
        Err(RunError::TooLarge { node, op, dims: dims.to_vec(), bytes, limit })
    }

    /// Whether an input is all of its slot that has a meaning, in the shape of the result.
    fn is_whole(&self, step: &Step, at: usize, dims: &[usize]) -> bool {
        let tensor = &self.arena.tensors[step.inputs[at]];
        let home = self.plan.bound.homes[step.outputs[0]];
        tensor.home == home && tensor.start == 0 && tensor.dims == dims
    }

    fn in_place(
        &mut self,
        step: &Step,
        kernel: &dyn Kernel,
        at: usize,
        mut made: Vec<(Dtype, Vec<usize>)>,
    ) -> Result<(), RunError> {
        let (_, dims) = made.swap_remove(0);
        let Home::Slot(slot) = self.arena.tensors[step.inputs[at]].home else { return Ok(()) };
        let mut memory = std::mem::replace(&mut self.arena.slots[slot], Elements::F32(Vec::new()));
        let other = |(place, value): (usize, &usize)| {
            let takes = kernel.takes_rows(&step.op, place);
            (place != at).then(|| self.arena.view(*value, self.lent, takes))
        };
        let others: Vec<_> = step.inputs.iter().enumerate().filter_map(other).collect();
        let mut to = ViewMut::first(&dims, &mut memory);
        let done = kernel.run_in_place(&step.op, at, &others, &mut to, self.context);
        drop(others);
        self.arena.slots[slot] = memory;
        let tensor = &mut self.arena.tensors[step.outputs[0]];
        (tensor.home, tensor.start, tensor.dims) = (Home::Slot(slot), 0, dims);
        done.map_err(|source| self.failed(step, source))
    }
}

impl Answer<'_> {
    /// How many outputs there are.
    pub fn len(&self) -> usize {
        self.plan.outputs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An output, by its place.
    ///
    /// # Panics
    ///
    /// There are fewer outputs.
    pub fn output(&self, at: usize) -> View<'_> {
        if let Some(made) = self.made.get(at) {
            return View::new(made.dims(), made.elements());
        }
        let lent = Lent { inputs: &self.inputs, constants: &self.plan.bound.constants };
        let value = self.plan.outputs[at].0;
        match &self.arena {
            Some(arena) => arena.view(value, lent, false),
            None => View { dims: &[0], data: Data::F32(&[]) },
        }
    }

    /// Copies of all outputs.
    pub fn to_constants(&self) -> Vec<Constant> {
        let copy = |at| {
            let view = self.output(at);
            Constant::new(view.dims.to_vec(), elements(view.data)?)
        };
        (0..self.len()).filter_map(copy).collect()
    }

    /// How often memory for tensors had to grow, in all runs that used this memory.
    pub fn growths(&self) -> usize {
        self.arena.as_ref().map_or(0, |arena| arena.growths)
    }
}

/// A copy; none of rows that lie elsewhere, which are copied before.
fn elements(data: Data<'_>) -> Option<Elements> {
    match data {
        Data::F32(all) => Some(Elements::F32(all.to_vec())),
        Data::I64(all) => Some(Elements::I64(all.to_vec())),
        Data::Bool(all) => Some(Elements::Bool(all.to_vec())),
        Data::F16(all) => Some(Elements::F16(all.to_vec())),
        Data::I8(all) => Some(Elements::I8(all.to_vec())),
        Data::Rows(_) => None,
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if let (Some(arena), Ok(mut arenas)) = (self.arena.take(), self.plan.arenas.lock()) {
            arenas.push(arena);
        }
    }
}
