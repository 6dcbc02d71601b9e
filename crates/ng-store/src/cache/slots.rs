//! A cache of equally long byte strings: sharded, evicting by SIEVE, in chunks that can be given
//! back.
//!
//! Many caches may draw on one [`Share`]. A chunk is reserved from the budget before it is mapped;
//! where there is no room the cache evicts within what it has, or keeps nothing at all.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ng_types::{Budget, Reservation};

use crate::cache::division::Worth;
use crate::cache::key_map::hash;
use crate::cache::shadow::Shadow;
use crate::cache::sieve::{SLOT_OVERHEAD_BYTES, Sieve};
use crate::io::AnonMap;

const CHUNK_BYTES_MAX: u64 = 1 << 20;
const CHUNK_BYTES_MIN: u64 = 64 << 10;
const SHARDS_MAX: u64 = 16;
/// Keys that are looked up under one lock, so that writers get their turn.
const LOCKED_KEYS_MAX: usize = 128;
/// Keys whose memory is fetched at the same time.
const TOGETHER: usize = 16;
const LINE_BYTES: usize = 64;

/// What a group of caches may take from the budget, and has.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    cap_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl Share {
    pub fn new(budget: Budget, cap_bytes: u64) -> Self {
        Self { budget, cap_bytes: AtomicU64::new(cap_bytes), used_bytes: AtomicU64::new(0) }
    }

    pub fn cap_bytes(&self) -> u64 {
        self.cap_bytes.load(Ordering::Relaxed)
    }

    pub fn set_cap_bytes(&self, bytes: u64) {
        self.cap_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Option<Reservation> {
        let cap = self.cap_bytes();
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= cap);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        let reservation = self.budget.reserve(bytes).ok();
        if reservation.is_none() {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        reservation
    }

    fn give(&self, reservation: Reservation) {
        self.used_bytes.fetch_sub(reservation.bytes(), Ordering::Relaxed);
        drop(reservation);
    }
}

/// How large a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheBytes {
    /// At the start; chunks and shards are made for this.
    pub start: u64,
    /// At most, if its share grows.
    pub most: u64,
    /// What it may get or lose at a time; 0 is never anything.
    pub step: u64,
}

