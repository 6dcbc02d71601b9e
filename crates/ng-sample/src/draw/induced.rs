//! Induced subgraphs: the entries of a list whose source is in the batch, in the order of the list.

use ng_types::NodeId;

use super::piece::{Piece, Sources};

/// A choice from one list after the other.
pub(super) struct Choice<'a> {
    is_in_batch: &'a dyn Fn(NodeId) -> bool,
    chosen: Vec<u32>,
}

impl<'a> Choice<'a> {
    pub fn new(is_in_batch: &'a dyn Fn(NodeId) -> bool) -> Self {
        Self { is_in_batch, chosen: Vec::new() }
    }

    pub fn begin(&mut self) {
        self.chosen.clear();
    }

    pub fn look(&mut self, piece: Piece<'_>) {
        let is_taken = |at: &u32| {
            (self.is_in_batch)(match piece.sources {
                Sources::Packed(all) => all.get(*at as usize),
                Sources::Ids(all) => all[*at as usize],
            })
        };
        let taken = (0..piece.sources.len() as u32).filter(is_taken);
        self.chosen.extend(taken.map(|at| piece.first + at));
    }

    pub fn chosen(&self) -> &[u32] {
        &self.chosen
    }
}
