//! The root slots: both must be valid, equal, and 0 where they mean nothing. Verify only notes what
//! is wrong with one beside a sound one, since the next writer writes both anew. To scrub, that is
//! rot.

use std::time::Duration;

use crate::bytes::is_zero;
use crate::io::BLOCK_BYTES;
use crate::verify::{Pass, Run};
use crate::version::open_root::{Slot, read_slot};
use crate::version::root::{RootHeader, SLOTS};

/// A slot that a checkpoint writes in this moment may look damaged: it is read again this often.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

impl Run<'_> {
    pub(super) fn check_roots(&mut self, pass: Pass) {
        let reader = &self.pages.reader;
        let read = |name| {
            let mut slot = read_slot(reader, name);
            for _ in 0..if pass == Pass::Scrub { TRIES } else { 0 } {
                if let Slot::Valid(_) = slot {
                    break;
                }
                std::thread::sleep(PAUSE);
                slot = read_slot(reader, name);
            }
            slot
        };
        let slots = SLOTS.map(read);
        let found = [&slots[0], &slots[1]].map(check_slot);
        let checkpoints = [&slots[0], &slots[1]].map(|slot| match slot {
            Slot::Valid(slot) => Some(slot.header.checkpoint_id),
            _ => None,
        });
        // The one that counts: of two that are equal the one that is as it should be.
        let rank = |number: usize| (checkpoints[number], found[number].is_empty());
        let counting = usize::from(rank(1) > rank(0));
        let spare = 1 - counting;
        let is_noted = pass == Pass::Verify && checkpoints[counting].is_some();
        for (number, found) in found.into_iter().enumerate() {
            for (block, what) in found {
                if number == spare && is_noted {
                    self.report.note(SLOTS[spare], block, what);
                } else {
                    self.report.add(SLOTS[number], None, block, what);
                }
            }
        }
        let [Slot::Valid(a), Slot::Valid(b)] = &slots else { return };
        if a.bytes == b.bytes {
            return;
        }
        if a.header.checkpoint_id == b.header.checkpoint_id {
            let is_content = a.header != b.header || a.catalog != b.catalog;
            if is_content {
                self.report.add(SLOTS[spare], None, None, "the root slots differ");
            }
        } else if pass == Pass::Verify {
            let (old, new) = (checkpoints[spare].unwrap_or(0), checkpoints[counting].unwrap_or(0));
            let what = format!(
                "it belongs to checkpoint {old}, and {} to checkpoint {new}",
                SLOTS[counting]
            );
            self.report.note(SLOTS[spare], None, what);
        }
    }
}

/// What is wrong with a slot, and in which block.
fn check_slot(slot: &Slot) -> Vec<(Option<u64>, String)> {
    let slot = match slot {
        Slot::Absent => return vec![(None, "the root slot is missing".into())],
        Slot::Damaged(what) => return vec![(None, what.clone())],
        Slot::Newer(version) => return vec![(None, format!("it has format version {version}"))],
        Slot::Valid(slot) => slot,
    };
    let (header, body) = slot.bytes.split_at(BLOCK_BYTES.min(slot.bytes.len()));
    let mut found = Vec::new();
    if let Err(damage) = RootHeader::check_padding(header) {
        found.push((Some(0), damage.to_string()));
    }
    let padding = &body[slot.header.body_bytes as usize..];
    if !is_zero(padding) {
        found.push((None, "the padding after the catalog is not 0".into()));
    }
    found
}
