//! Bytes and times as people write them: `4GB`, `256MiB`, `500ms`, `30s`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Error, Visitor};

/// A number of bytes: `4GB`, `256MB`, `64KiB`, `1000`.
///
/// # Errors
/// It is not one.
pub fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text, 1));
    let found = scaled(number, unit as f64);
    found.map(|n| n as u64).ok_or_else(|| {
        format!("{text:?} is not a size: expected for example 4GB, 256MB or 1048576")
    })
}

/// A time: `20us`, `500ms`, `30s`, `5m`, `2h`.
///
/// # Errors
/// It is not one.
pub fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] =
        [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 60e6), ("h", 3600e6)];
    let text = text.trim();
    let found = UNITS.iter().find_map(|(name, unit)| scaled(text.strip_suffix(name)?, *unit));
    found
        .map(|us| Duration::from_micros(us as u64))
        .ok_or_else(|| format!("{text:?} is not a time: expected for example 500ms, 30s, 5m or 2h"))
}

fn scaled(number: &str, unit: f64) -> Option<f64> {
    let number = number.trim();
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number.parse::<f64>().ok().filter(|_| is_plain)? * unit;
    (value < 1e18).then_some(value)
}

/// Bytes in a file of settings: a number, or text.
///
/// # Errors
/// As [`bytes`].
pub fn de_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    from.deserialize_any(BytesVisitor)
}

/// The same, where it may be left out.
///
/// # Errors
/// As [`bytes`].
pub fn de_some_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(BytesVisitor).map(Some)
}

/// A time in a file of settings, as text, where it may be left out.
///
/// # Errors
/// As [`time`].
pub fn de_some_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    de_time(from).map(Some)
}

/// A time in a file of settings, as text.
///
/// # Errors
/// As [`time`].
pub fn de_time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = <String as serde::Deserialize>::deserialize(from)?;
    time(&text).map_err(D::Error::custom)
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes, such as 4000000 or \"4MB\"")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::custom("bytes cannot be less than 0"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        bytes(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_as_people_write_them() {
        assert_eq!(bytes("4GB"), Ok(4_000_000_000));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("77"), Ok(77));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(time("1.5m"), Ok(Duration::from_secs(90)));
        for bad in ["", "GB", "-1", "1e9", "4 gigabytes", "nan", "inf", "99999999999TB"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        for bad in ["", "30", "s", "-1s", "1d"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
