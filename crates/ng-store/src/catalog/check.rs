//! Checks that a catalog is consistent in itself, before anything trusts it.

use ng_types::{Dtype, EdgeTypeId, NODE_ID_BOUND};

use crate::bytes::ensure;
use crate::catalog::keys::Keys;
use crate::catalog::{
    Catalog, EdgeTypeMeta, LogMeta, SegmentMeta, TensorMeta, TreeRoot, row_bytes,
};
use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::limits::{
    CLASS_NAMES_MAX, PAGES_BOUND, SEGMENTS_MAX, SPARSE_ENTRIES_MAX, TREE_LEVELS_MAX, TYPES_MAX,
    is_page_bytes,
};
use crate::page::{INNER_ENTRIES, pages_per_leaf};
use crate::tensor::sparse::EntryForm;

impl SegmentMeta {
    /// Leaves of the page table.
    pub(crate) fn num_leaves(&self) -> u64 {
        self.num_pages.div_ceil(pages_per_leaf(self.page_bytes))
    }

    fn check(&self) -> Result<(), Damage> {
        let name = &self.name;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        ensure(!name.is_empty() && name.len() <= 64 && name.chars().all(plain), || {
            format!("segment name {name:?} is not valid")
        })?;
        ensure(is_page_bytes(self.page_bytes), || {
            format!("segment {name}: page size {} is not valid", self.page_bytes)
        })?;
        ensure(self.num_pages < PAGES_BOUND, || {
            format!("segment {name}: {} pages are too many", self.num_pages)
        })?;
        let inner = self.num_leaves().div_ceil(INNER_ENTRIES as u64);
        ensure(self.table.len() as u64 == inner, || {
            format!("segment {name}: {} table blocks, expected {inner}", self.table.len())
        })?;
        let moved = self.physical_pages.is_some();
        let fits = if moved {
            self.map_blocks >= inner
        } else {
            self.map_blocks == self.num_leaves() + inner
        };
        ensure(fits && self.map_blocks < 1 << 46, || {
            format!(
                "segment {name}: {} blocks is not a valid size of its page table",
                self.map_blocks
            )
        })?;
        ensure(self.physical_pages() < 1 << 42, || {
            format!("segment {name}: {} physical pages are too many", self.physical_pages())
        })?;
        let inside = self.table.iter().all(|pointer| pointer.block < self.map_blocks);
        ensure(inside, || format!("segment {name}: a page table block is past the end"))
    }
}

