//! Numbers and bytes of a payload, front to back.

use crate::calls::error::CallError;

/// What is left of a payload.
pub(super) struct Fields<'a> {
    left: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(payload: &'a [u8]) -> Self {
        Self { left: payload }
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], CallError> {
        let (taken, left) = self.left.split_at_checked(len).ok_or(CallError::Truncated { what })?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CallError> {
        let (taken, left) = self.left.split_first_chunk().ok_or(CallError::Truncated { what })?;
        self.left = left;
        Ok(*taken)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, CallError> {
        self.array(what).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, CallError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, CallError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A text behind its length of 16 bits.
    pub fn text(&mut self, most: usize, what: &'static str) -> Result<&'a str, CallError> {
        let len = at_most(self.u16(what)?.into(), most, what)?;
        std::str::from_utf8(self.bytes(len, what)?).map_err(|_| CallError::BadBytes { what })
    }

    /// Says that nothing is left.
    pub fn end(self) -> Result<(), CallError> {
        match self.left.len() {
            0 => Ok(()),
            bytes => Err(CallError::Trailing { bytes }),
        }
    }
}

/// `count`, if it is not above `count_max`.
pub(super) fn at_most(
    count: usize,
    count_max: usize,
    what: &'static str,
) -> Result<usize, CallError> {
    if count > count_max {
        return Err(CallError::TooMany { what, count, count_max });
    }
    Ok(count)
}

/// Appends a text behind its length.
pub(super) fn put_text(
    out: &mut Vec<u8>,
    text: &str,
    most: usize,
    what: &'static str,
) -> Result<(), CallError> {
    let len = at_most(text.len(), most.min(u16::MAX.into()), what)?;
    out.extend((len as u16).to_le_bytes());
    out.extend(text.as_bytes());
    Ok(())
}
