//! [`Credit`]: how much a side may send on a stream before the other grants more.

use crate::calls::error::CallError;

/// What each direction of a stream begins with.
pub const CREDIT_AT_FIRST: u32 = 64 << 10;
/// What may be open at once; a grant past it breaks the rules.
pub const CREDIT_MAX: u32 = 64 << 20;

/// Bytes of messages that may still be sent in one direction of a stream. The side that sends
/// takes from it and waits where it lacks; the side that receives takes from its own copy, where a
/// lack means that the peer breaks the rules.
///
/// ```
/// use ng_io::calls::{CREDIT_AT_FIRST, Credit};
/// let mut credit = Credit::default();
/// assert!(credit.take(CREDIT_AT_FIRST).is_ok());
/// assert_eq!(credit.left(), 0);
/// assert!(credit.take(1).is_err());
/// credit.grant(100)?;
/// assert_eq!(credit.left(), 100);
/// # Ok::<(), ng_io::calls::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    left: u32,
}

impl Default for Credit {
    fn default() -> Self {
        Self { left: CREDIT_AT_FIRST }
    }
}

impl Credit {
    /// What may be sent.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// Takes what a piece has.
    ///
    /// # Errors
    /// There is not as much.
    pub fn take(&mut self, bytes: u32) -> Result<(), CallError> {
        let what = "it sends more than its credit";
        self.left = self.left.checked_sub(bytes).ok_or(CallError::Credit { what })?;
        Ok(())
    }

    /// Adds a grant.
    ///
    /// # Errors
    /// It is 0, or more than [`CREDIT_MAX`] would be open.
    pub fn grant(&mut self, bytes: u32) -> Result<(), CallError> {
        let sum = self.left.checked_add(bytes).filter(|sum| bytes > 0 && *sum <= CREDIT_MAX);
        self.left = sum.ok_or(CallError::Credit {
            what: "it grants no credit, or more than the \
                                                         maximum",
        })?;
        Ok(())
    }
}
