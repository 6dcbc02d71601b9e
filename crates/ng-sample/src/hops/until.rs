//! Draws from the part of a list that is not later than a time, where the edges have times.
//!
//! Lists of such edge types are in the order of time, so that the part is a prefix, and its end is
//! looked for as in a sorted array: of a long list only the blocks that the search touches are
//! read. Draws are then those from a list of that length, and the latest entries are its end.
//! Invariant: what is drawn depends on the entries up to that time alone.

use ng_store::{Expansion, ResidentTopology, Snapshot};
use ng_types::canary::planted;
use ng_types::{EdgeTypeId, NodeId};

use super::append;
use crate::SampleError;
use crate::draw::Uniform;

/// Lists up to this length are read whole at once.
const SHORT_MAX: u64 = 256;

/// Entries of a long list that are looked at together: a few blocks in flight for each list, and
/// all of the last part.
const PROBES: u64 = 3;
const LAST_PROBES: u64 = 64;

/// Up to when each of the lists is drawn from, by the times of its entries.
#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    /// By list.
    pub times: &'a [i64],
    /// The latest entries are taken.
    pub takes_last: bool,
}

/// Where in the prefix of `allowed` entries is drawn, and how.
#[derive(Clone, Copy)]
struct Part {
    first: u64,
    len: u64,
}

impl Part {
    fn new(allowed: u64, degree: u64, uniform: Uniform, until: Until<'_>) -> Self {
        let allowed = if planted("the_future_is_drawn") { degree } else { allowed };
        match uniform.fanout {
            Some(fanout) if until.takes_last => {
                let len = allowed.min(u64::from(fanout));
                Self { first: allowed - len, len }
            }
            _ => Self { first: 0, len: allowed },
        }
    }

    /// Shows the positions that are drawn.
    fn draw(self, uniform: Uniform, until: Until<'_>, node: NodeId, mut emit: impl FnMut(u64)) {
        let Self { first, len } = self;
        within(uniform, until).draw(node, len, |position| emit(first + position));
    }
}

/// How a part is drawn from: the latest entries are all of theirs.
fn within(uniform: Uniform, until: Until<'_>) -> Uniform {
    if until.takes_last { Uniform { fanout: None, ..uniform } } else { uniform }
}

/// Cuts lists in memory, each (start, length), to what may be drawn.
pub(super) fn cut(
    topology: &ResidentTopology,
    uniform: &mut Uniform,
    lists: &mut [(u64, u64)],
    until: Until<'_>,
) {
    let all = topology.times().unwrap_or_default();
    for ((start, len), until_time) in lists.iter_mut().zip(until.times) {
        let times = &all[*start as usize..(*start + *len) as usize];
        let allowed = times.partition_point(|time| i64::from_le_bytes(*time) <= *until_time);
        let part = Part::new(allowed as u64, *len, *uniform, until);
        (*start, *len) = (*start + part.first, part.len);
    }
    *uniform = within(*uniform, until);
}

/// The draws from the lists of `nodes` on pages.
pub(super) fn draw(
    snapshot: &Snapshot,
    uniform: Uniform,
    nodes: &[NodeId],
    until: Until<'_>,
) -> Result<Expansion, SampleError> {
    let mut degrees = vec![0; nodes.len()];
    let mut whole = |at: usize, degree: u64, positions: &mut Vec<u64>| {
        degrees[at] = degree;
        if degree <= SHORT_MAX {
            positions.extend(0..degree);
        }
    };
    let mut found = Expansion::default();
    snapshot.expand(uniform.edge_type, nodes, &mut whole, &mut found)?;
    let long: Vec<usize> = (0..nodes.len()).filter(|at| degrees[*at] > SHORT_MAX).collect();
    let of_long = draw_long(snapshot, uniform, (nodes, &degrees), (&long, until))?;
    let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
    let mut next_long = of_long.offsets.windows(2);
    for (at, node) in nodes.iter().enumerate() {
        if degrees[at] > SHORT_MAX {
            if let Some(ends) = next_long.next() {
                append(&mut out, &of_long, ends[0]..ends[1]);
            }
        } else {
            let (start, end) = (found.offsets[at], found.offsets[at + 1]);
            let times = found.times.get(start..end).unwrap_or_default();
            let allowed = times.partition_point(|time| *time <= until.times[at]) as u64;
            let part = Part::new(allowed, degrees[at], uniform, until);
            part.draw(uniform, until, *node, |position| {
                let at = start + position as usize;
                append(&mut out, &found, at..at + 1);
            });
        }
        out.offsets.push(out.sources.len());
    }
    Ok(out)
}

