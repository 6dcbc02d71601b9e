//! One batch in a file: the subgraph in the fewest bytes, then for each tensor the rows that are
//! not hot, in the order of the batch's nodes or edges.
//!
//! What must not live here: reading, checksums. The invariant: numbers that would lead outside the
//! record or the batch are refused.

use std::ops::Range;

use ng_store::Catalog;

use super::hot::{HotSet, PackedTable};
use crate::{CompactEdges, CompactNodes, Ids, MiniBatch};

/// Rows begin at multiples of this, so that copies of them go by whole lines.
pub(crate) const ALIGN_BYTES: usize = 64;

/// The subgraph of a batch and the counts of its cold rows, and the places of these.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    /// Everything before the rows, to a multiple of [`ALIGN_BYTES`].
    pub head: Vec<u8>,
    /// By table, the numbers of the batch's rows that are not hot.
    pub cold: Vec<Vec<u32>>,
}

/// The ids whose rows a table gives to a batch.
fn ids(batch: &MiniBatch, table: &PackedTable) -> Vec<u64> {
    batch.row_ids(table.tensor.owner).iter().map(|id| *id as u64).collect()
}

/// Writes down what a batch is.
pub(crate) fn encode(batch: &MiniBatch, number: u64, catalog: &Catalog, hot: &HotSet) -> Encoded {
    let mut out = Encoded::default();
    let head = &mut out.head;
    let mut put = |value: usize| head.extend((value as u32).to_le_bytes());
    put(number as usize);
    put(batch.nodes.len());
    put(batch.edges.len());
    for block in &batch.nodes {
        [block.ids.len(), block.per_hop.len()].into_iter().for_each(&mut put);
        block.per_hop.iter().copied().for_each(&mut put);
    }
    let counts: Vec<Vec<u32>> = batch.edges.iter().map(|block| counts(&block.cols)).collect();
    for (block, counts) in batch.edges.iter().zip(&counts) {
        let lens = [
            block.rows.len(),
            counts.len(),
            block.edge_ids.len(),
            block.times.len(),
            block.weights.len(),
            block.per_hop.len(),
        ];
        lens.into_iter().chain(block.per_hop.iter().copied()).for_each(&mut put);
    }
    for table in &hot.tables {
        let ids = ids(batch, table).into_iter().enumerate();
        let cold = ids.filter(|(_, id)| table.hot.place(*id).is_none());
        let cold: Vec<u32> = cold.map(|(number, _)| number as u32).collect();
        put(cold.len());
        out.cold.push(cold);
    }
    for (block, meta) in batch.nodes.iter().zip(&catalog.node_types) {
        put_ids(head, &block.ids, is_wide(meta.num_nodes));
    }
    for ((block, counts), meta) in batch.edges.iter().zip(&counts).zip(&catalog.edge_types) {
        put_ids(head, &block.rows, false);
        head.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        put_ids(head, &block.edge_ids, is_wide(meta.num_edge_ids));
        head.extend(block.times.iter().flat_map(|time| time.to_le_bytes()));
        head.extend(block.weights.iter().flat_map(|weight| weight.to_le_bytes()));
    }
    head.resize(head.len().next_multiple_of(ALIGN_BYTES), 0);
    out
}

/// Whether ids below `bound` take 8 bytes.
fn is_wide(bound: u64) -> bool {
    bound > 1 << 32
}

fn put_ids(out: &mut Vec<u8>, ids: &[i64], wide: bool) {
    if wide {
        out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    } else {
        out.extend(ids.iter().flat_map(|id| (*id as u32).to_le_bytes()));
    }
}

/// How many edges each destination has, up to the last that has one; `cols` does not decrease.
fn counts(cols: &[i64]) -> Vec<u32> {
    let mut counts = vec![0; cols.last().map_or(0, |last| *last as usize + 1)];
    for col in cols {
        counts[*col as usize] += 1;
    }
    counts
}

/// A record taken apart.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub nodes: Vec<CompactNodes>,
    pub edges: Vec<CompactEdges>,
    /// By table, where its cold rows are in the record.
    pub cold: Vec<Range<usize>>,
}

