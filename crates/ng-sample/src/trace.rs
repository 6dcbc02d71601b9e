//! What a sampler visits, without what it finds there: the trace that a device is simulated with.
//!
//! Nothing is drawn here that sampling would not draw: a trace is made from a sample, and positions
//! are those of the same draws once more.

use ng_types::{EdgeTypeId, NodeId, NodeTypeId, Trace};

use crate::draw::{BatchKey, Source};
use crate::{SampleError, SampleScratch, Sampler};

impl Sampler {
    /// The visits of batches, each given as its seeds and the stream of its draws.
    ///
    /// An entry of the trace is a node of the batch in the order of its local numbers; its draws
    /// are the edges towards it.
    ///
    /// # Errors
    /// [`SampleError::Spec`] for graphs of several types and for methods that do not draw by
    /// destination; otherwise as [`Sampler::sample`].
    pub fn trace<'a>(
        &self,
        batches: impl IntoIterator<Item = (&'a [NodeId], u64)>,
    ) -> Result<Trace, SampleError> {
        let catalog = self.snapshot().catalog();
        let types = (catalog.node_types.len(), catalog.num_named_edge_types());
        if types != (1, 1) || !self.spec().draws_from_first_alone() {
            return Err(SampleError::Spec(format!(
                "a trace needs a store with one node type and one edge type; this store has {} \
                 node types and {} edge types",
                types.0, types.1
            )));
        }
        self.spec().method.check(Source::Traces)?;
        let mut trace = Trace::default();
        let mut scratch = SampleScratch::default();
        for (seeds, stream) in batches {
            trace.begin_batch();
            self.trace_batch(seeds, stream, &mut scratch, &mut trace)?;
            trace.end_batch();
        }
        Ok(trace)
    }

    fn trace_batch(
        &self,
        seeds: &[NodeId],
        stream: u64,
        scratch: &mut SampleScratch,
        trace: &mut Trace,
    ) -> Result<(), SampleError> {
        let sample = self.sample_compact(&[(NodeTypeId(0), seeds)], stream, scratch)?;
        let (nodes, edges) = (&sample.nodes[0], &sample.edges[0]);
        let ids: Vec<NodeId> = nodes.ids.iter().collect();
        let degrees = self.snapshot().degrees(EdgeTypeId(0), &ids)?;
        let hops = nodes.per_hop.iter().zip(0_u8..);
        let hops: Vec<u8> = hops.flat_map(|(&n, hop)| std::iter::repeat_n(hop, n)).collect();
        for ((&node, &degree), &hop) in ids.iter().zip(&degrees).zip(&hops) {
            let degree = u32::try_from(degree).map_err(|_| {
                SampleError::Spec(format!(
                    "node {node} has {degree} neighbours, too many for a trace: at most 2^32 - 1"
                ))
            })?;
            trace.visit(node, degree, hop);
        }
        let key = BatchKey::new(self.spec().seed, stream);
        let mut found = edges.rows.iter();
        for (entry, &count) in edges.counts.iter().enumerate() {
            let turn = (key, usize::from(hops[entry]));
            let Some(rule) = self.rule(turn, 0).filter(|_| count > 0) else { continue };
            rule.by_position().draw(ids[entry], degrees[entry], |position| {
                if let Some(&row) = found.next() {
                    trace.draw(entry as u32, position as u32, row);
                }
            });
        }
        Ok(())
    }
}