impl CacheBytes {
    /// Always the same.
    pub fn fixed(bytes: u64) -> Self {
        Self { start: bytes, most: bytes, step: 0 }
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct SlotCache {
    slot_bytes: usize,
    chunk_shift: u32,
    shard_bytes_max: u64,
    shards: Box<[RwLock<Shard>]>,
    bytes: AtomicU64,
    next_victim: AtomicUsize,
    /// What a step more or less would change, if its size may change.
    shadow: Option<Shadow>,
    step: u64,
}

#[derive(Debug, Default)]
struct Shard {
    sieve: Sieve,
    chunks: Vec<Option<Chunk>>,
    bytes: u64,
}

#[derive(Debug)]
struct Chunk {
    memory: AnonMap,
    reservation: Reservation,
}

impl SlotCache {
    /// A cache of slots of `slot_bytes` under a share of about so many bytes; `None` where so
    /// little memory cannot hold a chunk of such slots.
    pub fn new(slot_bytes: usize, bytes: CacheBytes) -> Option<Self> {
        let cap_bytes = bytes.start;
        let whole = (slot_bytes + SLOT_OVERHEAD_BYTES) as u64;
        let shards = (cap_bytes / (4 * CHUNK_BYTES_MAX)).clamp(1, SHARDS_MAX);
        let shards = 1 << shards.ilog2();
        let target = (cap_bytes / (shards * 4)).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let chunk_shift = (target / whole).max(1).ilog2();
        if whole << chunk_shift > cap_bytes / shards {
            return None;
        }
        Some(Self {
            slot_bytes,
            chunk_shift,
            shard_bytes_max: bytes.most / shards,
            shards: (0..shards).map(|_| RwLock::default()).collect(),
            bytes: AtomicU64::new(0),
            next_victim: AtomicUsize::new(0),
            shadow: (bytes.step > 0).then(|| Shadow::new(bytes.start / whole)),
            step: bytes.step,
        })
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// What a step more or less would have been worth since the last time one asked, if a miss
    /// takes `seconds`; from now on for the size that the cache has now.
    pub fn take_worth(&self, seconds: f64) -> Worth {
        let Some(shadow) = &self.shadow else { return Worth::default() };
        let worth = shadow.take_worth(seconds);
        let whole = (self.slot_bytes + SLOT_OVERHEAD_BYTES) as u64;
        shadow.resize(self.bytes() / whole, self.step / whole);
        worth
    }

    fn shard_of(&self, key: u64) -> usize {
        hash(key) as usize & (self.shards.len() - 1)
    }

    #[inline]
    fn note(&self, key: u64) {
        if let Some(shadow) = &self.shadow {
            shadow.look(key);
        }
    }

    fn shard(&self, key: u64) -> &RwLock<Shard> {
        &self.shards[self.shard_of(key)]
    }

    /// Lends the bytes of every key that is there to `look`, with the place of the key, in order;
    /// `look` must not use this cache. Returns the places of the keys that are not there.
    /// `tail_bytes` says how much of the end of a slot `look` will read first.
    ///
    /// A large batch holds all shards for some keys at a time, and the memory of several keys is
    /// fetched together: that is what bounds a warm batch.
    pub fn with_each<E>(
        &self,
        keys: &[u64],
        tail_bytes: usize,
        mut look: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<Vec<usize>, E> {
        let mut missing = Vec::new();
        if keys.len() < TOGETHER {
            for (place, key) in keys.iter().enumerate() {
                match self.with(*key, |bytes| look(place, bytes)) {
                    Some(result) => result?,
                    None => missing.push(place),
                }
            }
            return Ok(missing);
        }
        for (run, keys) in keys.chunks(LOCKED_KEYS_MAX).enumerate() {
            // Always in this order, and a writer holds one shard alone: nobody waits in a ring.
            let shards: Vec<RwLockReadGuard<'_, Shard>> = self
                .shards
                .iter()
                .map(|s| s.read().unwrap_or_else(PoisonError::into_inner))
                .collect();
            for (group, keys) in keys.chunks(TOGETHER).enumerate() {
                let first = run * LOCKED_KEYS_MAX + group * TOGETHER;
                for (step, bytes) in self.fetch(&shards, keys, tail_bytes).iter().enumerate() {
                    match bytes {
                        Some(bytes) => look(first + step, bytes)?,
                        None if step < keys.len() => missing.push(first + step),
                        None => {}
                    }
                }
            }
        }
        Ok(missing)
    }

    /// Finds up to [`TOGETHER`] keys and brings the start and the tail of their slots near.
    fn fetch<'s>(
        &self,
        shards: &'s [RwLockReadGuard<'_, Shard>],
        keys: &[u64],
        tail_bytes: usize,
    ) -> [Option<&'s [u8]>; TOGETHER] {
        let mut found = [None; TOGETHER];
        for (key, bytes) in keys.iter().zip(&mut found) {
            self.note(*key);
            let shard = &shards[self.shard_of(*key)];
            *bytes = self.find(shard, *key);
        }
        // Loads that nothing waits for: the lines of all slots are on their way at once.
        let mut touched = 0;
        for bytes in found.iter().flatten() {
            touched ^= bytes.first().copied().unwrap_or(0);
            let tail = bytes.len().saturating_sub(tail_bytes);
            touched ^= bytes[tail..].iter().step_by(LINE_BYTES).fold(0, |all, byte| all ^ byte);
        }
        std::hint::black_box(touched);
        found
    }

    /// Lends the bytes of `key` to `look`, which must not use this cache.
    #[inline]
    pub fn with<R>(&self, key: u64, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.note(key);
        let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
        self.find(&shard, key).map(look)
    }

    #[inline]
    fn find<'s>(&self, shard: &'s Shard, key: u64) -> Option<&'s [u8]> {
        let (chunk, at) = self.place(shard.sieve.find(key)?);
        let memory = &shard.chunks.get(chunk)?.as_ref()?.memory;
        memory.as_slice().get(at..at + self.slot_bytes)
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let in_chunk = slot as usize & ((1 << self.chunk_shift) - 1);
        (slot as usize >> self.chunk_shift, in_chunk * self.slot_bytes)
    }

    /// Keeps `bytes` (of exactly the slot length) under `key` if there is room to be had. Returns
    /// whether it would have needed memory that the share does not have.
    pub fn insert(&self, share: &Share, key: u64, bytes: &[u8]) -> Inserted {
        let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
        if shard.sieve.find(key).is_some() {
            return Inserted::Kept;
        }
        if !shard.sieve.has_free() {
            self.grow(share, &mut shard);
        }
        let Some(slot) = shard.sieve.insert(key) else {
            return Inserted::NoMemory;
        };
        let (chunk, at) = self.place(slot);
        if let Some(Some(chunk)) = shard.chunks.get_mut(chunk) {
            crate::bytes::put(chunk.memory.as_mut_slice(), at, bytes);
        }
        Inserted::Kept
    }

    /// Forgets what is kept under `key`.
    pub fn remove(&self, key: u64) {
        let is_there = {
            let shard = self.shard(key).read().unwrap_or_else(PoisonError::into_inner);
            shard.sieve.find(key).is_some()
        };
        if is_there {
            let mut shard = self.shard(key).write().unwrap_or_else(PoisonError::into_inner);
            shard.sieve.remove(key);
        }
    }

