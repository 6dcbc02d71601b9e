//! All neighbour lists of an edge type, in the order of pages.

use ng_types::EdgeTypeId;

use crate::catalog::EdgeTypeMeta;
use crate::error::{Damage, ReadError};
use crate::page::scan_blocks;
use crate::store::Snapshot;
use crate::topology::page::PageKind;
use crate::topology::{EntryLayout, Expansion, HLayout, LPage, PageHeader, check_h_page};

/// Takes neighbour lists: the nodes and the list of each.
pub type VisitLists<'a> = dyn FnMut(&[u64], &Expansion) -> Result<(), ReadError> + 'a;

impl Snapshot {
    /// Reads all neighbour lists of an edge type in the order of pages: `visit(nodes, lists)`.
    /// Nodes without neighbours are left out; a long list comes in several calls, in list order;
    /// nodes do not ascend across calls.
    ///
    /// # Errors
    /// [`ReadError`], also those of `visit`.
    pub fn scan_topology(
        &self,
        edge_type: EdgeTypeId,
        visit: &mut VisitLists<'_>,
    ) -> Result<(), ReadError> {
        let (meta, topo, _) = self.version.topology(edge_type)?;
        let num_nodes = self.version.node_type(meta.destination)?.num_nodes;
        let bounds = (self.version.node_type(meta.source)?.num_nodes, meta.num_edge_ids);
        let (mut nodes, mut lists) = (Vec::new(), Expansion::default());
        let page_bytes = topo.meta.page_bytes as usize;
        let mut take = |first_block: u64, bytes: &[u8]| {
            nodes.clear();
            lists.clear();
            lists.offsets.push(0);
            let first_page = first_block / topo.blocks_per_page();
            for (step, page) in bytes.chunks_exact(page_bytes).enumerate() {
                let wrong = |damage: Damage| topo.damaged(first_page + step as u64, &damage);
                let (first, from) = (nodes.len().saturating_sub(1), lists.sources.len());
                take_page(edge_type, meta, page, &mut nodes, &mut lists).map_err(wrong)?;
                if let Some(node) = nodes[first..].iter().find(|node| **node >= num_nodes) {
                    let what =
                        format!("a list belongs to node {node}, but there are {num_nodes} nodes");
                    return Err(wrong(Damage::new(what)));
                }
                lists.check(from.., bounds).map_err(wrong)?;
            }
            visit(&nodes, &lists)
        };
        scan_blocks(&self.inner, topo, topo.blocks_per_page(), &mut take)
    }
}

fn take_page(
    edge_type: EdgeTypeId,
    meta: &EdgeTypeMeta,
    page: &[u8],
    nodes: &mut Vec<u64>,
    lists: &mut Expansion,
) -> Result<(), Damage> {
    let (edge_type, layout) = (u32::from(edge_type.0), EntryLayout::of(meta));
    let width = layout.entry_bytes();
    let header = PageHeader::decode(page, edge_type, layout)?;
    let mut push = |node: u64, raw: &[u8]| {
        for entry in raw.chunks_exact(width) {
            lists.push(layout, &layout.decode(entry));
        }
        if nodes.last() == Some(&node) {
            lists.offsets.pop();
        } else {
            nodes.push(node);
        }
        lists.offsets.push(lists.sources.len());
    };
    if header.kind == PageKind::L {
        let typed = LPage::decode(page, edge_type, layout)?;
        for index in 0..typed.len() {
            let (node, raw) = typed.slot(index)?;
            push(node, raw);
        }
        return Ok(());
    }
    let h_layout = HLayout::new(layout, page.len() as u32);
    let part = u64::from(header.end_or_part);
    let degree = part * h_layout.per_page() + u64::from(header.num_entries);
    check_h_page(page, edge_type, layout, (header.node, degree), part)?;
    for (start, count) in h_layout.blocks(u64::from(header.num_entries)) {
        push(header.node, &page[start..start + count * width]);
    }
    Ok(())
}
