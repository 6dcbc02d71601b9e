//! Numbers as the bytes that they have on disk, without copying.

// Rows on disk are little-endian, and so is every platform that is supported.
const _: () = assert!(cfg!(target_endian = "little"));

/// The bytes of numbers in memory, to be written.
#[inline]
pub fn f32_bytes_mut(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: four bytes for each number, every content of which is a number.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// The numbers that bytes in memory are; `None` where they do not begin at a multiple of four.
#[inline]
pub fn bytes_as_f32(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: every four bytes are a number.
    let (before, numbers, after) = unsafe { bytes.align_to() };
    (before.is_empty() && after.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_written_are_the_numbers() {
        let mut numbers = [0.0, 1.0, -2.5];
        let bytes = f32_bytes_mut(&mut numbers);
        assert_eq!(bytes.len(), 12);
        bytes[..4].copy_from_slice(&3.25_f32.to_le_bytes());
        assert_eq!(bytes[8..], (-2.5_f32).to_le_bytes());
        assert_eq!(numbers, [3.25, 1.0, -2.5]);
        assert_eq!(bytes_as_f32(f32_bytes_mut(&mut numbers)), Some(&[3.25, 1.0, -2.5][..]));
        assert_eq!(bytes_as_f32(&f32_bytes_mut(&mut numbers)[1..]), None);
        assert!(f32_bytes_mut(&mut []).is_empty());
    }
}
