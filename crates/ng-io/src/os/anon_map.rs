//! A page-aligned, zeroed piece of anonymous memory that really goes back to the system on drop.
//!
//! What must not live here: any knowledge of who uses which part of it. The invariant: the address
//! never changes, so that a device may be told about it.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Owned anonymous memory.
pub struct AnonMap {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an AnonMap owns its mapping alone, and nothing about anonymous memory is bound to a
// thread.
unsafe impl Send for AnonMap {}
// SAFETY: `&AnonMap` gives out the address and the length only; who may touch which bytes is
// settled by its owner.
unsafe impl Sync for AnonMap {}

impl AnonMap {
    /// Maps `bytes` of zeroed memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { base: NonNull::dangling(), bytes });
        }
        let flags = MapFlags::PRIVATE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)?
        };
        let base = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes })
    }

    /// As [`AnonMap::new`], and asks for huge pages: long tables that are read in random places
    /// are found faster, and a long buffer is mapped with fewer faults.
    pub fn with_huge_pages(bytes: usize) -> io::Result<Self> {
        let region = Self::new(bytes)?;
        if bytes > 0 {
            // SAFETY: the range is the mapping that was just made; the advice changes no content.
            // A refusal costs speed alone.
            let _ = unsafe { madvise(region.base().cast(), bytes, Advice::LinuxHugepage) };
        }
        Ok(region)
    }

    /// Where it starts; a multiple of the system's page size.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it, for a single owner.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `bytes` long, initialised (zeroed), and `&mut self` excludes
        // every other user of it, devices included: those only see regions inside an `Arena`,
        // which never calls this.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    /// All of it, to look at.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: as in `as_mut_slice`; shared borrows only read.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes) }
    }
}

/// `len` times `value`, in huge pages where the system has them.
pub fn vec_in_huge_pages<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut vec: Vec<T> = Vec::with_capacity(len);
    let page = rustix::param::page_size();
    let start = vec.as_ptr().cast::<u8>() as usize;
    let (first, end) = (start.next_multiple_of(page), (start + len * size_of::<T>()) / page * page);
    if end > first {
        let place = vec.as_mut_ptr().cast::<u8>().wrapping_add(first - start);
        // SAFETY: whole pages inside the memory that the vector owns; the advice changes no
        // content. A refusal costs speed alone.
        let _ = unsafe { madvise(place.cast(), end - first, Advice::LinuxHugepage) };
    }
    vec.resize(len, value);
    vec
}

impl std::fmt::Debug for AnonMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnonMap").field("bytes", &self.bytes).finish()
    }
}

impl Drop for AnonMap {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: the mapping was made by `new`, is unmapped once, and no borrow outlives `self`.
        // An error cannot be acted upon here; the memory would merely stay mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
