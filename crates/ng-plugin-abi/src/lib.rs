//! The binary interface of plug-ins, version 1: what `include/ng_plugin.h` says, in Rust.
//!
//! What lives here: C structs, result codes, versions. What must not: types of Rust, conditions of
//! compilation, dependencies, behaviour. The invariants: every struct but [`NgText`] begins with
//! `struct_size`; fields are only appended; reserved fields are 0. A test holds both files equal.
//! `docs/reference/plugin-abi.md` is the document for authors of plug-ins.

#![forbid(unsafe_code)]

use core::ffi::{c_char, c_void};

/// The version of the table that `get_api` returns for this crate.
pub const NG_API_VERSION: u32 = 1;

/// The name of the one symbol that a plug-in exports.
pub const NG_SYMBOL: &core::ffi::CStr = c"ng_plugin_v1";

/// The call succeeded.
pub const NG_OK: i32 = 0;
/// The call failed; the text of [`NgError`] says why.
pub const NG_FAILED: i32 = 1;
/// The kernel does not support the operation for these shapes, dtypes or attributes. Only a query
/// may return this code.
pub const NG_NOT_SERVED: i32 = 2;
/// The elements do not fit, for example an index is out of range.
pub const NG_MISFIT: i32 = 3;

/// Elements in single precision.
pub const NG_F32: u32 = 0;
/// Elements that are 64-bit integers.
pub const NG_I64: u32 = 1;
/// Elements that are booleans of one byte each.
pub const NG_BOOL: u32 = 2;

/// Elements are in the memory of the processor.
pub const NG_CPU: u32 = 0;

/// Several threads may call the kernel at once.
pub const NG_TRAIT_THREAD_SAFE: u64 = 1;
/// The same inputs give the same bytes for any number of threads.
pub const NG_TRAIT_DETERMINISTIC: u64 = 2;

/// UTF-8 text.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgText {
    /// The first byte.
    pub data: *const c_char,
    /// The number of bytes.
    pub len: u64,
}

/// The buffer for the text of an error. The host owns it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgError {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The first byte.
    pub data: *mut c_char,
    /// The size of the buffer in bytes.
    pub capacity: u64,
    /// The number of bytes that the plug-in wrote, at most `capacity`.
    pub len: u64,
}

/// A tensor to read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgView {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The elements; null in a query.
    pub data: *const c_void,
    /// `rank` lengths.
    pub dims: *const i64,
    /// For each axis, the distance of consecutive elements, in elements.
    pub strides: *const i64,
    /// The number of axes.
    pub rank: u32,
    /// The dtype of the elements: [`NG_F32`] and others.
    pub dtype: u32,
    /// The location of the elements: [`NG_CPU`].
    pub device: u32,
    /// Reserved; must be 0.
    pub reserved: u32,
}

/// A tensor to fill. The host owns the memory. Its content before the call has no meaning.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgViewMut {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The elements; null in a query.
    pub data: *mut c_void,
    /// `rank` lengths.
    pub dims: *const i64,
    /// For each axis, the distance of consecutive elements, in elements.
    pub strides: *const i64,
    /// The number of axes.
    pub rank: u32,
    /// The dtype of the elements: [`NG_F32`] and others.
    pub dtype: u32,
    /// The location of the elements: [`NG_CPU`].
    pub device: u32,
    /// Reserved; must be 0.
    pub reserved: u32,
}

/// An attribute in its text form: a number, a list such as `[1, 0]`, or a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgAttribute {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The name, for example `alpha`.
    pub name: NgText,
    /// The value, for example `0.2`.
    pub value: NgText,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgOp {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The name, for example `SpMM_Mean`.
    pub name: NgText,
    /// `attribute_count` attributes, sorted by name.
    pub attributes: *const *const NgAttribute,
    /// The number of attributes.
    pub attribute_count: u32,
    /// Reserved; must be 0.
    pub reserved: u32,
}