    fn grow(&self, share: &Share, shard: &mut Shard) {
        let slots = 1_usize << self.chunk_shift;
        let memory_bytes = slots * self.slot_bytes;
        let bytes = (memory_bytes + slots * SLOT_OVERHEAD_BYTES) as u64;
        if shard.bytes + bytes > self.shard_bytes_max {
            return;
        }
        let Some(reservation) = share.take(bytes) else {
            return;
        };
        let Ok(memory) = AnonMap::new(memory_bytes) else {
            return share.give(reservation);
        };
        let vacant = shard.chunks.iter().position(Option::is_none);
        let place = vacant.unwrap_or_else(|| {
            shard.chunks.push(None);
            shard.chunks.len() - 1
        });
        shard.chunks[place] = Some(Chunk { memory, reservation });
        shard.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let first = (place << self.chunk_shift) as u32;
        shard.sieve.add_slots(first, first + slots as u32);
    }

    /// Gives one chunk back to the system and the budget; returns its bytes, 0 if there is none.
    pub fn drop_chunk(&self, share: &Share) -> u64 {
        let start = self.next_victim.fetch_add(1, Ordering::Relaxed);
        for step in 0..self.shards.len() {
            let lock = &self.shards[start.wrapping_add(step) & (self.shards.len() - 1)];
            // A shard in use is passed over: who gives back may itself hold a shard elsewhere.
            let Ok(shard) = lock.try_write() else {
                continue;
            };
            let bytes = self.drop_from(share, shard);
            if bytes > 0 {
                return bytes;
            }
        }
        0
    }

    fn drop_from(&self, share: &Share, mut shard: RwLockWriteGuard<'_, Shard>) -> u64 {
        let Some(place) = shard.chunks.iter().rposition(Option::is_some) else {
            return 0;
        };
        let first = (place << self.chunk_shift) as u32;
        shard.sieve.remove_slots(first, first + (1 << self.chunk_shift));
        let Some(chunk) = shard.chunks[place].take() else {
            return 0;
        };
        let bytes = chunk.reservation.bytes();
        shard.bytes -= bytes;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        drop(chunk.memory);
        share.give(chunk.reservation);
        bytes
    }
}

/// What became of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The bytes are in.
    Kept,
    /// The cache has no slot and got no memory for any.
    NoMemory,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_stays_inside_its_share_and_gives_all_of_it_back() {
        let budget = Budget::new(3 << 20);
        let share = Share::new(budget.clone(), 2 << 20);
        let cache = SlotCache::new(4096, CacheBytes::fixed(share.cap_bytes())).expect("room");
        for key in 0..5_000_u64 {
            cache.insert(&share, key, &[key as u8; 4096]);
            assert_eq!(cache.with(key, |bytes| bytes[17]), Some(key as u8));
        }
        assert!(budget.peak_bytes() <= 2 << 20);
        assert!(budget.used_bytes() > 1 << 20);
        assert_eq!((cache.bytes(), share.used_bytes()), (budget.used_bytes(), budget.used_bytes()));
        while cache.drop_chunk(&share) > 0 {}
        assert_eq!((budget.used_bytes(), share.used_bytes(), cache.bytes()), (0, 0, 0));
        assert_eq!(cache.with(4_999, |_| ()), None);
    }

    #[test]
    fn a_cache_knows_what_a_step_is_worth_and_grows_when_its_share_does() {
        let share = Share::new(Budget::new(4 << 20), 1 << 20);
        let bytes = CacheBytes { start: 1 << 20, most: 2 << 20, step: 256 << 10 };
        let cache = SlotCache::new(4096, bytes).expect("room");
        let look = |keys: u64| {
            for number in 0..20 * keys {
                let key = hash(number) % keys;
                if cache.with(key, |_| ()).is_none() {
                    cache.insert(&share, key, &[0; 4096]);
                }
            }
            cache.take_worth(1.0)
        };
        look(100);
        let few = look(100);
        assert!(few.gain < 1.0, "{few:?}");
        look(1_000);
        let many = look(1_000);
        assert!(many.gain > 200.0 && many.loss > 200.0, "{many:?}");
        // The share bounds it, not what it may have at most.
        assert!(cache.bytes() <= 1 << 20);
        share.set_cap_bytes(2 << 20);
        look(1_000);
        assert!(cache.bytes() > 3 << 19);
    }

    #[test]
    fn a_slot_too_wide_for_the_share_makes_no_cache() {
        assert!(SlotCache::new(1 << 20, CacheBytes::fixed(100 << 10)).is_none());
    }
}
