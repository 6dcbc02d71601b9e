//! What a rule sees of a list: sources, weights and times, as pages or memory have them.

use ng_store::Packed;
use ng_types::NodeId;

/// Entries of a list in its order: all, or some that lie side by side.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    /// The position of the first.
    pub first: u32,
    pub sources: Sources<'a>,
    pub weights: Weights<'a>,
    pub times: Times<'a>,
}

/// The sources of a piece.
#[derive(Clone, Copy)]
pub(crate) enum Sources<'a> {
    Packed(Packed<'a>),
    Ids(&'a [NodeId]),
}

/// The weights of a piece; none where the edge type has none.
#[derive(Clone, Copy)]
pub(crate) enum Weights<'a> {
    Packed(&'a [[u8; 4]]),
    Values(&'a [f32]),
}

/// The times of a piece; none where the edge type has none.
#[derive(Clone, Copy)]
pub(crate) enum Times<'a> {
    Packed(&'a [[u8; 8]]),
    Values(&'a [i64]),
}

impl Times<'_> {
    /// That of an entry of the piece.
    pub fn get(&self, at: usize) -> Option<i64> {
        match self {
            Self::Packed(packed) => packed.get(at).map(|time| i64::from_le_bytes(*time)),
            Self::Values(values) => values.get(at).copied(),
        }
    }
}

impl Sources<'_> {
    /// That of an entry of the piece.
    #[inline]
    pub fn get(&self, at: usize) -> NodeId {
        match self {
            Self::Packed(packed) => packed.get(at),
            Self::Ids(ids) => ids[at],
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Ids(ids) => ids.len(),
        }
    }
}

impl<'a> Weights<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Packed(packed) => packed.len(),
            Self::Values(values) => values.len(),
        }
    }

    /// Those from `first` on, as many as the buffer holds.
    pub fn decode<'b>(&self, first: usize, buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        let end = self.len().min(first + buffer.len());
        match self {
            Self::Packed(packed) => {
                for (value, bytes) in buffer.iter_mut().zip(&packed[first..end]) {
                    *value = f32::from_le_bytes(*bytes);
                }
                &buffer[..end - first]
            }
            Self::Values(values) => &values[first..end],
        }
    }
}
