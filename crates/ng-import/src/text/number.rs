//! Numbers in text: eight digits at a time for ids, and the careful parse that explains what is
//! wrong with a field.

use ng_types::Remedy;

use crate::error::Fault;

/// Bytes that must follow the last one of a text, so that words can be loaded at any place.
pub(super) const PADDING: usize = 32;

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const TO_HIGH_BIT: u64 = 0x7676_7676_7676_7676;
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The digits at `at`: their value and where they end. `None` if there are none, or more than 16.
#[inline(always)]
pub(super) fn digits(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (low, count) = digits8(text, at)?;
    if count == 0 {
        return None;
    }
    if count < 8 {
        return Some((low, at + count));
    }
    let (rest, count) = digits8(text, at + 8)?;
    (count < 8).then(|| (low * POWERS[count] + rest, at + 8 + count))
}

#[inline(always)]
fn digits8(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*text.get(at..)?.first_chunk()?) ^ ZEROS;
    let other = (word.wrapping_add(TO_HIGH_BIT) | word) & HIGH_BITS;
    let count = (other.trailing_zeros() / 8) as usize;
    if count == 0 {
        return Some((0, 0));
    }
    let word = word << (64 - 8 * count as u32);
    Some((value8(word), count))
}

/// The value of eight digits, the first in the lowest byte.
#[inline(always)]
fn value8(word: u64) -> u64 {
    let word = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00FF_00FF_00FF_00FF;
    let word = word.wrapping_mul(100).wrapping_add(word >> 16) & 0x0000_FFFF_0000_FFFF;
    word.wrapping_mul(10_000).wrapping_add(word >> 32) & 0xFFFF_FFFF
}

/// An id, or what is wrong with the field.
pub(super) fn id(field: &[u8]) -> Result<u64, Fault> {
    if !field.is_empty() && field.iter().all(u8::is_ascii_digit) {
        let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
        return parsed.ok_or_else(|| format!("id {} is too large", shown(field)).into());
    }
    if field.is_empty() {
        return Err("an id is missing".into());
    }
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    Err(match number {
        Some(value) if value < 0.0 => format!("id {} is negative", shown(field)).into(),
        Some(_) => format!("id {} is not a whole number", shown(field)).into(),
        None => Fault::with(format!("{} is not a number", shown(field)), Remedy::NameNodes),
    })
}

/// A time, scaled, or what is wrong with the field.
pub(super) fn time(field: &[u8], scale: Option<f64>) -> Result<i64, Fault> {
    let text = std::str::from_utf8(field).unwrap_or_default();
    if let (None, Ok(time)) = (scale, text.parse::<i64>()) {
        return Ok(time);
    }
    let value: f64 = text.parse().map_err(|_| format!("time {} is not a number", shown(field)))?;
    let scaled = value * scale.unwrap_or(1.0);
    // The cast below would saturate outside of this.
    let lowest = i64::MIN as f64;
    if !(lowest..-lowest).contains(&scaled) {
        return Err(format!("time {} does not fit in 64 bits", shown(field)).into());
    }
    if scale.is_none() && scaled.fract() != 0.0 {
        let what = format!("time {} is not a whole number", shown(field));
        return Err(Fault::with(what, Remedy::ScaleTimes));
    }
    Ok(scaled.round() as i64)
}

/// A weight, or what is wrong with the field.
pub(super) fn weight(field: &[u8]) -> Result<f32, String> {
    let text = std::str::from_utf8(field).unwrap_or_default();
    match text.parse::<f32>() {
        Ok(0.0) if text.parse::<f64>().is_ok_and(|wide| wide != 0.0) => {
            Err(format!("weight {} is rounded to 0 in f32", shown(field)))
        }
        Ok(weight) if weight.is_finite() => Ok(weight),
        Ok(_) => Err(format!("weight {} is not finite", shown(field))),
        Err(_) => Err(format!("weight {} is not a number", shown(field))),
    }
}

pub(super) fn shown(field: &[u8]) -> String {
    let end = field.len().min(40);
    format!("{:?}", String::from_utf8_lossy(&field[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_of_digits_parses_and_stops_at_the_first_other_byte() {
        for end in [" ", "\n", ",", "\r", "/", ":", "\u{fc}", "x", "-"] {
            for count in 0..16_usize {
                let number: String = "1234567890987654".chars().take(count).collect();
                let text = format!("{number}{end}{}", "9".repeat(PADDING));
                let expected = number.parse().ok().map(|value: u64| (value, count));
                assert_eq!(digits(text.as_bytes(), 0), expected, "{text:?}");
            }
        }
        assert_eq!(digits("9".repeat(40).as_bytes(), 0), None);
        assert_eq!(digits(b"12", 0), None);
    }

    #[test]
    fn weights_that_f32_cannot_hold_are_refused() {
        assert_eq!(weight(b"0.0"), Ok(0.0));
        assert_eq!(weight(b"1e-30"), Ok(1e-30));
        assert!(weight(b"1e-60").unwrap_err().contains("is rounded to 0 in f32"));
        assert!(weight(b"1e60").unwrap_err().contains("is not finite"));
    }

    #[test]
    fn a_fractional_time_needs_a_scale() {
        assert_eq!(time(b"-12", None), Ok(-12));
        assert_eq!(time(b"12.0", None), Ok(12));
        assert_eq!(time(b"0.076923", Some(26.0)), Ok(2));
        assert!(time(b"0.5", None).unwrap_err().remedy == Some(Remedy::ScaleTimes));
        assert!(time(b"1e300", None).unwrap_err().what.contains("64 bits"));
        assert!(time(b"nan", None).is_err());
    }
}
