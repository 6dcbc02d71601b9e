//! Where the sections of some nodes would lie in a file of the direct layout, without writing it:
//! for who simulates a device that holds one.
//!
//! What must not live here: how sections are placed (`layout.rs`), bytes of pages.

use std::sync::Arc;

use ng_types::{NodeId, Places};

use super::error::DirectError;
use super::format::{Shape, WIDTH_MAX, WIDTH_MIN};
use super::layout::Placed;
use super::plan::{
    DirectOptions, DirectProgress, Nodes, bare_shape, choose_tensors, lay_out, only_types,
    too_many_pages, with_width,
};
use crate::store::Snapshot;

/// The places of `wanted`, which ascends. One pass over all degrees; the memory is that of the
/// answer, and of the order of rows of a reorganised store.
///
/// # Errors
/// Those of [`DirectPlan::new`](super::DirectPlan::new), and [`DirectError::Unsupported`] for rows
/// that do not fit into a page.
pub fn places(
    snapshot: &Arc<Snapshot>,
    options: &DirectOptions,
    wanted: &[NodeId],
    progress: &mut DirectProgress<'_>,
) -> Result<Places, DirectError> {
    let (node, edge) = only_types(snapshot)?;
    let (_, described) = choose_tensors(snapshot, node, options)?;
    let bare = bare_shape(edge, &described, options)?;
    let order = Nodes::new(snapshot, node.num_nodes)?;
    for width in WIDTH_MIN.max(options.address_bytes_min)..=WIDTH_MAX {
        let shape = with_width(bare, width)?;
        if shape.unit_pages > 1 {
            let what = format!("rows of {} bytes exceed a page", shape.row_bytes);
            return Err(DirectError::Unsupported(what));
        }
        let mut found = Wanted::new(wanted, &shape);
        let mut keep = |nodes: &[NodeId], placed: &[(u64, Placed)]| {
            found.take(nodes, placed);
            Ok(())
        };
        if lay_out(snapshot, &order, shape, &mut keep, progress)?.fits(&shape, node.num_nodes) {
            return Ok(found.places);
        }
    }
    Err(too_many_pages())
}

/// Places as they come, in the order of rows.
struct Wanted {
    shape: Shape,
    places: Places,
    rows: u64,
    entries: u64,
}

impl Wanted {
    fn new(wanted: &[NodeId], shape: &Shape) -> Self {
        let mut places = Places {
            page_bytes: shape.page_bytes as u32,
            entries_per_page: shape.full_entries() as u32,
            node: wanted.to_vec(),
            ..Places::default()
        };
        let all = [&mut places.primary, &mut places.run, &mut places.tail];
        all.into_iter().for_each(|column| column.resize(wanted.len(), 0));
        let all = [&mut places.first_entry, &mut places.row];
        all.into_iter().for_each(|column| column.resize(wanted.len(), 0));
        places.beside_row.resize(wanted.len(), 0);
        places.full.resize(wanted.len(), 0);
        Self { shape: *shape, places, rows: 0, entries: 0 }
    }

    fn take(&mut self, nodes: &[NodeId], placed: &[(u64, Placed)]) {
        let to = &mut self.places;
        for (node, (degree, placed)) in nodes.iter().zip(placed) {
            if let Ok(at) = to.node.binary_search(node) {
                let split = self.shape.split(*degree);
                to.primary[at] = placed.primary.page;
                to.run[at] = placed.run;
                to.tail[at] = placed.tail.map_or(0, |slot| slot.page);
                to.first_entry[at] = self.entries;
                to.row[at] = self.rows;
                to.beside_row[at] = split.inline.min(u64::from(u32::MAX)) as u32;
                to.full[at] = split.full.min(u64::from(u32::MAX)) as u32;
            }
            self.rows += 1;
            self.entries += degree;
        }
    }
}
