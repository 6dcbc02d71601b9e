//! Radix sort of integer keys in memory: one most-significant pass while a range is larger than the
//! cache, then least-significant passes over the digits that vary. Not stable across equal keys,
//! which nobody can see: equal keys are equal records.

/// An integer that can be sorted digit by digit.
pub(crate) trait RadixKey: Copy + Ord + Default {
    /// The key shifted right by `shift`, cut to 64 bits.
    fn shifted(self, shift: u32) -> u64;
    /// The bits in which the keys differ from the first.
    fn varying(keys: &[Self]) -> Self;
    /// The position of the lowest set bit at or above `from`, if there is one.
    fn next_bit(self, from: u32) -> Option<u32>;
    /// The bits below `count`.
    fn low_bits(self, count: u32) -> Self;
    /// The position of the highest set bit, if there is one.
    fn top_bit(self) -> Option<u32>;
}

macro_rules! radix_key {
    ($type:ty) => {
        impl RadixKey for $type {
            #[inline]
            fn shifted(self, shift: u32) -> u64 {
                (self >> shift) as u64
            }

            fn varying(keys: &[Self]) -> Self {
                let first = keys.first().copied().unwrap_or_default();
                keys.iter().fold(0, |bits, key| bits | (key ^ first))
            }

            fn next_bit(self, from: u32) -> Option<u32> {
                let rest = self.checked_shr(from)?;
                (rest != 0).then(|| from + rest.trailing_zeros())
            }

            fn low_bits(self, count: u32) -> Self {
                self & !Self::MAX.checked_shl(count).unwrap_or(0)
            }

            fn top_bit(self) -> Option<u32> {
                self.checked_ilog2()
            }
        }
    };
}
radix_key!(u64);
radix_key!(u128);

const DIGIT_BITS: u32 = 11;
const BUCKETS: usize = 1 << DIGIT_BITS;
const MSD_BITS_MAX: u32 = 8;
/// Ranges up to this many bytes are sorted by least-significant passes inside the cache.
const CACHED_BYTES: usize = 128 << 10;
/// Shorter ranges are left to the comparison sort of the standard library.
const SHORT_LEN: usize = 512;

/// Sorts `keys`; `spare` is working space and grows to the same length.
pub(crate) fn sort<K: RadixKey>(keys: &mut [K], spare: &mut Vec<K>) {
    if keys.len() < SHORT_LEN {
        keys.sort_unstable();
        return;
    }
    if spare.len() < keys.len() {
        spare.clear();
        spare.resize(keys.len(), K::default());
    }
    let varying = K::varying(keys);
    sort_range(keys, &mut spare[..], varying);
}

/// Sorts `keys`, which differ in no other bits than `varying`.
fn sort_range<K: RadixKey>(keys: &mut [K], spare: &mut [K], varying: K) {
    let Some(top) = varying.top_bit() else { return };
    let spare = &mut spare[..keys.len()];
    if keys.len() < SHORT_LEN {
        keys.sort_unstable();
    } else if size_of_val(keys) <= CACHED_BYTES {
        if least_significant(keys, spare, varying) {
            keys.copy_from_slice(spare);
        }
    } else {
        most_significant(keys, spare, varying, top);
    }
}

/// Moves the keys to the buckets of their top digit in `spare`, and sorts each back to its place.
fn most_significant<K: RadixKey>(keys: &mut [K], spare: &mut [K], varying: K, top: u32) {
    let pieces = size_of_val(keys).div_ceil(CACHED_BYTES);
    let bits = pieces.next_power_of_two().trailing_zeros().clamp(1, MSD_BITS_MAX);
    let shift = (top + 1).saturating_sub(bits);
    let mask = (1 << bits) - 1;
    let mut place = vec![0_usize; 1 << bits];
    for key in keys.iter() {
        place[(key.shifted(shift) & mask) as usize] += 1;
    }
    let mut sum = 0;
    for count in &mut place {
        sum += std::mem::replace(count, sum);
    }
    for key in keys.iter() {
        let at = &mut place[(key.shifted(shift) & mask) as usize];
        spare[*at] = *key;
        *at += 1;
    }
    let below = varying.low_bits(shift);
    let mut start = 0;
    for end in place {
        let (bucket, target) = (&mut spare[start..end], &mut keys[start..end]);
        start = end;
        let is_cached = size_of_val(bucket) <= CACHED_BYTES;
        if bucket.len() >= SHORT_LEN && is_cached && below.top_bit().is_some() {
            if !least_significant(bucket, target, below) {
                target.copy_from_slice(bucket);
            }
            continue;
        }
        target.copy_from_slice(bucket);
        sort_range(target, bucket, below);
    }
}

/// Sorts by all digits that vary; says whether the result is in `spare`.
fn least_significant<K: RadixKey>(keys: &mut [K], spare: &mut [K], varying: K) -> bool {
    let mut in_spare = false;
    let mut from = 0;
    let mut counts = [0; BUCKETS];
    while let Some(shift) = varying.next_bit(from) {
        if in_spare {
            pass(spare, keys, shift, &mut counts);
        } else {
            pass(keys, spare, shift, &mut counts);
        }
        in_spare = !in_spare;
        from = shift + DIGIT_BITS;
    }
    in_spare
}

fn pass<K: RadixKey>(from: &[K], to: &mut [K], shift: u32, counts: &mut [u32; BUCKETS]) {
    const MASK: u64 = BUCKETS as u64 - 1;
    counts.fill(0);
    for key in from {
        counts[(key.shifted(shift) & MASK) as usize] += 1;
    }
    let mut sum = 0;
    for count in counts.iter_mut() {
        sum += std::mem::replace(count, sum);
    }
    for key in from {
        let at = &mut counts[(key.shifted(shift) & MASK) as usize];
        to[*at as usize] = *key;
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_types::philox4x32_10;

    fn keys(count: usize, mask: u64, seed: u32) -> Vec<u64> {
        let draw = |i: usize| philox4x32_10([i as u32, 0, 0, 0], [seed, 0]);
        let key = |i| {
            let b = draw(i);
            (u64::from(b[0]) | u64::from(b[1]) << 32) & mask
        };
        (0..count).map(key).collect()
    }

    #[test]
    fn radix_sort_equals_the_standard_sort_on_every_shape() {
        let masks = [u64::MAX, 0xFFF, 0x003F_FFFF_003F_FFFF, 1 << 63, 0, 0xFF00_0000_0000_00FF];
        for (seed, mask) in masks.into_iter().enumerate() {
            for count in [0, 1, 255, 256, 5_000, 300_000] {
                let mut ours = keys(count, mask, seed as u32);
                let mut theirs = ours.clone();
                sort(&mut ours, &mut Vec::new());
                theirs.sort_unstable();
                assert!(ours == theirs, "mask {mask:x} count {count}");
            }
        }
    }

    #[test]
    fn wide_keys_sort_by_all_their_bits() {
        let low = keys(100_000, 0xFFFF, 1);
        let high = keys(100_000, 0xFF_FFFF, 2);
        let join = |(h, l): (&u64, &u64)| u128::from(*h) << 80 | u128::from(*l) << 20 | 7;
        let mut ours: Vec<u128> = high.iter().zip(&low).map(join).collect();
        let mut theirs = ours.clone();
        sort(&mut ours, &mut Vec::new());
        theirs.sort_unstable();
        assert!(ours == theirs);
    }
}
