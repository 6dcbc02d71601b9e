//! Edges as they come in, column by column, before it is known what they turn into.

/// Edges in struct-of-arrays form. Columns that the edge type lacks are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawEdges {
    /// The row of the first edge in the user's list.
    pub first_row: u64,
    pub sources: Vec<u64>,
    pub destinations: Vec<u64>,
    pub edge_ids: Vec<u64>,
    pub times: Vec<i64>,
    pub weights: Vec<f32>,
}

impl RawEdges {
    pub(crate) fn clear(&mut self) {
        self.first_row = 0;
        self.sources.clear();
        self.destinations.clear();
        self.edge_ids.clear();
        self.times.clear();
        self.weights.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The id of edge `i`: its row where none were given.
    pub(crate) fn edge_id(&self, i: usize) -> u64 {
        value(&self.edge_ids, i).unwrap_or(self.first_row + i as u64)
    }

    /// Time and bits of the weight of edge `i`, 0 where the edge type lacks them.
    pub(crate) fn time_and_weight(&self, i: usize) -> (i64, u32) {
        let weight = value(&self.weights, i).unwrap_or(0.0);
        (value(&self.times, i).unwrap_or(0), weight.to_bits())
    }
}

/// The value of edge `i`; `None` in a column that the edge type lacks. A column that is merely too
/// short stops: its edges would get the values of others.
fn value<T: Copy>(column: &[T], i: usize) -> Option<T> {
    if column.is_empty() { None } else { Some(column[i]) }
}
