//! The trial of one kernel: beside the reference device, between guard pages.

use ng_infer::dfg::{Constant, Elements};
use ng_infer::kernel::{Context, Kernel, Scalar, View, ViewMut};
use ng_plugin_abi::NG_TRAIT_DETERMINISTIC;
use ng_types::Dtype;

use super::guard::{Guarded, Side};
use crate::call::{Answer, Scratch, Tensor};
use crate::cases::{Case, cases};
use crate::kernel::{SCRATCH_ALIGNMENT, check_scratch, scratch_bytes_max};
use crate::register::Definition;

/// How far results may be from those of the reference device, by the largest of them.
const TOLERANCE: f32 = 1e-5;

/// Threads that call a thread-safe kernel at once.
const CALLERS: usize = 4;

/// What the reference device makes of a case; `None` if it refuses it.
type Wanted = Option<Vec<Constant>>;

/// The number of cases that the kernel passed.
pub(super) fn run(
    definition: &Definition,
    stage: &dyn Fn(&str),
    check: &dyn Fn(),
) -> Result<usize, String> {
    let name = &definition.op;
    let all = cases(name).ok_or_else(|| format!("there are no test cases for {name}"))?;
    let mut passed = 0;
    for case in &all {
        if !definition.takes(case.inputs.iter().map(|input| input.elements().dtype())) {
            continue;
        }
        let shapes: Vec<&[usize]> = case.inputs.iter().map(Constant::dims).collect();
        let text = format!("while {name} runs on {} tensors of shapes {shapes:?}", case.what);
        stage(&text);
        let at = |problem| format!("{problem}: {text}");
        if try_case(definition, case).map_err(at)? {
            passed += 1;
        }
        check();
    }
    if passed == 0 {
        return Err(format!("its kernel of {name} supports none of the {} test cases", all.len()));
    }
    Ok(passed)
}

/// Whether the kernel served the case.
fn try_case(definition: &Definition, case: &Case) -> Result<bool, String> {
    let wanted = reference(case)?;
    let mut first: Option<Vec<Vec<u8>>> = None;
    for (side, threads) in [(Side::Back, 1), (Side::Front, 3)] {
        let setup = Setup::new(definition, case, side)?;
        let answer = setup.run(definition, case, threads)?;
        let found = match (answer, &wanted) {
            (Answer::NotServed, _) => return Ok(false),
            (Answer::Failed(text), _) => return Err(format!("it fails: {text}")),
            (Answer::Misfit(text), Some(_)) => {
                return Err(format!("it rejects valid tensors: {text}"));
            }
            (Answer::Misfit(_), None) => None,
            (Answer::Done, None) => {
                return Err("it accepts tensors that do not fit the operation".to_owned());
            }
            (Answer::Done, Some(wanted)) => Some(setup.compared(wanted)?),
        };
        setup.check_around()?;
        if let Some(found) = found {
            let is_fixed = definition.traits & NG_TRAIT_DETERMINISTIC != 0;
            if is_fixed && first.as_ref().is_some_and(|first| *first != found) {
                return Err(
                    "two runs return different bytes, although the kernel is declared deterministic"
                        .to_owned(),
                );
            }
            first = Some(found);
        }
    }
    if let Some(wanted) = wanted.filter(|_| definition.is_thread_safe()) {
        at_once(definition, case, &wanted)?;
    }
    Ok(true)
}

/// Several threads at once, as a thread-safe kernel allows.
fn at_once(definition: &Definition, case: &Case, wanted: &[Constant]) -> Result<(), String> {
    let one = || {
        let setup = Setup::new(definition, case, Side::Front)?;
        match setup.run(definition, case, 1)? {
            Answer::Done => setup.compared(wanted).map(drop),
            answer => Err(format!("it returns {answer:?} when several threads call it")),
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CALLERS).map(|_| scope.spawn(one)).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        };
        threads.into_iter().try_for_each(ended)
    })
}

fn reference(case: &Case) -> Result<Wanted, String> {
    let view = |tensor| View::new(Constant::dims(tensor), tensor.elements());
    let inputs: Vec<View<'_>> = case.inputs.iter().map(view).collect();
    let shapes = Scalar.shapes(&case.op, &inputs).map_err(|error| error.to_string())?;
    let mut memory: Vec<Elements> =
        shapes.iter().map(|(dtype, dims)| zeros(*dtype, dims.iter().product())).collect();
    let pairs = shapes.iter().zip(&mut memory);
    let mut outputs: Vec<ViewMut<'_>> =
        pairs.map(|((_, dims), elements)| ViewMut::new(dims, elements)).collect();
    if Scalar.run(&case.op, &inputs, &mut outputs, &Context::default()).is_err() {
        return Ok(None);
    }
    drop(outputs);
    let made = shapes.into_iter().zip(memory);
    Ok(Some(made.filter_map(|((_, dims), all)| Constant::new(dims, all)).collect()))
}

fn unseen(dtype: Dtype) -> String {
    format!("plug-ins do not support tensors of {}", dtype.name())
}

fn zeros(dtype: Dtype, len: usize) -> Elements {
    match dtype {
        Dtype::I64 => Elements::I64(vec![0; len]),
        Dtype::Bool => Elements::Bool(vec![false; len]),
        _ => Elements::F32(vec![0.0; len]),
    }
}

fn bytes_of(elements: &Elements) -> Vec<u8> {
    match elements {
        Elements::F32(all) => all.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Elements::I64(all) => all.iter().flat_map(|x| x.to_ne_bytes()).collect(),
        Elements::Bool(all) => all.iter().map(|flag| u8::from(*flag)).collect(),
        // No case has them.
        Elements::F16(_) | Elements::I8(_) => Vec::new(),
    }
}

