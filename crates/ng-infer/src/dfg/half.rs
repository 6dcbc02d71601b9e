//! Half precision: bits to numbers.

/// Half precision as single: every value has its equal.
pub(crate) fn from_f16(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let (exponent, fraction) = (u32::from(half >> 10 & 0x1F), u32::from(half & 0x3FF));
    match exponent {
        0 => f32::from_bits(sign | 0x3F80_0000) * (fraction as f32 * 2_f32.powi(-24)),
        0x1F => f32::from_bits(sign | 0x7F80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::from_f16;

    #[test]
    fn halves_are_what_the_standard_says() {
        let table = [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03FF, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3C00, 1.0),
            (0xC500, -5.0),
            (0x7BFF, 65_504.0),
            (0xFC00, f32::NEG_INFINITY),
        ];
        for (half, wanted) in table {
            assert_eq!(from_f16(half), wanted, "{half:#06x}");
        }
        assert!(from_f16(0x7E00).is_nan());
        assert!(from_f16(0x8000).is_sign_negative());
    }
}
