//! Root slots `root.a` and `root.b`: a checksummed header block and the catalog as JSON.
//!
//! Both slots hold the same bytes after a commit. The header's first 48 bytes mean the same in
//! every version of the format, so that an old release can say that a store is too new.

use ng_types::checksum;

use crate::bytes::{ensure, is_zero, le_u32, le_u64, put};
use crate::catalog::Catalog;
use crate::error::{BuildError, Damage};
use crate::io::BLOCK_BYTES;
use crate::limits::CATALOG_BYTES_MAX;

/// Newest format version that this release reads. It writes the oldest one that can hold what the
/// store holds, see [`Catalog::format_version`].
pub const FORMAT_VERSION: u32 = 5;
/// The checkpoint that an import writes.
pub(crate) const FIRST_CHECKPOINT: u32 = 1;
/// File names of the slots.
pub(crate) const SLOTS: [&str; 2] = ["root.a", "root.b"];

const MAGIC: [u8; 8] = *b"NGRAPH\0\0";
const CHECKED_BYTES: usize = 44;

/// What a slot's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RootHeader {
    pub version: u32,
    pub body_bytes: u64,
    pub checkpoint_id: u64,
    pub lsn: u64,
    pub body_crc: u32,
}

impl RootHeader {
    /// Types the header block. A newer version is no damage: the caller looks at `version`.
    pub fn decode(block: &[u8]) -> Result<Self, Damage> {
        ensure(block.len() == BLOCK_BYTES, || "shorter than a header block".into())?;
        ensure(block.starts_with(&MAGIC), || "wrong magic bytes".into())?;
        ensure(checksum::is_sealed(block, 0..CHECKED_BYTES, CHECKED_BYTES), || {
            "the header checksum is wrong".into()
        })?;
        let header = Self {
            version: le_u32(block, 8),
            body_bytes: le_u64(block, 16),
            checkpoint_id: le_u64(block, 24),
            lsn: le_u64(block, 32),
            body_crc: le_u32(block, 40),
        };
        if header.version <= FORMAT_VERSION {
            ensure(le_u32(block, 12) as usize == BLOCK_BYTES, || "wrong header length".into())?;
            ensure(header.body_bytes <= CATALOG_BYTES_MAX, || {
                format!("a catalog of {} bytes is too long", header.body_bytes)
            })?;
        }
        Ok(header)
    }

    /// Whether all bytes that mean nothing are 0, for verify.
    pub fn check_padding(block: &[u8]) -> Result<(), Damage> {
        let rest = &block[CHECKED_BYTES + 4..];
        ensure(is_zero(rest), || "the header padding is not 0".into())
    }

    /// Blocks of a whole slot file.
    pub fn file_bytes(&self) -> u64 {
        let block = BLOCK_BYTES as u64;
        block + self.body_bytes.div_ceil(block) * block
    }
}

/// Makes the bytes of a slot that mean nothing 0, which no checksum covers.
pub(crate) fn clear_padding(header: &RootHeader, slot: &mut [u8]) {
    let body_end = BLOCK_BYTES.saturating_add(header.body_bytes as usize).min(slot.len());
    let (used, rest) = slot.split_at_mut(body_end);
    rest.fill(0);
    used[CHECKED_BYTES + 4..BLOCK_BYTES].fill(0);
}

/// Types the body of a slot (with its padding) under its header.
pub(crate) fn decode_body(header: &RootHeader, padded: &[u8]) -> Result<Catalog, Damage> {
    let body = usize::try_from(header.body_bytes).ok().and_then(|len| padded.get(..len));
    let body = body.ok_or_else(|| Damage::new("the catalog is truncated"))?;
    ensure(checksum::of(body) == header.body_crc, || "the catalog checksum is wrong".into())?;
    let catalog: Catalog = serde_json::from_slice(body)
        .map_err(|error| Damage::new(format!("the catalog cannot be read: {error}")))?;
    catalog.check()?;
    let needed = catalog.format_version();
    ensure(header.version >= needed, || {
        format!("the catalog has version {needed}, but the header has version {}", header.version)
    })?;
    ensure(header.version == 0 || catalog.log.is_some(), || {
        format!("the catalog has no log, but the header has version {}", header.version)
    })?;
    Ok(catalog)
}

/// Encodes a slot; both get the same bytes.
pub(crate) fn encode(
    catalog: &Catalog,
    checkpoint_id: u64,
    lsn: u64,
) -> Result<Vec<u8>, BuildError> {
    let body = serde_json::to_vec(catalog)
        .map_err(|error| BuildError::invalid(format!("catalog: {error}")))?;
    let body_bytes = body.len() as u64;
    if body_bytes > CATALOG_BYTES_MAX {
        let what = format!("the catalog has {body_bytes} bytes, more than {CATALOG_BYTES_MAX}");
        return Err(BuildError::invalid(what));
    }
    let mut slot = vec![0; BLOCK_BYTES];
    put(&mut slot, 0, &MAGIC);
    put(&mut slot, 8, &catalog.format_version().to_le_bytes());
    put(&mut slot, 12, &(BLOCK_BYTES as u32).to_le_bytes());
    put(&mut slot, 16, &body_bytes.to_le_bytes());
    put(&mut slot, 24, &checkpoint_id.to_le_bytes());
    put(&mut slot, 32, &lsn.to_le_bytes());
    put(&mut slot, 40, &checksum::of(&body).to_le_bytes());
    checksum::seal(&mut slot, 0..CHECKED_BYTES, CHECKED_BYTES);
    slot.extend_from_slice(&body);
    slot.resize(slot.len().next_multiple_of(BLOCK_BYTES), 0);
    Ok(slot)
}

/// Identifies the content of a store: FNV-1a (64 bits) of a slot without its padding. The catalog
/// in it holds the checksums of everything else.
pub(crate) fn fingerprint(slot: &[u8]) -> u64 {
    let body = &slot[BLOCK_BYTES..];
    let body = &body[..le_u64(slot, 16) as usize];
    let header = &slot[..CHECKED_BYTES];
    header.iter().chain(body).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