/// The tensors of a case in guarded memory.
struct Setup {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    memory: Vec<(String, Guarded)>,
    side: Side,
}

impl Setup {
    fn new(definition: &Definition, case: &Case, side: Side) -> Result<Self, String> {
        let mut this = Self { inputs: Vec::new(), outputs: Vec::new(), memory: Vec::new(), side };
        for (place, input) in case.inputs.iter().enumerate() {
            let name = format!("input {place}");
            let bytes = bytes_of(input.elements());
            let dtype = input.elements().dtype();
            let alignment = definition.alignment.max(dtype.size_bytes());
            let mut memory = Guarded::new(&name, bytes.len(), alignment, side)?;
            memory.fill_and_lock(&name, &bytes)?;
            let tensor = Tensor::new(memory.data(), dtype, input.dims());
            this.inputs.push(tensor.ok_or_else(|| unseen(dtype))?);
        }
        let view = |tensor| View::new(Constant::dims(tensor), tensor.elements());
        let inputs: Vec<View<'_>> = case.inputs.iter().map(view).collect();
        let shapes = Scalar.shapes(&case.op, &inputs).map_err(|error| error.to_string())?;
        for (place, (dtype, dims)) in shapes.iter().enumerate() {
            let name = format!("output {place}");
            let bytes = dims.iter().product::<usize>() * dtype.size_bytes();
            let alignment = definition.alignment.max(dtype.size_bytes());
            let memory = Guarded::new(&name, bytes, alignment, side)?;
            let tensor = Tensor::new(memory.data(), *dtype, dims);
            this.outputs.push(tensor.ok_or_else(|| unseen(*dtype))?);
            this.memory.push((name, memory));
        }
        Ok(this)
    }

    fn run(&self, definition: &Definition, case: &Case, threads: usize) -> Result<Answer, String> {
        let (answer, bytes) = definition.ask(&case.op, &self.inputs, &self.outputs, threads);
        if answer != Answer::Done {
            return Ok(answer);
        }
        check_scratch(bytes, scratch_bytes_max(&self.inputs, &self.outputs))?;
        let alignment = definition.alignment.max(SCRATCH_ALIGNMENT);
        let memory = Guarded::new("its scratch memory", bytes as usize, alignment, self.side)?;
        let scratch = Scratch { data: memory.data(), bytes };
        // SAFETY: the tensors are in guarded memory of their sizes, which nobody else uses.
        let answer =
            unsafe { definition.call(&case.op, &self.inputs, &self.outputs, scratch, threads) };
        if !memory.is_clean_around() {
            return Err("it writes outside its scratch memory".to_owned());
        }
        match answer {
            Answer::NotServed => {
                Err("run returned NG_NOT_SERVED, which only query may return".to_owned())
            }
            answer => Ok(answer),
        }
    }

    fn check_around(&self) -> Result<(), String> {
        match self.memory.iter().find(|(_, memory)| !memory.is_clean_around()) {
            Some((name, _)) => Err(format!("it writes outside {name}")),
            None => Ok(()),
        }
    }

    /// The bytes of the outputs, if they are what is wanted.
    fn compared(&self, wanted: &[Constant]) -> Result<Vec<Vec<u8>>, String> {
        let pairs = self.memory.iter().zip(wanted);
        let compared = |((name, memory), wanted): (&(String, Guarded), &Constant)| {
            let found = memory.bytes();
            match difference(found, wanted.elements()) {
                Some(problem) => Err(format!("{name} is wrong: {problem}")),
                None => Ok(found.to_vec()),
            }
        };
        pairs.map(compared).collect()
    }
}

/// The first element that is wrong.
fn difference(found: &[u8], wanted: &Elements) -> Option<String> {
    let told = |at: usize, found: &dyn std::fmt::Display, wanted: &dyn std::fmt::Display| {
        Some(format!("element {at} is {found}, expected {wanted}, the result of cpu-scalar"))
    };
    match wanted {
        Elements::F32(wanted) => {
            let largest =
                wanted.iter().filter(|x| x.is_finite()).fold(1.0, |a: f32, x| a.max(x.abs()));
            let (found, _) = found.as_chunks::<4>();
            let found = found.iter().map(|bytes| f32::from_ne_bytes(*bytes));
            let is_wrong = |found: f32, wanted: f32| {
                let same = found == wanted || (found.is_nan() && wanted.is_nan());
                // The distance of a number that is not finite is not below anything.
                let is_near = (found - wanted).abs() <= TOLERANCE * largest;
                !same && !is_near
            };
            let mut pairs = found.zip(wanted).enumerate();
            let (at, (found, wanted)) = pairs.find(|(_, (x, y))| is_wrong(*x, **y))?;
            told(at, &found, wanted)
        }
        Elements::I64(wanted) => {
            let (found, _) = found.as_chunks::<8>();
            let found = found.iter().map(|bytes| i64::from_ne_bytes(*bytes));
            let (at, (found, wanted)) =
                found.zip(wanted).enumerate().find(|(_, (x, y))| x != *y)?;
            told(at, &found, wanted)
        }
        Elements::Bool(wanted) => {
            let pairs = found.iter().zip(wanted).enumerate();
            let mut wrong = pairs.filter(|(_, (x, y))| **x != u8::from(**y));
            let (at, (found, wanted)) = wrong.next()?;
            told(at, found, &u8::from(*wanted))
        }
        Elements::F16(_) | Elements::I8(_) => {
            Some("its elements have a type that is not supported".to_owned())
        }
    }
}