/// The draws from `long` ones of the lists.
fn draw_long(
    snapshot: &Snapshot,
    uniform: Uniform,
    (nodes, degrees): (&[NodeId], &[u64]),
    (long, until): (&[usize], Until<'_>),
) -> Result<Expansion, SampleError> {
    let mut out = Expansion::default();
    if long.is_empty() {
        return Ok(out);
    }
    let nodes: Vec<NodeId> = long.iter().map(|at| nodes[*at]).collect();
    let ranges = long.iter().map(|at| (0, degrees[*at])).collect();
    let untils: Vec<i64> = long.iter().map(|at| until.times[*at]).collect();
    let allowed = count_until(snapshot, uniform.edge_type, (&nodes, ranges), &untils)?;
    let mut draw = |at: usize, degree: u64, positions: &mut Vec<u64>| {
        let part = Part::new(allowed[at], degree, uniform, until);
        part.draw(uniform, until, nodes[at], |position| positions.push(position));
    };
    snapshot.expand(uniform.edge_type, &nodes, &mut draw, &mut out)?;
    Ok(out)
}

/// How many entries of each list are not later than its time; the answer is in `ranges`, both ends
/// included.
fn count_until(
    snapshot: &Snapshot,
    edge_type: EdgeTypeId,
    (nodes, mut ranges): (&[NodeId], Vec<(u64, u64)>),
    untils: &[i64],
) -> Result<Vec<u64>, SampleError> {
    loop {
        let open: Vec<usize> =
            (0..nodes.len()).filter(|at| ranges[*at].0 < ranges[*at].1).collect();
        if open.is_empty() {
            return Ok(ranges.into_iter().map(|(low, _)| low).collect());
        }
        let asked: Vec<NodeId> = open.iter().map(|at| nodes[*at]).collect();
        let mut probe = |at: usize, _: u64, positions: &mut Vec<u64>| {
            positions.extend(probes(ranges[open[at]]));
        };
        let mut found = Expansion::default();
        snapshot.expand(edge_type, &asked, &mut probe, &mut found)?;
        for (at, ends) in open.iter().zip(found.offsets.windows(2)) {
            let times = found.times.get(ends[0]..ends[1]).unwrap_or_default();
            let early = times.partition_point(|time| *time <= untils[*at]);
            let probed: Vec<u64> = probes(ranges[*at]).collect();
            let (low, high) = &mut ranges[*at];
            *high = probed.get(early).copied().unwrap_or(*high);
            *low = early.checked_sub(1).map_or(*low, |last| probed[last] + 1);
        }
    }
}

/// Positions in a range that divide it, ascending.
fn probes((low, high): (u64, u64)) -> impl Iterator<Item = u64> {
    let len = high - low;
    let count = if len <= LAST_PROBES { len } else { PROBES };
    (0..count).map(move |k| {
        let part = if count == len { k } else { (k + 1) * (len / (count + 1)) };
        low + part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_inside_their_range_and_narrow_it() {
        for len in (1..200).chain([1 << 20, 1 << 40]) {
            let found: Vec<u64> = probes((7, 7 + len)).collect();
            assert!(!found.is_empty() && found.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(found.iter().all(|at| (7..7 + len).contains(at)), "{len}: {found:?}");
        }
    }
}
