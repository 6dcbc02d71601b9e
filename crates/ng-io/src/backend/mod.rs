//! The back ends. Each moves bytes and reports what the device said; none retries or interprets.

/// The part of [`crate::Disk`] that is the same in every real back end: a `directory` field does
/// it.
macro_rules! write_side_in_directory {
    () => {
        fn len(&self, file: crate::FileId) -> std::io::Result<u64> {
            self.directory.len(file)
        }

        fn allocate(&self, file: crate::FileId, len: u64) -> std::io::Result<()> {
            self.directory.allocate(file, len)
        }

        fn sync(&self, file: crate::FileId) -> std::io::Result<()> {
            self.directory.sync(file)
        }

        fn leave_cache(&self, file: crate::FileId, end: u64) {
            self.directory.leave_cache(file, end);
        }

        fn sync_dir(&self) -> std::io::Result<()> {
            self.directory.sync_dir()
        }

        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.directory.rename(from, to)
        }

        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.directory.remove(name)
        }

        fn list(&self) -> std::io::Result<Vec<String>> {
            self.directory.list()
        }

        fn lock_writer(&self) -> std::io::Result<Option<crate::Lock>> {
            self.directory.lock_writer()
        }

        fn hold_off_writer(&self) -> std::io::Result<Option<crate::Lock>> {
            self.directory.hold_off_writer()
        }

        fn pin(&self, checkpoint_id: u64) -> std::io::Result<Option<crate::Lock>> {
            self.directory.pin(checkpoint_id)
        }

        fn is_pinned_below(&self, checkpoint_id: u64) -> std::io::Result<bool> {
            self.directory.is_pinned_below(checkpoint_id)
        }
    };
}

mod memory;
mod mmap;
mod parking;
mod pool;
mod ring;
mod uring;
mod workers;

pub(crate) use memory::MemoryDisk;
pub(crate) use mmap::MmapDisk;
pub(crate) use pool::PoolDisk;
pub(crate) use ring::{Registration, Ring};
pub(crate) use uring::UringDisk;
