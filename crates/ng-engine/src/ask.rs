//! What a batch is asked for.

use std::cell::RefCell;

use ng_infer::plan::Plan;
use ng_sample::Sampler;
use ng_types::{NodeId, NodeTypeId};

use crate::{EngineError, Reach};

/// What a batch is asked for.
pub(crate) struct Ask<'a> {
    /// Nodes, each once.
    pub seeds: &'a [(NodeTypeId, &'a [NodeId])],
    /// By type, the subgraph of each seed, if subgraphs shall not share nodes.
    pub subgraphs: Option<&'a [Vec<u32>]>,
    /// Which draws.
    pub stream: u64,
    /// Pairs of the seeds, by their place: sources, destinations.
    pub pairs: Option<(&'a [i64], &'a [i64])>,
    /// For graphs: the sampler of their edges, the place of each seed's graph, how many there are.
    pub graphs: Option<(&'a Sampler, &'a [i64], u64)>,
    /// Takes what each seed reaches, if that is wanted.
    pub reaches: Option<&'a RefCell<Vec<Option<Reach>>>>,
    /// What runs: the same for all batches of a request.
    pub plan: &'a Plan,
    /// Asked before each stage; false ends the request.
    pub go_on: &'a dyn Fn() -> bool,
}

impl Ask<'_> {
    /// Ends a request that nobody waits for.
    pub fn check(&self) -> Result<(), EngineError> {
        if (self.go_on)() { Ok(()) } else { Err(EngineError::Stopped) }
    }
}
