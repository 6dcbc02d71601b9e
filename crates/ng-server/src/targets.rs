//! What a request asks answers for.

use ng_rpc::{Problem, v1};

/// What an answer has rows for.
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
    /// How many rows the answer has.
    pub fn len(&self) -> usize {
        match self {
            Self::Nodes(ids) | Self::Graphs(ids) => ids.len(),
            Self::Edges(sources, _) => sources.len(),
        }
    }

    /// Whether it has none.
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

    /// Some of them, which have to be there.
    pub fn part(&self, which: std::ops::Range<usize>) -> Self {
        match self {
            Self::Nodes(ids) => Self::Nodes(ids[which].to_vec()),
            Self::Graphs(ids) => Self::Graphs(ids[which].to_vec()),
            Self::Edges(sources, destinations) => {
                Self::Edges(sources[which.clone()].to_vec(), destinations[which].to_vec())
            }
        }
    }

    /// How many nodes are computed for it, where they are known: those of a graph count as one.
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
            None => Err(Problem::argument("targets", "the request names no targets")
                .remedy("give nodes, edges or graphs")),
            Some(Given::Nodes(nodes)) => Ok(Self::Nodes(nodes.ids)),
            Some(Given::Graphs(graphs)) => Ok(Self::Graphs(graphs.ids)),
            Some(Given::Edges(edges)) if edges.sources.len() != edges.destinations.len() => {
                let (sources, destinations) = (edges.sources.len(), edges.destinations.len());
                let message = format!("{sources} sources and {destinations} destinations");
                Err(Problem::argument("targets.edges", message).remedy("give equally many"))
            }
            Some(Given::Edges(edges)) => Ok(Self::Edges(edges.sources, edges.destinations)),
        }
    }
}
