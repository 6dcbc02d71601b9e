//! Shared objects in this process.
//!
//! The invariants: a library is never unloaded, because threads, exit handlers and running calls
//! may still need its code; and its descriptor stays open, because the loader knows a library by
//! its path, and a later one under the same `/proc/self/fd/N` would be taken for it.

use std::ffi::{CStr, CString, c_void};
use std::os::fd::{IntoRawFd, OwnedFd};

/// A library that is loaded for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
}

// SAFETY: the handle is only passed to dlsym, which any thread may call, and is never closed.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads what the descriptor holds. Its constructors run.
    pub fn of_descriptor(memory: OwnedFd) -> Result<Self, String> {
        let path = format!("/proc/self/fd/{}", memory.into_raw_fd());
        Self::open(&CString::new(path).map_err(|error| error.to_string())?)
    }

    /// Loads the file at `path`.
    pub fn open(path: &CStr) -> Result<Self, String> {
        // SAFETY: `path` is a C string. Whether the code of the library may run here is what the
        // caller has decided.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(last_error()) } else { Ok(Self { handle }) }
    }

    /// The address of a symbol, which is not null.
    pub fn symbol(self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the handle is that of a loaded library, and `name` is a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        let none = || format!("it does not export {}", name.to_string_lossy());
        if address.is_null() { Err(none()) } else { Ok(address) }
    }
}

fn last_error() -> String {
    // SAFETY: dlerror gives null, or a string that stays until the next call on this thread.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy()) }
    };
    format!("it cannot be loaded: {}", text.as_deref().unwrap_or("the loader gives no reason"))
}
