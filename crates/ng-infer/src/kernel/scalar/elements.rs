//! Each element by itself, and softmax.

use super::places::{around, axis_of, broadcast_places};
use crate::dfg::{Binary, Op, Unary, from_f16};
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, DataMut, View, ViewMut};

pub(super) fn unary(op: &Op, of: &View<'_>, out: &mut ViewMut<'_>) {
    match (of.data, &mut out.data) {
        (Data::Bool(from), DataMut::Bool(to)) => {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = !from);
        }
        (Data::I64(from), DataMut::I64(to)) => {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = whole(op, *from));
        }
        _ => {
            let (from, to) = (of.f32(), out.f32());
            to.iter_mut().zip(from).for_each(|(to, from)| *to = number(op, *from));
        }
    }
}

/// [`unary`] of what is there.
pub(super) fn unary_in_place(op: &Op, to: &mut ViewMut<'_>) {
    match &mut to.data {
        DataMut::Bool(to) => to.iter_mut().for_each(|x| *x = !*x),
        DataMut::I64(to) => to.iter_mut().for_each(|x| *x = whole(op, *x)),
        _ => to.f32().iter_mut().for_each(|x| *x = number(op, *x)),
    }
}

fn whole(op: &Op, x: i64) -> i64 {
    if *op == Op::Unary(Unary::Abs) { x.wrapping_abs() } else { x.wrapping_neg() }
}

/// [`binary`] of numbers that are there, on side `at`, and those of `other`.
pub(super) fn binary_in_place(
    binary: Binary,
    at: usize,
    other: &View<'_>,
    to: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let places = broadcast_places(other.dims, to.dims);
    match (&mut to.data, other.data) {
        (DataMut::I64(to), Data::I64(other)) => {
            for (to, place) in to.iter_mut().zip(places) {
                let (x, y) = if at == 0 { (*to, other[place]) } else { (other[place], *to) };
                *to = of_i64(binary, x, y)?;
            }
        }
        _ => {
            let other = other.f32();
            for (to, place) in to.f32().iter_mut().zip(places) {
                let (x, y) = if at == 0 { (*to, other[place]) } else { (other[place], *to) };
                *to = of_f32(binary, x, y);
            }
        }
    }
    Ok(())
}

fn number(op: &Op, x: f32) -> f32 {
    match op {
        Op::Elu { alpha } => {
            if x < 0.0 {
                alpha * x.exp_m1()
            } else {
                x
            }
        }
        Op::LeakyRelu { alpha } => {
            if x < 0.0 {
                alpha * x
            } else {
                x
            }
        }
        Op::Unary(unary) => match unary {
            Unary::Abs => x.abs(),
            Unary::Erf => erf(x.into()) as f32,
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Neg | Unary::Not => -x,
            Unary::Reciprocal => 1.0 / x,
            Unary::Relu => relu(x),
            Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Unary::Sqrt => x.sqrt(),
            Unary::Tanh => x.tanh(),
        },
        _ => x,
    }
}

/// 0 for what is below it; NaN stays NaN.
pub(super) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The error function: its series near 0, its continued fraction far from it.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let square = x * x;
    if x.abs() < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -square / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..40).rev().fold(0.0, |rest, n| f64::from(n) / 2.0 / (x.abs() + rest));
    let tail = (-square).exp() / (x.abs() + fraction) * std::f64::consts::FRAC_2_SQRT_PI / 2.0;
    (1.0 - tail).copysign(x)
}

pub(super) fn binary(
    binary: Binary,
    one: &View<'_>,
    other: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let places = broadcast_places(one.dims, out.dims).zip(broadcast_places(other.dims, out.dims));
    macro_rules! each {
        ($to:expr, $a:expr, $b:expr, $of:expr) => {
            for (to, (i, j)) in $to.iter_mut().zip(places) {
                *to = $of($a[i], $b[j]);
            }
        };
    }
    macro_rules! compare {
        ($to:expr, $a:expr, $b:expr) => {
            match binary {
                Binary::Equal => each!($to, $a, $b, |x, y| x == y),
                Binary::Greater => each!($to, $a, $b, |x, y| x > y),
                Binary::GreaterOrEqual => each!($to, $a, $b, |x, y| x >= y),
                Binary::Less => each!($to, $a, $b, |x, y| x < y),
                _ => each!($to, $a, $b, |x, y| x <= y),
            }
        };
    }
    match (one.data, other.data, &mut out.data) {
        (Data::F32(a), Data::F32(b), DataMut::Bool(to)) => compare!(to, a, b),
        (Data::I64(a), Data::I64(b), DataMut::Bool(to)) => compare!(to, a, b),
        (Data::F32(a), Data::F32(b), DataMut::F32(to)) => {
            each!(to, a, b, |x, y| of_f32(binary, x, y));
        }
        (Data::I64(a), Data::I64(b), DataMut::I64(to)) => {
            for (to, (i, j)) in to.iter_mut().zip(places) {
                *to = of_i64(binary, a[i], b[j])?;
            }
        }
        _ => {
            let (a, b) = (one.bool(), other.bool());
            each!(out.bool(), a, b, |x: bool, y: bool| match binary {
                Binary::And => x && y,
                Binary::Or => x || y,
                _ => x == y,
            });
        }
    }
    Ok(())
}

