//! How entries of a list are chosen: one rule for each sampling method, the same for every source
//! of lists.
//!
//! A rule says what it has to see of a list, and sees nothing else: its length, or its entries,
//! piece by piece. A new method is a file here, a variant of [`Rule`] or of [`ByEntry`], and a row
//! of the table in `method.rs`. What must not live here: where lists are, hops, numbering.
//! Invariant: what is chosen depends on the list, the fanout and the key alone: not on where the
//! list comes from, in which pieces, or on other lists. What is looked for among the entries of a
//! list, and up to which time, the caller says.

mod among;
mod dated;
mod labor;
mod method;
mod piece;
mod uniform;
mod weighted;

use ng_types::{DrawKey, EdgeTypeId, NodeId, NodeTypeId};

pub(crate) use self::dated::{Dated, Dates};
use self::labor::Labor;
pub use self::method::{METHODS, Method, MethodRow, Needs, Source};
pub(crate) use self::piece::{Piece, Sources, Times, Weights};
pub(crate) use self::uniform::Uniform;
pub(crate) use self::weighted::exponential;
use self::weighted::{BadWeight, Weighted};
use crate::SampleError;

/// What all draws of a batch are keyed by.
#[derive(Clone, Copy)]
pub(crate) struct BatchKey {
    seed: u64,
    stream: u64,
    draws: DrawKey,
}

impl BatchKey {
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { seed, stream, draws: DrawKey::new(seed, stream) }
    }

    /// The key of draws that depend on the batch alone.
    pub fn draws(self) -> DrawKey {
        self.draws
    }
}

/// How the lists of one edge type are drawn from at one hop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// Positions are drawn from the length of a list, before anything else of it is read.
    Positions(Uniform),
    /// All of a list has to be looked at.
    Entries(ByEntry),
}

/// A rule that chooses by what the entries of a list are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByEntry {
    Labor(Labor),
    Weighted(Weighted),
    /// Entries that somebody looks for.
    Among,
    Dated(Dated),
}

/// What a choice has to know beside the rule.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// Names the edge type where an entry is refused.
    pub relation: &'a str,
    /// Whether somebody looks for an entry.
    pub is_wanted: &'a IsWanted<'a>,
    /// Up to when lists are drawn from, by the times of their sources.
    pub dates: Option<Dates<'a>>,
}

/// Whether somebody looks for an entry: which of the lists it is in, its source, and its time where
/// the edge type keeps times.
pub(crate) type IsWanted<'a> = dyn Fn(usize, NodeId, Option<i64>) -> bool + 'a;

impl Around<'_> {
    /// Nothing but a name.
    pub fn nothing(relation: &str) -> Around<'_> {
        Around { relation, is_wanted: &|_, _, _| false, dates: None }
    }
}

impl Rule {
    /// How entries of an edge type, whose edges come from `source`, are drawn by a method and
    /// with a fanout; `None` if it is left out.
    pub fn new(
        (method, fanout): (Method, i64),
        batch: BatchKey,
        edge_type: EdgeTypeId,
        source: NodeTypeId,
    ) -> Option<Self> {
        let BatchKey { seed, stream, draws: key } = batch;
        let fanout = match fanout {
            0 => return None,
            fanout => u32::try_from(fanout).ok(),
        };
        Some(match (method, fanout) {
            (Method::Induced, _) => Self::Entries(ByEntry::Among),
            // All of a list is the same for all methods that draw.
            (_, None) => Self::Positions(Uniform { key, edge_type, fanout, replace: false }),
            (Method::Uniform { replace }, _) => {
                Self::Positions(Uniform { key, edge_type, fanout, replace })
            }
            (Method::Labor { dependent }, Some(fanout)) => {
                let labor = Labor::new(seed, (stream, dependent), source, fanout);
                Self::Entries(ByEntry::Labor(labor))
            }
            (Method::Weighted { replace }, Some(fanout)) => {
                Self::Entries(ByEntry::Weighted(Weighted { key, edge_type, fanout, replace }))
            }
        })
    }

    /// The rule of a source that draws positions without looking at entries.
    ///
    /// # Panics
    /// If it needs to: the table of methods has such a source for none of those.
    pub fn by_position(self) -> Uniform {
        match self {
            Self::Positions(uniform) => uniform,
            Self::Entries(rule) => unreachable!("{rule:?} looks at entries"),
        }
    }
}

impl ByEntry {
    /// What it has to see of a list.
    pub fn needs(self) -> Needs {
        match self {
            Self::Labor(_) | Self::Among | Self::Dated(_) => Needs::Sources,
            Self::Weighted(_) => Needs::Weights,
        }
    }
}

