//! [`Function`]: elementary functions of many elements.
//!
//! They are polynomials of our own: those of a system's library differ between systems, and no
//! compiler vectorises them. The invariant: plain arithmetic, rounded after each operation, so that
//! all paths give the same bits.

use std::f32::consts::LOG2_E;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Path;
use crate::kernels::GraphKernels;

/// A function of each element by itself. A NaN gives [`f32::NAN`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// e to the power of it, within 4 ulps; 0 where that would be subnormal.
    Exp,
    /// `1 / (1 + exp(-x))`, within 2e-7.
    Sigmoid,
    /// The hyperbolic tangent, within 4e-7.
    Tanh,
    /// `alpha * (exp(x) - 1)` below 0, x above, within 3e-7 of alpha.
    Elu {
        /// The factor.
        alpha: f32,
    },
    /// The error function, within 5e-7 (Abramowitz and Stegun, 7.1.26).
    Erf,
}

impl GraphKernels {
    /// Replaces each element by the function of it.
    ///
    /// ```
    /// use ng_simd::{Function, GraphKernels};
    /// let mut values = [0.0, f32::NEG_INFINITY];
    /// GraphKernels::best().apply(Function::Exp, &mut values);
    /// assert_eq!(values, [1.0, 0.0]);
    /// ```
    pub fn apply(self, function: Function, values: &mut [f32]) {
        match self.path() {
            // SAFETY: the path is given only where the processor has it.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { apply_avx512(function, values) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { apply_avx2(function, values) },
            _ => apply(function, values),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
fn apply_avx512(function: Function, values: &mut [f32]) {
    apply(function, values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn apply_avx2(function: Function, values: &mut [f32]) {
    apply(function, values);
}

#[inline(always)]
fn apply(function: Function, values: &mut [f32]) {
    match function {
        Function::Exp => each(values, exp),
        Function::Sigmoid => each(values, sigmoid),
        Function::Tanh => each(values, tanh),
        Function::Elu { alpha } => each(values, |x| {
            // Above 0 the branch is not taken, and its value must not overflow.
            let below = alpha * exp_m1_of_negative(-x.abs());
            if x < 0.0 { below } else { x }
        }),
        Function::Erf => each(values, erf),
    }
}

#[inline(always)]
fn each(values: &mut [f32], of: impl Fn(f32) -> f32) {
    for value in values {
        let found = of(*value);
        *value = if found.is_nan() { f32::NAN } else { found };
    }
}

/// e to the power of a number as `2^exponent * (1 + grown)`, by the polynomial of Cephes' `expf`
/// (Moshier). The exponent comes in the low bits of a float.
#[inline(always)]
fn powers(power: f32) -> (f32, f32) {
    /// Added to a small number, it leaves the nearest integer in the low bits of the sum.
    const ROUNDING: f32 = 12_582_912.0;
    /// The logarithm of 2 in two parts. The upper one has few bits, so its products are exact.
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    let rounded = power * LOG2_E + ROUNDING;
    let exponent = rounded - ROUNDING;
    let rest = power - exponent * LN_2[0] - exponent * LN_2[1];
    let mut sum = 1.987_569_1e-4;
    for factor in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = sum * rest + factor;
    }
    (sum * (rest * rest) + rest, rounded)
}

/// The logarithm of the smallest normal number.
const LOWEST: f32 = -87.336_54;

/// 2 to the power of the number in the low bits of a float, which is -126 to 127.
#[inline(always)]
fn scale(rounded: f32) -> f32 {
    f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()))
}

/// e to the power of a number that is not positive.
#[inline(always)]
pub(crate) fn exp_of_negative(power: f32) -> f32 {
    let (grown, rounded) = powers(power);
    if power < LOWEST { 0.0 } else { (grown + 1.0) * scale(rounded) }
}

/// One less than that, without the loss near 0.
#[inline(always)]
fn exp_m1_of_negative(power: f32) -> f32 {
    let (grown, rounded) = powers(power);
    let scale = scale(rounded);
    if power < LOWEST { -1.0 } else { grown * scale + (scale - 1.0) }
}

#[inline(always)]
fn exp(power: f32) -> f32 {
    /// The logarithm of the largest number.
    const HIGHEST: f32 = 88.722_84;
    // The square of the root, so that neither factor overflows before the product does.
    let root = exp_of_half(power.clamp(LOWEST, HIGHEST));
    let found = root.0 * root.1;
    if power < LOWEST {
        0.0
    } else if power > HIGHEST {
        f32::INFINITY
    } else {
        found
    }
}

/// Two factors of e to the power of a number that is between the logarithms of the smallest and
/// the largest number.
#[inline(always)]
fn exp_of_half(power: f32) -> (f32, f32) {
    let (grown, rounded) = powers(power);
    // Half of the exponent in each, the greater half in the first.
    let exponent = (rounded.to_bits() << 10) as i32 >> 10;
    let half = exponent >> 1;
    let power_of_2 = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
    ((grown + 1.0) * power_of_2(exponent - half), power_of_2(half))
}

/// The logarithm of a number that is not less than 1, within 1e-7 of it or of 1, by the polynomial
/// of Cephes' `logf` (Moshier).
#[inline(always)]
pub(crate) fn ln_from_1(x: f32) -> f32 {
    /// The bits of the root of 1/2, from which the mantissa goes to twice that.
    const ROOT: u32 = 0x3F35_04F3;
    /// The logarithm of 2 in two parts. The upper one has few bits, so its products are exact.
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    const FACTORS: [f32; 8] = [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ];
    let exponent = (x.to_bits().wrapping_sub(ROOT) as i32) >> 23;
    let less = f32::from_bits(x.to_bits().wrapping_sub((exponent << 23) as u32)) - 1.0;
    let exponent = exponent as f32;
    let sum = FACTORS.iter().fold(7.037_683_6e-2, |sum, factor| sum * less + factor);
    let square = less * less;
    let small = sum * less * square + exponent * LN_2[1] - 0.5 * square;
    if x < f32::INFINITY { less + small + exponent * LN_2[0] } else { x }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    let of_negative = small / (1.0 + small);
    if x < 0.0 { of_negative } else { 1.0 / (1.0 + small) }
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    let less = exp_m1_of_negative(-2.0 * x.abs());
    (-less / (less + 2.0)).copysign(x)
}

#[inline(always)]
fn erf(x: f32) -> f32 {
    let positive = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * positive);
    let mut sum = 1.061_405_4;
    for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        sum = sum * t + factor;
    }
    (1.0 - sum * t * exp_of_negative(-positive * positive)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all sizes up to `largest`.
    fn numbers(largest: f32) -> impl Iterator<Item = f32> {
        let positive = (1e-30_f32.to_bits()..largest.to_bits()).step_by(977).map(f32::from_bits);
        positive.flat_map(|x| [x, -x])
    }

    #[test]
    fn the_exponential_is_within_its_ulps_and_exact_at_0() {
        assert_eq!((exp_of_negative(0.0), exp_of_negative(-0.0)), (1.0, 1.0));
        assert_eq!(exp_of_negative(f32::NEG_INFINITY), 0.0);
        assert!(exp_of_negative(f32::NAN).is_nan());
        assert!(exp_of_negative(-87.336_54) >= f32::MIN_POSITIVE);
        assert_eq!([f32::NEG_INFINITY, 0.0, 89.0].map(exp), [0.0, 1.0, f32::INFINITY]);
        assert!(exp(f32::NAN).is_nan());
        for x in numbers(88.72) {
            let exact = f64::from(x).exp();
            let ulp = exact * f64::from(f32::EPSILON);
            let gap = |found: f32| (f64::from(found) - exact).abs() / ulp;
            if x > LOWEST {
                assert!(gap(exp(x)) <= 4.0, "{x}: {}, not {exact}", exp(x));
            }
            if x > LOWEST && x <= 0.0 {
                assert!(gap(exp_of_negative(x)) <= 2.0, "{x}: {}", exp_of_negative(x));
            }
        }
    }

    #[test]
    fn the_logarithm_is_near() {
        assert_eq!((ln_from_1(1.0), ln_from_1(f32::INFINITY)), (0.0, f32::INFINITY));
        assert!(ln_from_1(f32::NAN).is_nan());
        for x in numbers(3e38).filter(|x| *x >= 1.0) {
            let exact = f64::from(x).ln();
            let gap = (f64::from(ln_from_1(x)) - exact).abs();
            assert!(gap <= 1e-7 * exact.max(1.0), "{x}: {}, not {exact}", ln_from_1(x));
        }
    }

    #[test]
    fn the_others_are_near_their_definitions() {
        let elu = |x: f64| if x < 0.0 { x.exp_m1() } else { x };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let cases = [
            (Function::Sigmoid, 2e-7),
            (Function::Tanh, 4e-7),
            (Function::Elu { alpha: 1.0 }, 3e-7),
        ];
        for (function, gap) in cases {
            for x in numbers(100.0) {
                let mut found = [x];
                apply(function, &mut found);
                let exact = match function {
                    Function::Sigmoid => sigmoid(x.into()),
                    Function::Tanh => f64::from(x).tanh(),
                    _ => elu(x.into()),
                };
                let gap = gap * exact.abs().max(1.0);
                assert!((f64::from(found[0]) - exact).abs() <= gap, "{function:?} of {x}");
            }
            let mut odd = [f32::NAN];
            apply(function, &mut odd);
            assert!(odd[0].is_nan());
        }
        let table = [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.4, 0.999_311_5)];
        for (x, wanted) in table {
            assert!((erf(x) - wanted).abs() <= 5e-7, "{x}: {}", erf(x));
            assert!((erf(-x) + wanted).abs() <= 5e-7);
        }
        assert_eq!((erf(f32::INFINITY), erf(f32::NEG_INFINITY)), (1.0, -1.0));
    }

    #[test]
    fn every_path_gives_the_same_bits() {
        use crate::dispatch::Path;
        let values: Vec<f32> = numbers(3e38).chain([f32::INFINITY, f32::NAN, -0.0]).collect();
        let functions = [Function::Exp, Function::Sigmoid, Function::Tanh, Function::Erf];
        for function in functions.into_iter().chain([Function::Elu { alpha: 0.5 }]) {
            let of = |path| {
                let mut values = values.clone();
                GraphKernels::on(path)?.apply(function, &mut values);
                Some(values.into_iter().map(f32::to_bits).collect::<Vec<_>>())
            };
            let plain = of(Path::Portable);
            for path in [Path::Avx2, Path::Avx512] {
                assert!(of(path).is_none_or(|found| Some(found) == plain), "{function:?}");
            }
        }
    }
}
