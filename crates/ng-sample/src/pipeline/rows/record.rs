//! Rows of which some are in memory and the others came together, in a record or region.

use super::each_near;

/// Marks the place of a row that came with the batch.
pub(crate) const COLD: u32 = 1 << 31;

/// Lends the row at each of `places`, with its number among them.
pub(super) fn each(
    places: &[u32],
    (hot, cold): (&[u8], &[u8]),
    stored: usize,
    take: impl FnMut(usize, &[u8]),
) {
    let row = |number: usize| {
        let place = places[number];
        let (from, at) = if place & COLD == 0 { (hot, place) } else { (cold, place & !COLD) };
        &from[at as usize * stored..][..stored]
    };
    each_near(places.len(), row, take);
}
