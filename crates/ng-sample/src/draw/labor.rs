//! LABOR-0 (Balin and Catalyurek, 2023): destinations choose by numbers that belong to sources.
//!
//! Entry t of a list of `degree` is taken if the number of t is below fanout / degree, in the order
//! of the list.

use ng_simd::SourceSelector;
use ng_store::Packed;
use ng_types::{NodeTypeId, SourceKey};

use super::piece::{Piece, Sources};

/// How the lists of one edge type are chosen from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labor {
    selector: SourceSelector,
    /// At least 1.
    fanout: u32,
}

impl Labor {
    /// `dependent` streams in a row share the numbers.
    pub fn new(
        seed: u64,
        (stream, dependent): (u64, u32),
        source: NodeTypeId,
        fanout: u32,
    ) -> Self {
        let key = SourceKey::new(seed, stream / u64::from(dependent), source);
        Self { selector: SourceSelector::new(key), fanout }
    }

    /// Entries whose number is below this are taken; `None` takes all.
    #[inline]
    fn bound(self, degree: u32) -> Option<u32> {
        let fanout = u64::from(self.fanout);
        // Below 2^32, as the fanout is below the degree; at most 2^-32 less than it should be.
        (degree > self.fanout).then(|| ((fanout << 32) / u64::from(degree)) as u32)
    }

    /// Appends the positions that are taken in a piece of a list of `degree`.
    #[inline]
    pub fn look(&self, degree: u32, piece: Piece<'_>, chosen: &mut Vec<u32>) {
        let (first, known) = (piece.first, chosen.len());
        let Some(bound) = self.bound(degree) else {
            return chosen.extend(first..first + piece.sources.len() as u32);
        };
        let (selector, key) = (self.selector, self.selector.key());
        match piece.sources {
            Sources::Packed(Packed::Three(all)) => selector.of_three(all, bound, chosen),
            Sources::Packed(Packed::Four(all)) => selector.of_four(all, bound, chosen),
            Sources::Packed(wide @ Packed::Five(_)) => {
                let is_taken = |at: &u32| key.number(wide.get(*at as usize)) < bound;
                chosen.extend((0..wide.len() as u32).filter(is_taken));
            }
            Sources::Ids(all) => {
                let taken = (0..).zip(all).filter(|(_, source)| key.number(**source) < bound);
                chosen.extend(taken.map(|(at, _)| at));
            }
        }
        if first > 0 {
            chosen[known..].iter_mut().for_each(|at| *at += first);
        }
    }
}
