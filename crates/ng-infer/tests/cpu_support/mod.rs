//! What kernels make of random tensors, and whether it is near what others make.

pub mod cases;

use ng_infer::dfg::{Constant, Elements, Op};
use ng_infer::kernel::{Context, Kernel, KernelError, View, ViewMut};
use ng_testing::Random;
use ng_types::Dtype;

/// Results, or why there are none.
#[derive(Clone, Debug)]
pub struct Answer(Result<Vec<Constant>, KernelError>);

impl Answer {
    pub fn of(all: Vec<Constant>) -> Self {
        Self(Ok(all))
    }

    pub fn error(&self) -> Option<String> {
        self.0.as_ref().err().map(KernelError::to_string)
    }

    /// The shape of the first result.
    pub fn dims(&self) -> Option<&[usize]> {
        self.0.as_ref().ok()?.first().map(Constant::dims)
    }

    /// Whether all bits are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Ok(one), Ok(other)) => {
                let bits = |all: &[Constant]| all.iter().map(bits_of).collect::<Vec<_>>();
                bits(one) == bits(other)
            }
            (one, other) => one.as_ref().err() == other.as_ref().err(),
        }
    }
}

fn bits_of(tensor: &Constant) -> (Vec<usize>, Vec<u64>) {
    let bits = match tensor.elements() {
        Elements::F32(all) => all.iter().map(|x| u64::from(x.to_bits())).collect(),
        Elements::I64(all) => all.iter().map(|x| *x as u64).collect(),
        Elements::Bool(all) => all.iter().map(|x| u64::from(*x)).collect(),
        Elements::F16(all) => all.iter().map(|x| u64::from(*x)).collect(),
        Elements::I8(all) => all.iter().map(|x| *x as u64).collect(),
    };
    (tensor.dims().to_vec(), bits)
}

pub fn views(inputs: &[Constant]) -> Vec<View<'_>> {
    inputs.iter().map(|tensor| View::new(tensor.dims(), tensor.elements())).collect()
}

/// Random numbers of -1 to 1.
pub fn floats(random: &mut Random, dims: &[usize]) -> Constant {
    let mut number = || random.below(2_000_001) as f32 / 1e6 - 1.0;
    let all = (0..dims.iter().product()).map(|_| number()).collect();
    Constant::new(dims.to_vec(), Elements::F32(all)).expect("as many as the shape says")
}

/// Runs an operation as a run of a graph does. What is in the outputs before is not 0.
pub fn answer(kernel: &dyn Kernel, op: &Op, inputs: &[View<'_>], context: &Context) -> Answer {
    let found = kernel.shapes(op, inputs).and_then(|shapes| {
        let of = |(dtype, dims): &(Dtype, Vec<usize>)| {
            let len = dims.iter().product();
            match dtype {
                Dtype::F32 => Elements::F32(vec![7.0; len]),
                Dtype::I64 => Elements::I64(vec![7; len]),
                _ => Elements::Bool(vec![true; len]),
            }
        };
        let mut memory: Vec<Elements> = shapes.iter().map(of).collect();
        let pairs = shapes.iter().zip(&mut memory);
        let mut outputs: Vec<_> = pairs.map(|((_, dims), all)| ViewMut::new(dims, all)).collect();
        kernel.run(op, inputs, &mut outputs, context)?;
        drop(outputs);
        let made = shapes.into_iter().zip(memory);
        Ok(made.filter_map(|((_, dims), all)| Constant::new(dims, all)).collect())
    });
    Answer(found)
}

/// The same in the elements of the input at a place, which has the shape of the result.
pub fn answer_in_place(
    kernel: &dyn Kernel,
    op: &Op,
    at: usize,
    inputs: &[Constant],
    context: &Context,
) -> Answer {
    let mut memory = inputs[at].elements().clone();
    let mut others = views(inputs);
    let dims = others.remove(at).dims;
    let mut to = ViewMut::new(dims, &mut memory);
    let found = kernel.run_in_place(op, at, &others, &mut to, context);
    let made = found.map(|()| Constant::new(dims.to_vec(), memory).into_iter().collect());
    Answer(made)
}

/// That two answers differ by at most `gap` times the largest value, or are the same error.
pub fn assert_near(found: &Answer, wanted: &Answer, gap: f32, what: &str) {
    let (found, wanted) = match (&found.0, &wanted.0) {
        (Ok(found), Ok(wanted)) => (found, wanted),
        (found, wanted) => {
            assert_eq!(found.as_ref().err(), wanted.as_ref().err(), "{what}");
            return;
        }
    };
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.dims(), wanted.dims(), "{what}");
        let (Elements::F32(found), Elements::F32(wanted)) = (found.elements(), wanted.elements())
        else {
            assert_eq!(found.elements(), wanted.elements(), "{what}");
            continue;
        };
        let finite = wanted.iter().filter(|x| x.is_finite());
        let largest = finite.fold(1.0_f32, |largest, x| largest.max(x.abs()));
        for (place, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            let is_near = (found - wanted).abs() <= gap * largest;
            let is_same = found == wanted || found.is_nan() && wanted.is_nan();
            assert!(is_near || is_same, "{what}: {found} at {place}, not {wanted}");
        }
    }
}