impl Catalog {
    /// Checks everything that can be checked without reading other files.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        ensure(is_page_bytes(self.page_bytes), || {
            format!("page size {} is not valid", self.page_bytes)
        })?;
        ensure((0.1..=1.0).contains(&self.fill), || format!("fill {} is not valid", self.fill))?;
        if let Some(LogMeta { file, offset, .. }) = self.log {
            let sound = file < 2 && offset < 1 << 60 && offset.is_multiple_of(BLOCK_BYTES as u64);
            ensure(sound, || format!("offset {offset} in log file {file} is not valid"))?;
        }
        self.keys.iter().try_for_each(Keys::check)?;
        let types = self.node_types.len().max(self.edge_types.len());
        ensure(types <= TYPES_MAX, || format!("{types} types are too many"))?;
        ensure(self.segments.len() <= SEGMENTS_MAX, || {
            format!("{} segments are too many", self.segments.len())
        })?;
        self.segments.iter().try_for_each(SegmentMeta::check)?;
        let mut used = vec![false; self.segments.len()];
        self.check_nodes(&mut used)?;
        self.check_edges(&mut used)?;
        ensure(used.iter().all(|used| *used), || "a segment has no owner".into())?;
        let mut names: Vec<&str> = self.segments.iter().map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        let distinct = names.is_sorted_by(|a, b| a < b);
        ensure(distinct, || "two segments have the same name".into())
    }

    /// Checks that `segment` exists, has `page_bytes`, and belongs to nothing else yet.
    fn claim(
        &self,
        used: &mut [bool],
        segment: u32,
        page_bytes: u32,
    ) -> Result<&SegmentMeta, Damage> {
        let index = segment as usize;
        let (Some(meta), Some(place)) = (self.segments.get(index), used.get_mut(index)) else {
            return Err(Damage::new(format!("segment {segment} does not exist")));
        };
        ensure(!std::mem::replace(place, true), || format!("segment {segment} has two owners"))?;
        ensure(meta.page_bytes == page_bytes, || {
            format!("segment {}: page size {}, expected {page_bytes}", meta.name, meta.page_bytes)
        })?;
        Ok(meta)
    }

    fn check_nodes(&self, used: &mut [bool]) -> Result<(), Damage> {
        for (index, node_type) in self.node_types.iter().enumerate() {
            let name = &node_type.name;
            let before = &self.node_types[..index];
            ensure(before.iter().all(|other| other.name != *name), || {
                format!("two node types have the name {name:?}")
            })?;
            let count = node_type.num_nodes;
            ensure(count <= NODE_ID_BOUND && node_type.num_nodes_live <= count, || {
                format!("node type {name:?}: {count} is not a valid number of nodes")
            })?;
            self.check_tensors(used, &node_type.tensors, count)?;
            let dead = count - node_type.num_nodes_live;
            ensure(node_type.dead.is_some() || dead == 0, || {
                format!("node type {name:?}: the bitmap of {dead} deleted nodes is missing")
            })?;
            if let Some(bitmap) = node_type.dead {
                let segment = self.claim(used, bitmap.segment, BLOCK_BYTES as u32)?;
                check_root(bitmap.root, segment.num_pages, dead > 0)?;
            }
            if let Some(order) = node_type.order {
                ensure((1..=count).contains(&order.num_nodes), || {
                    format!(
                        "node type {name:?}: the order of rows has {} of {count} nodes",
                        order.num_nodes
                    )
                })?;
                let layout = order.layout();
                let pages = self.claim(used, order.segment, layout.page_bytes())?.num_pages;
                ensure(Some(pages) == layout.num_pages(order.num_nodes), || {
                    format!(
                        "node type {name:?}: {pages} pages is not the size of its order of rows"
                    )
                })?;
            }
            if let Some(dictionary) = node_type.dictionary {
                let block = BLOCK_BYTES as u32;
                let index = self.claim(used, dictionary.names_index, block)?;
                check_root(dictionary.names_root, index.num_pages, count > 0)?;
                self.claim(used, dictionary.names, block)?;
                let keys = self.claim(used, dictionary.keys, block)?;
                check_root(dictionary.keys_root, keys.num_pages, count > 0)?;
            }
        }
        Ok(())
    }

    fn check_edges(&self, used: &mut [bool]) -> Result<(), Damage> {
        for (index, edge_type) in self.edge_types.iter().enumerate() {
            let relation = &edge_type.relation;
            let ends = [edge_type.source, edge_type.destination];
            let known = ends.iter().all(|end| usize::from(end.0) < self.node_types.len());
            ensure(known, || format!("edge type {relation:?}: a node type does not exist"))?;
            self.check_reverse(EdgeTypeId(index as u16), edge_type)?;
            let topology = &edge_type.topology;
            ensure([4, 5].contains(&topology.id_width), || {
                format!("edge type {relation:?}: id width {} is not valid", topology.id_width)
            })?;
            let sources = self.node_types.get(usize::from(edge_type.source.0));
            let num_sources = sources.map_or(0, |t| t.num_nodes);
            ensure(topology.id_width == 5 || num_sources <= 1 << 32, || {
                format!("edge type {relation:?}: 4-byte ids are too narrow for {num_sources} nodes")
            })?;
            ensure(edge_type.num_edge_ids <= NODE_ID_BOUND, || {
                format!(
                    "edge type {relation:?}: {} is not a valid number of edge ids",
                    edge_type.num_edge_ids
                )
            })?;
            ensure(edge_type.has_edge_ids || edge_type.num_edge_ids == 0, || {
                format!("edge type {relation:?}: it has edge ids, but its entries have none")
            })?;
            let pages = self.claim(used, topology.pages, self.page_bytes)?;
            ensure(topology.num_l_pages <= pages.num_pages, || {
                format!(
                    "edge type {relation:?}: {} is not a valid number of L-type pages",
                    topology.num_l_pages
                )
            })?;
            let index = self.claim(used, topology.index, BLOCK_BYTES as u32)?.num_pages;
            check_root(topology.l_root, index, topology.num_l_pages > 0)?;
            check_root(topology.h_root, index, topology.num_h_lists > 0)?;
            check_root(topology.gmap_root, index, topology.num_h_lists > 0)?;
            self.check_tensors(used, &edge_type.tensors, edge_type.num_edge_ids)?;
        }
        Ok(())
    }

    /// Checks that the reverse of a type has the same edges the other way round.
    fn check_reverse(&self, id: EdgeTypeId, meta: &EdgeTypeMeta) -> Result<(), Damage> {
        let Some(reverse) = meta.reverse else { return Ok(()) };
        let relation = &meta.relation;
        let found = self.edge_types.get(usize::from(reverse.0));
        let found = found.ok_or_else(|| {
            Damage::new(format!("edge type {relation:?}: its reverse type does not exist"))
        })?;
        let columns = |t: &EdgeTypeMeta| (t.has_edge_ids, t.has_time, t.has_weight, t.unique);
        let is_reverse = found.reverse == Some(id)
            && (found.source, found.destination) == (meta.destination, meta.source)
            && columns(found) == columns(meta);
        ensure(is_reverse, || {
            format!("edge type {relation:?}: {:?} is not a valid reverse", found.relation)
        })
    }

    fn check_tensors(
        &self,
        used: &mut [bool],
        tensors: &[TensorMeta],
        num_rows: u64,
    ) -> Result<(), Damage> {
        ensure(tensors.len() <= TYPES_MAX, || format!("{} tensors are too many", tensors.len()))?;
        for (index, tensor) in tensors.iter().enumerate() {
            let name = &tensor.name;
            let before = &tensors[..index];
            ensure(before.iter().all(|other| other.name != *name), || {
                format!("two tensors have the name {name:?}")
            })?;
            ensure(tensor.num_rows == num_rows, || {
                format!("tensor {name:?}: {} rows, expected {num_rows}", tensor.num_rows)
            })?;
            ensure(row_bytes(tensor.dtype, &tensor.shape).is_some(), || {
                format!("tensor {name:?}: its rows are empty or too wide")
            })?;
            let layout = tensor.layout();
            let pages = self.claim(used, tensor.segment, layout.page_bytes())?.num_pages;
            let expected = layout.num_pages(num_rows);
            ensure(Some(pages) == expected, || {
                format!("tensor {name:?}: {pages} pages, expected {expected:?}")
            })?;
            self.check_scales(used, tensor)?;
            self.check_sparse(used, tensor)?;
            let classes = tensor.class_names.len();
            let named = tensor.dtype == Dtype::I64 && classes <= CLASS_NAMES_MAX;
            ensure(classes == 0 || named, || {
                format!("tensor {name:?} ({}) cannot have {classes} class names", tensor.dtype)
            })?;
        }
        Ok(())
    }
}

