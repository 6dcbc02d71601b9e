//! Why a plug-in is refused. Each variant is of another stage, and the stages come in this order.

use std::io;
use std::path::PathBuf;

use ng_types::explain;
use thiserror::Error;

/// Why a plug-in is refused. Nothing of it is registered then.
#[derive(Debug, Error)]
pub enum PluginError {
    /// An entry of the allow-list is not a SHA-256.
    #[error(
        "entry {entry:?} of the allow-list is not a valid SHA-256: expected 64 hexadecimal digits"
    )]
    AllowList {
        /// The entry.
        entry: String,
    },
    /// The file cannot be read.
    #[error("plug-in {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Users other than its owner can change the file, or it is not a regular file.
    #[error("plug-in {}: {problem}", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// What is unsafe.
        problem: String,
    },
    /// The file is not in the allow-list.
    #[error(
        "plug-in {}: its SHA-256 {sha256} is not in the allow-list; add this hash if you trust \
         the file",
        path.display()
    )]
    NotAllowed {
        /// The file.
        path: PathBuf,
        /// The hash of the file.
        sha256: String,
    },
    /// The file is not a shared object for this machine.
    #[error("plug-in {}: {problem}", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// What it is.
        problem: String,
    },
    /// The process that tries the plug-in cannot be started.
    #[error("plug-in {}: cannot start the process for its trial: {source}", path.display())]
    NoProbe {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It failed its trial in a separate process.
    #[error("plug-in {} failed its trial in a separate process: {problem}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// It passed its trial but behaves differently here.
    #[error("plug-in {}: {problem}", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A device of this name is registered by another plug-in.
    #[error(
        "plug-in {}: its device {device:?} is already registered by {owner}; give the device \
         another name",
        path.display()
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// The device.
        device: String,
        /// The owner of that device.
        owner: String,
    },
}

explain! {
    PluginError {
        AllowList => UnsupportedArgument,
        Unreadable => IoFailed,
        Unsafe | NotAllowed | NotAPlugin | NoProbe | Failed | Changed | Taken => PluginRefused,
    }
}
