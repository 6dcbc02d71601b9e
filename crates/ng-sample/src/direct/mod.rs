//! Mini-batches from a file of the direct layout: hops that run on addresses.
//!
//! What lives here: the order of reads of a batch, and putting it together. What must not: the
//! bytes of the file, draws, numbering. The invariant: a batch is byte for byte the one that the
//! paged layout gives, because addresses stand for nodes one to one, draws are keyed by the user's
//! id that every section carries, and lists are in the order of the snapshot.

mod hop;
mod rows;

use std::sync::Arc;

use ng_store::{DirectError, DirectFile, Snapshot};
use ng_types::{NodeId, NodeTypeId};

use self::hop::Known;
use self::rows::{Own, Rows, Staged};
use crate::admission::{Admit, Growing, Stage};
use crate::clock::Work;
use crate::columns::Columns;
use crate::compact::{CompactNodes, CompactSample, Extras};
use crate::draw::{BatchKey, Source};
use crate::hops::{Expanding, Hops};
use crate::ids::{Id, Ids};
use crate::node_map::NodeMap;
use crate::{MiniBatch, SampleError, SampleSpec, Sampler};

/// Bytes of the lists that reading sections takes, a section.
const BYTES_PER_SECTION: u64 = 64;

/// A file of the direct layout, and the columns that it serves.
pub(crate) struct Direct {
    file: Arc<DirectFile>,
    own: Vec<Own>,
    /// Columns that the store serves.
    others: Option<Columns>,
}

impl Direct {
    pub fn new(
        file: Arc<DirectFile>,
        snapshot: &Snapshot,
        spec: &SampleSpec,
        columns: &Columns,
    ) -> Result<Self, SampleError> {
        if file.snapshot().fingerprint() != snapshot.fingerprint() {
            return Err(SampleError::Spec(
                "the direct layout was compiled from another version than the sampled snapshot"
                    .into(),
            ));
        }
        spec.method.check(Source::Sections)?;
        if !spec.is_plain() {
            let what = "the direct layout supports only plain neighbour sampling (no links, \
                        disjoint subgraphs, times, walks or induced edges)";
            return Err(DirectError::OnlyPaged(what.into()).into());
        }
        if !spec.draws_from_first_alone() {
            let what = "the direct layout has only one edge type, but the fanouts draw from \
                        another one";
            return Err(DirectError::OnlyPaged(what.into()).into());
        }
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (column, (tensor, decoder)) in columns.tensors().enumerate() {
            match (file.row_of(tensor), decoder) {
                (Some(bytes), Some(decoder)) => {
                    own.push(Own { column, tensor, bytes, decoder: decoder.clone() });
                }
                _ => others.push(column),
            }
        }
        let others = (!others.is_empty()).then(|| columns.only(&others));
        Ok(Self { file, own, others })
    }

    /// As [`Sampler::sample`].
    pub fn sample(
        &self,
        sampler: &Sampler,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        admit: &Admit<'_>,
    ) -> Result<MiniBatch, SampleError> {
        let (known, mut sample) = sampler.clock().time(Work::Sample, admit, |admit| {
            if self.file.is_narrow() {
                self.run_hops::<u32>(sampler, seeds, stream, admit)
            } else {
                self.run_hops::<u64>(sampler, seeds, stream, admit)
            }
        })?;
        let batch_held = admit(Stage::Topology, sample.batch_bytes())?;
        let columns = sampler.clock().time(Work::Gather, admit, |admit| {
            let Some(CompactNodes { ids, .. }) = sample.nodes.first_mut() else {
                return Err(SampleError::Spec("the store has no node types".into()));
            };
            let (rows, found) = self.read_rows(ids, known, sampler, admit)?;
            *ids = found;
            let mut columns = rows.finish();
            if let Some(others) = &self.others {
                columns.extend(others.gather(sampler.snapshot(), &sample, None, admit)?);
            }
            Ok(columns)
        })?;
        Ok(sample.into_batch(batch_held, columns))
    }

