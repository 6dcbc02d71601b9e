//! Entries of the lists of any nodes, from wherever the lists are.
//!
//! What lives here: which source of lists serves a request outside the plain hops. What must not:
//! how entries are chosen, numbering. The invariant: the answer is in the order of the request, and
//! the same from pages and from memory.

use std::sync::Arc;

use ng_store::{Expansion, ResidentTopology, RowQueue};
use ng_types::{EdgeTypeId, NodeId};

use super::until::{self, Until};
use super::{Edges, Step, memory, pages};
use crate::admission::{Admit, Growing};
use crate::draw::{Around, Rule, Uniform};
use crate::older::{self, OlderLists};
use crate::{SampleError, Sampler};

/// Lists that are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub edge_type: usize,
    /// Whose lists; repeats are requests of their own.
    pub nodes: &'a [NodeId],
    pub until: Option<Until<'a>>,
}

impl Sampler {
    /// What a rule chooses from lists; what is asked for of `rows` is read with them where
    /// positions are drawn.
    pub(crate) fn read_lists(
        &self,
        wanted: Wanted<'_>,
        (rule, around): (Rule, Around<'_>),
        rows: Option<&Arc<RowQueue>>,
        admit: &Admit<'_>,
    ) -> Result<Expansion, SampleError> {
        let Wanted { edge_type, nodes, until } = wanted;
        let snapshot = self.snapshot();
        match (&self.resident[edge_type], &self.older[edge_type], rule) {
            (Some(topology), ..) => draw_resident(topology, (rule, around), nodes, until),
            (None, Some(older), Rule::Positions(uniform)) if until.is_none() => {
                self.draw_older(older, uniform, nodes, rows)
            }
            (None, _, Rule::Positions(uniform)) => match until {
                Some(until) => until::draw(snapshot, uniform, nodes, until),
                None => pages::draw(snapshot, uniform, nodes, rows),
            },
            (None, _, Rule::Entries(rule)) => {
                let (edge_type, mut held) = (EdgeTypeId(edge_type as u16), Growing::default());
                let mut reserve = |bytes| held.grow(bytes, admit);
                pages::choose(snapshot, edge_type, (rule, around), nodes, &mut reserve)
            }
        }
    }

    /// The draws from lists of which most are in memory.
    fn draw_older(
        &self,
        older: &OlderLists,
        uniform: Uniform,
        nodes: &[NodeId],
        rows: Option<&Arc<RowQueue>>,
    ) -> Result<Expansion, SampleError> {
        let (to_read, kept): (Vec<NodeId>, Vec<NodeId>) =
            nodes.iter().partition(|node| older.has_changed(**node));
        let of_kept = (Rule::Positions(uniform), Around::nothing(""));
        let kept = draw_resident(older.topology(), of_kept, &kept, None)?;
        if to_read.is_empty() {
            return Ok(kept);
        }
        let read = pages::draw(self.snapshot(), uniform, &to_read, rows)?;
        Ok(older::merged(older, nodes, &kept, &read))
    }
}

/// The draws from lists in memory, as the store gives them.
fn draw_resident(
    topology: &ResidentTopology,
    (mut rule, around): (Rule, Around<'_>),
    nodes: &[NodeId],
    until: Option<Until<'_>>,
) -> Result<Expansion, SampleError> {
    let (mut step, mut edges) = (Step::<u64>::default(), Edges::default());
    memory::find_lists(topology, nodes, &mut step.lists);
    if let (Rule::Positions(uniform), Some(until)) = (&mut rule, until) {
        until::cut(topology, uniform, &mut step.lists, until);
    }
    memory::plan_found(topology, (rule, around), nodes, &mut step, &mut edges)?;
    memory::take(topology, rule, nodes, &mut step, &mut edges);
    let Edges { counts, edge_ids, times, weights, .. } = edges;
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    offsets.push(0);
    let mut end = 0;
    offsets.extend(counts.iter().map(|count| {
        end += *count as usize;
        end
    }));
    Ok(Expansion { offsets, sources: step.sources, edge_ids, times, weights })
}
