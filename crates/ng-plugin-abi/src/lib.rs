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

/// The call did what it should.
pub const NG_OK: i32 = 0;
/// The call failed; the text of [`NgError`] says why.
pub const NG_FAILED: i32 = 1;
/// The kernel does not do this operation for such shapes, dtypes or attributes. Only a query may
/// say so.
pub const NG_NOT_SERVED: i32 = 2;
/// The elements do not fit, for example an index is out of range.
pub const NG_MISFIT: i32 = 3;

/// Elements in single precision.
pub const NG_F32: u32 = 0;
/// Elements that are whole numbers.
pub const NG_I64: u32 = 1;
/// Elements that are flags, of one byte each.
pub const NG_BOOL: u32 = 2;

/// Elements are in the memory of the processor.
pub const NG_CPU: u32 = 0;

/// Several threads may call the kernel at once.
pub const NG_TRAIT_THREAD_SAFE: u64 = 1;
/// The same inputs give the same bytes, whatever the number of threads is.
pub const NG_TRAIT_DETERMINISTIC: u64 = 2;

/// UTF-8 text.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgText {
    /// The first byte.
    pub data: *const c_char,
    /// How many bytes there are.
    pub len: u64,
}

/// Room for the text of an error. The host owns it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgError {
    /// Of this struct.
    pub struct_size: u64,
    /// The first byte.
    pub data: *mut c_char,
    /// How many bytes there is room for.
    pub capacity: u64,
    /// How many bytes the plug-in wrote; at most `capacity`.
    pub len: u64,
}

/// A tensor to read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgView {
    /// Of this struct.
    pub struct_size: u64,
    /// The elements; null in a query.
    pub data: *const c_void,
    /// `rank` lengths.
    pub dims: *const i64,
    /// For each axis the distance of two neighbours, in elements.
    pub strides: *const i64,
    /// How many axes there are.
    pub rank: u32,
    /// Of the elements: [`NG_F32`] and others.
    pub dtype: u32,
    /// Where the elements are: [`NG_CPU`].
    pub device: u32,
    /// 0.
    pub reserved: u32,
}

/// A tensor to fill. The host owns the memory; what is in it before has no meaning.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgViewMut {
    /// Of this struct.
    pub struct_size: u64,
    /// The elements; null in a query.
    pub data: *mut c_void,
    /// `rank` lengths.
    pub dims: *const i64,
    /// For each axis the distance of two neighbours, in elements.
    pub strides: *const i64,
    /// How many axes there are.
    pub rank: u32,
    /// Of the elements: [`NG_F32`] and others.
    pub dtype: u32,
    /// Where the elements are: [`NG_CPU`].
    pub device: u32,
    /// 0.
    pub reserved: u32,
}

/// An attribute in its text form: a number, a list such as `[1, 0]`, or a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgAttribute {
    /// Of this struct.
    pub struct_size: u64,
    /// Such as `alpha`.
    pub name: NgText,
    /// Such as `0.2`.
    pub value: NgText,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgOp {
    /// Of this struct.
    pub struct_size: u64,
    /// Such as `SpMM_Mean`.
    pub name: NgText,
    /// `attribute_count` attributes in the order of their names.
    pub attributes: *const *const NgAttribute,
    /// How many there are.
    pub attribute_count: u32,
    /// 0.
    pub reserved: u32,
}

/// What [`NgQuery`] and [`NgRun`] are given. All of it is valid until they return.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgCall {
    /// Of this struct.
    pub struct_size: u64,
    /// What is done.
    pub op: *const NgOp,
    /// `input_count` tensors.
    pub inputs: *const *const NgView,
    /// `output_count` tensors.
    pub outputs: *const *mut NgViewMut,
    /// How many inputs there are.
    pub input_count: u32,
    /// How many outputs there are.
    pub output_count: u32,
    /// As many bytes as the query asked for, aligned as the kernel asks, at least to 64.
    pub scratch: *mut c_void,
    /// How many there are.
    pub scratch_bytes: u64,
    /// Room for a text.
    pub error: *mut NgError,
    /// How many threads a run may keep busy, its own included; at least 1.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
}

/// How many bytes of scratch memory a run needs for such shapes.
pub type NgQuery = unsafe extern "C" fn(*mut c_void, *const NgCall, *mut u64) -> i32;

/// Fills the outputs.
pub type NgRun = unsafe extern "C" fn(*mut c_void, *const NgCall) -> i32;

/// A device and how much it is preferred.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgDevice {
    /// Of this struct.
    pub struct_size: u64,
    /// Its name.
    pub name: NgText,
    /// The kernel of the device with the highest priority is chosen; `cpu-scalar` has 0.
    pub priority: i32,
    /// 0.
    pub reserved: u32,
}

/// A kernel for an operation on a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgKernel {
    /// Of this struct.
    pub struct_size: u64,
    /// The operation's name.
    pub op: NgText,
    /// The device's name.
    pub device: NgText,
    /// [`NG_TRAIT_THREAD_SAFE`] and others.
    pub traits: u64,
    /// A bit (`1 << dtype`) for each dtype that its inputs may have.
    pub dtypes: u32,
    /// Of data and scratch, in bytes: a power of two up to 4096.
    pub alignment: u32,
    /// Handed to `query` and `run` as it is.
    pub state: *mut c_void,
    /// How much scratch memory it needs.
    pub query: Option<NgQuery>,
    /// What computes it.
    pub run: Option<NgRun>,
}

/// Where registrations go; only the host knows what is in it.
#[derive(Debug)]
#[repr(C)]
pub struct NgRegistry {
    hidden: [u8; 0],
}

/// HolisticGNN's `RegisterDevice`.
pub type NgRegisterDevice = unsafe extern "C" fn(*mut NgRegistry, *const NgDevice) -> i32;

/// HolisticGNN's `RegisterOpDefinition`.
pub type NgRegisterOpDefinition = unsafe extern "C" fn(*mut NgRegistry, *const NgKernel) -> i32;

/// The host's functions, version 1. They copy what they are given.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgApi {
    /// Of this struct.
    pub struct_size: u64,
    /// Adds a device, or gives it another priority.
    pub register_device: NgRegisterDevice,
    /// Adds a kernel of a device that is registered.
    pub register_op_definition: NgRegisterOpDefinition,
}

/// The table of a version, or null if the host does not have it.
pub type NgGetApi = unsafe extern "C" fn(u32) -> *const NgApi;

/// What `ng_plugin_v1` is given; valid until it returns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgHost {
    /// Of this struct.
    pub struct_size: u64,
    /// The host's functions.
    pub get_api: NgGetApi,
    /// The first argument of those.
    pub registry: *mut NgRegistry,
    /// Room for a text.
    pub error: *mut NgError,
}

/// What the plug-in says of itself.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NgPlugin {
    /// Of this struct; the host sets it to what it has room for.
    pub struct_size: u64,
    /// The version that the plug-in asked `get_api` for.
    pub api_version: u32,
    /// 0.
    pub reserved: u32,
    /// Its name.
    pub name: NgText,
    /// Its version.
    pub version: NgText,
}

/// The type of `ng_plugin_v1`.
pub type NgEntry = unsafe extern "C" fn(*const NgHost, *mut NgPlugin) -> i32;
