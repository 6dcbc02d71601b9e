//! The C interface of ONNX Runtime, as far as it is used: functions of its table, by place.
//!
//! The table only grows, so places do not change. The invariant: the table was asked for by a
//! version that has all of these places.

use std::ffi::{CStr, c_char, c_void};

use crate::library::Library;

/// The version whose table has every function below.
pub(super) const API_VERSION: u32 = 18;

/// A pointer to something that only ONNX Runtime knows; null where there is none.
pub(super) type Opaque = *mut c_void;

/// What ONNX Runtime's library exports.
#[repr(C)]
struct ApiBase {
    get_api: unsafe extern "C" fn(u32) -> *const *const c_void,
    version: unsafe extern "C" fn() -> *const c_char,
}

/// The table of functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Api(*const *const c_void);

// SAFETY: the table is constant, and its functions may be called by any thread.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

/// Functions of the table: their names, places, arguments and results.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $place:literal ($($argument:ty),*) $(-> $result:ty)?;)+) => {
        impl Api {
            $(
                $(#[$doc])*
                pub fn $name(self) -> unsafe extern "C" fn($($argument),*) $(-> $result)? {
                    // SAFETY: the table has this place, and this type of function at it.
                    unsafe { std::mem::transmute(*self.0.add($place)) }
                }
            )+
        }
    };
}

functions! {
    error_message = 2 (Opaque) -> *const c_char;
    create_env = 3 (i32, *const c_char, *mut Opaque) -> Opaque;
    create_session_from_array =
        8 (Opaque, *const c_void, usize, Opaque, *mut Opaque) -> Opaque;
    run = 9 (
        Opaque, Opaque, *const *const c_char, *const Opaque, usize, *const *const c_char, usize,
        *mut Opaque
    ) -> Opaque;
    create_session_options = 10 (*mut Opaque) -> Opaque;
    set_intra_op_threads = 24 (Opaque, i32) -> Opaque;
    session_input_count = 30 (Opaque, *mut usize) -> Opaque;
    session_output_count = 31 (Opaque, *mut usize) -> Opaque;
    session_input_name = 36 (Opaque, usize, Opaque, *mut *mut c_char) -> Opaque;
    session_output_name = 37 (Opaque, usize, Opaque, *mut *mut c_char) -> Opaque;
    create_tensor = 49 (
        Opaque, *mut c_void, usize, *const i64, usize, i32, *mut Opaque
    ) -> Opaque;
    tensor_data = 51 (Opaque, *mut *mut c_void) -> Opaque;
    tensor_dtype = 60 (Opaque, *mut i32) -> Opaque;
    tensor_rank = 61 (Opaque, *mut usize) -> Opaque;
    tensor_dims = 62 (Opaque, *mut i64, usize) -> Opaque;
    tensor_info = 65 (Opaque, *mut Opaque) -> Opaque;
    create_cpu_memory_info = 69 (i32, i32, *mut Opaque) -> Opaque;
    allocator_free = 76 (Opaque, *mut c_void) -> Opaque;
    default_allocator = 78 (*mut Opaque) -> Opaque;
    release_status = 93 (Opaque);
    release_memory_info = 94 (Opaque);
    release_session = 95 (Opaque);
    release_value = 96 (Opaque);
    release_tensor_info = 99 (Opaque);
    release_session_options = 100 (Opaque);
    add_external_files = 279 (
        Opaque, *const *const c_char, *const *mut c_char, *const usize, usize
    ) -> Opaque;
}

impl Api {
    /// The table of a library, and the library's version.
    pub fn of(library: Library) -> Result<(Self, String), String> {
        let base = library.symbol(c"OrtGetApiBase")?;
        // SAFETY: the library exports a function of this type under this name; it returns a
        // constant struct, whose functions are called as they are declared.
        let (table, version) = unsafe {
            let base: unsafe extern "C" fn() -> *const ApiBase = std::mem::transmute(base);
            let base = base();
            if base.is_null() {
                return Err("the library has no table of functions".to_owned());
            }
            (((*base).get_api)(API_VERSION), CStr::from_ptr(((*base).version)()))
        };
        let version = version.to_string_lossy().into_owned();
        if table.is_null() {
            return Err(format!(
                "ONNX Runtime {version} does not have version {API_VERSION} of its interface"
            ));
        }
        Ok((Self(table), version))
    }

    /// What a call gave: nothing, or the text of an error.
    pub fn done(self, status: Opaque) -> Result<(), String> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is not null, its text lives as long as it does, and it is released
        // once.
        unsafe {
            let text = CStr::from_ptr(self.error_message()(status)).to_string_lossy().into_owned();
            self.release_status()(status);
            Err(text)
        }
    }
}
