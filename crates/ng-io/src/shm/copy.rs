//! Copies between private bytes and shared words.
//!
//! Another process may write the shared words at any moment, so they are only ever touched as
//! atomics, each once, without an order: a race gives some value, never undefined behaviour.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// The words from `at` on, around the end of the ring: the part before the end and the rest.
fn around(words: &[AtomicU64], at: usize, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
    let (rest, first) = words.split_at(at % words.len());
    let before = count.min(first.len());
    (&first[..before], &rest[..(count - before).min(rest.len())])
}

/// Copies the words from `at` on into `bytes`, which is not longer than the ring.
pub(super) fn copy_out(words: &[AtomicU64], at: usize, bytes: &mut [u8]) {
    let (first, second) = around(words, at, bytes.len().div_ceil(WORD));
    let cut = bytes.len().min(first.len() * WORD);
    let (before, after) = bytes.split_at_mut(cut);
    copy_run(first, before);
    copy_run(second, after);
}

fn copy_run(words: &[AtomicU64], bytes: &mut [u8]) {
    let mut chunks = bytes.chunks_exact_mut(WORD);
    for (chunk, word) in chunks.by_ref().zip(words) {
        chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    let rest = chunks.into_remainder();
    if let (false, Some(word)) = (rest.is_empty(), words.last()) {
        rest.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
    }
}

/// Copies parts one behind the other into words, as if they were one.
pub(super) struct Pour<'a> {
    words: &'a [AtomicU64],
    at: usize,
    begun: [u8; WORD],
    filled: usize,
}

impl<'a> Pour<'a> {
    /// Begins at the word `at`.
    pub fn new(words: &'a [AtomicU64], at: usize) -> Self {
        Self { words, at: at % words.len(), begun: [0; WORD], filled: 0 }
    }

    fn word(&mut self, bytes: [u8; WORD]) {
        if let Some(word) = self.words.get(self.at) {
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.at = (self.at + 1) % self.words.len();
    }

    /// Appends a part.
    pub fn part(&mut self, mut part: &[u8]) {
        if self.filled > 0 {
            let taken = part.len().min(WORD - self.filled);
            self.begun[self.filled..self.filled + taken].copy_from_slice(&part[..taken]);
            (self.filled, part) = (self.filled + taken, &part[taken..]);
            if self.filled < WORD {
                return;
            }
            self.word(self.begun);
        }
        let (first, second) = around(self.words, self.at, part.len() / WORD);
        let (chunks, rest) = part.as_chunks::<WORD>();
        let (before, after) = chunks.split_at(first.len());
        for (run, chunks) in [(first, before), (second, after)] {
            for (word, chunk) in run.iter().zip(chunks) {
                word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
            }
        }
        self.at = (self.at + chunks.len()) % self.words.len();
        self.begun[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Writes a last word that is not full.
    pub fn finish(mut self) {
        if self.filled > 0 {
            self.begun[self.filled..].fill(0);
            self.word(self.begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ng_testing::Random;

    #[test]
    fn what_is_poured_in_parts_comes_out_whole_wherever_it_begins() {
        let mut random = Random::new(5);
        let words: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(u64::MAX)).collect();
        for at in 0..100 {
            let len = random.below(32 * 8 + 1) as usize;
            let bytes = random.bytes(len);
            let mut pour = Pour::new(&words, at);
            let mut left = &bytes[..];
            while !left.is_empty() {
                let (part, rest) = left.split_at(random.below(left.len() as u64 + 1) as usize);
                pour.part(part);
                left = rest;
            }
            pour.finish();
            let mut out = vec![0; len];
            copy_out(&words, at, &mut out);
            assert_eq!(out, bytes, "{len} bytes at {at}");
        }
    }
}
