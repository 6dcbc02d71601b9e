//! Random walks from nodes, uniform or biased as in node2vec.

use ng_types::{DrawKey, NodeId, NodeTypeId, Purpose};

use super::Collected;
use super::steps::{Bias, draws};
use crate::admission::{Admit, Stage};
use crate::draw::BatchKey;
use crate::{SampleError, Sampler, Walks};

/// Memory for a walker: where it stands and stood, and what a step reads.
const BYTES_PER_WALKER: u64 = 160;

/// Walks from nodes of one type, `[walks, length + 1]`: where each begins, and where each step
/// leads. A walk along one edge type stays at a node without neighbours; another one ends there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalksOf {
    /// One walk after the other; `None` after its end.
    pub nodes: Vec<Option<NodeId>>,
    /// Nodes of a walk.
    pub len: usize,
}

impl Sampler {
    /// Walks from `starts`, each from its own place among them.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if `walks` do not fit the store; [`SampleError::Read`],
    /// [`SampleError::Budget`].
    pub fn walk(
        &self,
        walks: &Walks,
        starts: &[NodeId],
        stream: u64,
    ) -> Result<WalksOf, SampleError> {
        walks.check(self.snapshot().catalog())?;
        let admit =
            |_: Stage, bytes: u64| self.snapshot().reserve(bytes).map_err(SampleError::from);
        let held = starts.len() as u64 * (u64::from(walks.length) + 1) * 16;
        let _held = admit(Stage::Topology, held)?;
        let key = BatchKey::new(self.spec().seed, stream).draws();
        let len = walks.length as usize + 1;
        let mut nodes = vec![None; starts.len() * len];
        let mut put = |step: usize, at: &[Option<NodeId>]| {
            let places = nodes.iter_mut().skip(step).step_by(len);
            places.zip(at).for_each(|(place, node)| *place = *node);
        };
        self.each_step(walks, starts.to_vec(), key, &admit, &mut put)?;
        Ok(WalksOf { nodes, len })
    }

    /// Shows `see` where all walkers stand: first at their starts, then after each step.
    fn each_step(
        &self,
        walks: &Walks,
        starts: Vec<NodeId>,
        key: DrawKey,
        admit: &Admit<'_>,
        see: &mut dyn FnMut(usize, &[Option<NodeId>]),
    ) -> Result<(), SampleError> {
        let catalog = self.snapshot().catalog();
        let first = catalog.edge_types[usize::from(walks.path[0].0)].destination;
        self.snapshot().check_nodes(first, &starts)?;
        let _held = admit(Stage::Topology, starts.len() as u64 * BYTES_PER_WALKER)?;
        let key = key.apart(Purpose::Walks);
        // Those that have not ended, where they stand, and where they stood.
        let mut walkers: Vec<usize> = (0..starts.len()).collect();
        let mut seen: Vec<Option<NodeId>> = starts.iter().copied().map(Some).collect();
        let (mut at, mut before) = (starts, Vec::new());
        see(0, &seen);
        for step in 0..walks.length {
            let edge_type = walks.at(step);
            let mut next = match walks.bias {
                Some((p, q)) if step > 0 => {
                    let how = (key, step, Bias { p, q });
                    self.biased_step(edge_type, (&at, &before), how, admit)?
                }
                _ => self.step(edge_type, &at, |place, degree| {
                    draws(key, step, walkers[place]).below(0, degree)
                })?,
            };
            if walks.path.len() == 1 {
                next.iter_mut().zip(&at).for_each(|(next, at)| *next = next.or(Some(*at)));
            }
            seen.fill(None);
            walkers.iter().zip(&next).for_each(|(walker, next)| seen[*walker] = *next);
            see(step as usize + 1, &seen);
            let mut goes_on = next.iter().map(Option::is_some);
            walkers.retain(|_| goes_on.next().unwrap_or(false));
            before = std::mem::replace(&mut at, next.into_iter().flatten().collect());
        }
        Ok(())
    }

    /// The nodes that walks from `starts` come by.
    pub(crate) fn collect_walks(
        &self,
        walks: &Walks,
        (node_type, starts): (NodeTypeId, &[NodeId]),
        key: DrawKey,
        admit: &Admit<'_>,
    ) -> Result<Collected, SampleError> {
        let catalog = self.snapshot().catalog();
        let mut collected = Collected::new(catalog.node_types.len());
        let mut see = |step: usize, at: &[Option<NodeId>]| {
            let of_step = match step.checked_sub(1) {
                None => node_type,
                Some(step) => catalog.edge_types[usize::from(walks.at(step as u32).0)].source,
            };
            for node in at.iter().flatten() {
                collected.number(usize::from(of_step.0), *node);
            }
            collected.end_hop();
        };
        self.each_step(walks, starts.to_vec(), key, admit, &mut see)?;
        Ok(collected)
    }
}
