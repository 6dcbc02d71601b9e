//! What a file of the direct layout will be: sizes to addresses, in one pass over degrees.
//!
//! What lives here: what can be laid out, the width of addresses, step 1. What must not: bytes of
//! pages. The invariant: a plan holds the addresses of all nodes, in memory that was reserved or on
//! disk, and nothing else in proportion to the graph.

use std::path::Path;
use std::sync::Arc;

use ng_types::{EdgeTypeId, NodeId, NodeTypeId, Reservation};

use super::addresses::Addresses;
use super::error::DirectError;
use super::format::{
    PAGE_HEADER, SECTION_BITS_MAX, SECTION_BITS_MIN, SLOT_BYTES, Shape, WIDTH_MAX, WIDTH_MIN,
};
use super::head::{DirectInfo, DirectTensor, Head};
use super::layout::{Placed, Placer};
use crate::catalog::{EdgeTypeMeta, NodeTypeMeta, Owner, TensorRef};
use crate::limits::{PAGE_BYTES_MAX, PAGE_SIZES};
use crate::rows::order::RowOrder;
use crate::store::{EXPAND_BYTES_PER_DESTINATION, Snapshot};

/// A callback that receives the step, the done and the total work. Returning `false` stops.
pub type DirectProgress<'a> = dyn FnMut(&str, u64, u64) -> bool + 'a;

/// The node type, and the edge type, that are laid out.
pub(crate) const NODE: NodeTypeId = NodeTypeId(0);
pub(crate) const EDGE: EdgeTypeId = EdgeTypeId(0);

/// Nodes whose degrees are asked for together.
const NODES_TOGETHER: u64 = 1 << 14;

/// The options of compiling.
#[derive(Clone, Debug, Default)]
pub struct DirectOptions {
    /// Bytes of a page: a power of two from 4096 to 65536; 0 is 4096.
    pub page_bytes: usize,
    /// Names of the node tensors whose rows are stored beside the lists. `None` takes all dense
    /// ones.
    pub tensors: Option<Vec<String>>,
    /// Bytes of an address at least, up to 8; they are 4 where that is enough.
    pub address_bytes_min: usize,
}

/// A layout that is known and not written yet.
pub struct DirectPlan {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) head: Head,
    pub(crate) head_bytes: usize,
    pub(crate) tensors: Vec<TensorRef>,
    pub(crate) addresses: Addresses,
    pub(crate) order: Nodes,
}

/// Nodes in the order in which they are laid out: that of their rows.
pub(crate) struct Nodes {
    of_rows: Option<RowOrder>,
    num_nodes: u64,
}

impl Nodes {
    pub fn new(snapshot: &Snapshot, num_nodes: u64) -> Result<Self, DirectError> {
        Ok(Self { of_rows: snapshot.load_nodes_of_rows(NODE)?, num_nodes })
    }

    pub fn len(&self) -> u64 {
        self.num_nodes
    }

    /// Nodes `from..`, `count` of them or as many as there are.
    pub fn some(&self, from: u64, count: u64) -> Vec<NodeId> {
        let rows = from..self.num_nodes.min(from + count);
        match &self.of_rows {
            Some(order) => rows.map(|row| order.row(row)).collect(),
            None => rows.collect(),
        }
    }
}

/// What a pass over all degrees found.
pub(super) struct Pass {
    placer: Placer,
    num_entries: u64,
}

impl Pass {
    /// Whether addresses, numbers of nodes and of entries have room in the width of `shape`.
    pub fn fits(&self, shape: &Shape, num_nodes: u64) -> bool {
        let last = u128::from(self.placer.num_pages()) << shape.section_bits;
        let most = u64::MAX >> (64 - 8 * shape.width);
        last <= 1 << (8 * shape.width) && num_nodes.max(self.num_entries) <= most
    }
}

/// Takes nodes that follow one another, with their degrees and places.
pub(super) type TakePlaced<'a> =
    dyn FnMut(&[NodeId], &[(u64, Placed)]) -> Result<(), DirectError> + 'a;

