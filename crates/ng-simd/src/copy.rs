//! Copying rows between large memories: prefetched, and past the processor's caches.
//!
//! A plain copy of a row first reads the lines that it will overwrite; for batches that are larger
//! than any cache that is a third of the traffic. Where the processor has no such stores, this is a
//! plain copy.

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Brings all of `row` near, without waiting for them.
#[inline]
pub fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(row)).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and `at` is inside `row`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

/// Brings an element near, without waiting for it.
#[inline]
pub fn prefetch_at<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and `item` is a valid place.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

/// Brings the line of an address near, without waiting for it. There need be nothing at it.
#[inline(always)]
pub(crate) fn prefetch_address(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Copies `from` to `to`, which are equally long, with stores that leave the caches alone. Call
/// [`finish_streaming`] before another thread is told that the bytes are there.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_streaming(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "both sides of a copy are equally long");
    #[cfg(target_arch = "x86_64")]
    {
        let (head, lines, tail) = lines_of(to);
        if !lines.is_empty() {
            let (first, rest) = from.split_at(head.len());
            let (middle, last) = rest.split_at(size_of_val(lines));
            head.copy_from_slice(first);
            for (from, to) in middle.as_chunks().0.iter().zip(lines) {
                stream_line(from, to);
            }
            tail.copy_from_slice(last);
            return;
        }
    }
    to.copy_from_slice(from);
}

/// Brings the first `columns` elements of `M` rows near, which begin `width` elements apart: their
/// lines come while what is stored there is computed.
#[inline(always)]
pub(crate) fn prefetch_rows<const M: usize>(rows: &[f32], columns: usize, width: usize) {
    for row in 0..M {
        for column in (0..columns).step_by(LINE_BYTES / size_of::<f32>()) {
            prefetch_address(rows.as_ptr().wrapping_add(row * width + column).cast());
        }
    }
}

/// Makes every [`copy_streaming`] of this thread seen before what it does next.
#[inline]
pub fn finish_streaming() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence has no operands.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// A cache line.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; LINE_BYTES]);

/// The whole lines in the midst of `bytes`, and what stands before and after.
#[cfg(target_arch = "x86_64")]
fn lines_of(bytes: &mut [u8]) -> (&mut [u8], &mut [Line], &mut [u8]) {
    // SAFETY: a line is 64 bytes of any content, so every aligned run of bytes is one.
    unsafe { bytes.align_to_mut() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn stream_line(from: &[u8; LINE_BYTES], to: &mut Line) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (from, to) = (from.as_ptr().cast::<__m128i>(), std::ptr::from_mut(to).cast::<__m128i>());
    for part in 0..LINE_BYTES / size_of::<__m128i>() {
        // SAFETY: four 16-byte parts of 64 readable bytes and of an aligned, writable line. SSE2 is
        // part of x86-64.
        unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streaming_copy_moves_every_byte_whatever_the_lengths_and_places() {
        let from: Vec<u8> = (0..2_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for len in (0..200).chain([1024, 1500]) {
            for (a, b) in [(0, 0), (1, 0), (0, 3), (13, 64), (64, 1)] {
                let mut to = vec![255; 2_000];
                prefetch(&from[a..a + len]);
                prefetch_at(&from, a);
                copy_streaming(&from[a..a + len], &mut to[b..b + len]);
                finish_streaming();
                assert_eq!(to[b..b + len], from[a..a + len]);
                assert!(to[..b].iter().chain(&to[b + len..]).all(|byte| *byte == 255));
            }
        }
    }
}
