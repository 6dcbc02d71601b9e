//! Chosen entries of many lists, column by column, and who chooses them.

use std::ops::RangeBounds;

use crate::bytes::ensure;
use crate::error::Damage;
use crate::topology::{Entry, EntryLayout};

/// Chooses positions of one neighbour list. It receives the place of the destination in the request
/// and its degree, and appends positions below the degree in the desired order. Repeats are
/// allowed.
pub type Draw<'a> = dyn FnMut(usize, u64, &mut Vec<u64>) + 'a;

/// The result of [`crate::Snapshot::expand`]: the chosen entries of each destination, in request
/// order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// Entries of destination `i` are `offsets[i]..offsets[i + 1]`.
    pub offsets: Vec<usize>,
    /// Neighbours.
    pub sources: Vec<u64>,
    /// Edge ids, or empty where the type has none.
    pub edge_ids: Vec<u64>,
    /// Times, or empty where the type has none.
    pub times: Vec<i64>,
    /// Weights, or empty where the type has none.
    pub weights: Vec<f32>,
}

impl Expansion {
    /// Empties all columns and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.offsets.clear();
        self.sources.clear();
        self.edge_ids.clear();
        self.times.clear();
        self.weights.clear();
    }

    /// Appends one entry to the columns that the layout has.
    #[inline]
    pub(crate) fn push(&mut self, layout: EntryLayout, entry: &Entry) {
        self.sources.push(entry.source);
        if layout.has_edge_ids {
            self.edge_ids.push(entry.edge_id);
        }
        if layout.has_time {
            self.times.push(entry.time);
        }
        if layout.has_weight {
            self.weights.push(entry.weight);
        }
    }

    /// Appends `count` entries that [`Expansion::set`] fills later.
    pub(crate) fn grow(&mut self, layout: EntryLayout, count: usize) {
        let len = self.sources.len() + count;
        self.sources.resize(len, 0);
        if layout.has_edge_ids {
            self.edge_ids.resize(len, 0);
        }
        if layout.has_time {
            self.times.resize(len, 0);
        }
        if layout.has_weight {
            self.weights.resize(len, 0.0);
        }
    }

    /// Refuses entries of a range that lead out of the graph, where sources and edge ids are below
    /// `bounds`: whoever takes them counts by node and by edge id.
    pub(crate) fn check(
        &self,
        range: impl RangeBounds<usize>,
        bounds: (u64, u64),
    ) -> Result<(), Damage> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        let columns = [("source", &self.sources, bounds.0), ("edge id", &self.edge_ids, bounds.1)];
        for (what, column, bound) in columns {
            // A column that the edge type lacks is empty.
            let most = column.get(range).and_then(|entries| entries.iter().max());
            ensure(most.is_none_or(|most| *most < bound), || {
                format!(
                    "{what} {} is out of range: expected less than {bound}",
                    most.copied().unwrap_or_default()
                )
            })?;
        }
        Ok(())
    }

    /// Overwrites entry `at`; columns that the layout lacks are empty and stay so.
    pub(crate) fn set(&mut self, at: usize, entry: &Entry) {
        self.sources[at] = entry.source;
        if let Some(place) = self.edge_ids.get_mut(at) {
            *place = entry.edge_id;
        }
        if let Some(place) = self.times.get_mut(at) {
            *place = entry.time;
        }
        if let Some(place) = self.weights.get_mut(at) {
            *place = entry.weight;
        }
    }
}
