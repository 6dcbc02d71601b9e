//! Keys of the last transactions that had one: who sends a transaction again is told what it did.
//!
//! What must not live here: who chooses keys, what notes mean. The invariant: what is held is
//! bounded, and depends on the transactions alone, so that a replay holds the same.

use std::collections::VecDeque;
use std::sync::Arc;

use ng_types::checksum;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bytes::ensure;
use crate::error::Damage;
use crate::limits::{KEY_BYTES_MAX, KEY_NOTE_BYTES_MAX, KEYED_BYTES_MAX, KEYS_MAX};

/// Keys that are forgotten together, and copied where two versions differ.
const PART_KEYS: usize = 64;

/// Bytes of keys that are forgotten together, with their notes.
const PART_BYTES_MAX: usize = PART_KEYS * (KEY_BYTES_MAX + KEY_NOTE_BYTES_MAX);

const _: () = assert!(KEYS_MAX.is_multiple_of(PART_KEYS) && PART_BYTES_MAX < KEYED_BYTES_MAX);

/// A transaction that had a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedCommit {
    /// Its number.
    pub lsn: u64,
    /// Its key.
    #[serde(with = "hex")]
    pub key: Arc<[u8]>,
    /// What was noted with it, such as the ids that it gave out.
    #[serde(with = "hex")]
    pub note: Arc<[u8]>,
}

impl KeyedCommit {
    fn bytes(&self) -> usize {
        self.key.len() + self.note.len()
    }

    /// Checks that neither is too long.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        let (key, note) = (self.key.len(), self.note.len());
        ensure((1..=KEY_BYTES_MAX).contains(&key) && note <= KEY_NOTE_BYTES_MAX, || {
            format!("a transaction key of {key} bytes with a note of {note} bytes is not valid")
        })
    }
}

/// The keys, oldest first. A copy shares all parts but the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Keys {
    parts: VecDeque<Arc<Part>>,
    bytes: usize,
}

/// Keys that are forgotten together. Each transaction looks for its own among all of them, so the
/// hashes lie side by side.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    commits: Vec<KeyedCommit>,
    hashes: Vec<u32>,
}

impl Part {
    fn push(&mut self, new: KeyedCommit) {
        self.hashes.push(checksum::of(&new.key));
        self.commits.push(new);
    }

    fn find(&self, key: &[u8], hash: u32) -> Option<&KeyedCommit> {
        let mut known = self.hashes.iter().zip(&self.commits);
        known.find(|(other, commit)| **other == hash && *commit.key == *key).map(|(_, found)| found)
    }
}

impl Keys {
    /// Adds the newest one. The oldest part goes when there are too many, or too many bytes.
    pub fn push(&mut self, new: KeyedCommit) {
        self.bytes += new.bytes();
        if self.parts.back().is_none_or(|part| part.commits.len() >= PART_KEYS) {
            self.parts.push_back(Arc::default());
        }
        if let Some(part) = self.parts.back_mut() {
            Arc::make_mut(part).push(new);
        }
        while self.parts.len() > KEYS_MAX / PART_KEYS
            || (self.bytes > KEYED_BYTES_MAX && self.parts.len() > 1)
        {
            let oldest = self.parts.pop_front().unwrap_or_default();
            self.bytes -= oldest.commits.iter().map(KeyedCommit::bytes).sum::<usize>();
        }
    }

    /// Returns the commit of the transaction with this key.
    pub fn find(&self, key: &[u8]) -> Option<&KeyedCommit> {
        let hash = checksum::of(key);
        self.parts.iter().rev().find_map(|part| part.find(key, hash))
    }