impl DirectPlan {
    /// Plans the layout of `snapshot`. It writes nothing except addresses that exceed the memory,
    /// which go to an unlinked temporary file in `directory`.
    ///
    /// Memory: an address, 4 to 8 bytes, a node where that is at most half of the budget, else 1
    /// MiB; the order of rows of a reorganised store (6 to 10 bytes a node); 3 MiB beside.
    ///
    /// # Errors
    /// [`DirectError::Unsupported`] if the store or the options are not supported;
    /// [`DirectError::Budget`], those of reading.
    pub fn new(
        snapshot: Arc<Snapshot>,
        directory: &Path,
        options: &DirectOptions,
        progress: &mut DirectProgress<'_>,
    ) -> Result<Self, DirectError> {
        let (node, edge) = only_types(&snapshot)?;
        let (tensors, described) = choose_tensors(&snapshot, node, options)?;
        let bare = bare_shape(edge, &described, options)?;
        let num_nodes = node.num_nodes;
        let order = Nodes::new(&snapshot, num_nodes)?;
        let mut found = None;
        for width in WIDTH_MIN.max(options.address_bytes_min)..=WIDTH_MAX {
            let shape = with_width(bare, width)?;
            let mut addresses = Addresses::new(&snapshot, directory, num_nodes, width)?;
            let mut keep = |nodes: &[NodeId], placed: &[(u64, Placed)]| {
                let slots = placed.iter().map(|(_, placed)| placed.primary);
                let of: Vec<u64> = slots.map(|s| shape.address(s.page, s.section)).collect();
                addresses.set(nodes, &of)
            };
            let pass = lay_out(&snapshot, &order, shape, &mut keep, progress)?;
            if pass.fits(&shape, num_nodes) {
                found = Some((shape, pass, addresses));
                break;
            }
        }
        let (shape, pass, addresses) = found.ok_or_else(too_many_pages)?;
        let head = Head {
            fingerprint: format!("{:016x}", snapshot.fingerprint()),
            checkpoint_id: snapshot.checkpoint_id().0,
            lsn: snapshot.lsn(),
            node_type: node.name.clone(),
            relation: edge.relation.clone(),
            num_nodes,
            num_entries: pass.num_entries,
            num_edge_ids: edge.num_edge_ids,
            shape,
            tensors: described,
            primary_pages: pass.placer.primary_pages,
            secondary_pages: pass.placer.secondary_pages,
            build: 0,
        };
        let wrong = |damage: crate::error::Damage| DirectError::Unsupported(damage.to_string());
        let head = head.with_build().map_err(wrong)?;
        head.check().map_err(wrong)?;
        let head_bytes = head.num_bytes().map_err(wrong)?;
        Ok(Self { snapshot, head, head_bytes, tensors, addresses, order })
    }

    /// Returns the description of the future file.
    pub fn info(&self) -> DirectInfo {
        self.head.info(self.head.file_bytes(self.head_bytes))
    }

    /// Whether addresses lie on disk while the file is compiled.
    pub fn is_on_disk(&self) -> bool {
        self.addresses.is_on_disk()
    }
}

/// The only node type and edge type, beside which its reverse may be kept.
pub(crate) fn only_types(
    snapshot: &Snapshot,
) -> Result<(&NodeTypeMeta, &EdgeTypeMeta), DirectError> {
    let catalog = snapshot.catalog();
    let edges = catalog.num_named_edge_types();
    match (catalog.node_types.as_slice(), catalog.edge_types.as_slice()) {
        ([node], [edge, ..]) if edges == 1 => Ok((node, edge)),
        (nodes, _) => Err(DirectError::OnlyPaged(format!(
            "the direct layout needs a store with one node type and one edge type; this store has \
             {} node types and {} edge types",
            nodes.len(),
            edges
        ))),
    }
}

