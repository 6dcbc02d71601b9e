//! Weighted draws: entries are drawn in proportion to their weights.
//!
//! Without replacement by exponential keys (Efraimidis and Spirakis, 2006): entry p of weight w has
//! the key -ln(u) / w, where u is the p-th number of the destination, and the smallest keys are
//! taken, in their order. Draws of a smaller fanout are the first ones of a larger. With
//! replacement each draw takes the entry in whose share of the sum of weights it falls. All
//! arithmetic is of f64 in a fixed order, `ln` included, so that any machine chooses the same;
//! `docs/reference/format.md`, section 11, has it.

use std::f64::consts::{LN_2, SQRT_2};

use ng_types::canary::planted;
use ng_types::{DrawKey, Draws, EdgeTypeId, NodeId};

use super::piece::Piece;

/// Entries whose weights are decoded together.
const TOGETHER: usize = 64;

/// Keys are kept up to this multiple of the fanout before the largest are dropped.
const SPARE: usize = 2;

/// How the lists of one edge type are drawn from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighted {
    pub key: DrawKey,
    pub edge_type: EdgeTypeId,
    /// At least 1.
    pub fanout: u32,
    pub replace: bool,
}

/// An entry whose weight is NaN, infinite or negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BadWeight {
    pub position: u32,
    pub weight: f32,
}

/// A choice from one list after the other.
pub(super) struct Choice {
    rule: Weighted,
    draws: Draws,
    degree: u32,
    /// Entries that this pass over the list has looked at.
    seen: u32,
    /// What decides the order of the draws, and positions: bits of a key, or the number of a draw.
    picked: Vec<(u64, u32)>,
    /// Without replacement: keys from here on are not among the smallest.
    bound: f64,
    /// With replacement: the sum of the weights up to here.
    sum: f64,
    /// Whether that of all is known, and draws look for their entries.
    is_second_pass: bool,
    /// Draws that have no entry yet, the smallest last.
    targets: Vec<(f64, u32)>,
}

impl Choice {
    pub fn new(rule: Weighted) -> Self {
        Self {
            rule,
            draws: rule.key.draws(rule.edge_type, 0),
            degree: 0,
            seen: 0,
            picked: Vec::new(),
            bound: f64::INFINITY,
            sum: 0.0,
            is_second_pass: false,
            targets: Vec::new(),
        }
    }

    /// How often a list is looked at: the sum of the weights has to be known before a share of it.
    pub fn passes(&self) -> usize {
        if self.rule.replace { 2 } else { 1 }
    }

    pub fn begin(&mut self, destination: NodeId, degree: u32) {
        self.draws = self.rule.key.draws(self.rule.edge_type, destination);
        (self.degree, self.seen) = (degree, 0);
        (self.bound, self.sum, self.is_second_pass) = (f64::INFINITY, 0.0, false);
        self.picked.clear();
        self.targets.clear();
    }

    pub fn look(&mut self, piece: Piece<'_>) -> Result<(), BadWeight> {
        let mut buffer = [0.0; TOGETHER];
        for first in (0..piece.weights.len()).step_by(TOGETHER) {
            let weights = piece.weights.decode(first, &mut buffer);
            let first = piece.first + first as u32;
            let is_bad = |(_, weight): &(u32, &f32)| !(weight.is_finite() && **weight >= 0.0);
            if let Some((position, weight)) = (first..).zip(weights).find(is_bad) {
                return Err(BadWeight { position, weight: *weight });
            }
            if !self.rule.replace {
                self.keep_smallest(first, weights);
            } else if !self.is_second_pass {
                self.sum = weights.iter().fold(self.sum, |sum, weight| sum + f64::from(*weight));
            } else {
                self.find_targets(first, weights);
            }
            self.seen += weights.len() as u32;
        }
        if self.rule.replace && self.seen == self.degree && !self.is_second_pass {
            self.begin_second_pass();
        }
        Ok(())
    }

    fn keep_smallest(&mut self, first: u32, weights: &[f32]) {
        let most = self.rule.fanout as usize;
        let (picked, bound) = (&mut self.picked, &mut self.bound);
        self.draws.each_in(first..first + weights.len() as u32, |position, bits| {
            let weight = f64::from(weights[(position - first) as usize]);
            let weight =
                if planted("weights_are_ignored") { weight.min(1.0).ceil() } else { weight };
            let number = inside_unit(bits);
            // As -ln(u) is at least 1 - u, most entries of long lists need no logarithm. The factor
            // is far above the errors of rounding.
            if weight == 0.0 || 1.0 - number > *bound * weight * (1.0 + 1e-12) {
                return;
            }
            let key = -ln(number) / weight;
            // Among equal keys the first positions are taken, and this is the last one so far.
            if key < *bound {
                picked.push((key.to_bits(), position));
            }
            if picked.len() == SPARE * most {
                // Keys are positive, so their bits have their order.
                let (_, last, _) = picked.select_nth_unstable(most - 1);
                *bound = f64::from_bits(last.0);
                picked.truncate(most);
            }
        });
    }

