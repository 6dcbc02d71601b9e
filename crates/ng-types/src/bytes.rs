//! Readable counts of bytes, in powers of 1000, as in `--memory 256MB`.

/// Formats a count with three significant digits.
///
/// ```
/// use ng_types::format_bytes;
/// assert_eq!(format_bytes(256_000_000), "256 MB");
/// assert_eq!(format_bytes(1_234), "1.23 kB");
/// ```
pub fn format_bytes(count: u64) -> String {
    format(count, f64::round)
}

/// Formats a lower bound: like [`format_bytes`], but never rounds below `count`.
///
/// ```
/// assert_eq!(ng_types::format_bytes_up(64_000_001), "64.1 MB");
/// ```
pub fn format_bytes_up(count: u64) -> String {
    format(count, f64::ceil)
}

fn format(count: u64, whole: fn(f64) -> f64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if whole(value) < 1000.0 {
            return format!("{} {unit}", three_digits(value, whole));
        }
        value /= 1000.0;
    }
    format!("{} TB", three_digits(value, whole))
}

fn three_digits(value: f64, whole: fn(f64) -> f64) -> f64 {
    let scale = match value {
        _ if value < 10.0 => 100.0,
        _ if value < 100.0 => 10.0,
        _ => 1.0,
    };
    whole(value * scale) / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_written_and_units_change_where_they_must() {
        for (count, rounded, up) in [
            (0, "0 B", "0 B"),
            (999, "999 B", "999 B"),
            (9_996, "10 kB", "10 kB"),
            (999_499, "999 kB", "1 MB"),
            (999_500, "1 MB", "1 MB"),
            (4_194_304, "4.19 MB", "4.2 MB"),
            (50_415_012, "50.4 MB", "50.5 MB"),
            (7 << 40, "7.7 TB", "7.7 TB"),
        ] {
            assert_eq!(
                (format_bytes(count).as_str(), format_bytes_up(count).as_str()),
                (rounded, up)
            );
        }
    }

    #[test]
    fn a_bound_from_below_is_never_written_too_low() {
        for count in (0..4_000_000_000u64).step_by(7_654_321) {
            let text = format_bytes_up(count);
            let (number, unit) = text.split_once(' ').expect("a unit");
            let unit =
                ["B", "kB", "MB", "GB"].iter().position(|name| *name == unit).expect("known");
            let written = number.parse::<f64>().expect("a number") * 1000f64.powi(unit as i32);
            assert!(written.round() as u64 >= count, "{text} of {count}");
        }
    }
}
