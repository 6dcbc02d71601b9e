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
}
