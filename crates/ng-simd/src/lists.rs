//! [`EdgeLists`]: the in-edges of destinations, checked once so that kernels need not check again.
//!
//! The invariant: offsets begin with 0, never descend and end with the number of edges, and every
//! source is below the number of rows. Kernels read rows without bounds checks because of it.

use std::ops::Range;

use thiserror::Error;

/// Why arrays are not the lists of destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ListError {
    /// Not even the offset that begins the first list.
    #[error("there are no offsets; n destinations need n + 1 offsets")]
    NoOffsets,
    /// The first list begins elsewhere.
    #[error("the first offset is {found}, not 0")]
    Start {
        /// The first offset.
        found: u32,
    },
    /// A list ends before it begins.
    #[error("the list of destination {destination} begins at {start} and ends at {end}")]
    Order {
        /// Whose list it is.
        destination: usize,
        /// Its first edge.
        start: u32,
        /// The first edge of the next list.
        end: u32,
    },
    /// The last list ends elsewhere than the edges.
    #[error("the last offset is {found}, but there are {num_edges} edges")]
    End {
        /// The last offset.
        found: u32,
        /// How many sources were given.
        num_edges: usize,
    },
    /// A source has no row.
    #[error("edge {edge} has source {source_row}, but there are {num_rows} rows")]
    Source {
        /// The first such edge.
        edge: usize,
        /// Its source.
        source_row: u32,
        /// How many rows there are.
        num_rows: usize,
    },
}

/// Why a kernel did not run. It has written nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// An operand has the wrong number of elements.
    #[error("{operand}: {found} elements, but the shape needs {needed}")]
    Length {
        /// Which one.
        operand: &'static str,
        /// Elements by the shape; `usize::MAX` where the product overflows.
        needed: usize,
        /// Elements given.
        found: usize,
    },
    /// Destinations that the lists do not have.
    #[error("destinations {start} to {end} were requested, but there are {num_destinations}")]
    Destinations {
        /// The first one.
        start: usize,
        /// The one after the last.
        end: usize,
        /// How many there are.
        num_destinations: usize,
    },
}

/// The in-edges of destinations: destination `i` has the sources
/// `sources[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use ng_simd::{EdgeLists, ListError};
/// let lists = EdgeLists::new(&[0, 2, 2], &[4, 0], 5)?;
/// assert_eq!((lists.num_destinations(), lists.num_edges()), (2, 2));
/// let wrong = EdgeLists::new(&[0, 2, 2], &[4, 0], 4);
/// assert_eq!(wrong.err(), Some(ListError::Source { edge: 0, source_row: 4, num_rows: 4 }));
/// # Ok::<(), ListError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EdgeLists<'a> {
    offsets: &'a [u32],
    sources: &'a [u32],
    num_rows: usize,
}

impl<'a> EdgeLists<'a> {
    /// Lists whose sources are numbers of `num_rows` rows. There is one more offset than there are
    /// destinations.
    ///
    /// # Errors
    /// [`ListError`]
    pub fn new(offsets: &'a [u32], sources: &'a [u32], num_rows: usize) -> Result<Self, ListError> {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
            return Err(ListError::NoOffsets);
        };
        if first != 0 {
            return Err(ListError::Start { found: first });
        }
        if let Some(destination) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            let (start, end) = (offsets[destination], offsets[destination + 1]);
            return Err(ListError::Order { destination, start, end });
        }
        if last as usize != sources.len() {
            return Err(ListError::End { found: last, num_edges: sources.len() });
        }
        match sources.iter().position(|source| *source as usize >= num_rows) {
            Some(edge) => Err(ListError::Source { edge, source_row: sources[edge], num_rows }),
            None => Ok(Self { offsets, sources, num_rows }),
        }
    }

    /// How many lists there are.
    pub fn num_destinations(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many edges all lists have together.
    pub fn num_edges(&self) -> usize {
        self.sources.len()
    }

    /// How many rows the sources may name.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// The sources of all edges.
    pub fn sources(&self) -> &'a [u32] {
        self.sources
    }

    /// The edges of one destination.
    ///
    /// # Panics
    /// If there is no such destination.
    #[inline]
    pub fn edges(&self, destination: usize) -> Range<usize> {
        self.offsets[destination] as usize..self.offsets[destination + 1] as usize
    }

    /// The edges of a range of destinations.
    ///
    /// # Errors
    /// [`ShapeError::Destinations`]
    pub fn edges_of(&self, destinations: &Range<usize>) -> Result<Range<usize>, ShapeError> {
        let Range { start, end } = *destinations;
        let num_destinations = self.num_destinations();
        if start > end || end > num_destinations {
            return Err(ShapeError::Destinations { start, end, num_destinations });
        }
        Ok(self.offsets[start] as usize..self.offsets[end] as usize)
    }
}

/// An error unless an operand has as many elements as the product of `shape`.
pub(crate) fn check_length(
    operand: &'static str,
    found: usize,
    shape: &[usize],
) -> Result<(), ShapeError> {
    let product = shape.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
    // A side of 0 makes the product 0, even where the product of the others overflows.
    let needed = if shape.contains(&0) { 0 } else { product.unwrap_or(usize::MAX) };
    if found == needed { Ok(()) } else { Err(ShapeError::Length { operand, needed, found }) }
}
