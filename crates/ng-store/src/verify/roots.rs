//! The root slots: both must be there, valid, equal, and 0 where they mean nothing.

use std::time::Duration;

use crate::bytes::is_zero;
use crate::io::BLOCK_BYTES;
use crate::open_root::{Slot, ValidSlot, read_slot};
use crate::root::{RootHeader, SLOTS};
use crate::verify::{Pass, Run};

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
        let slots = SLOTS.map(|name| (name, read(name)));
        for (name, slot) in &slots {
            match slot {
                Slot::Absent => self.report.add(name, None, None, "the root slot is missing"),
                Slot::Damaged(what) => self.report.add(name, None, None, what.as_str()),
                Slot::Newer(version) => {
                    self.report.add(name, None, None, format!("format version {version}"));
                }
                Slot::Valid(slot) => self.check_slot(name, slot),
            }
        }
        if let [(_, Slot::Valid(a)), (name, Slot::Valid(b))] = &slots
            && a.bytes != b.bytes
            && (pass == Pass::Verify || a.header.epoch == b.header.epoch)
        {
            self.report.add(name, None, None, "the root slots differ");
        }
    }

    fn check_slot(&mut self, name: &str, slot: &ValidSlot) {
        let (header, body) = slot.bytes.split_at(BLOCK_BYTES.min(slot.bytes.len()));
        if let Err(damage) = RootHeader::check_padding(header) {
            self.report.add(name, None, Some(0), damage.to_string());
        }
        let padding = body.get(slot.header.body_bytes as usize..).unwrap_or_default();
        if !is_zero(padding) {
            self.report.add(name, None, None, "padding after the catalog is not 0");
        }
    }
}
