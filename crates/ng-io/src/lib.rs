//! The only crate that opens, reads, writes or syncs data files.
//!
//! What lives here: trait [`Disk`] and its back ends, staging frames, the [`Reader`] that retries
//! and accounts, the [`Appender`] of new files, the [`Writer`] in place, locks, and the files
//! around an import. What must not: page formats, caches, policy. The invariants: every read of the
//! engine passes [`Reader`], so every one is whole, or an error that names its place, and is
//! counted; after a failed write or sync a file is written to no more.

mod append;
mod arena;
mod backend;
pub mod calls;
mod directory;
mod disk;
mod error;
pub mod fuzzing;
mod gauge;
mod kept;
mod listing;
mod load;
mod locks;
mod named_dir;
mod open;
mod os;
mod queue;
mod reader;
mod retry;
mod scratch;
mod settings;
mod shm;
mod source;
mod space;
mod staging_dir;
mod stats;
mod writer;

pub use append::Appender;
pub use directory::hold_off_writer;
pub use disk::{Access, BLOCK_BYTES, Disk, FileId, NextRead, READ_BYTES_MAX, ReadDone, ReadOp};
pub use error::{OpenError, ReadError, WriteError};
pub use gauge::{DependentReads, Gauge};
pub use kept::{FolderLock, ensure_folder, keep_privately, remove_folder, replace_file};
pub use listing::names_in;
pub use load::{LoadError, Loaded, load_file};
pub use locks::Lock;
pub use named_dir::NamedDir;
pub use open::{
    BackendChoice, Finding, OpenOptions, Opened, ProbeReport, open_dir, open_named, probe,
};
pub use os::anon_map::{AnonMap, vec_in_huge_pages};
pub use os::cache_file::{CacheFile, device_name};
pub use os::filling::FillingRegion;
pub use os::load::{cpu_time, device_reads};
pub use os::machine::{
    MemoryLimit, memory_limit, peak_rss_bytes, ram_bytes, trim_allocator, usable_memory_bytes,
};
pub use os::usage::{ProcessUse, process_use};
pub use reader::{Reader, WholeRead};
pub use retry::past_signals;
pub use scratch::{ScratchError, ScratchFile, ScratchReader};
pub use settings::{Stamp, private_file, small_file, stamp_of};
pub use shm::{
    Refusal, ShmCloser, ShmConnection, ShmError, ShmFrame, ShmListener, ShmOptions, ShmPeer,
    ShmReceiver, ShmSender, SocketError, SocketFile, listen_at,
};
pub use source::{SourceError, SourceFile, SourceReader};
pub use space::free_bytes;
pub use staging_dir::{Existing, StagingDir, StagingError};
pub use stats::{IoCounts, IoStats, WriteCounts, WriteStats};
pub use writer::Writer;
