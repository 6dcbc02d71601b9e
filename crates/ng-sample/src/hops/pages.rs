//! Expanding a frontier from pages, hop by hop.
//!
//! Positions are drawn before pages are read where a rule allows it. For other rules whole lists
//! are read: short ones some at a time, long ones piece by piece, so that memory is bounded
//! whatever the lists are.

use std::ops::Range;
use std::sync::Arc;

use ng_store::{Expansion, RowQueue, Snapshot};
use ng_types::{EdgeTypeId, NodeId};

use super::{append, num_bytes};
use crate::SampleError;
use crate::draw::{Around, ByEntry, Choice, Piece, Sources, Times, Uniform, Weights, count};

/// Entries that are read together at most, and how many lists at a time if they are short: as many
/// as have about half of these entries, so that few of them have to wait for room.
const ENTRIES_TOGETHER: u64 = 1 << 15;
const LISTS_TOGETHER: Range<u64> = 64..1024;
const SHORT_MAX: u64 = ENTRIES_TOGETHER / LISTS_TOGETHER.start;

/// Finding a list takes the memory of this many entries.
const LIST_ENTRIES: u64 = 2;

/// Memory for what is read together.
const READ_BYTES: u64 = ENTRIES_TOGETHER * 112;

/// Entries of the lists of `nodes` at drawn positions; what is asked for of `rows` is read with the
/// lists.
pub(super) fn draw(
    snapshot: &Snapshot,
    uniform: Uniform,
    nodes: &[NodeId],
    rows: Option<&Arc<RowQueue>>,
) -> Result<Expansion, SampleError> {
    let mut found = Expansion::default();
    let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
        uniform.draw(nodes[at], degree, |position| positions.push(position));
    };
    match rows {
        Some(rows) => {
            snapshot.expand_beside(uniform.edge_type, nodes, &mut draw, &mut found, rows)?
        }
        None => snapshot.expand(uniform.edge_type, nodes, &mut draw, &mut found)?,
    }
    Ok(found)
}

/// Entries that a rule chooses from the lists of `nodes`. `reserve` hears how many bytes are needed
/// in all, before they are.
pub(super) fn choose(
    snapshot: &Snapshot,
    edge_type: EdgeTypeId,
    (rule, around): (ByEntry, Around<'_>),
    nodes: &[NodeId],
    reserve: &mut dyn FnMut(u64) -> Result<(), SampleError>,
) -> Result<Expansion, SampleError> {
    let mut chosen = Chosen::new(Choice::new(rule, around), nodes.len());
    let mut long = Vec::new();
    let (mut first, mut together) = (0, LISTS_TOGETHER.start);
    while first < nodes.len() {
        let some = &nodes[first..nodes.len().min(first + together as usize)];
        let mut degrees = vec![0; some.len()];
        let mut found = Expansion::default();
        let whole = ENTRIES_TOGETHER - LIST_ENTRIES * some.len() as u64;
        let mut room = whole;
        let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
            degrees[at] = degree;
            if degree <= room.min(SHORT_MAX) {
                room -= degree;
                positions.extend(0..degree);
            }
        };
        reserve(READ_BYTES + chosen.num_bytes())?;
        snapshot.expand(edge_type, some, &mut draw, &mut found)?;
        for (at, degree) in degrees.into_iter().enumerate() {
            let (index, degree) = (first + at, count(degree)?);
            let start = found.offsets[at];
            if found.offsets[at + 1] - start == degree as usize {
                chosen.choose(index, (some[at], degree), &found, start)?;
            } else {
                long.push((index, degree));
            }
        }
        first += some.len();
        let fit = some.len() as u64 * (ENTRIES_TOGETHER / 2) / (whole - room).max(1);
        together = fit.clamp(LISTS_TOGETHER.start, LISTS_TOGETHER.end);
    }
    let mut left = Pieces::new(&long, chosen.choice.passes());
    loop {
        let pieces = left.next_group();
        reserve(READ_BYTES + chosen.num_bytes())?;
        if pieces.is_empty() {
            return Ok(chosen.into_request_order());
        }
        let some: Vec<NodeId> = pieces.iter().map(|piece| nodes[piece.index]).collect();
        let mut found = Expansion::default();
        let mut draw = |at: usize, _: u64, positions: &mut Vec<u64>| {
            positions.extend(pieces[at].entries.clone().map(u64::from));
        };
        snapshot.expand(edge_type, &some, &mut draw, &mut found)?;
        for (at, piece) in pieces.iter().enumerate() {
            chosen.look(piece, some[at], &found, found.offsets[at])?;
        }
    }
}

/// A part of a long list.
struct Part {
    /// Which of the destinations.
    index: usize,
    degree: u32,
    entries: Range<u32>,
    /// How often all of the list is looked at after this.
    passes_left: usize,
}

/// The parts of long lists, each list as often as it has to be looked at.
struct Pieces<'a> {
    /// Index and degree.
    lists: &'a [(usize, u32)],
    passes: usize,
    /// The next part: which list, after how many passes over it, from which entry on.
    list: usize,
    pass: usize,
    from: u32,
}

impl<'a> Pieces<'a> {
    fn new(lists: &'a [(usize, u32)], passes: usize) -> Self {
        Self { lists, passes, list: 0, pass: 0, from: 0 }
    }