pub(super) fn choose_tensors(
    snapshot: &Snapshot,
    node: &NodeTypeMeta,
    options: &DirectOptions,
) -> Result<(Vec<TensorRef>, Vec<DirectTensor>), DirectError> {
    let chosen: Vec<usize> = match &options.tensors {
        None => (0..node.tensors.len()).filter(|at| !node.tensors[*at].is_sparse()).collect(),
        Some(names) => {
            let find = |name: &String| {
                node.tensor(name).map(usize::from).ok_or_else(|| {
                    let known: Vec<&str> = node.tensors.iter().map(|t| t.name.as_str()).collect();
                    DirectError::Unsupported(format!(
                        "the store has no node tensor {name:?}; its node tensors are {known:?}"
                    ))
                })
            };
            let mut found = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
            found.sort_unstable();
            found.dedup();
            found
        }
    };
    let mut described = Vec::with_capacity(chosen.len());
    for at in &chosen {
        let tensor = TensorRef { owner: Owner::Node(NODE), index: *at as u16 };
        let (meta, scales) = (&node.tensors[*at], snapshot.scales(tensor)?);
        described.push(DirectTensor {
            name: meta.name.clone(),
            dtype: meta.dtype,
            shape: meta.shape.clone(),
            row_bytes: usize::try_from(meta.row_bytes()).unwrap_or(usize::MAX),
            scales: scales.map(|scales| scales.iter().map(|scale| scale.to_bits()).collect()),
        });
    }
    let of = |index: usize| TensorRef { owner: Owner::Node(NODE), index: index as u16 };
    Ok((chosen.into_iter().map(of).collect(), described))
}

/// The shape without a width.
pub(super) fn bare_shape(
    edge: &EdgeTypeMeta,
    tensors: &[DirectTensor],
    options: &DirectOptions,
) -> Result<Shape, DirectError> {
    let row_bytes = tensors.iter().fold(0_usize, |sum, t| sum.saturating_add(t.row_bytes));
    let page_bytes = if options.page_bytes == 0 { 4096 } else { options.page_bytes };
    let shape = Shape {
        page_bytes,
        unit_pages: 1,
        width: WIDTH_MAX,
        section_bits: 0,
        row_bytes: 0,
        has_edge_ids: edge.has_edge_ids,
        has_time: edge.has_time,
        has_weight: edge.has_weight,
    };
    shape.check().map_err(|_| {
        let what = format!("page size {page_bytes} is not valid: expected one of {PAGE_SIZES:?}");
        DirectError::Unsupported(what)
    })?;
    let most = Shape::row_bytes_max(PAGE_BYTES_MAX, WIDTH_MAX);
    if row_bytes > most {
        return Err(DirectError::RowsTooWide { row_bytes, most });
    }
    Ok(Shape { row_bytes, ..shape })
}

/// The same with addresses of `width` bytes: as few pages for a section as it needs, as many bits
/// for sections as a page may have.
pub(super) fn with_width(bare: Shape, width: usize) -> Result<Shape, DirectError> {
    let mut shape = Shape { width, ..bare };
    while Shape::row_bytes_max(shape.unit_bytes(), width) < shape.row_bytes {
        shape.unit_pages += 1;
    }
    let least = shape.section_header() + shape.row_bytes + SLOT_BYTES;
    let most = (shape.unit_bytes() - PAGE_HEADER) / least;
    // The tails of lists share pages, too, and are worth some bits where rows are wide.
    shape.section_bits =
        (usize::BITS - most.leading_zeros()).clamp(SECTION_BITS_MIN, SECTION_BITS_MAX);
    shape.check().map_err(|damage| DirectError::Unsupported(damage.to_string()))?;
    Ok(shape)
}

pub(super) fn too_many_pages() -> DirectError {
    DirectError::Unsupported("the graph needs more pages than the direct layout can address".into())
}

/// Step 1: places for all sections, by the degrees alone.
pub(super) fn lay_out(
    snapshot: &Snapshot,
    order: &Nodes,
    shape: Shape,
    take: &mut TakePlaced<'_>,
    progress: &mut DirectProgress<'_>,
) -> Result<Pass, DirectError> {
    let held = NODES_TOGETHER * (EXPAND_BYTES_PER_DESTINATION + 120);
    let _held: Reservation = snapshot.reserve(held)?;
    let mut placer = Placer::new(shape);
    let (mut done, mut num_entries) = (0, 0);
    while done < order.len() {
        if !progress("lay out", done, order.len()) {
            return Err(DirectError::Stopped);
        }
        let nodes = order.some(done, NODES_TOGETHER);
        let degrees = snapshot.degrees(EDGE, &nodes)?;
        num_entries += degrees.iter().sum::<u64>();
        let place = |degree| (degree, placer.place(degree, &mut |_, _| {}));
        let placed: Vec<(u64, Placed)> = degrees.into_iter().map(place).collect();
        take(&nodes, &placed)?;
        done += nodes.len() as u64;
    }
    Ok(Pass { placer, num_entries })
}
