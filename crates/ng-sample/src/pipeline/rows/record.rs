//! Rows of which some are in memory and the others came together, in a record or region.

use ng_simd::prefetch;

/// Marks the place of a row that came with the batch.
pub(crate) const COLD: u32 = 1 << 31;

/// Rows whose memory is on its way while another is copied.
const NEAR: usize = 3;

/// The part of a row that is fetched early; the processor foresees the rest.
fn near(row: &[u8]) -> &[u8] {
    &row[..row.len().min(1024)]
}

/// Lends the row at each of `places`, with its number among them.
pub(super) fn each(
    places: &[u32],
    (hot, cold): (&[u8], &[u8]),
    stored: usize,
    mut take: impl FnMut(usize, &[u8]),
) {
    let row = |place: u32| {
        let (from, at) = if place & COLD == 0 { (hot, place) } else { (cold, place & !COLD) };
        &from[at as usize * stored..][..stored]
    };
    places.iter().take(NEAR).for_each(|place| prefetch(near(row(*place))));
    for (number, place) in places.iter().enumerate() {
        if let Some(later) = places.get(number + NEAR) {
            prefetch(near(row(*later)));
        }
        take(number, row(*place));
    }
}
