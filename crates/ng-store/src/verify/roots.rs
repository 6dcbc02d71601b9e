//! The root slots: both must be there, valid, equal, and 0 where they mean nothing.

use crate::bytes::is_zero;
use crate::io::BLOCK_BYTES;
use crate::open_root::{Slot, ValidSlot, read_slot};
use crate::root::{RootHeader, SLOTS};
use crate::verify::Run;

impl Run<'_> {
    pub(super) fn check_roots(&mut self) {
        let reader = &self.inner.pages.reader;
        let slots = SLOTS.map(|name| (name, read_slot(reader, name)));
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
        let reader = &self.inner.pages.reader;
        let len = reader.open(name).and_then(|file| reader.len(file));
        match len {
            Ok(len) if len == slot.header.file_bytes() => {}
            Ok(len) => {
                let what = format!("{len} bytes, expected {}", slot.header.file_bytes());
                self.report.add(name, None, None, what);
            }
            Err(error) => self.report.add(name, None, None, error.to_string()),
        }
    }
}
