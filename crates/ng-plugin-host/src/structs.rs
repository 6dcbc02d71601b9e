//! Structs and texts that a plug-in hands over, copied and checked.

use std::mem::size_of;

use ng_plugin_abi::{NgDevice, NgError, NgKernel, NgText};

/// Longer structs are a mistake.
const STRUCT_BYTES_MAX: u64 = 4096;

/// Longer names are a mistake.
const TEXT_BYTES_MAX: u64 = 256;

/// Bytes of the text of an error.
const ERROR_BYTES: usize = 512;

/// Structs of the interface whose first field is `struct_size`.
///
/// # Safety
///
/// The struct is `repr(C)`, any bytes are a value of it, and its first field is a `u64`.
pub(crate) unsafe trait Sized64: Copy {
    const NAME: &'static str;
}

// SAFETY: pointers, numbers and optional functions; the first field is `struct_size`.
unsafe impl Sized64 for NgDevice {
    const NAME: &'static str = "NgDevice";
}

// SAFETY: as above.
unsafe impl Sized64 for NgKernel {
    const NAME: &'static str = "NgKernel";
}

/// A copy of a struct of the plug-in. A newer plug-in may append fields; what they say would be
/// lost, so they must be 0.
///
/// # Safety
///
/// `from` is null, or leads to as many readable bytes as its `struct_size` says.
pub(crate) unsafe fn copied<T: Sized64>(from: *const T) -> Result<T, String> {
    let name = T::NAME;
    if from.is_null() {
        return Err(format!("it passes NULL instead of {name}"));
    }
    if !from.is_aligned() {
        return Err(format!("it passes {name} at an unaligned address"));
    }
    // SAFETY: the first field is a u64, and the caller says that it can be read.
    let size = unsafe { from.cast::<u64>().read() };
    let known = size_of::<T>() as u64;
    if size < known {
        return Err(format!("{name} has struct_size {size}; version 1 needs {known}"));
    }
    if size > STRUCT_BYTES_MAX {
        return Err(format!(
            "{name} has struct_size {size}; at most {STRUCT_BYTES_MAX} are allowed"
        ));
    }
    // SAFETY: the caller says that `size` bytes can be read.
    let appended = unsafe {
        let behind = from.cast::<u8>().add(known as usize);
        std::slice::from_raw_parts(behind, (size - known) as usize)
    };
    if appended.iter().any(|byte| *byte != 0) {
        return Err(format!("{name} sets fields that this version does not have"));
    }
    // SAFETY: at least the bytes of a `T` can be read, and any bytes are one.
    Ok(unsafe { from.read() })
}

/// A text of the plug-in; `what` it is, for messages.
///
/// # Safety
///
/// Its pointer is null, or leads to as many readable bytes as it says.
pub(crate) unsafe fn text(from: NgText, what: &str) -> Result<String, String> {
    if from.data.is_null() || from.len == 0 {
        return Err(format!("{what} is missing"));
    }
    if from.len > TEXT_BYTES_MAX {
        return Err(format!("{what} has {} bytes; at most {TEXT_BYTES_MAX} are allowed", from.len));
    }
    // SAFETY: the caller says that so many bytes can be read.
    let bytes = unsafe { std::slice::from_raw_parts(from.data.cast::<u8>(), from.len as usize) };
    let text = std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(format!("{what} contains control characters"));
    }
    Ok(text.to_owned())
}

/// A text of the host for the plug-in, valid as long as `of` is.
pub(crate) fn lent(of: &str) -> NgText {
    NgText { data: of.as_ptr().cast(), len: of.len() as u64 }
}

/// Room for the text of an error.
pub(crate) struct ErrorText {
    bytes: Box<[u8; ERROR_BYTES]>,
    frame: Box<NgError>,
}

impl ErrorText {
    pub fn new() -> Self {
        let mut bytes = Box::new([0; ERROR_BYTES]);
        let frame = NgError {
            struct_size: size_of::<NgError>() as u64,
            data: bytes.as_mut_ptr().cast(),
            capacity: ERROR_BYTES as u64,
            len: 0,
        };
        Self { bytes, frame: Box::new(frame) }
    }

    pub fn frame(&mut self) -> *mut NgError {
        &raw mut *self.frame
    }

    /// What the plug-in wrote; control characters become spaces.
    pub fn text(&self) -> String {
        let len = (self.frame.len as usize).min(ERROR_BYTES);
        let text = String::from_utf8_lossy(&self.bytes[..len]).into_owned();
        let text = text.replace(|c: char| c.is_control(), " ");
        if text.trim().is_empty() { "it gives no reason".to_owned() } else { text }
    }
}
