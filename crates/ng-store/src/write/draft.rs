//! What a draft does instead of an operation, and how what it put off is done together.
//!
//! What must not live here: how a commit becomes durable. The invariant: operations are done on
//! pages of their own, so nobody who reads waits for them.

use ng_types::{EdgeTypeId, NodeId, NodeTypeId};

use crate::catalog::{Catalog, TensorMeta, TensorRef};
use crate::page::{Edit, EditCounts};
use crate::tree::TreeKind;
use crate::tree::lookup::lookup;
use crate::version::base::Version;
use crate::write::error::UpdateError;
use crate::write::op::for_each;
use crate::write::ops::Ops;
use crate::write::writer::{Head, Writer};

impl Writer {
    /// Commits a transaction that only checked its operations. If there is no memory for doing
    /// them, a checkpoint takes what earlier commits hold.
    pub fn commit_draft(
        &self,
        mut head: Head,
        mut edit: Edit,
        ops: Ops,
    ) -> Result<(u64, u64), UpdateError> {
        loop {
            let done = edit.prefetch_all(&ops).and_then(|()| {
                edit.restart(&head.version);
                edit.nodes_are_checked = true;
                edit.replay_all(&ops.bytes)
            });
            let Err(error) = done else { return self.commit(head, edit, ops) };
            if !error.is_shortage() || !head.holds_memory() {
                head.clean = std::mem::take(&mut edit.clean);
                self.give_back(head);
                return Err(error);
            }
            drop(edit);
            let (found, done) = self.make_room_for(head);
            let Some(found) = found else { return done.map(|()| (0, 0)) };
            head = found;
            if let Err(error) = done {
                self.give_back(head);
                return Err(error);
            }
            edit = Edit::new(&self.inner, &self.pool, &head.version);
        }
    }
}

impl Edit {
    /// Forgets what was done, and starts from `version` again.
    pub fn restart(&mut self, version: &Version) {
        self.catalog = Catalog::clone(&version.catalog);
        self.segments.clone_from(&version.segments);
        self.counts = EditCounts::default();
        self.touched.restart();
    }

    /// Checks that a node can be added and counts it.
    pub fn draft_node(&mut self, node_type: NodeTypeId, id: u64) -> Result<(), UpdateError> {
        self.check_room_for_node(node_type, id)?;
        if let Some(meta) = self.catalog.node_types.get_mut(usize::from(node_type.0)) {
            meta.num_nodes += 1;
            meta.num_nodes_live += 1;
        }
        Ok(())
    }

    /// Counts edges between nodes that were checked, and says which edge id the first one gets.
    pub fn draft_edges(&mut self, edge_type: EdgeTypeId, count: u64) -> Result<u64, UpdateError> {
        let meta = self.catalog.edge_type(edge_type)?;
        let (reverse, first) = (meta.reverse, meta.num_edge_ids);
        for owner in [Some(edge_type), reverse].into_iter().flatten() {
            let found = self.catalog.edge_types.get_mut(usize::from(owner.0));
            let Some(meta) = found else { continue };
            // Whether it is 0 decides if nodes can be deleted without a reverse.
            meta.num_edges += count;
            meta.num_edge_ids = if meta.has_edge_ids { first + count } else { 0 };
        }
        Ok(first)
    }

    /// Does the operations of a record.
    pub fn replay_all(&mut self, ops: &[u8]) -> Result<(), UpdateError> {
        for_each(ops, &mut |op| self.replay(op))
    }

    /// Reads what operations will change, all at once.
    pub fn prefetch_all(&mut self, ops: &Ops) -> Result<(), UpdateError> {
        for (edge_type, (sources, destinations)) in &ops.edges {
            self.prefetch_edges(*edge_type, sources, destinations)?;
        }
        for (tensor, rows) in &ops.rows {
            self.prefetch_rows(*tensor, rows)?;
        }
        Ok(())
    }

    /// Memory that a new node may take: its rows.
    pub fn node_cost_bytes(&mut self, node_type: NodeTypeId) -> Result<u64, UpdateError> {
        Ok(self.catalog.node_type(node_type)?.tensors.iter().map(TensorMeta::new_row_bytes).sum())
    }

