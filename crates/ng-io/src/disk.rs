//! The one seam between the engine and storage: trait [`Disk`].
//!
//! A back end moves bytes and reports what the device said, short transfers and errors included;
//! it never retries, never interprets, never caches. Retrying, alignment and accounting live in
//! [`crate::Reader`] alone, so that a fault injected here is handled by the code that runs in
//! production.

use std::io;

use crate::locks::Lock;

/// Offsets, lengths and buffers of every read are multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// The longest single read that the engine requests.
pub const READ_BYTES_MAX: usize = 256 * 1024;

/// An open file of one [`Disk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    ReadWrite,
    /// For reading and writing; it must not exist.
    Create,
}

/// One read of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOp {
    /// A tag that is returned with the completion. Its content has no meaning to the engine.
    pub tag: u64,
    /// The file.
    pub file: FileId,
    /// Where to read; a multiple of [`BLOCK_BYTES`].
    pub offset: u64,
    /// How much; a multiple of [`BLOCK_BYTES`], at most [`READ_BYTES_MAX`].
    pub len: u32,
}

/// Returns the next read, or `None` if there is none at the moment. A back end calls it again after
/// every completion, so a completion may create new reads.
pub type NextRead<'a> = dyn FnMut() -> Option<ReadOp> + 'a;

/// Takes a completion: the bytes that arrived (fewer than asked on a short read, none at the end of
/// the file) or the device's error. The bytes are only lent.
pub type ReadDone<'a> = dyn FnMut(ReadOp, io::Result<&[u8]>) + 'a;

/// A directory of files and the means to read and write them.
///
/// Names are relative to the directory. All methods may be called from several threads at once.
pub trait Disk: Send + Sync {
    /// Which back end this is, for reports: `memory`, `mmap`, `pread`, `odirect`, `uring`, ...
    fn backend(&self) -> &'static str;

    /// Opens a file. One that is open already may keep its id.
    fn open(&self, name: &str, access: Access) -> io::Result<FileId>;

    /// The length of a file in bytes.
    fn len(&self, file: FileId) -> io::Result<u64>;

    /// Runs reads until `next` returns `None` and no read is in flight. Completions come in any
    /// order, on the calling thread. An `Err` means that the queue itself failed; an error of a
    /// single read goes to `done`.
    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()>;

    /// Writes at `offset` and says how much was written, which may be less than given.
    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Reserves space so that later writes below `len` cannot fail for want of it.
    fn allocate(&self, file: FileId, len: u64) -> io::Result<()>;

    /// Makes everything written to the file durable.
    fn sync(&self, file: FileId) -> io::Result<()>;

    /// Says that nobody reads soon what was written to the file below `end`: it may leave the page
    /// cache as soon as it is on the device. A hint, which a back end may ignore.
    fn leave_cache(&self, file: FileId, end: u64) {
        let _ = (file, end);
    }

    /// Makes creations, renames and removals in the directory durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Renames a file inside the directory, replacing the target.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of the files in the directory, sorted.
    fn list(&self) -> io::Result<Vec<String>>;

    /// The right to write to this directory, which one disk has at a time; `None` if somebody has
    /// it. It ends when the guard is dropped or the process dies.
    ///
    /// # Errors
    /// Of kind `StaleNetworkFileHandle` if the path no longer leads to the directory that was
    /// opened, because it was replaced: then it has to be opened again.
    fn lock_writer(&self) -> io::Result<Option<Lock>>;

    /// Keeps everybody from becoming the writer until the guard is dropped, for a moment in which
    /// files must not change though this process may not write to them; `None` if somebody is the
    /// writer. Where there is no file to lock, there never was one.
    fn hold_off_writer(&self) -> io::Result<Option<Lock>>;

    /// Tells every other process that `checkpoint_id` (1 and up) is being read, until the guard is
    /// dropped or the process dies. Pins are counted. `None` where there is no file to lock and
    /// none can be created: a place that is read-only or full.
    fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>>;

    /// Whether anybody else has pinned a checkpoint below `checkpoint_id`. The pins of this very
    /// disk do not count.
    fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool>;
}
