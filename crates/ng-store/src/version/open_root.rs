//! Choosing the root: the newest valid slot, or a clear reason why there is none.

use std::time::Duration;

use crate::catalog::Catalog;
use crate::error::OpenError;
use crate::io::{BLOCK_BYTES, ReadError, Reader};
use crate::version::root::{FORMAT_VERSION, RootHeader, SLOTS, decode_body, fingerprint};

/// What a slot file turned out to be.
pub(crate) enum Slot {
    /// No such file.
    Absent,
    /// Not readable, and why.
    Damaged(String),
    /// Of a version that this release does not know.
    Newer(u32),
    /// Good.
    Valid(Box<ValidSlot>),
}

pub(crate) struct ValidSlot {
    pub header: RootHeader,
    pub catalog: Catalog,
    /// The whole slot.
    pub bytes: Vec<u8>,
}

/// The root that an open store works from.
pub(crate) struct OpenRoot {
    pub catalog: Catalog,
    pub checkpoint_id: u64,
    pub lsn: u64,
    pub fingerprint: u64,
}

/// Reads one slot.
pub(crate) fn read_slot(reader: &Reader, name: &str) -> Slot {
    let file = match reader.open(name) {
        Ok(file) => file,
        Err(error) => {
            let is_absent = matches!(&error, ReadError::Open { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound);
            return if is_absent { Slot::Absent } else { Slot::Damaged(error.to_string()) };
        }
    };
    let mut bytes = match reader.read_at(file, 0, BLOCK_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => return Slot::Damaged(error.to_string()),
    };
    let header = match RootHeader::decode(&bytes) {
        Ok(header) => header,
        Err(damage) => return Slot::Damaged(damage.to_string()),
    };
    if header.version > FORMAT_VERSION {
        return Slot::Newer(header.version);
    }
    let body_bytes = (header.file_bytes() - BLOCK_BYTES as u64) as usize;
    match reader.read_at(file, BLOCK_BYTES as u64, body_bytes) {
        Ok(body) => bytes.extend(body),
        Err(error) => return Slot::Damaged(error.to_string()),
    }
    match decode_body(&header, &bytes[BLOCK_BYTES..]) {
        Ok(catalog) => Slot::Valid(Box::new(ValidSlot { header, catalog, bytes })),
        Err(damage) => Slot::Damaged(damage.to_string()),
    }
}

/// The root of the store at `path` (for messages).
pub(crate) fn open_root(reader: &Reader, path: &str) -> Result<OpenRoot, OpenError> {
    let ValidSlot { header, catalog, bytes } = *open_slot(reader, path)?;
    let (checkpoint_id, lsn) = (header.checkpoint_id, header.lsn);
    let fingerprint = fingerprint_of(lsn, &catalog, &bytes);
    Ok(OpenRoot { catalog, checkpoint_id, lsn, fingerprint })
}

/// The fingerprint of the store whose root has these bytes.
pub(crate) fn fingerprint_of(lsn: u64, catalog: &Catalog, bytes: &[u8]) -> u64 {
    // The log tells content apart once there is one, so a checkpoint keeps the number.
    match catalog.log {
        Some(log) if lsn > 0 => log.chain,
        _ => fingerprint(bytes),
    }
}

/// Slots are read so often before both are taken for damaged.
const TRIES_MAX: u32 = 5;

/// Picks the newest valid slot. A writer in another process may write to one slot while it is read
/// and to the other right after, so a moment later at least one is whole.
pub(crate) fn open_slot(reader: &Reader, path: &str) -> Result<Box<ValidSlot>, OpenError> {
    for _ in 1..TRIES_MAX {
        match choose_slot(reader, path) {
            Err(OpenError::RootsDamaged { .. }) => std::thread::sleep(Duration::from_millis(1)),
            chosen => return chosen,
        }
    }
    choose_slot(reader, path)
}

fn choose_slot(reader: &Reader, path: &str) -> Result<Box<ValidSlot>, OpenError> {
    let path = || path.to_owned();
    let describe = |slot: &Slot| match slot {
        Slot::Damaged(what) => what.clone(),
        _ => "missing".to_owned(),
    };
    let [a, b] = SLOTS.map(|name| read_slot(reader, name));
    let newer = [&a, &b].into_iter().filter_map(|slot| match slot {
        Slot::Newer(version) => Some(*version),
        _ => None,
    });
    if let Some(found) = newer.max() {
        return Err(OpenError::NewerVersion { path: path(), found, supported: FORMAT_VERSION });
    }
    match (a, b) {
        (Slot::Valid(a), Slot::Valid(b)) => {
            match a.header.checkpoint_id.cmp(&b.header.checkpoint_id) {
                std::cmp::Ordering::Equal if a.header != b.header || a.catalog != b.catalog => {
                    let checkpoint_id = a.header.checkpoint_id;
                    Err(OpenError::RootsDisagree { path: path(), checkpoint_id })
                }
                std::cmp::Ordering::Less => Ok(b),
                _ => Ok(a),
            }
        }
        (Slot::Valid(slot), _) | (_, Slot::Valid(slot)) => Ok(slot),
        (Slot::Absent, Slot::Absent) => Err(OpenError::NotAStore { path: path() }),
        (a, b) => {
            let (a, b) = (describe(&a), describe(&b));
            Err(OpenError::RootsDamaged { path: path(), a, b })
        }
    }
}
