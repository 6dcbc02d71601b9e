//! One hop: the sections of a frontier, the draws from their lists, and the secondary sections that
//! drawn positions fall into.
//!
//! The invariant: two calls of the file, each of all its pages at once, whatever the lists are.

use std::ops::Range;

use ng_store::{DirectFile, Entry, Expansion, Position};
use ng_types::NodeId;

use super::rows::{Own, Staged};
use crate::SampleError;
use crate::draw::Uniform;

/// What is known of the nodes of a batch that is being made.
#[derive(Default)]
pub(super) struct Known {
    /// The user's ids, by local number, of the nodes that were read.
    pub ids: Vec<NodeId>,
    /// Their rows.
    pub staged: Vec<Staged>,
    /// Sections that needed no read.
    pub cached: u64,
}

impl Known {
    /// Draws from the lists of the nodes at `addresses`, and keeps their ids, and their rows in
    /// `staged`. Sources of what was drawn are addresses.
    pub fn read_hop(
        &mut self,
        file: &DirectFile,
        rule: Uniform,
        addresses: &[u64],
        (own, mut staged): (&[Own], Staged),
    ) -> Result<Expansion, SampleError> {
        let mut ids = vec![0; addresses.len()];
        // By address: which of the entries were drawn from its list.
        let mut drawn = vec![0..0; addresses.len()];
        let (mut entries, mut spots) = (Vec::new(), Vec::new());
        let mut wanted: Vec<usize> = Vec::new();
        let mut too_long = None;
        self.cached += file.primaries(addresses, &mut |place, primary| {
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
            drawn[place] = first..entries.len();
            outcome
        })?;
        if let Some(error) = too_long {
            return Err(error);
        }
        if !spots.is_empty() {
            file.secondaries(&spots, &mut |place, entry| entries[wanted[place]] = *entry)?;
        }
        self.ids.extend(ids);
        self.staged.push(staged);
        Ok(in_order(file, &drawn, &entries))
    }
}

/// Entries by destination in the order of the request.
fn in_order(file: &DirectFile, drawn: &[Range<usize>], entries: &[Entry]) -> Expansion {
    let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
    let meta = &file.snapshot().catalog().edge_types[0];
    out.sources.reserve_exact(entries.len());
    for range in drawn {
        let entries = &entries[range.clone()];
        out.sources.extend(entries.iter().map(|entry| entry.source));
        if meta.has_edge_ids {
            out.edge_ids.extend(entries.iter().map(|entry| entry.edge_id));
        }
        if meta.has_time {
            out.times.extend(entries.iter().map(|entry| entry.time));
        }
        if meta.has_weight {
            out.weights.extend(entries.iter().map(|entry| entry.weight));
        }
        out.offsets.push(out.sources.len());
    }
    out
}
