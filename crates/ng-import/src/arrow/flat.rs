//! Tables of FlatBuffers, read where they lie: what describes schemas and batches.
//!
//! The invariant: nothing outside of the bytes is looked at; a field that is not there is told from
//! one that leads outside.

/// Something leads out of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside;

/// A table. Fields are numbered in the order of their schema.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    /// For each field how far behind `at` it is, in two bytes; 0 if it is not there.
    fields: &'a [u8],
}

/// Some elements of equal width.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    first: usize,
    /// How many.
    pub count: usize,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Outside> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(Outside)
}

/// Where an offset at `at` leads to.
fn target(bytes: &[u8], at: usize) -> Result<usize, Outside> {
    let offset = u32::from_le_bytes(array(bytes, at)?) as usize;
    at.checked_add(offset).ok_or(Outside)
}

impl<'a> Table<'a> {
    /// The table that a message begins with.
    pub fn root(bytes: &'a [u8]) -> Result<Self, Outside> {
        Self::new(bytes, target(bytes, 0)?)
    }

    fn new(bytes: &'a [u8], at: usize) -> Result<Self, Outside> {
        let back = i64::from(i32::from_le_bytes(array(bytes, at)?));
        let slots = i64::try_from(at).ok().and_then(|at| at.checked_sub(back));
        let slots = slots.and_then(|slots| usize::try_from(slots).ok()).ok_or(Outside)?;
        let len = usize::from(u16::from_le_bytes(array(bytes, slots)?));
        let fields = bytes.get(slots..).and_then(|rest| rest.get(4..len)).ok_or(Outside)?;
        Ok(Self { bytes, at, fields })
    }

    /// Where a field is, if it is there.
    fn place(&self, field: usize) -> Option<usize> {
        let slot = self.fields.get(2 * field..).and_then(<[u8]>::first_chunk);
        let offset = slot.map_or(0, |slot| u16::from_le_bytes(*slot));
        (offset > 0).then(|| self.at.saturating_add(usize::from(offset)))
    }

    /// The bytes of a number; zeros if it is not there.
    fn number<const N: usize>(&self, field: usize) -> Result<[u8; N], Outside> {
        self.place(field).map_or(Ok([0; N]), |at| array(self.bytes, at))
    }

    pub fn byte(&self, field: usize) -> Result<u8, Outside> {
        Ok(self.number::<1>(field)?[0])
    }

    pub fn short(&self, field: usize) -> Result<i16, Outside> {
        Ok(i16::from_le_bytes(self.number(field)?))
    }

    pub fn int(&self, field: usize) -> Result<i32, Outside> {
        Ok(i32::from_le_bytes(self.number(field)?))
    }

    pub fn long(&self, field: usize) -> Result<i64, Outside> {
        Ok(i64::from_le_bytes(self.number(field)?))
    }

    pub fn table(&self, field: usize) -> Result<Option<Self>, Outside> {
        let Some(at) = self.place(field) else { return Ok(None) };
        Self::new(self.bytes, target(self.bytes, at)?).map(Some)
    }

    /// Elements of `width` bytes; none if the field is not there.
    pub fn elements(&self, field: usize, width: usize) -> Result<Elements<'a>, Outside> {
        let bytes = self.bytes;
        let Some(at) = self.place(field) else {
            return Ok(Elements { bytes, first: 0, count: 0 });
        };
        let at = target(bytes, at)?;
        let count = u32::from_le_bytes(array(bytes, at)?) as usize;
        let first = at + 4;
        let end = count.checked_mul(width).and_then(|len| first.checked_add(len));
        end.filter(|end| *end <= bytes.len()).ok_or(Outside)?;
        Ok(Elements { bytes, first, count })
    }

    /// Text, or nothing if it is not there or not UTF-8.
    pub fn text(&self, field: usize) -> Result<&'a str, Outside> {
        let found = self.elements(field, 1)?;
        let bytes = self.bytes.get(found.first..found.first + found.count).ok_or(Outside)?;
        Ok(str::from_utf8(bytes).unwrap_or_default())
    }
}

impl<'a> Elements<'a> {
    /// The table that an element of 4 bytes leads to.
    pub fn table(&self, index: usize) -> Result<Table<'a>, Outside> {
        let at = self.first + 4 * index.min(self.count);
        Table::new(self.bytes, target(self.bytes, at)?)
    }

    /// Both numbers of an element of 16 bytes.
    pub fn pair(&self, index: usize) -> Result<(i64, i64), Outside> {
        if index >= self.count {
            return Err(Outside);
        }
        let at = self.first + 16 * index;
        let both = [array(self.bytes, at)?, array(self.bytes, at + 8)?].map(i64::from_le_bytes);
        Ok((both[0], both[1]))
    }
}
