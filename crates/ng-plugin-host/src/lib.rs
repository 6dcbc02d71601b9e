//! The host of plug-ins: shared objects that bring devices and kernels
//! (`docs/reference/plugin-abi.md`).
//!
//! - [`Plugin`]: a file is checked against an [`AllowList`], tried in another process by a
//!   [`Probe`], and only then loaded; nothing is ever unloaded;
//! - [`run_probe`]: what that other process does;
//! - [`Program`]: the accelerator that graphs run on, a [`Bundle`] that is swapped while they run;
//! - [`OnnxRuntime`]: runs whole models, as a second opinion.
//!
//! What must not live here: what an operation means, which the reference device knows. The
//! invariant: a plug-in that crashes, hangs, writes out of shape or computes wrongly does so in the
//! other process, and is an error here.

mod bundle;
mod call;
mod cases;
mod cores;
mod error;
mod file;
mod kernel;
mod library;
mod load;
mod onnxruntime;
mod probe;
mod program;
mod register;
mod structs;

pub use bundle::Bundle;
pub use error::PluginError;
pub use file::{AllowList, bytes_of, digest};
pub use load::{KernelInfo, Plugin};
pub use onnxruntime::{OnnxRuntime, OnnxRuntimeError, Session};
pub use probe::{Probe, run_probe};
pub use program::{Program, ProgramError};
