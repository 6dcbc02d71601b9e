//! Edges between provisional ids to edges between ranks: sorted by one end and walked beside the
//! ranks, then by the other.

use std::sync::Arc;

use super::merge::Ranks;
use crate::ImportError;
use crate::edges::RawEdges;
use crate::sink::EdgeSink;
use crate::sort::{Full, Layout, Sizes, SlotFile, Sorter};

/// Edges that are handed to the sink at once.
const CHUNK_LEN: usize = 16 << 10;

/// Edges between provisional ids, sorted by source: `destination` of a record holds the source,
/// because that is what records are sorted by, and `source` holds the destination.
#[derive(Debug)]
pub(crate) struct StringEdges {
    sorter: Sorter<Full>,
}

impl StringEdges {
    pub(crate) fn new(slots: &Arc<SlotFile>, time: bool, weight: bool, sizes: Sizes) -> Self {
        let layout = Layout { edge_id: true, time, weight };
        Self { sorter: Sorter::new(Arc::clone(slots), layout, sizes) }
    }

    /// Takes edges in.
    pub(crate) fn push(&self, edges: &RawEdges) -> Result<(), ImportError> {
        let ends = edges.sources.iter().zip(&edges.destinations).enumerate();
        self.sorter.push(ends.map(|(i, (source, destination))| {
            let (edge_id, (time, weight)) = (edges.edge_id(i), edges.time_and_weight(i));
            Full { destination: *source, source: *destination, edge_id, time, weight }
        }))
    }

    pub(crate) fn pause(&self) -> Result<(), ImportError> {
        self.sorter.pause()
    }
}

/// Gives all edges to `sink`, with ranks for provisional ids.
pub(crate) fn relabel(
    edges: StringEdges,
    sources: &Ranks,
    destinations: &Ranks,
    sink: &EdgeSink,
) -> Result<(), ImportError> {
    let layout = edges.sorter.layout();
    let by_destination: Sorter<Full> = edges.sorter.successor();
    let mut lookup = sources.lookup();
    edges.sorter.finish()?.for_each(&mut |slice| {
        for record in slice {
            let rank = lookup.rank_of(record.destination)?;
            let turned = Full { destination: record.source, source: rank, ..*record };
            by_destination.push(std::iter::once(turned))?;
        }
        Ok(())
    })?;
    let mut lookup = destinations.lookup();
    let mut chunk = RawEdges::default();
    by_destination.finish()?.for_each(&mut |slice| {
        for record in slice {
            chunk.sources.push(record.source);
            chunk.destinations.push(lookup.rank_of(record.destination)?);
            chunk.edge_ids.push(record.edge_id);
            if layout.time {
                chunk.times.push(record.time);
            }
            if layout.weight {
                chunk.weights.push(f32::from_bits(record.weight));
            }
            if chunk.len() == CHUNK_LEN {
                sink.push(&chunk)?;
                chunk.clear();
            }
        }
        Ok(())
    })?;
    sink.push(&chunk)
}
