//! [`Metadata`]: names and values that go with a call.

use crate::calls::error::CallError;
use crate::calls::fields::{Fields, at_most};

/// The most pairs of a call.
pub const PAIRS_MAX: usize = 128;
/// The most bytes of all names and values.
pub const METADATA_BYTES_MAX: usize = 8 << 10;

/// Pairs in their order; a name may come several times. Names are `0-9 a-z _ - .` as in gRPC.
/// Values are printable ASCII, or any bytes where the name ends in `-bin`.
///
/// ```
/// use ng_io::calls::Metadata;
/// let mut metadata = Metadata::default();
/// metadata.push("authorization", b"Bearer x")?;
/// metadata.push("trace-bin", &[0, 255])?;
/// assert!(metadata.push("Upper", b"x").is_err());
/// assert_eq!(metadata.pairs().len(), 2);
/// # Ok::<(), ng_io::calls::CallError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pairs: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl Metadata {
    /// Appends a pair.
    ///
    /// # Errors
    /// It is not valid, or one too many.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), CallError> {
        let what = "all names and values of metadata";
        let bytes = self.bytes.saturating_add(name.len()).saturating_add(value.len());
        let bytes = at_most(bytes, METADATA_BYTES_MAX, what)?;
        at_most(self.pairs.len() + 1, PAIRS_MAX, "the list of metadata pairs")?;
        let is_letter = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'_' | b'-' | b'.');
        if name.is_empty() || !name.as_bytes().iter().all(is_letter) {
            return Err(CallError::BadBytes {
                what: "a name of metadata (allowed: 0-9 a-z _ - .)",
            });
        }
        if !name.ends_with("-bin") && !value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(CallError::BadBytes {
                what: "a value of metadata (allowed: printable ASCII)",
            });
        }
        self.bytes = bytes;
        self.pairs.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// All pairs.
    pub fn pairs(&self) -> &[(String, Vec<u8>)] {
        &self.pairs
    }

    /// The count, then for each pair both lengths and both texts.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend((self.pairs.len() as u16).to_le_bytes());
        for (name, value) in &self.pairs {
            out.extend((name.len() as u16).to_le_bytes());
            out.extend((value.len() as u16).to_le_bytes());
            out.extend(name.as_bytes());
            out.extend(value);
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, CallError> {
        let what = "metadata";
        let mut metadata = Self::default();
        for _ in 0..at_most(fields.u16(what)?.into(), PAIRS_MAX, "the list of metadata pairs")? {
            let (name, value) = (fields.u16(what)?, fields.u16(what)?);
            let name = fields.bytes(name.into(), what)?;
            let bad =
                |_| CallError::BadBytes { what: "a name of metadata (allowed: 0-9 a-z _ - .)" };
            let name = std::str::from_utf8(name).map_err(bad)?;
            metadata.push(name, fields.bytes(value.into(), what)?)?;
        }
        Ok(metadata)
    }
}
