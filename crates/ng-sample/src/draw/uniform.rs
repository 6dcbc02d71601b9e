//! Uniform draws: each destination draws its own positions, and only the length of a list counts.
//!
//! Draws of a smaller fanout are the first ones of a larger, which lets a list be read before it is
//! known how much of it a batch needs.

use ng_types::{DrawKey, EdgeTypeId, NodeId};

use super::count;
use crate::SampleError;

/// How the lists of one edge type are drawn from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uniform {
    pub key: DrawKey,
    pub edge_type: EdgeTypeId,
    /// `None` takes all.
    pub fanout: Option<u32>,
    pub replace: bool,
}

impl Uniform {
    /// How many entries are drawn from a list.
    #[inline]
    pub fn count(&self, degree: u64) -> Result<u32, SampleError> {
        match self.fanout {
            None => count(degree),
            Some(fanout) if self.replace => Ok(if degree == 0 { 0 } else { fanout }),
            Some(fanout) => Ok(degree.min(u64::from(fanout)) as u32),
        }
    }

    /// Draws positions of the list of `destination`.
    #[inline]
    pub fn draw(&self, destination: NodeId, degree: u64, emit: impl FnMut(u64)) {
        let draws = self.key.draws(self.edge_type, destination);
        match self.fanout {
            None => (0..degree).for_each(emit),
            Some(fanout) if self.replace => draws.with_replacement(degree, fanout, emit),
            Some(fanout) => draws.without_replacement(degree, fanout, emit),
        }
    }
}
