//! A sample in the fewest bytes: the beginning of a compiled epoch's record
//! (`docs/reference/compiled.md` has the tables), and what look-ahead keeps of a sample on disk.
//! Numbers for what follows it end its header.
//!
//! What must not live here: reading, checksums, rows. The invariant: numbers that would lead
//! outside the record or the sample are refused.

use ng_store::Catalog;

use crate::compact::{CompactEdges, CompactNodes};
use crate::{Ids, MiniBatch};

/// A subgraph by node type and by edge type.
pub(crate) type Graph = (Vec<CompactNodes>, Vec<CompactEdges>);

/// The subgraph of a batch.
pub(crate) fn graph_of(batch: &MiniBatch, catalog: &Catalog) -> Graph {
    let compact = |ids: &[i64], bound| {
        let ids: Vec<u64> = ids.iter().map(|id| *id as u64).collect();
        Ids::below(bound, &ids)
    };
    let nodes = batch.nodes.iter().zip(&catalog.node_types).map(|(block, meta)| CompactNodes {
        ids: compact(&block.ids, meta.num_nodes),
        per_hop: block.per_hop.clone(),
    });
    let edges = batch.edges.iter().zip(&catalog.edge_types).map(|(block, meta)| CompactEdges {
        rows: block.rows.iter().map(|row| *row as u32).collect(),
        counts: counts(&block.cols),
        edge_ids: compact(&block.edge_ids, meta.num_edge_ids),
        times: block.times.clone(),
        weights: block.weights.clone(),
        per_hop: block.per_hop.clone(),
    });
    (nodes.collect(), edges.collect())
}

/// How many edges each destination has, up to the last that has one; `cols` does not decrease.
fn counts(cols: &[i64]) -> Vec<u32> {
    let mut counts = vec![0; cols.last().map_or(0, |last| *last as usize + 1)];
    for col in cols {
        counts[*col as usize] += 1;
    }
    counts
}

/// Appends sample `number` and the numbers for what the caller appends.
pub(crate) fn encode(
    number: u64,
    (nodes, edges): (&[CompactNodes], &[CompactEdges]),
    behind: impl Iterator<Item = usize>,
    catalog: &Catalog,
    out: &mut Vec<u8>,
) {
    let mut put = |value: usize| out.extend((value as u32).to_le_bytes());
    [number as usize, nodes.len(), edges.len()].into_iter().for_each(&mut put);
    for block in nodes {
        [block.ids.len(), block.per_hop.len()].into_iter().for_each(&mut put);
        block.per_hop.iter().copied().for_each(&mut put);
    }
    for block in edges {
        let lens = [
            block.rows.len(),
            block.counts.len(),
            block.edge_ids.len(),
            block.times.len(),
            block.weights.len(),
            block.per_hop.len(),
        ];
        lens.into_iter().chain(block.per_hop.iter().copied()).for_each(&mut put);
    }
    behind.for_each(put);
    for (block, meta) in nodes.iter().zip(&catalog.node_types) {
        put_ids(out, &block.ids, meta.num_nodes);
    }
    for (block, meta) in edges.iter().zip(&catalog.edge_types) {
        put_all(out, block.rows.iter().map(|row| row.to_le_bytes()));
        put_all(out, block.counts.iter().map(|count| count.to_le_bytes()));
        put_ids(out, &block.edge_ids, meta.num_edge_ids);
        put_all(out, block.times.iter().map(|time| time.to_le_bytes()));
        put_all(out, block.weights.iter().map(|weight| weight.to_le_bytes()));
    }
}

/// Appends items one behind the other.
pub(crate) fn put_all<const N: usize>(
    out: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = [u8; N]>,
) {
    out.reserve(items.len() * N);
    items.for_each(|item| out.extend(item));
}

fn put_ids(out: &mut Vec<u8>, ids: &Ids, bound: u64) {
    match ids {
        Ids::Narrow(ids) if !is_wide(bound) => put_all(out, ids.iter().map(|id| id.to_le_bytes())),
        ids if is_wide(bound) => put_all(out, ids.iter().map(u64::to_le_bytes)),
        ids => put_all(out, ids.iter().map(|id| (id as u32).to_le_bytes())),
    }
}

/// Whether ids below `bound` take 8 bytes.
fn is_wide(bound: u64) -> bool {
    bound > 1 << 32
}

/// A record taken apart.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub nodes: Vec<CompactNodes>,
    pub edges: Vec<CompactEdges>,
    /// The numbers for what comes behind the sample.
    pub behind: Vec<usize>,
    /// Where that begins.
    pub end: usize,
}