impl Catalog {
    fn check_scales(&self, used: &mut [bool], tensor: &TensorMeta) -> Result<(), Damage> {
        let Some(segment) = tensor.scales else { return Ok(()) };
        let name = &tensor.name;
        let layout = tensor.scales_layout().filter(|_| tensor.dtype == Dtype::I8);
        let layout = layout.ok_or_else(|| {
            Damage::new(format!("tensor {name:?}: {} rows cannot have scales", tensor.dtype))
        })?;
        let pages = self.claim(used, segment, layout.page_bytes())?.num_pages;
        ensure(Some(pages) == layout.num_pages(1), || {
            format!("tensor {name:?}: {pages} pages is not the size of its scales")
        })
    }

    fn check_sparse(&self, used: &mut [bool], tensor: &TensorMeta) -> Result<(), Damage> {
        let Some(sparse) = tensor.sparse else { return Ok(()) };
        let name = &tensor.name;
        let form = EntryForm::of(&sparse, tensor.num_columns());
        let form = form.filter(|_| tensor.dtype == Dtype::F32 && tensor.scales.is_none());
        let form = form.ok_or_else(|| {
            Damage::new(format!("tensor {name:?}: the description of its sparse rows is not valid"))
        })?;
        ensure(sparse.num_entries <= SPARSE_ENTRIES_MAX, || {
            format!("tensor {name:?}: {} entries are too many", sparse.num_entries)
        })?;
        let layout = form.layout();
        let pages = self.claim(used, sparse.entries, layout.page_bytes())?.num_pages;
        ensure(Some(pages) == layout.num_pages(sparse.num_entries), || {
            format!("tensor {name:?}: {pages} pages is not the size of its entries")
        })
    }
}

fn check_root(root: Option<TreeRoot>, pages: u64, wanted: bool) -> Result<(), Damage> {
    ensure(root.is_some() == wanted, || {
        "a tree has a root without records, or records without a \
                                         root"
            .into()
    })?;
    let sound = root.is_none_or(|root| root.page < pages && root.level < TREE_LEVELS_MAX);
    ensure(sound, || "the root of a tree is past the end".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_begins_at_a_whole_block_of_one_of_two_files() {
        let check = |file, offset| {
            let catalog = Catalog {
                fill: 0.9,
                reuse_ids: false,
                log: Some(LogMeta { file, offset, chain: 7 }),
                keys: None,
                page_bytes: 4096,
                node_types: Vec::new(),
                edge_types: Vec::new(),
                segments: Vec::new(),
            };
            catalog.check().map_err(|damage| damage.to_string())
        };
        for (file, offset) in [(0, 0), (1, 4096), (1, 40_960)] {
            assert_eq!(check(file, offset), Ok(()));
        }
        for (file, offset) in [(2, 0), (255, 4096), (0, 1), (1, 4095), (0, 4097), (0, 1 << 60)] {
            let what = check(file, offset).expect_err("no such place");
            assert!(what.contains(&format!("offset {offset} in log file {file}")), "{what}");
        }
    }
}
