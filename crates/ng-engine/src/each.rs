//! Many questions in one batch, each answered as if it were alone.
//!
//! What must not live here: how batches are sampled and run. The invariant: what is in a group has
//! no influence on the bytes of an answer, and neither has the way in which it was computed.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use ng_infer::plan::Plan;
use ng_store::Snapshot;
use ng_types::{NodeId, NodeTypeId};

use crate::ask::Ask;
use crate::bind::Given;
use crate::pinned::Pinned;
use crate::{Answer, Engine, EngineError, Reach};

/// How what is asked for becomes batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// In one subgraph: a node belongs to the smallest hop at which anything reaches it.
    Together,
    /// In one batch, in subgraphs of their own.
    Apart,
    /// One by one.
    Alone,
}

impl How {
    /// Whether each has a subgraph of its own.
    pub fn is_apart(self) -> bool {
        self == Self::Apart
    }

    /// How many are in a batch, if it has room for `room`.
    pub fn most(self, room: usize) -> usize {
        if self == Self::Alone { 1 } else { room.max(1) }
    }

    /// For each of `count` distinct things the places where it is asked for, one after another.
    pub fn order(self, numbers: &[usize], count: usize) -> Vec<(usize, usize)> {
        let mut order: Vec<(usize, usize)> =
            numbers.iter().enumerate().map(|(to, number)| (*number, to)).collect();
        if numbers.len() != count {
            order.sort_unstable();
        }
        order
    }
}

/// The part of what [`How::order`] gives that is of a batch.
pub(crate) fn rows_to(
    order: &[(usize, usize)],
    batch: Range<usize>,
) -> impl Iterator<Item = (usize, usize)> {
    let at = |number: usize| order.partition_point(|(known, _)| *known < number);
    order[at(batch.start)..at(batch.end)].iter().copied()
}

/// What all batches of a request share.
pub(crate) struct Asking<'a> {
    pub how: How,
    pub pinned: Arc<Pinned>,
    plan: Arc<Plan>,
    go_on: &'a dyn Fn() -> bool,
    reaches: Option<RefCell<Vec<Option<Reach>>>>,
}

/// What computes a model, for as long as it is held: the kernels of the devices of one moment.
/// Equal ones give equal bytes, so rows of one answer have to be of equal ones.
#[derive(Clone)]
pub struct Computing(Arc<Plan>);

impl PartialEq for Computing {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A version of the store that an engine answers from, and what computes the answers, for as long
/// as it is held.
#[derive(Clone)]
pub struct Version {
    pinned: Arc<Pinned>,
    computing: Computing,
}

impl Version {
    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.pinned.snapshot
    }

    /// What computes answers from it.
    pub fn computing(&self) -> &Computing {
        &self.computing
    }

    /// The same snapshot, of which something else computes answers.
    pub fn computed_by(self, computing: Computing) -> Self {
        Self { computing, ..self }
    }
}

/// How a question is answered.
#[derive(Clone, Copy)]
pub struct On<'a> {
    /// From which version.
    pub version: &'a Version,
    /// Asked before each stage of a batch; false ends the request.
    pub go_on: &'a dyn Fn() -> bool,
}

impl<'a> Asking<'a> {
    pub fn new(engine: &Engine, how: How, go_on: &'a dyn Fn() -> bool) -> Self {
        Self::of(engine.version(), how, go_on)
    }

    fn of(version: Version, how: How, go_on: &'a dyn Fn() -> bool) -> Self {
        let Version { pinned, computing: Computing(plan) } = version;
        // Devices may have changed since somebody asked whether they group.
        let how = if how.is_apart() && !plan.is_exact_by_row() { How::Alone } else { how };
        Self { how, pinned, plan, go_on, reaches: None }
    }

    /// A batch around seeds.
    pub fn ask<'b>(&'b self, seeds: &'b [(NodeTypeId, &'b [NodeId])], stream: u64) -> Ask<'b> {
        let (subgraphs, pairs, graphs) = (None, None, None);
        let (plan, go_on, reaches) = (&self.plan, self.go_on, self.reaches.as_ref());
        Ask { seeds, subgraphs, stream, pairs, graphs, reaches, plan, go_on }
    }
}

