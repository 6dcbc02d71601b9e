//! Entries that somebody looks for, in the order of the list: those between the nodes of a batch,
//! or those that a proposed link must not be.

use super::IsWanted;
use super::piece::Piece;

/// Appends the positions in a piece of list number `list` that are looked for.
pub(super) fn look(list: usize, is_wanted: &IsWanted<'_>, piece: Piece<'_>, chosen: &mut Vec<u32>) {
    let is_taken = |at: &u32| {
        let at = *at as usize;
        is_wanted(list, piece.sources.get(at), piece.times.get(at))
    };
    let taken = (0..piece.sources.len() as u32).filter(is_taken);
    chosen.extend(taken.map(|at| piece.first + at));
}