    /// Turns the draws into places in the sum of all weights; none where that is 0.
    fn begin_second_pass(&mut self) {
        let fanout = if self.sum > 0.0 { self.rule.fanout } else { 0 };
        let (targets, total) = (&mut self.targets, self.sum);
        self.draws.each_in(0..fanout, |draw, bits| targets.push((below_one(bits) * total, draw)));
        targets.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        (self.seen, self.sum, self.is_second_pass) = (0, 0.0, true);
    }

    fn find_targets(&mut self, first: u32, weights: &[f32]) {
        for (position, weight) in (first..).zip(weights) {
            self.sum += f64::from(*weight);
            while let Some((_, draw)) = self.targets.pop_if(|(target, _)| *target < self.sum) {
                self.picked.push((u64::from(draw), position));
            }
        }
    }

    /// Positions that may be chosen, as far as the list has been looked at.
    pub fn candidates(&self) -> impl Iterator<Item = u32> {
        self.picked.iter().map(|(_, position)| *position)
    }

    /// Sets `chosen` to the positions in the order of the draws.
    pub fn finish(&mut self, chosen: &mut Vec<u32>) {
        debug_assert!(self.targets.is_empty(), "every draw is below the sum of the weights");
        self.picked.sort_unstable();
        self.picked.truncate(self.rule.fanout as usize);
        chosen.clear();
        chosen.extend(self.candidates());
    }
}

/// -ln(u) of a number u between 0 and 1: exponentially distributed.
#[inline]
pub(crate) fn exponential(bits: u64) -> f64 {
    -ln(inside_unit(bits))
}

/// A number of 53 bits in the middle of one of 2^52 parts of 0 ... 1, so neither 0 nor 1.
#[inline]
fn inside_unit(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * 2_f64.powi(-52)
}

/// A number of 53 bits from 0 on and below 1.
#[inline]
fn below_one(bits: u64) -> f64 {
    (bits >> 11) as f64 * 2_f64.powi(-53)
}

/// Odd parts of one: 1, 1/3, 1/5, ...
const ODD_PARTS: [f64; 10] = {
    let (mut parts, mut at) = ([0.0; 10], 0);
    while at < parts.len() {
        parts[at] = 1.0 / (2 * at + 1) as f64;
        at += 1;
    }
    parts
};

/// The natural logarithm of a positive normal number, within 2^-50 of its size: that of the
/// standard library differs from machine to machine.
///
/// x = m 2^e with m from sqrt(1/2) to sqrt(2), and ln(m) = 2 artanh((m - 1) / (m + 1)) by its
/// series, whose first term that is left out is below 2^-55.
#[inline]
fn ln(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let mut exponent = (x.to_bits() >> MANTISSA_BITS) as i32 - 1023;
    let mantissa = x.to_bits() & ((1 << MANTISSA_BITS) - 1);
    let mut m = f64::from_bits(mantissa | 1.0_f64.to_bits());
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = ODD_PARTS.iter().rev().fold(0.0, |sum, part| sum * square + part);
    f64::from(exponent) * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_standard_library_but_for_its_last_bits() {
        let mut worst: f64 = 0.0;
        let mut check = |x: f64| {
            worst = worst.max(((ln(x) - x.ln()) / x.ln()).abs());
        };
        for bits in (0..2_000_000_u64).map(|step| step.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            check(inside_unit(bits));
            // Near the ends, and near the point at which the exponent changes.
            check(inside_unit(bits >> (bits % 53)));
            check(1.0 - below_one(bits >> 20 << 11).max(2_f64.powi(-53)));
            check(0.5 * SQRT_2 + (below_one(bits) - 0.5) * 1e-9);
        }
        assert!(worst < 2_f64.powi(-50), "{worst:e}");
        assert_eq!(ln(1.0), 0.0);
        // These bits are a part of docs/reference/format.md.
        assert_eq!(ln(0.5).to_bits(), (-LN_2).to_bits());
    }

    #[test]
    fn numbers_are_inside_their_bounds() {
        assert!(inside_unit(0) > 0.0 && inside_unit(u64::MAX) < 1.0);
        assert!(below_one(0) == 0.0 && below_one(u64::MAX) < 1.0);
        // The largest draw stays below any sum.
        for sum in [1e-45_f32, 1.0, 1.5, 3.4e38].map(f64::from) {
            assert!(below_one(u64::MAX) * sum < sum);
        }
    }
}
