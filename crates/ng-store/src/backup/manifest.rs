//! `backup.json`: what a backup holds, and what it was made on.

use ng_types::checksum;
use serde::{Deserialize, Serialize};

use crate::error::Damage;
use crate::io::BLOCK_BYTES;

/// The version that this release writes, and the newest that it reads.
pub(super) const BACKUP_VERSION: u32 = 1;
/// File names of a backup.
pub(super) const MANIFEST: &str = "backup.json";
pub(super) const ROOT: &str = "root";
pub(super) const TABLES: &str = "tables";
pub(super) const PAGES: &str = "pages";

const BEFORE_SUM: &str = "{\"crc32c\":\"";
const AFTER_SUM: &str = "\",";
/// Bytes before those that the checksum covers.
const UNCOVERED: usize = BEFORE_SUM.len() + 8 + AFTER_SUM.len();

/// Which version of a store a backup holds. Its root leads to the checksums of everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    #[serde(alias = "epoch")]
    pub checkpoint_id: u64,
    pub lsn: u64,
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Of the file `root`.
    pub root_crc32c: u32,
}

impl Identity {
    /// How `other` differs.
    pub fn compare(&self, other: &Self) -> String {
        let describe = |of: &Self| {
            let Self { checkpoint_id, lsn, fingerprint, root_crc32c } = of;
            format!(
                "checkpoint {checkpoint_id}, commit {lsn}, fingerprint {fingerprint}, \
                 root {root_crc32c:#x}"
            )
        };
        format!("found {}, expected {}", describe(other), describe(self))
    }
}

/// The backup whose pages are not repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BaseOf {
    /// Its name, in the directory that holds both.
    pub name: String,
    pub snapshot: Identity,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub version: u32,
    pub snapshot: Identity,
    pub base: Option<BaseOf>,
    pub root_bytes: u64,
    pub tables_bytes: u64,
    pub pages_bytes: u64,
}

/// What every version has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// What the bytes of the file turned out to be.
pub(super) enum Decoded {
    Known(Manifest),
    Newer(u32),
}

impl Manifest {
    /// The bytes of the file: JSON, with spaces up to whole blocks.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        // What stands before the checksum takes the place of the first brace.
        let mut rest = serde_json::to_vec(self)?.split_off(1);
        let padded = (UNCOVERED + rest.len()).next_multiple_of(BLOCK_BYTES);
        rest.resize(padded - UNCOVERED, b' ');
        let sum = checksum::of(&rest);
        let mut bytes = format!("{BEFORE_SUM}{sum:08x}{AFTER_SUM}").into_bytes();
        bytes.extend(rest);
        Ok(bytes)
    }

    /// Types the bytes of the file.
    pub fn decode(bytes: &[u8]) -> Result<Decoded, Damage> {
        let too_short = || Damage::new("the file is too short");
        let (head, rest) = bytes.split_at_checked(UNCOVERED).ok_or_else(too_short)?;
        let wanted = format!("{BEFORE_SUM}{:08x}{AFTER_SUM}", checksum::of(rest));
        if head != wanted.as_bytes() {
            return Err(Damage::new("the checksum of the file is wrong"));
        }
        let mut json = b"{".to_vec();
        json.extend_from_slice(rest);
        let wrong =
            |error: serde_json::Error| Damage::new(format!("the file cannot be read: {error}"));
        let AnyVersion { version } = serde_json::from_slice(&json).map_err(wrong)?;
        if version > BACKUP_VERSION {
            return Ok(Decoded::Newer(version));
        }
        serde_json::from_slice(&json).map(Decoded::Known).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_byte_of_a_manifest_is_seen_and_a_newer_version_is_told() {
        let snapshot = Identity {
            checkpoint_id: 7,
            lsn: 40,
            fingerprint: "00000000000000ff".into(),
            root_crc32c: 9,
        };
        let base = Some(BaseOf { name: "mon\u{e9}".into(), snapshot: snapshot.clone() });
        let (root_bytes, tables_bytes, pages_bytes) = (8192, 4096, 0);
        let mut manifest =
            Manifest { version: 1, snapshot, base, root_bytes, tables_bytes, pages_bytes };
        let bytes = manifest.encode().expect("encoded");
        assert_eq!(bytes.len() % BLOCK_BYTES, 0);
        let json: serde_json::Value = serde_json::from_slice(&bytes).expect("valid JSON");
        assert_eq!(json["snapshot"]["lsn"], 40);
        let Ok(Decoded::Known(found)) = Manifest::decode(&bytes) else { panic!("not read") };
        assert_eq!(found, manifest);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Manifest::decode(&damaged).is_err(), "byte {at}");
        }
        manifest.version = 2;
        let bytes = manifest.encode().expect("encoded");
        assert!(matches!(Manifest::decode(&bytes), Ok(Decoded::Newer(2))));
    }
}