/// The argument of [`NgQuery`] and [`NgRun`]. All of it is valid until they return.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgCall {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The operation.
    pub op: *const NgOp,
    /// `input_count` tensors.
    pub inputs: *const *const NgView,
    /// `output_count` tensors.
    pub outputs: *const *mut NgViewMut,
    /// The number of inputs.
    pub input_count: u32,
    /// The number of outputs.
    pub output_count: u32,
    /// Scratch memory of the size that the query returned. It has the alignment of the kernel, at
    /// least 64.
    pub scratch: *mut c_void,
    /// The number of bytes of scratch memory.
    pub scratch_bytes: u64,
    /// The buffer for an error text.
    pub error: *mut NgError,
    /// The number of threads that a run may use, including its own; at least 1.
    pub threads: u32,
    /// Reserved; must be 0.
    pub reserved: u32,
}

/// Returns the bytes of scratch memory that a run needs for these shapes.
pub type NgQuery = unsafe extern "C" fn(*mut c_void, *const NgCall, *mut u64) -> i32;

/// Fills the outputs.
pub type NgRun = unsafe extern "C" fn(*mut c_void, *const NgCall) -> i32;

/// A device and its priority.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgDevice {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// Its name.
    pub name: NgText,
    /// The kernel of the device with the highest priority is chosen; `cpu-scalar` has 0.
    pub priority: i32,
    /// Reserved; must be 0.
    pub reserved: u32,
}

/// A kernel for an operation on a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgKernel {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The operation's name.
    pub op: NgText,
    /// The device's name.
    pub device: NgText,
    /// [`NG_TRAIT_THREAD_SAFE`] and others.
    pub traits: u64,
    /// A bit (`1 << dtype`) for each dtype that its inputs may have.
    pub dtypes: u32,
    /// The alignment of data and scratch memory in bytes: a power of two up to 4096.
    pub alignment: u32,
    /// A pointer that is passed to `query` and `run` unchanged.
    pub state: *mut c_void,
    /// The function that returns the size of the scratch memory.
    pub query: Option<NgQuery>,
    /// The function that computes the operation.
    pub run: Option<NgRun>,
}

/// The target of registrations. Its content is private to the host.
#[derive(Debug)]
#[repr(C)]
pub struct NgRegistry {
    hidden: [u8; 0],
}

/// HolisticGNN's `RegisterDevice`.
pub type NgRegisterDevice = unsafe extern "C" fn(*mut NgRegistry, *const NgDevice) -> i32;

/// HolisticGNN's `RegisterOpDefinition`.
pub type NgRegisterOpDefinition = unsafe extern "C" fn(*mut NgRegistry, *const NgKernel) -> i32;

/// The host's functions, version 1. They copy their arguments.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgApi {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// Adds a device, or changes its priority.
    pub register_device: NgRegisterDevice,
    /// Adds a kernel for a registered device.
    pub register_op_definition: NgRegisterOpDefinition,
}

/// The table of a version, or null if the host does not have it.
pub type NgGetApi = unsafe extern "C" fn(u32) -> *const NgApi;

/// The argument of `ng_plugin_v1`. It is valid until the function returns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgHost {
    /// The size of this struct in bytes.
    pub struct_size: u64,
    /// The host's functions.
    pub get_api: NgGetApi,
    /// The first argument of these functions.
    pub registry: *mut NgRegistry,
    /// The buffer for an error text.
    pub error: *mut NgError,
}

/// The description of the plug-in, filled in by `ng_plugin_v1`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgPlugin {
    /// The size of this struct in bytes. The host sets it.
    pub struct_size: u64,
    /// The version that the plug-in requested from `get_api`.
    pub api_version: u32,
    /// Reserved; must be 0.
    pub reserved: u32,
    /// Its name.
    pub name: NgText,
    /// Its version.
    pub version: NgText,
}

/// The type of `ng_plugin_v1`.
pub type NgEntry = unsafe extern "C" fn(*const NgHost, *mut NgPlugin) -> i32;
