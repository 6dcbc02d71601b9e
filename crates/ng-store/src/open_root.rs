//! Choosing the root: the newest valid slot, or a clear reason why there is none.

use crate::catalog::Catalog;
use crate::error::OpenError;
use crate::io::{BLOCK_BYTES, ReadError, Reader};
use crate::root::{FORMAT_VERSION, RootHeader, SLOTS, decode_body, fingerprint};

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
    pub epoch: u64,
    pub fingerprint: u64,
}

/// Reads one slot.
pub(crate) fn read_slot(reader: &Reader, name: &str) -> Slot {
    let file = match reader.open(name) {
        Ok(file) => file,
        Err(ReadError::Open { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Slot::Absent;
        }
        Err(error) => return Slot::Damaged(error.to_string()),
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
    match decode_body(&header, bytes.get(BLOCK_BYTES..).unwrap_or_default()) {
        Ok(catalog) => Slot::Valid(Box::new(ValidSlot { header, catalog, bytes })),
        Err(damage) => Slot::Damaged(damage.to_string()),
    }
}

/// Picks the newest valid slot of the store at `path` (for messages).
pub(crate) fn open_root(reader: &Reader, path: &str) -> Result<OpenRoot, OpenError> {
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
    let chosen = match (a, b) {
        (Slot::Valid(a), Slot::Valid(b)) => match a.header.epoch.cmp(&b.header.epoch) {
            std::cmp::Ordering::Equal if a.header != b.header || a.catalog != b.catalog => {
                let epoch = a.header.epoch;
                return Err(OpenError::RootsDisagree { path: path(), epoch });
            }
            std::cmp::Ordering::Less => b,
            _ => a,
        },
        (Slot::Valid(slot), _) | (_, Slot::Valid(slot)) => slot,
        (Slot::Absent, Slot::Absent) => return Err(OpenError::NotAStore { path: path() }),
        (a, b) => {
            let (a, b) = (describe(&a), describe(&b));
            return Err(OpenError::RootsDamaged { path: path(), a, b });
        }
    };
    let print = fingerprint(&chosen.bytes);
    let (epoch, catalog) = (chosen.header.epoch, chosen.catalog);
    Ok(OpenRoot { catalog, epoch, fingerprint: print })
}