/// Takes the record of sample `number` apart, which has so many numbers `behind`.
pub(crate) fn decode(
    bytes: &[u8],
    number: u64,
    behind: usize,
    catalog: &Catalog,
) -> Result<Decoded, String> {
    let mut cursor = Cursor { bytes, at: 0 };
    let wanted = [number as u32 as usize, catalog.node_types.len(), catalog.edge_types.len()];
    let found = [cursor.number()?, cursor.number()?, cursor.number()?];
    if found != wanted {
        return Err(format!("its header is {found:?}, expected {wanted:?}"));
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
    let behind = cursor.numbers(behind)?;
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
    Ok(Decoded { nodes, edges, behind, end: cursor.at })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize, width: usize) -> Result<&'a [u8], String> {
        let len = count.checked_mul(width).and_then(|len| self.at.checked_add(len));
        let taken = len.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| format!("{count} x {width} bytes exceed the batch"))?;
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
        Some(most) => Err(format!("number {most} is out of range: the bound is {bound}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two node types, of which the second needs ids of 8 bytes, and an edge type between them.
    const CATALOG: &str = r#"{
        "page_bytes": 4096, "segments": [],
        "node_types": [
            {"name": "few", "num_nodes": 100, "num_nodes_live": 100, "tensors": [],
             "dictionary": null},
            {"name": "many", "num_nodes": 8589934592, "num_nodes_live": 1, "tensors": [],
             "dictionary": null}
        ],
        "edge_types": [
            {"source": 1, "relation": "of", "destination": 0, "num_edges": 9, "num_edge_ids": 9,
             "undirected": false, "unique": false, "reverse": null, "has_edge_ids": true,
             "has_time": true, "has_weight": true, "tensors": [], "topology": {
                "id_width": 5, "pages": 0, "index": 1, "l_root": null, "h_root": null,
                "gmap_root": null, "num_l_pages": 0, "num_h_lists": 0}}
        ]}"#;

    fn catalog() -> Catalog {
        serde_json::from_str(CATALOG).expect("a catalog")
    }

    fn graph() -> Graph {
        let nodes = vec![
            // A sample has all ids wide if one type needs it.
            CompactNodes { ids: Ids::Wide(vec![7, 99]), per_hop: vec![2, 0] },
            CompactNodes { ids: Ids::Wide(vec![1 << 32, 5, 0]), per_hop: vec![0, 3] },
        ];
        let edges = vec![CompactEdges {
            rows: vec![0, 1, 2],
            counts: vec![1, 2],
            edge_ids: Ids::Narrow(vec![8, 0, 3]),
            times: vec![-1, i64::MAX, 0],
            weights: vec![0.5, -1.0, 2.0],
            per_hop: vec![3],
        }];
        (nodes, edges)
    }

    #[test]
    fn a_sample_is_read_as_it_was_written_and_nothing_past_its_bounds_is() {
        let (catalog, (nodes, edges)) = (catalog(), graph());
        let mut bytes = Vec::new();
        encode(6, (&nodes, &edges), [4, 0].into_iter(), &catalog, &mut bytes);
        let end = bytes.len();
        bytes.extend([9; 4]);
        let found = decode(&bytes, 6, 2, &catalog).expect("decodes");
        assert_eq!((&found.edges, found.behind, found.end), (&edges, vec![4, 0], end));
        let ids = |nodes: &[CompactNodes]| -> Vec<Vec<u64>> {
            nodes.iter().map(|block| block.ids.iter().collect()).collect()
        };
        assert_eq!(ids(&found.nodes), ids(&nodes));
        assert_eq!((found.nodes[0].ids.num_bytes(), found.nodes[1].ids.num_bytes()), (8, 24));
        assert!(found.nodes.iter().zip(&nodes).all(|(found, own)| found.per_hop == own.per_hop));
        assert!(decode(&bytes, 7, 2, &catalog).is_err_and(|what| what.contains("its header is")));
        for len in 0..end {
            assert!(decode(&bytes[..len], 6, 2, &catalog).is_err(), "{len} bytes");
        }
        let mut past = nodes;
        past[0].ids = Ids::Narrow(vec![7, 100]);
        bytes.clear();
        encode(6, (&past, &edges), [4, 0].into_iter(), &catalog, &mut bytes);
        assert!(decode(&bytes, 6, 2, &catalog).is_err_and(|what| what.contains("bound is 100")));
    }

    #[test]
    fn a_batch_has_the_graph_that_it_was_made_of() {
        let (catalog, (nodes, edges)) = (catalog(), graph());
        let mut bytes = Vec::new();
        encode(0, (&nodes, &edges), std::iter::empty(), &catalog, &mut bytes);
        let decoded = decode(&bytes, 0, 0, &catalog).expect("decodes");
        let held = || ng_types::Budget::new(1).reserve(0).expect("nothing");
        let sample =
            crate::CompactSample { nodes, edges, extras: crate::Extras::default(), _held: held() };
        let (nodes, edges) = graph_of(&sample.into_batch(held(), Vec::new()), &catalog);
        assert_eq!((nodes, edges), (decoded.nodes, decoded.edges));
    }
}