/// Takes the record of batch `number` apart.
pub(crate) fn decode(
    bytes: &[u8],
    number: u64,
    catalog: &Catalog,
    hot: &HotSet,
) -> Result<Decoded, String> {
    let mut cursor = Cursor { bytes, at: 0 };
    let wanted = [number as u32 as usize, catalog.node_types.len(), catalog.edge_types.len()];
    let found = [cursor.number()?, cursor.number()?, cursor.number()?];
    if found != wanted {
        return Err(format!("it begins with {found:?}, not with {wanted:?}"));
    }
    let mut nodes = Vec::new();
    for _ in &catalog.node_types {
        let (len, hops) = (cursor.number()?, cursor.number()?);
        nodes.push((len, cursor.numbers(hops)?));
    }
    let mut edges = Vec::new();
    for _ in &catalog.edge_types {
        let lens = cursor.numbers(6)?;
        let per_hop = cursor.numbers(lens[5])?;
        edges.push((lens, per_hop));
    }
    let num_cold = cursor.numbers(hot.tables.len())?;
    let metas = nodes.into_iter().zip(&catalog.node_types);
    let nodes: Vec<CompactNodes> = metas
        .map(|((len, per_hop), meta)| {
            let ids = cursor.ids(len, meta.num_nodes)?;
            Ok(CompactNodes { ids, per_hop })
        })
        .collect::<Result<_, String>>()?;
    let num_nodes = |node_type: u16| nodes.get(usize::from(node_type)).map_or(0, |n| n.ids.len());
    let metas = edges.into_iter().zip(&catalog.edge_types);
    let edges: Vec<CompactEdges> = metas
        .map(|((lens, per_hop), meta)| {
            let rows = cursor.narrow(lens[0], num_nodes(meta.source.0) as u64)?;
            let counts = cursor.counts(lens[1], lens[0], num_nodes(meta.destination.0))?;
            let edge_ids = cursor.ids(lens[2], meta.num_edge_ids)?;
            let times = cursor.take(lens[3], 8)?.as_chunks::<8>().0;
            let times = times.iter().map(|time| i64::from_le_bytes(*time)).collect();
            let weights = cursor.take(lens[4], 4)?.as_chunks::<4>().0;
            let weights = weights.iter().map(|weight| f32::from_le_bytes(*weight)).collect();
            Ok(CompactEdges { rows, counts, edge_ids, times, weights, per_hop })
        })
        .collect::<Result<_, String>>()?;
    let mut cold = Vec::new();
    for (rows, table) in num_cold.into_iter().zip(&hot.tables) {
        cursor.at = cursor.at.next_multiple_of(ALIGN_BYTES);
        let start = cursor.at;
        cursor.take(rows, table.width as usize)?;
        cold.push(start..cursor.at);
    }
    Ok(Decoded { nodes, edges, cold })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize, width: usize) -> Result<&'a [u8], String> {
        let len = count.checked_mul(width).and_then(|len| self.at.checked_add(len));
        let taken = len.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| format!("{count} x {width} bytes pass its end"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn number(&mut self) -> Result<usize, String> {
        Ok(self.numbers(1)?[0])
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<usize>, String> {
        let words = self.take(count, 4)?.as_chunks::<4>().0;
        Ok(words.iter().map(|word| u32::from_le_bytes(*word) as usize).collect())
    }

    /// Ids below `bound`, as wide as the bound makes them.
    fn ids(&mut self, count: usize, bound: u64) -> Result<Ids, String> {
        if !is_wide(bound) {
            return self.narrow(count, bound).map(Ids::Narrow);
        }
        let words = self.take(count, 8)?.as_chunks::<8>().0;
        let ids: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        check_below(ids.iter().copied(), bound)?;
        Ok(Ids::Wide(ids))
    }

    /// Numbers below `bound`, of 4 bytes.
    fn narrow(&mut self, count: usize, bound: u64) -> Result<Vec<u32>, String> {
        let words = self.take(count, 4)?.as_chunks::<4>().0;
        let numbers: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        check_below(numbers.iter().map(|number| u64::from(*number)), bound)?;
        Ok(numbers)
    }

    /// How many of `edges` edges each of the first destinations has.
    fn counts(&mut self, counts: usize, edges: usize, nodes: usize) -> Result<Vec<u32>, String> {
        let counts = self.narrow(counts, u64::from(u32::MAX))?;
        let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if sum != edges as u64 || counts.len() > nodes {
            return Err(format!("edges per destination do not add up to {edges}"));
        }
        Ok(counts)
    }
}

fn check_below(numbers: impl Iterator<Item = u64>, bound: u64) -> Result<(), String> {
    match numbers.max().filter(|most| *most >= bound) {
        Some(most) => Err(format!("number {most} is not below {bound}")),
        None => Ok(()),
    }
}