    /// Samples the subgraph in addresses. What hops work with is given back at the end: its memory
    /// is of use to the rows.
    fn run_hops<I: Id>(
        &self,
        sampler: &Sampler,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        admit: &Admit<'_>,
    ) -> Result<(Known, CompactSample), SampleError> {
        let (snapshot, ends) = (sampler.snapshot(), sampler.ends());
        let mut held = Growing::default();
        let mut hops = Hops::<I>::default();
        hops.clear(1, ends.len());
        for (node_type, ids) in seeds {
            snapshot.check_nodes(*node_type, ids)?;
            let passing = NodeMap::<I>::BYTES_PER_NODE + BYTES_PER_SECTION;
            held.grow(hops.num_bytes() + ids.len() as u64 * passing, admit)?;
            hops.push_seeds(0, &self.file.addresses(ids)?);
        }
        hops.end_hop();
        let key = BatchKey::new(sampler.spec().seed, stream);
        let mut known = Known::default();
        for hop in 0..sampler.spec().fanouts.hops() {
            // A store without an edge type has no hops.
            let Expanding { ids: frontier, step, edges, .. } = hops.expanding(0, ends[0]);
            if let Some(rule) = sampler.rule((key, hop), 0).filter(|_| !frontier.is_empty()) {
                let addresses: Vec<u64> = frontier.iter().map(|address| address.get()).collect();
                let lists = admit(Stage::Topology, frontier.len() as u64 * BYTES_PER_SECTION)?;
                let staged = Staged::new(addresses.len(), &self.own, admit)?;
                let rule = rule.by_position();
                let read = known.read_hop(&self.file, rule, &addresses, (&self.own, staged))?;
                drop(lists);
                step.keep_read(read, edges)?;
            }
            held.grow(hops.bytes_for_hop(ends, 0) + known.ids.capacity() as u64 * 8, admit)?;
            let Expanding { step, edges, .. } = hops.expanding(0, ends[0]);
            step.take_read(edges);
            hops.record(ends);
            hops.end_hop();
            held.shrink(hops.num_bytes() + known.ids.capacity() as u64 * 8);
        }
        let _held = admit(Stage::Topology, hops.compact_bytes(ends))?;
        let (nodes, edges) = hops.compact(ends);
        Ok((known, CompactSample { nodes, edges, extras: Extras::default(), _held }))
    }

    /// Rows of all nodes, and ids: those of the nodes that hops went through are there, the others
    /// are read.
    fn read_rows(
        &self,
        addresses: &Ids,
        known: Known,
        sampler: &Sampler,
        admit: &Admit<'_>,
    ) -> Result<(Rows, Ids), SampleError> {
        let Known { mut ids, staged, mut cached } = known;
        let (from, total) = (ids.len(), addresses.len());
        let unread = (total - from) as u64;
        let mut rows = Rows::new(total, &self.own, unread * BYTES_PER_SECTION, admit)?;
        let mut at = 0;
        for staged in staged {
            staged.each_row(|row| {
                rows.put(at, |own| &row[own.bytes.clone()], &self.own);
                at += 1;
            });
        }
        ids.resize(total, 0);
        let left: Vec<u64> = (from..total).filter_map(|at| addresses.get(at)).collect();
        cached += self.file.primaries(&left, &mut |place, primary| {
            rows.put(from + place, |own| primary.row(own.bytes.clone()), &self.own);
            ids[from + place] = primary.node;
            Ok(())
        })?;
        let columns = self.own.len() as u64;
        let (all, cached) = (total as u64 * columns, cached * columns);
        let snapshot = sampler.snapshot();
        snapshot.count_rows(ng_store::GatherStats { rows: all, rows_cached: cached });
        let bound = snapshot.catalog().node_types.first().map_or(0, |meta| meta.num_nodes);
        Ok((rows, Ids::below(bound, &ids)))
    }
}