pub(super) fn of_f32(binary: Binary, x: f32, y: f32) -> f32 {
    let either_nan = x.is_nan() || y.is_nan();
    match binary {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Pow => x.powf(y),
        // As in PyTorch, NaN wins.
        Binary::Max | Binary::Min if either_nan => f32::NAN,
        Binary::Max => x.max(y),
        _ => x.min(y),
    }
}

fn of_i64(binary: Binary, x: i64, y: i64) -> Result<i64, KernelError> {
    Ok(match binary {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div if y == 0 => return Err(KernelError::Misfit("division by 0".to_owned())),
        Binary::Div => x.wrapping_div(y),
        Binary::Max => x.max(y),
        _ => x.min(y),
    })
}

pub(super) fn choose(inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let flags = inputs[0].bool();
    let places = |view: &View<'_>| broadcast_places(view.dims, out.dims);
    let places = places(&inputs[0]).zip(places(&inputs[1])).zip(places(&inputs[2]));
    macro_rules! each {
        ($to:expr, $a:expr, $b:expr) => {
            for (to, ((flag, i), j)) in $to.iter_mut().zip(places) {
                *to = if flags[flag] { $a[i] } else { $b[j] };
            }
        };
    }
    match (inputs[1].data, inputs[2].data, &mut out.data) {
        (Data::F32(a), Data::F32(b), DataMut::F32(to)) => each!(to, a, b),
        (Data::I64(a), Data::I64(b), DataMut::I64(to)) => each!(to, a, b),
        _ => each!(out.bool(), inputs[1].bool(), inputs[2].bool()),
    }
}

pub(super) fn cast(of: &View<'_>, out: &mut ViewMut<'_>) {
    macro_rules! each {
        ($to:expr, $from:expr, $of:expr) => {
            $to.iter_mut().zip($from).for_each(|(to, from)| *to = $of(*from))
        };
    }
    match (of.data, &mut out.data) {
        (Data::F32(from), DataMut::F32(to)) => to.copy_from_slice(from),
        (Data::I64(from), DataMut::I64(to)) => to.copy_from_slice(from),
        (Data::Bool(from), DataMut::Bool(to)) => to.copy_from_slice(from),
        (Data::F32(from), DataMut::I64(to)) => each!(to, from, |x: f32| x as i64),
        (Data::F32(from), DataMut::Bool(to)) => each!(to, from, |x: f32| x != 0.0),
        (Data::I64(from), DataMut::F32(to)) => each!(to, from, |x: i64| x as f32),
        (Data::I64(from), DataMut::Bool(to)) => each!(to, from, |x: i64| x != 0),
        (Data::Bool(from), DataMut::F32(to)) => each!(to, from, |x: bool| f32::from(u8::from(x))),
        (Data::Bool(from), DataMut::I64(to)) => each!(to, from, i64::from),
        (Data::F16(from), DataMut::F32(to)) => each!(to, from, from_f16),
        _ => panic!("types were checked before"),
    }
}

pub(super) fn softmax(
    of: &View<'_>,
    axis: i64,
    out: &mut ViewMut<'_>,
    is_log: bool,
) -> Result<(), KernelError> {
    let (before, len, behind) = around(of.dims, axis_of(axis, of)?);
    let (from, to) = (of.f32(), out.f32());
    for line in 0..before * behind {
        let at = |i: usize| line / behind * len * behind + i * behind + line % behind;
        let top = (0..len).map(|i| from[at(i)]).fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = (0..len).map(|i| (from[at(i)] - top).exp()).sum();
        for i in 0..len {
            let x = from[at(i)] - top;
            to[at(i)] = if is_log { x - sum.ln() } else { x.exp() / sum };
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        let table = [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.4, 0.999_311_486_103_354_9),
            (2.6, 0.999_763_965_583_470_7),
            (4.0, 0.999_999_984_582_742_1),
        ];
        for (x, wanted) in table {
            assert!((erf(x) - wanted).abs() < 1e-12, "{x}: {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
    }
}
