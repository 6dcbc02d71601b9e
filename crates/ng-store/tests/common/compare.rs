//! What a snapshot must say of a graph that changes.

use ng_store::{Expansion, Packed, ResidentTopology, RowQueue, Snapshot};
use ng_types::EdgeTypeId;

use super::graph::Graph;

impl Graph {
    /// Reads everything that a snapshot holds and says what differs.
    ///
    /// # Errors
    /// The first difference, or what reading said.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let catalog = snapshot.catalog();
        for (index, live) in self.live.iter().enumerate() {
            let meta = &catalog.node_types[index];
            let wanted = (live.len() as u64, live.iter().filter(|live| **live).count() as u64);
            same("nodes", index, &(meta.num_nodes, meta.num_nodes_live), &wanted)?;
        }
        let mut found = Expansion::default();
        for (index, lists) in self.lists.iter().enumerate() {
            let meta = &catalog.edge_types[index];
            let entries: usize = lists.iter().map(Vec::len).sum();
            same("edges", index, &meta.num_edges, &(entries as u64))?;
            same("edge ids", index, &meta.num_edge_ids, &self.num_edge_ids[index])?;
            let nodes: Vec<u64> = (0..lists.len() as u64).collect();
            let read = snapshot.neighbors(EdgeTypeId(index as u16), &nodes, &mut found);
            read.map_err(|error| format!("lists of type {index}: {error}"))?;
            let wanted = self.expansion(index, &nodes);
            if found != wanted {
                let at = |node: &u64| {
                    let range =
                        |e: &Expansion| e.offsets[*node as usize]..e.offsets[*node as usize + 1];
                    found.sources[range(&found)] != wanted.sources[range(&wanted)]
                };
                let first = nodes.iter().find(|node| at(node));
                return Err(format!("lists of type {index} differ, first at {first:?}"));
            }
        }
        for (tensor, bytes) in self.rows.iter().enumerate() {
            let rows: Vec<u64> = (0..self.num_rows(tensor)).collect();
            let mut out = vec![0xEE; bytes.len()];
            let read = snapshot.gather(self.tensor_ref(tensor), &rows, &mut out);
            read.map_err(|error| format!("rows of tensor {tensor}: {error}"))?;
            let queue = RowQueue::new(snapshot);
            let ticket = queue.ask(self.tensor_ref(tensor), &rows);
            let ticket = ticket.map_err(|error| format!("rows of tensor {tensor}: {error}"))?;
            queue.read().map_err(|error| format!("rows of tensor {tensor}: {error}"))?;
            if queue.take(ticket) != *bytes {
                return Err(format!("rows of tensor {tensor} that are asked for differ"));
            }
            if out != *bytes {
                let width = self.schema.tensors[tensor].1;
                let at = out.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or(0) / width;
                return Err(format!("rows of tensor {tensor} differ, first row {at}"));
            }
        }
        Ok(())
    }

    /// Loads every topology and compares it.
    pub fn check_in_memory(&self, snapshot: &Snapshot) {
        for (index, lists) in self.lists.iter().enumerate() {
            let resident = snapshot.load_topology(EdgeTypeId(index as u16)).unwrap();
            let nodes: Vec<u64> = (0..lists.len() as u64).collect();
            assert!(as_expansion(&resident) == self.expansion(index, &nodes), "type {index}");
        }
    }

    /// The lists of `nodes` as a snapshot hands them out.
    pub fn expansion(&self, edge_type: usize, nodes: &[u64]) -> Expansion {
        let kind = self.schema.edges[edge_type];
        let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
        for node in nodes {
            for entry in &self.lists[edge_type][*node as usize] {
                out.sources.push(entry.source);
                if kind.ids {
                    out.edge_ids.push(entry.edge_id);
                }
                if kind.time {
                    out.times.push(entry.time);
                }
                if kind.weight {
                    out.weights.push(entry.weight);
                }
            }
            out.offsets.push(out.sources.len());
        }
        out
    }
}

/// What a topology in memory says of all nodes.
pub fn as_expansion(resident: &ResidentTopology) -> Expansion {
    let numbers = |packed: Packed<'_>| (0..packed.len()).map(|at| packed.get(at)).collect();
    let offsets: Vec<u64> = numbers(resident.offsets());
    for (node, ends) in (0..).zip(offsets.windows(2)) {
        assert_eq!(resident.range(node), ends[0]..ends[1]);
        assert_eq!(resident.degree(node), ends[1] - ends[0]);
    }
    assert_eq!(resident.degree(resident.num_nodes()), 0);
    Expansion {
        offsets: offsets.iter().map(|offset| *offset as usize).collect(),
        sources: numbers(resident.sources()),
        edge_ids: resident.edge_ids().map(numbers).unwrap_or_default(),
        times: resident
            .times()
            .unwrap_or_default()
            .iter()
            .map(|t| i64::from_le_bytes(*t))
            .collect(),
        weights: (resident.weights().unwrap_or_default().iter())
            .map(|weight| f32::from_le_bytes(*weight))
            .collect(),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    index: usize,
    found: &T,
    wanted: &T,
) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what} of type {index}: {found:?}, not {wanted:?}"))
}
