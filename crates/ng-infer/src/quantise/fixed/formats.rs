//! Formats: the widest that fit, and which value has which.

use std::collections::HashMap;

use crate::dfg::{Dfg, FixedFormat, Value};
use crate::quantise::QuantiseError;

/// The most fraction bits that are given: f32 has no more, and products of two such numbers still
/// have room to be summed in 64 bits.
const FRACTION_MAX: i32 = 24;
const FRACTION_MIN: i32 = -120;

/// The format with the most fraction bits in which `largest` does not saturate.
pub(super) fn widest(bits: u32, largest: f32) -> FixedFormat {
    let limit = ((1_u64 << (bits - 1)) - 1) as f64;
    let fits =
        |fraction: &i32| (f64::from(largest) * 2_f64.powi(*fraction)).round_ties_even() <= limit;
    let fraction = (FRACTION_MIN..=FRACTION_MAX).rev().find(fits).unwrap_or(FRACTION_MIN);
    FixedFormat { bits, fraction }
}

/// The format with so many fraction bits more, if there is one.
pub(super) fn with_more(format: FixedFormat, more: i32) -> Option<FixedFormat> {
    let fraction = format.fraction + more;
    let range = FRACTION_MIN..=FRACTION_MAX;
    range.contains(&fraction).then_some(FixedFormat { fraction, ..format })
}

/// Formats by value, from formats by name.
pub(super) fn by_value(
    dfg: &Dfg,
    points: &[Value],
    formats: &[(String, FixedFormat)],
) -> Result<HashMap<Value, FixedFormat>, QuantiseError> {
    let mut all = HashMap::new();
    for (name, format) in formats {
        let value = dfg.value(name).filter(|value| points.contains(value));
        let value = value.ok_or_else(|| {
            wrong(format!("{name:?} is not the name of a value that needs a format"))
        })?;
        if !(2..=32).contains(&format.bits) {
            return Err(QuantiseError::Bits { bits: format.bits });
        }
        if !(FRACTION_MIN..=FRACTION_MAX).contains(&format.fraction) {
            let fraction = format.fraction;
            return Err(wrong(format!(
                "value {name:?} has {fraction} fraction bits; expected {FRACTION_MIN} to \
                 {FRACTION_MAX}"
            )));
        }
        if all.insert(value, *format).is_some() {
            return Err(wrong(format!("value {name:?} occurs twice")));
        }
    }
    match points.iter().find(|value| !all.contains_key(value)) {
        Some(value) => Err(wrong(format!("value {:?} has no format", dfg.name(*value)))),
        None => Ok(all),
    }
}

fn wrong(problem: String) -> QuantiseError {
    QuantiseError::Formats { problem }
}

#[cfg(test)]
mod tests {
    use super::{FRACTION_MAX, widest};

    #[test]
    fn the_widest_format_does_not_saturate() {
        for (bits, largest, fraction) in [
            (8, 1.0, 6),
            (8, 0.99, 7),
            (8, 0.9999, 6),
            (8, 127.4, 0),
            (8, 127.6, -1),
            (4, 100.0, -4),
            (16, 0.25, 16),
            (32, 1.0, FRACTION_MAX),
            (8, 0.0, FRACTION_MAX),
            (8, f32::MAX, -121 + 1),
        ] {
            assert_eq!(widest(bits, largest).fraction, fraction, "{bits} bits, {largest}");
        }
    }
}