    /// Memory that a new edge may take: for each end its page and the one that this evicts to, and
    /// its rows.
    pub fn edge_cost_bytes(&mut self, edge_type: EdgeTypeId) -> Result<u64, UpdateError> {
        let tensors = &self.catalog.edge_type(edge_type)?.tensors;
        let rows: u64 = tensors.iter().map(TensorMeta::new_row_bytes).sum();
        Ok(4 * u64::from(self.catalog.page_bytes) + rows)
    }

    /// Memory that a new row may take: its pages.
    pub fn row_cost_bytes(&mut self, tensor: TensorRef) -> Result<u64, UpdateError> {
        let (segment, layout) = self.tensor_place(tensor)?;
        Ok(self.page_bytes(segment).max(layout.row_bytes()) as u64)
    }

    /// Memory that deleting a node may take: a page for each of its neighbours.
    pub fn delete_cost_bytes(&mut self, owner: NodeTypeId, id: u64) -> Result<u64, UpdateError> {
        Ok(self.degree(owner, id)?.saturating_mul(self.catalog.page_bytes.into()))
    }

    /// Entries of all lists of a node.
    fn degree(&mut self, node_type: NodeTypeId, id: u64) -> Result<u64, UpdateError> {
        let mut degree = 0;
        for number in 0..self.catalog.edge_types.len() as u16 {
            let meta = self.catalog.edge_type(EdgeTypeId(number))?;
            // Lists do not have yet what the draft has only counted.
            if meta.destination == node_type {
                degree += self.lists(EdgeTypeId(number))?.degree(id)?;
            }
        }
        Ok(degree)
    }

    /// Reads the pages that edges between these nodes will change.
    pub fn prefetch_edges(
        &mut self,
        edge_type: EdgeTypeId,
        sources: &[NodeId],
        destinations: &[NodeId],
    ) -> Result<(), UpdateError> {
        let reverse = self.catalog.edge_type(edge_type)?.reverse;
        let mut nodes = destinations.to_vec();
        if reverse == Some(edge_type) {
            nodes.extend_from_slice(sources);
        }
        self.prefetch_lists(edge_type, nodes)?;
        match reverse.filter(|reverse| *reverse != edge_type) {
            Some(reverse) => self.prefetch_lists(reverse, sources.to_vec()),
            None => Ok(()),
        }
    }

    /// Reads the pages that hold the short lists of `nodes`.
    fn prefetch_lists(
        &mut self,
        edge_type: EdgeTypeId,
        mut nodes: Vec<NodeId>,
    ) -> Result<(), UpdateError> {
        let topology = &self.catalog.edge_type(edge_type)?.topology;
        let (topo, index, root) = (topology.pages, topology.index, topology.l_root);
        let Some((store, root)) = self.store().zip(root) else {
            return Ok(());
        };
        let held = self.segment(topo)?;
        if held.changed.len() as u64 == held.num_pages {
            return Ok(());
        }
        nodes.sort_unstable();
        nodes.dedup();
        let hits = lookup(&store.pages, self.segment(index)?, root, TreeKind::L, &nodes)?;
        let mut pages: Vec<u64> = hits.iter().map(|hit| hit.record.page).collect();
        pages.sort_unstable();
        Ok(self.prefetch(topo, &pages)?)
    }

    /// Reads the pages that hold rows; wide rows are written as a whole.
    pub fn prefetch_rows(&mut self, tensor: TensorRef, rows: &[u64]) -> Result<(), UpdateError> {
        let (segment, layout) = self.tensor_place(tensor)?;
        let page_bytes = self.page_bytes(segment);
        if layout.row_bytes() > page_bytes {
            return Ok(());
        }
        let per_page = (page_bytes / crate::io::BLOCK_BYTES) as u64;
        let bound = self.segment(segment)?.num_pages;
        let rows = self.rows_of(tensor, rows)?;
        let mut pages: Vec<u64> =
            rows.iter().map(|row| layout.place(*row).block / per_page).collect();
        pages.sort_unstable();
        pages.dedup();
        pages.retain(|page| *page < bound);
        Ok(self.prefetch(segment, &pages)?)
    }
}