    /// The newest commit whose key may have been forgotten; 0 if none was.
    ///
    /// Keys are forgotten when there are as many, or as many bytes of them, as there may be. Both
    /// shrink by one part at most when that happens, so fewer of both were never too many.
    pub fn forgotten_to(&self) -> u64 {
        let count = self.parts.iter().map(|part| part.commits.len()).sum::<usize>();
        let was_full =
            count > KEYS_MAX - PART_KEYS || self.bytes > KEYED_BYTES_MAX - PART_BYTES_MAX;
        let oldest = self.parts.front().and_then(|part| part.commits.first());
        oldest.filter(|_| was_full).map_or(0, |oldest| oldest.lsn.saturating_sub(1))
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &KeyedCommit> {
        self.parts.iter().flat_map(|part| &part.commits)
    }

    /// Checks what was read.
    pub fn check(&self) -> Result<(), Damage> {
        self.iter().try_for_each(KeyedCommit::check)?;
        let mut keys: Vec<&[u8]> = self.iter().map(|known| &*known.key).collect();
        keys.sort_unstable();
        ensure(keys.is_sorted_by(|a, b| a < b), || "a transaction key occurs twice".into())
    }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let all = Vec::<KeyedCommit>::deserialize(from)?;
        let given = all.len();
        let mut keys = Self::default();
        all.into_iter().for_each(|each| keys.push(each));
        if keys.iter().count() == given {
            return Ok(keys);
        }
        let what = format!("{given} transaction keys, or their bytes, exceed the limit of a store");
        Err(serde::de::Error::custom(what))
    }
}

/// Bytes as text: two digits each.
mod hex {
    use super::{Arc, Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        to.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u8]>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
        let bytes = bytes.collect::<Option<Arc<[u8]>>>().filter(|_| rest.is_empty());
        bytes.ok_or_else(|| {
            serde::de::Error::custom("expected pairs of hexadecimal digits 0 to 9 and a to f")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(number: u64, note: usize) -> KeyedCommit {
        let (key, note) = (number.to_be_bytes().as_slice().into(), vec![7; note].into());
        KeyedCommit { lsn: number, key, note }
    }

    /// Of all commits from 0 to `newest`, which had keys, those after `forgotten_to` are found.
    fn forgets_no_more_than_it_says(keys: &Keys, newest: u64) {
        let first = keys.forgotten_to() + 1;
        for number in [first, first + 1, (first + newest) / 2, newest] {
            let is_there = keys.find(&number.to_be_bytes()).is_some();
            assert!(is_there || number > newest, "{number} of {newest}, forgotten to {first} - 1");
        }
    }

    #[test]
    fn the_newest_keys_are_kept_and_come_back_as_text() {
        let mut keys = Keys::default();
        for number in 0..(KEYS_MAX + PART_KEYS / 2) as u64 {
            keys.push(keyed(number, 3));
            assert!(keys.find(&number.to_be_bytes()).is_some_and(|found| found.lsn == number));
            forgets_no_more_than_it_says(&keys, number);
        }
        assert!(keys.find(&(PART_KEYS as u64 - 1).to_be_bytes()).is_none());
        assert!(keys.find(&(PART_KEYS as u64).to_be_bytes()).is_some());
        let count = keys.iter().count();
        assert!(count <= KEYS_MAX && count > KEYS_MAX - PART_KEYS, "{count}");
        keys.check().expect("sound");
        let text = serde_json::to_string(&keys).expect("text");
        assert_eq!(serde_json::from_str::<Keys>(&text).expect("the same"), keys);
        let more = serde_json::to_string(&vec![keyed(1, 0); KEYS_MAX + 1]).expect("text");
        assert!(serde_json::from_str::<Keys>(&more).is_err());
        let odd = r#"[{"lsn":1,"key":"0G","note":""}]"#;
        assert!(serde_json::from_str::<Keys>(odd).is_err());
    }

    #[test]
    fn long_notes_push_older_keys_out() {
        let mut keys = Keys::default();
        // Long ones, then short ones, then long ones again: both bounds are met in turn.
        for number in 0..4 * KEYS_MAX as u64 {
            let is_long = (number / (KEYS_MAX as u64 + 500)).is_multiple_of(2);
            keys.push(keyed(number, if is_long { KEY_NOTE_BYTES_MAX } else { 0 }));
            forgets_no_more_than_it_says(&keys, number);
        }
        let bytes: usize = keys.iter().map(KeyedCommit::bytes).sum();
        assert!(bytes <= KEYED_BYTES_MAX && keys.bytes == bytes, "{bytes}");
        assert!(keys.iter().count() > PART_KEYS);
    }

    #[test]
    fn keys_that_are_no_keys_are_refused() {
        for bad in [keyed(1, KEY_NOTE_BYTES_MAX + 1), KeyedCommit { key: [].into(), ..keyed(1, 0) }]
        {
            let mut keys = Keys::default();
            keys.push(bad);
            assert!(keys.check().is_err());
        }
        let mut twice = Keys::default();
        [1, 2, 1].into_iter().for_each(|number| twice.push(keyed(number, 0)));
        assert!(twice.check().is_err());
    }
}