impl Engine {
    /// Whether [`Engine::each`] and [`Engine::each_pair`] compute what is asked for together.
    /// Otherwise they do it one by one: the model has an operation that needs all rows at once, or
    /// counts them, or devices compute it that do not promise the same bytes for a row whatever
    /// others are beside it.
    pub fn groups(&self) -> bool {
        !self.mixes.nodes && self.server.served.plan().is_exact_by_row()
    }

    /// Whether the model takes pairs of nodes; otherwise their score is the dot product of what it
    /// gives for both.
    pub fn decodes_pairs(&self) -> bool {
        self.server.binding.has(|given| matches!(given, Given::Pairs))
    }

    /// The same as [`Engine::groups`] for [`Engine::each_graph`].
    pub fn groups_graphs(&self) -> bool {
        !self.mixes.graphs && self.server.served.plan().is_exact_by_row()
    }

    /// Row `i` is, byte for byte, what [`Engine::run`] gives for `ids[i]` alone. Nodes are sampled,
    /// read and computed together where [`Engine::groups`] says so, repeats once.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn each(&self, ids: &[NodeId], seed: u64) -> Result<Answer, EngineError> {
        self.each_on(ids, seed, On { version: &self.version(), go_on: &|| true })
    }

    /// The version that questions are answered from now.
    pub fn version(&self) -> Version {
        Version { pinned: self.pinned(), computing: self.computing() }
    }

    /// What computes the answers to questions that come now.
    pub fn computing(&self) -> Computing {
        Computing(self.server.served.plan())
    }

    /// Another snapshot of the same open store as a version, of which nothing is brought into
    /// memory but what answers cannot do without.
    ///
    /// # Errors
    /// [`EngineError::Sample`], [`EngineError::Read`].
    pub fn version_of(&self, snapshot: Arc<Snapshot>) -> Result<Version, EngineError> {
        let pinned = Arc::new(self.pinned_at(snapshot, (None, None))?);
        Ok(Version { pinned, computing: self.computing() })
    }

    /// As [`Engine::each`].
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn each_on(&self, ids: &[NodeId], seed: u64, on: On<'_>) -> Result<Answer, EngineError> {
        self.nodes(ids, seed, &self.asking(self.mixes.nodes, on))
    }

    /// As [`Engine::each_on`], with the nodes that the answer for each distinct id was made of, in
    /// the order in which these are met; `None` if they are too many to be kept.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn each_reaching(
        &self,
        ids: &[NodeId],
        seed: u64,
        on: On<'_>,
    ) -> Result<(Answer, Vec<Option<Reach>>), EngineError> {
        let reaches = Some(RefCell::default());
        let asking = Asking { reaches, ..self.asking(self.mixes.nodes, on) };
        let answer = self.nodes(ids, seed, &asking)?;
        Ok((answer, asking.reaches.map(RefCell::into_inner).unwrap_or_default()))
    }

    fn asking<'a>(&self, mixes: bool, on: On<'a>) -> Asking<'a> {
        Asking::of(on.version.clone(), self.how(mixes), on.go_on)
    }

    /// Score `i` is, byte for byte, what [`Engine::scores`] gives for pair `i` alone.
    ///
    /// # Errors
    /// As [`Engine::scores`].
    pub fn each_pair(
        &self,
        pairs: (&[NodeId], &[NodeId]),
        seed: u64,
        on: On<'_>,
    ) -> Result<Answer, EngineError> {
        self.pairs(pairs, seed, &self.asking(self.mixes.nodes, on))
    }

    /// Row `i` is, byte for byte, what [`Engine::graphs`] gives for graph `i` alone.
    ///
    /// # Errors
    /// As [`Engine::graphs`].
    pub fn each_graph(&self, graphs: &[u64], on: On<'_>) -> Result<Answer, EngineError> {
        self.whole_graphs(graphs, &self.asking(self.mixes.graphs, on))
    }

    fn how(&self, mixes: bool) -> How {
        if mixes { How::Alone } else { How::Apart }
    }
}