/// A choice from lists that are looked at whole, one after the other: [`Choice::begin`], all pieces
/// of the list in their order, as often as [`Choice::passes`] says, and [`Choice::chosen`].
pub(crate) struct Choice<'a> {
    rule: Choosing,
    around: Around<'a>,
    /// Which of the lists.
    list: usize,
    destination: NodeId,
    degree: u32,
    chosen: Vec<u32>,
}

enum Choosing {
    Labor(Labor),
    Weighted(weighted::Choice),
    Among,
    Dated(dated::Choice),
}

impl<'a> Choice<'a> {
    pub fn new(rule: ByEntry, around: Around<'a>) -> Self {
        let rule = match rule {
            ByEntry::Labor(labor) => Choosing::Labor(labor),
            ByEntry::Weighted(rule) => Choosing::Weighted(weighted::Choice::new(rule)),
            ByEntry::Among => Choosing::Among,
            ByEntry::Dated(rule) => Choosing::Dated(dated::Choice::new(rule)),
        };
        Self { rule, around, list: 0, destination: 0, degree: 0, chosen: Vec::new() }
    }

    /// How often all pieces of a list have to be looked at.
    pub fn passes(&self) -> usize {
        match &self.rule {
            Choosing::Labor(_) | Choosing::Among => 1,
            Choosing::Weighted(choice) => choice.passes(),
            Choosing::Dated(choice) => choice.passes(),
        }
    }

    /// Begins with list number `list`, that of `destination`.
    #[inline]
    pub fn begin(&mut self, list: usize, destination: NodeId, degree: u32) {
        (self.list, self.destination, self.degree) = (list, destination, degree);
        self.chosen.clear();
        match &mut self.rule {
            Choosing::Weighted(choice) => choice.begin(destination, degree),
            Choosing::Dated(choice) => choice.begin(destination, degree),
            Choosing::Labor(_) | Choosing::Among => {}
        }
    }

    /// Looks at the next piece.
    ///
    /// # Errors
    /// [`SampleError::Weight`]; [`SampleError::Read`] where times of nodes are read.
    #[inline]
    pub fn look(&mut self, piece: Piece<'_>) -> Result<(), SampleError> {
        match &mut self.rule {
            Choosing::Labor(labor) => labor.look(self.degree, piece, &mut self.chosen),
            Choosing::Among => {
                among::look(self.list, self.around.is_wanted, piece, &mut self.chosen);
            }
            Choosing::Weighted(choice) => {
                let refused = |bad| refuse(bad, self.around.relation, self.destination);
                choice.look(piece).map_err(refused)?;
            }
            Choosing::Dated(choice) => choice.look(self.list, self.around.dates, piece)?,
        }
        Ok(())
    }

    /// Appends the positions that may be chosen, as far as the list has been looked at.
    pub fn candidates(&self, to: &mut Vec<u32>) {
        match &self.rule {
            Choosing::Labor(_) | Choosing::Among => to.extend_from_slice(&self.chosen),
            Choosing::Weighted(choice) => to.extend(choice.candidates()),
            Choosing::Dated(choice) => to.extend(choice.candidates()),
        }
    }

    /// The chosen positions in the order of the draws, once all of the list has been looked at.
    #[inline]
    pub fn chosen(&mut self) -> &[u32] {
        match &mut self.rule {
            Choosing::Weighted(choice) => choice.finish(&mut self.chosen),
            Choosing::Dated(choice) => choice.finish(&mut self.chosen),
            Choosing::Labor(_) | Choosing::Among => {}
        }
        &self.chosen
    }

    /// The positions that are chosen of list number `list`, which is there whole.
    ///
    /// # Errors
    /// As [`Choice::look`].
    #[inline]
    pub fn of_whole(
        &mut self,
        list: usize,
        (destination, degree): (NodeId, u32),
        whole: Piece<'_>,
    ) -> Result<&[u32], SampleError> {
        self.begin(list, destination, degree);
        for _ in 0..self.passes() {
            self.look(whole)?;
        }
        Ok(self.chosen())
    }
}

fn refuse(bad: BadWeight, relation: &str, destination: NodeId) -> SampleError {
    let BadWeight { position, weight } = bad;
    SampleError::Weight { relation: relation.into(), destination, position, weight }
}

/// The length of a list that is taken or looked at whole, or of what was drawn of one.
pub(crate) fn count(entries: u64) -> Result<u32, SampleError> {
    let refuse = |_| {
        SampleError::Spec(format!(
            "a node has {entries} neighbours, but only lists of fewer than 2^32 neighbours can be \
             read whole; sample uniformly with a fixed number of neighbours"
        ))
    };
    u32::try_from(entries).map_err(refuse)
}
