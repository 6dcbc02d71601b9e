//! Memory between pages that nobody may touch.

use std::ffi::c_void;

use super::signals;

/// What unused bytes are filled with: -6.2e32 as f32, which no case comes to.
const FILL: u8 = 0xF5;

/// At which guard page the bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// They begin where the guard page in front ends.
    Front,
    /// They end where the guard page behind begins, as near as the alignment lets them.
    Back,
}

/// Some bytes in pages of their own. Never unmapped: the process ends soon.
#[derive(Debug)]
pub(super) struct Guarded {
    pages: *mut u8,
    pages_bytes: usize,
    start: usize,
    len: usize,
}

impl Guarded {
    /// `len` bytes, aligned to `alignment` and filled with a pattern. `name` is for messages.
    pub fn new(name: &str, len: usize, alignment: usize, side: Side) -> Result<Self, String> {
        let page = rustix::param::page_size();
        let pages_bytes = len.next_multiple_of(page);
        let none = |_| format!("cannot allocate {len} bytes for {name}");
        use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
        // SAFETY: new memory, which nobody knows yet.
        let all = unsafe {
            let (prot, flags) = (ProtFlags::empty(), MapFlags::PRIVATE);
            let null = std::ptr::null_mut();
            mmap_anonymous(null, pages_bytes + 2 * page, prot, flags).map_err(none)?.cast::<u8>()
        };
        let pages = all.wrapping_add(page);
        if pages_bytes > 0 {
            // SAFETY: the pages between the guards, which nobody uses yet.
            unsafe {
                let access = MprotectFlags::READ | MprotectFlags::WRITE;
                mprotect(pages.cast(), pages_bytes, access).map_err(none)?;
                std::ptr::write_bytes(pages, FILL, pages_bytes);
            }
        }
        let start = match side {
            Side::Front => 0,
            Side::Back => (pages_bytes - len) / alignment * alignment,
        };
        let pages_start = pages as usize;
        signals::watch(pages_start - page..pages_start, &format!("before {name}"));
        let behind = pages_start + pages_bytes;
        signals::watch(behind..behind + page, &format!("past the end of {name}"));
        Ok(Self { pages, pages_bytes, start, len })
    }

    pub fn data(&self) -> *mut c_void {
        self.pages.wrapping_add(self.start).cast()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the pages are readable and live until the process ends; a kernel that writes them
        // has returned.
        unsafe { std::slice::from_raw_parts(self.data().cast(), self.len) }
    }

    /// Fills the bytes and forbids to write them.
    pub fn fill_and_lock(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        // SAFETY: there are as many bytes, which nobody else uses.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data().cast(), bytes.len());
        }
        if self.pages_bytes == 0 {
            return Ok(());
        }
        let start = self.pages as usize;
        signals::watch(start..start + self.pages_bytes, &format!("{name}, which is read-only"));
        // SAFETY: the pages are ours, and nobody writes them from now on.
        let locked = unsafe {
            let access = rustix::mm::MprotectFlags::READ;
            rustix::mm::mprotect(self.pages.cast(), self.pages_bytes, access)
        };
        locked.map_err(|error| error.to_string())
    }

    /// Whether the bytes between the tensor and the guard pages are as they were.
    pub fn is_clean_around(&self) -> bool {
        let is_filled = |from: usize, to: usize| {
            // SAFETY: within the pages, which are readable.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.pages.wrapping_add(from), to - from) };
            bytes.iter().all(|byte| *byte == FILL)
        };
        is_filled(0, self.start) && is_filled(self.start + self.len, self.pages_bytes)
    }
}
