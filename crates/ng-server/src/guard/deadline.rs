//! How long a request may take.

use std::time::Duration;

use ng_rpc::{Code, Problem};

/// The time that a `grpc-timeout` gives.
///
/// # Errors
/// It is not one.
pub fn parse(text: &[u8]) -> Result<Duration, Problem> {
    let bad = || {
        let text = String::from_utf8_lossy(text.get(..20).unwrap_or(text)).into_owned();
        Problem::argument("grpc-timeout", format!("{text:?} is not a valid timeout"))
            .remedy("give 1 to 8 digits and one of H, M, S, m, u, n")
    };
    let (unit, digits) = text.split_last().ok_or_else(bad)?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let number = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return Err(bad()),
    })
}

/// That nobody waits any more.
pub fn over() -> Problem {
    let message = "the deadline passed before the answer was ready";
    Problem::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message)
        .remedy("use a longer timeout, or request less at once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_the_protocol() {
        assert_eq!(parse(b"50m").ok(), Some(Duration::from_millis(50)));
        assert_eq!(parse(b"99999999H").ok(), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in [&b""[..], b"m", b"5", b"5x", b"-5m", b"123456789n", b"5 m", b"\xff\xffm"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
