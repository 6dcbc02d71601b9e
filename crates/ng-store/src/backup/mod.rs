//! Backups of a store that is in use (`docs/how-to/backup.md`): copies of one checkpoint, of all
//! pages or of those that are newer than another backup, and the way back.
//!
//! What must not live here: how pages are written to a store. The invariant: no byte of a page
//! gets into a backup, or out of one, that does not match the checksum in the page table.

mod create;
mod error;
mod manifest;
mod member;
mod part;
mod restore;
mod table;

pub use create::{BackupReport, backup};
pub use error::BackupError;
pub use member::is_backup;
pub use restore::{RestoreReport, restore, verify_backup};
