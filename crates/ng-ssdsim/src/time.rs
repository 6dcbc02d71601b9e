//! Simulated time: whole picoseconds since the start of a run.
//!
//! Integers, so that equal runs give equal bytes on every machine. What comes in as nanoseconds,
//! cycles or bytes a second becomes picoseconds here and nowhere else.

/// Picoseconds, as a point in time or as a duration. 2^64 of them are 213 days.
pub type Picos = u64;

/// Picoseconds in a nanosecond, a microsecond and a second.
pub const NANO: Picos = 1_000;
/// Picoseconds in a microsecond.
pub const MICRO: Picos = 1_000_000;
/// Picoseconds in a second.
pub const SECOND: Picos = 1_000_000_000_000;

/// The nearest picosecond to a number of nanoseconds.
pub fn from_ns(ns: f64) -> Picos {
    (ns * NANO as f64).round() as Picos
}

/// Seconds, for people.
pub fn to_seconds(time: Picos) -> f64 {
    time as f64 / SECOND as f64
}

/// A transfer rate, from which the time of a number of bytes follows.
///
/// Rates are kept as picoseconds a byte, in 32.32 fixed point: 800 MB/s are exactly 1,250.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(u64);

impl Rate {
    /// Of bytes a second; an infinite rate takes no time.
    pub fn bytes_per_second(speed: f64) -> Self {
        let picos = if speed.is_infinite() { 0.0 } else { SECOND as f64 / speed };
        Self((picos * (1u64 << 32) as f64).round() as u64)
    }

    /// The time of `bytes`, to the nearest picosecond.
    #[inline]
    pub fn time_of(self, bytes: u64) -> Picos {
        ((u128::from(self.0) * u128::from(bytes) + (1 << 31)) >> 32) as Picos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_on_a_channel_of_800_megabytes_a_second_takes_5_microseconds() {
        assert_eq!(Rate::bytes_per_second(800e6).time_of(4000), 5 * MICRO);
        assert_eq!(Rate::bytes_per_second(f64::INFINITY).time_of(1 << 40), 0);
        assert_eq!(from_ns(0.2), 200);
    }
}