    /// Parts that are read together; the part that fills what there is room for is the last.
    fn next_group(&mut self) -> Vec<Part> {
        let (mut parts, mut room) = (Vec::new(), ENTRIES_TOGETHER as u32);
        while room > 0
            && let Some((index, degree)) = self.lists.get(self.list).copied()
        {
            let end = degree.min(self.from.saturating_add(room));
            let passes_left = self.passes - 1 - self.pass;
            parts.push(Part { index, degree, entries: self.from..end, passes_left });
            room -= end - self.from;
            self.from = end;
            if end == degree {
                (self.from, self.pass) = (0, self.pass + 1);
            }
            if self.pass == self.passes {
                (self.pass, self.list) = (0, self.list + 1);
            }
        }
        parts
    }
}

/// Entries that were chosen, and where those of each destination are.
struct Chosen<'a> {
    choice: Choice<'a>,
    entries: Expansion,
    lists: Vec<(usize, usize)>,
    /// Of the long list that is being looked at: positions that may be chosen, ascending, and their
    /// entries.
    kept: (Vec<u32>, Expansion),
}

impl<'a> Chosen<'a> {
    fn new(choice: Choice<'a>, lists: usize) -> Self {
        let (entries, kept) = Default::default();
        Self { choice, entries, lists: vec![(0, 0); lists], kept }
    }

    /// Bytes of what was chosen, and of the same in the order of the request.
    fn num_bytes(&self) -> u64 {
        2 * num_bytes(&self.entries)
    }

    /// Chooses from a list of which all entries are there, from `start` of `found` on.
    fn choose(
        &mut self,
        index: usize,
        (node, degree): (NodeId, u32),
        found: &Expansion,
        start: usize,
    ) -> Result<(), SampleError> {
        let chosen = self.choice.of_whole(index, (node, degree), piece(found, start, 0..degree))?;
        self.lists[index] = (self.entries.sources.len(), chosen.len());
        for at in chosen {
            let at = start + *at as usize;
            append(&mut self.entries, found, at..at + 1);
        }
        Ok(())
    }

    /// Looks at a part of the list of `node`, whose entries are in `found` from `start` on.
    fn look(
        &mut self,
        part: &Part,
        node: NodeId,
        found: &Expansion,
        start: usize,
    ) -> Result<(), SampleError> {
        let Part { index, degree, ref entries, passes_left } = *part;
        if entries.start == 0 && passes_left + 1 == self.choice.passes() {
            self.choice.begin(index, node, degree);
            self.kept = Default::default();
        }
        self.choice.look(piece(found, start, entries.clone()))?;
        self.keep(entries.start, found, start);
        if passes_left > 0 || entries.end < degree {
            return Ok(());
        }
        let ((positions, kept), chosen) = (&self.kept, self.choice.chosen());
        self.lists[index] = (self.entries.sources.len(), chosen.len());
        for position in chosen {
            let at = positions.partition_point(|kept| kept < position);
            append(&mut self.entries, kept, at..at + 1);
        }
        Ok(())
    }

    /// Keeps the entries that may be chosen, and no others: from `first` on they are in `found`.
    fn keep(&mut self, first: u32, found: &Expansion, start: usize) {
        let mut positions = Vec::new();
        self.choice.candidates(&mut positions);
        positions.sort_unstable();
        positions.dedup();
        let (known, old) = &self.kept;
        let mut entries = Expansion::default();
        for position in &positions {
            if *position < first {
                let at = known.partition_point(|known| known < position);
                append(&mut entries, old, at..at + 1);
            } else {
                let at = start + (position - first) as usize;
                append(&mut entries, found, at..at + 1);
            }
        }
        self.kept = (positions, entries);
    }

    fn into_request_order(self) -> Expansion {
        let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
        for (start, taken) in self.lists {
            append(&mut out, &self.entries, start..start + taken);
            out.offsets.push(out.sources.len());
        }
        out
    }
}

/// Entries of a list that lie in `found` from `start` on.
fn piece(found: &Expansion, start: usize, entries: Range<u32>) -> Piece<'_> {
    let at = start..start + entries.len();
    let weights = if found.weights.is_empty() { &[] } else { &found.weights[at.clone()] };
    let times = if found.times.is_empty() { &[] } else { &found.times[at.clone()] };
    let (sources, weights) = (Sources::Ids(&found.sources[at]), Weights::Values(weights));
    Piece { first: entries.start, sources, weights, times: Times::Values(times) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_each_list_as_often_as_it_is_looked_at_and_never_pass_what_is_read_together() {
        let most = ENTRIES_TOGETHER as u32;
        let lists =
            [(4, 600), (7, most - 600), (2, 100_000), (9, 3 * most), (1, 513), (0, most + 1)];
        for passes in [1, 2] {
            let mut pieces = Pieces::new(&lists, passes);
            let mut expected = Vec::new();
            for (index, degree) in lists {
                (0..passes).rev().for_each(|left| expected.push((index, left, degree)));
            }
            let (mut found, mut at) = (Vec::new(), 0);
            loop {
                let group = pieces.next_group();
                let together: usize = group.iter().map(|part| part.entries.len()).sum();
                assert!(together <= most as usize);
                if group.is_empty() {
                    break;
                }
                for part in group {
                    assert_eq!(part.entries.start, at);
                    at = part.entries.end;
                    if at == part.degree {
                        found.push((part.index, part.passes_left, part.degree));
                        at = 0;
                    }
                }
            }
            assert_eq!((found, at), (expected, 0));
        }
    }
}
