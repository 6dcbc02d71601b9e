//! One hop: the sections of a frontier, the draws from their lists, and the secondary sections that
//! drawn positions fall into.
//!
//! The invariant: two calls of the file, each of all its pages at once, whatever the lists are.

use ng_store::{DirectFile, Entry, Expansion, Position, Spot};
use ng_types::NodeId;

use super::rows::{Own, Staged};
use crate::SampleError;
use crate::draw::Uniform;

/// What a hop read.
pub(super) struct HopRead {
    /// The user's ids, in the order of the addresses.
    pub ids: Vec<NodeId>,
    /// What was drawn; sources are addresses.
    pub expansion: Expansion,
    /// Sections that needed no read.
    pub cached: u64,
}

/// What was drawn of a list: entries, from one on.
#[derive(Clone, Copy, Default)]
struct Drawn {
    first: usize,
    count: usize,
}

/// Draws from the lists of the nodes at `addresses`, and keeps their rows.
pub(super) fn read_hop(
    file: &DirectFile,
    rule: Uniform,
    addresses: &[u64],
    own: &[Own],
    staged: &mut Staged,
) -> Result<HopRead, SampleError> {
    let mut ids = vec![0; addresses.len()];
    let mut drawn = vec![Drawn::default(); addresses.len()];
    let (mut entries, mut spots) = (Vec::new(), Vec::new());
    let mut wanted: Vec<usize> = Vec::new();
    let mut too_long = None;
    let cached = file.primaries(addresses, &mut |place, primary| {
        ids[place] = primary.node;
        staged.put(place, own, primary);
        if let Err(error) = rule.count(primary.degree) {
            too_long.get_or_insert(error);
            return Ok(());
        }
        let (first, mut outcome) = (entries.len(), Ok(()));
        rule.draw(primary.node, primary.degree, |position| match primary.position(position) {
            Ok(Position::Here(entry)) => entries.push(entry),
            Ok(Position::There(spot)) => {
                wanted.push(entries.len());
                spots.push(spot);
                entries.push(Entry::default());
            }
            Err(damage) => outcome = Err(damage),
        });
        drawn[place] = Drawn { first, count: entries.len() - first };
        outcome
    })?;
    if let Some(error) = too_long {
        return Err(error);
    }
    read_rest(file, &spots, &wanted, &mut entries)?;
    Ok(HopRead { ids, expansion: in_order(file, &drawn, &entries), cached })
}

/// Fills in what lies in secondary sections.
fn read_rest(
    file: &DirectFile,
    spots: &[Spot],
    wanted: &[usize],
    entries: &mut [Entry],
) -> Result<(), SampleError> {
    if spots.is_empty() {
        return Ok(());
    }
    Ok(file.secondaries(spots, &mut |place, entry| entries[wanted[place]] = *entry)?)
}

/// Entries by destination in the order of the request.
fn in_order(file: &DirectFile, drawn: &[Drawn], entries: &[Entry]) -> Expansion {
    let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
    let meta = file.snapshot().catalog().edge_types.first();
    let has = meta
        .map_or((false, false, false), |meta| (meta.has_edge_ids, meta.has_time, meta.has_weight));
    out.sources.reserve_exact(entries.len());
    for Drawn { first, count } in drawn {
        let entries = &entries[*first..first + count];
        out.sources.extend(entries.iter().map(|entry| entry.source));
        if has.0 {
            out.edge_ids.extend(entries.iter().map(|entry| entry.edge_id));
        }
        if has.1 {
            out.times.extend(entries.iter().map(|entry| entry.time));
        }
        if has.2 {
            out.weights.extend(entries.iter().map(|entry| entry.weight));
        }
        out.offsets.push(out.sources.len());
    }
    out
}
