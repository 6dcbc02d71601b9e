//! The targets of a request: nodes, pairs or graphs.

use ng_rpc::{Problem, v1};

/// The items for which an answer has rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// A row for each node.
    Nodes(Vec<u64>),
    /// A score for each pair: sources, destinations.
    Edges(Vec<u64>, Vec<u64>),
    /// A row for each graph.
    Graphs(Vec<u64>),
}

impl Targets {
    /// The number of rows of the answer.
    pub fn len(&self) -> usize {
        match self {
            Self::Nodes(ids) | Self::Graphs(ids) => ids.len(),
            Self::Edges(sources, _) => sources.len(),
        }
    }

    /// Whether the request has no targets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all ids.
    pub fn num_bytes(&self) -> u64 {
        let ids = match self {
            Self::Nodes(ids) | Self::Graphs(ids) => ids.len(),
            Self::Edges(sources, destinations) => sources.len() + destinations.len(),
        };
        ids as u64 * 8
    }

    /// A range of the targets, which must exist.
    pub fn part(&self, which: std::ops::Range<usize>) -> Self {
        match self {
            Self::Nodes(ids) => Self::Nodes(ids[which].to_vec()),
            Self::Graphs(ids) => Self::Graphs(ids[which].to_vec()),
            Self::Edges(sources, destinations) => {
                Self::Edges(sources[which.clone()].to_vec(), destinations[which].to_vec())
            }
        }
    }

    /// The number of nodes to compute. The nodes of a graph are unknown and count as one.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Edges(..) => 2 * self.len(),
            _ => self.len(),
        }
    }

    /// The first id.
    pub fn first(&self) -> Option<u64> {
        match self {
            Self::Nodes(ids) | Self::Graphs(ids) | Self::Edges(ids, _) => ids.first().copied(),
        }
    }
}

impl TryFrom<Option<v1::Targets>> for Targets {
    type Error = Problem;

    fn try_from(given: Option<v1::Targets>) -> Result<Self, Problem> {
        use v1::targets::Targets as Given;
        match given.and_then(|given| given.targets) {
            None => Err(Problem::argument("targets", "the request has no targets")
                .remedy("give nodes, edges or graphs")),
            Some(Given::Nodes(nodes)) => Ok(Self::Nodes(nodes.ids)),
            Some(Given::Graphs(graphs)) => Ok(Self::Graphs(graphs.ids)),
            Some(Given::Edges(edges)) if edges.sources.len() != edges.destinations.len() => {
                let (sources, destinations) = (edges.sources.len(), edges.destinations.len());
                let message =
                    format!("the edges have {sources} sources and {destinations} destinations");
                Err(Problem::argument("targets.edges", message)
                    .remedy("give one destination for each source"))
            }
            Some(Given::Edges(edges)) => Ok(Self::Edges(edges.sources, edges.destinations)),
        }
    }
}
