//! What each operation does to a transaction: the same code for a user's transaction and for a
//! replay.
//!
//! HolisticGNN's unit operations (section 4.1): AddVertex, DeleteVertex, AddEdge, DeleteEdge,
//! UpdateEmbed. Invariant: an operation that refuses (see [`UpdateError::is_refusal`]) has changed
//! nothing.

use std::borrow::Cow;

use ng_simd::RowEncoder;
use ng_types::{EdgeTypeId, NODE_ID_BOUND, NodeTypeId};

use crate::bytes::put;
use crate::catalog::{
    BitmapMeta, EdgeTypeMeta, KeyedCommit, NodeTypeMeta, Owner, TensorMeta, TensorRef,
};
use crate::error::ReadError;
use crate::io::BLOCK_BYTES;
use crate::page::Edit;
use crate::rows::order_file::read_rows;
use crate::tensor::decode::read_scales;
use crate::tensor::layout::RowLayout;
use crate::topology::{Entry, TopologyEdit};
use crate::tree::Bitmap;
use crate::write::error::UpdateError;
use crate::write::op::Op;

impl Edit {
    /// Does again what the log holds.
    pub fn replay(&mut self, op: &Op<'_>) -> Result<(), UpdateError> {
        match *op {
            Op::AddNode { node_type, id } => self.add_node(node_type, id),
            Op::DeleteNode { node_type, id } => self.delete_node(node_type, id).map(drop),
            Op::AddEdge { edge_type, destination, entry } => {
                let added = self.add_edge(edge_type, destination, entry)?;
                if added == entry.edge_id {
                    return Ok(());
                }
                let what = format!("the log has edge id {}, expected {added}", entry.edge_id);
                Err(UpdateError::Unsupported { what })
            }
            Op::DeleteEdge { edge_type, source, destination, edge_id } => {
                self.delete_edge(edge_type, source, destination, edge_id).map(drop)
            }
            Op::SetRow { tensor, row, bytes } => self.set_row(tensor, row, bytes),
            Op::Keep { lsn, key, note } => self.keep(lsn, key, note),
        }
    }

    /// Remembers the key of a transaction.
    pub fn keep(&mut self, lsn: u64, key: &[u8], note: &[u8]) -> Result<(), UpdateError> {
        let keys = self.catalog.keys.as_mut().filter(|keys| keys.find(key).is_none());
        let what = || {
            "the transaction key exists already, or the store has no transaction keys".to_owned()
        };
        let keys = keys.ok_or_else(|| UpdateError::Unsupported { what: what() })?;
        let new = KeyedCommit { lsn, key: key.into(), note: note.into() };
        let checked = new.check();
        checked.map_err(|damage| UpdateError::Unsupported { what: damage.to_string() })?;
        keys.push(new);
        Ok(())
    }

    fn node_meta_mut(&mut self, id: NodeTypeId) -> Result<&mut NodeTypeMeta, UpdateError> {
        let what = || format!("node type {}", id.0);
        let found = self.catalog.node_types.get_mut(usize::from(id.0));
        Ok(found.ok_or_else(|| ReadError::Missing { what: what() })?)
    }

    pub fn lists(&mut self, id: EdgeTypeId) -> Result<TopologyEdit<'_>, ReadError> {
        let fill = self.catalog.fill;
        TopologyEdit::new(self, id, fill)
    }

    /// The id that the next node gets: the lowest dead one that `may_reuse` allows.
    pub fn next_node(
        &mut self,
        node_type: NodeTypeId,
        may_reuse: impl Fn(u64) -> bool,
    ) -> Result<u64, UpdateError> {
        let meta = self.catalog.node_type(node_type)?;
        let (bound, dead) = (meta.num_nodes, meta.dead);
        if let Some(BitmapMeta { segment, root }) = dead.filter(|_| self.catalog.reuse_ids) {
            let free = Bitmap::new(segment, root).find(self, may_reuse)?;
            return Ok(free.unwrap_or(bound));
        }
        Ok(bound)
    }

    /// Brings node `id` into being: a new one at the end, or a dead one again.
    pub fn add_node(&mut self, node_type: NodeTypeId, id: u64) -> Result<(), UpdateError> {
        self.check_room_for_node(node_type, id)?;
        let meta = self.node_meta_mut(node_type)?;
        let is_new = id == meta.num_nodes;
        meta.num_nodes += u64::from(is_new);
        meta.num_nodes_live += 1;
        self.touched.added(node_type, id);
        if !is_new {
            self.set_dead(node_type, id, false)?;
        }
        let tensors = self.catalog.node_type(node_type)?.tensors.len() as u16;
        for index in 0..tensors {
            let tensor = TensorRef { owner: Owner::Node(node_type), index };
            self.clear_row(tensor, id, is_new)?;
        }
        Ok(())
    }

    pub fn check_room_for_node(
        &mut self,
        node_type: NodeTypeId,
        id: u64,
    ) -> Result<(), UpdateError> {
        let meta = self.catalog.node_type(node_type)?;
        let (bound, name) = (meta.num_nodes, meta.name.clone());
        let unsupported = |what: String| Err(UpdateError::Unsupported { what });
        if meta.dictionary.is_some() {
            return unsupported(format!(
                "node type {name:?} has string ids, and adding nodes to it is not supported yet; \
                 import the store again"
            ));
        }
        if id > bound || (id < bound && !self.is_dead(node_type, id)?) {
            return unsupported(format!(
                "id {id} of node type {name:?} is in use, or is not the next free id"
            ));
        }
        let narrow = |t: &EdgeTypeMeta| t.source == node_type && t.topology.id_width == 4;
        let is_narrow = self.catalog.edge_types.iter().any(narrow);
        if id >= NODE_ID_BOUND || (is_narrow && id >= 1 << 32) {
            return unsupported(format!(
                "node type {name:?} is full: its edges were imported with 4-byte ids; compact the \
                 store"
            ));
        }
        Ok(())
    }

    /// Whether a node was deleted.
    pub fn is_dead(&mut self, node_type: NodeTypeId, id: u64) -> Result<bool, UpdateError> {
        match self.catalog.node_type(node_type)?.dead {
            Some(BitmapMeta { segment, root }) => Ok(Bitmap::new(segment, root).get(self, id)?),
            None => Ok(false),
        }
    }

    fn set_dead(&mut self, node_type: NodeTypeId, id: u64, dead: bool) -> Result<(), UpdateError> {
        let meta = match self.catalog.node_type(node_type)?.dead {
            Some(meta) => meta,
            None => {
                let name = format!("n{}.dead", node_type.0);
                let segment = self.add_segment(name, BLOCK_BYTES as u32);
                BitmapMeta { segment, root: None }
            }
        };
        let mut bitmap = Bitmap::new(meta.segment, meta.root);
        if dead {
            bitmap.set(self, id)?;
        } else {
            bitmap.clear(self, id)?;
        }
        let dead = Some(BitmapMeta { root: bitmap.directory.root, ..meta });
        self.node_meta_mut(node_type)?.dead = dead;
        Ok(())
    }

    /// An error unless the node exists.
    pub fn check_node(&mut self, node_type: NodeTypeId, id: u64) -> Result<(), UpdateError> {
        if self.nodes_are_checked {
            return Ok(());
        }
        let meta = self.catalog.node_type(node_type)?;
        let why = if id >= meta.num_nodes {
            format!("ids are below {}", meta.num_nodes)
        } else if meta.num_nodes_live < meta.num_nodes && self.is_dead(node_type, id)? {
            "it was deleted".to_owned()
        } else {
            return Ok(());
        };
        let node_type = self.catalog.node_type(node_type)?.name.clone();
        Err(UpdateError::NodeNotFound { node_type, id, why })
    }

    /// An error unless all of these nodes exist.
    pub fn check_nodes(&mut self, node_type: NodeTypeId, ids: &[u64]) -> Result<(), UpdateError> {
        let meta = self.catalog.node_type(node_type)?;
        let (bound, dead) = (meta.num_nodes, meta.dead);
        let missing = match (ids.iter().find(|id| **id >= bound), dead) {
            (Some(id), _) => Some(*id),
            (None, Some(BitmapMeta { segment, root })) => {
                Bitmap::new(segment, root).first_of(self, ids)?
            }
            (None, None) => None,
        };
        missing.map_or(Ok(()), |id| self.check_node(node_type, id))
    }

    /// An error unless the node exists and its edges can be found.
    pub fn check_delete(&mut self, node_type: NodeTypeId, id: u64) -> Result<(), UpdateError> {
        self.check_node(node_type, id)?;
        for meta in &self.catalog.edge_types {
            if meta.source == node_type && meta.reverse.is_none() && meta.num_edges > 0 {
                let edge_type = meta.relation.clone();
                return Err(UpdateError::ReverseMissing { edge_type, id });
            }
        }
        Ok(())
    }

    /// Deletes a node and its edges; returns how many edges that were.
    pub fn delete_node(&mut self, node_type: NodeTypeId, id: u64) -> Result<u64, UpdateError> {
        self.check_delete(node_type, id)?;
        let mut removed = 0;
        for number in 0..self.catalog.edge_types.len() as u16 {
            let edge_type = EdgeTypeId(number);
            let meta = self.catalog.edge_type(edge_type)?;
            if meta.destination != node_type {
                continue;
            }
            let reverse = meta.reverse;
            let list = self.lists(edge_type)?.take(id)?;
            removed += list.len() as u64;
            let Some(reverse) = reverse else { continue };
            let mut others: Vec<u64> = list.iter().map(|entry| entry.source).collect();
            others.sort_unstable();
            others.dedup();
            for other in others {
                if reverse != edge_type || other != id {
                    self.lists(reverse)?.remove(other, id, None)?;
                }
            }
        }
        self.node_meta_mut(node_type)?.num_nodes_live -= 1;
        self.touched.deleted(node_type, id);
        self.set_dead(node_type, id, true)?;
        Ok(removed)
    }

    /// Adds an edge and returns its id (0 where edges have none). On a `unique` type an edge that
    /// is there takes time and weight of `entry` and keeps its id.
    pub fn add_edge(
        &mut self,
        edge_type: EdgeTypeId,
        destination: u64,
        mut entry: Entry,
    ) -> Result<u64, UpdateError> {
        let meta = self.catalog.edge_type(edge_type)?;
        let (source_type, destination_type) = (meta.source, meta.destination);
        let (unique, reverse, has_edge_ids) = (meta.unique, meta.reverse, meta.has_edge_ids);
        self.check_node(source_type, entry.source)?;
        self.check_node(destination_type, destination)?;
        let source = entry.source;
        let is_loop = reverse == Some(edge_type) && source == destination;
        let mirror = reverse.filter(|_| !is_loop);
        let back = |entry: Entry| Entry { source: destination, ..entry };
        let found = if unique { self.lists(edge_type)?.find(destination, source)? } else { vec![] };
        if let Some((_, old)) = found.first() {
            entry.edge_id = old.edge_id;
            self.replace_edge(edge_type, destination, &entry)?;
            if let Some(reverse) = mirror {
                self.replace_edge(reverse, source, &back(entry))?;
            }
            return Ok(entry.edge_id);
        }
        entry.edge_id = if has_edge_ids { self.next_edge_id(edge_type)? } else { 0 };
        let mut lists = self.lists(edge_type)?;
        lists.insert(destination, &entry)?;
        match mirror {
            Some(reverse) if reverse == edge_type => lists.insert(source, &back(entry))?,
            Some(reverse) => self.lists(reverse)?.insert(source, &back(entry))?,
            None => {}
        }
        Ok(entry.edge_id)
    }

    /// Gives an edge another time and weight; it keeps its position unless its time changes.
    fn replace_edge(
        &mut self,
        edge_type: EdgeTypeId,
        destination: u64,
        entry: &Entry,
    ) -> Result<(), UpdateError> {
        let has_time = self.catalog.edge_type(edge_type)?.has_time;
        let mut lists = self.lists(edge_type)?;
        match lists.find(destination, entry.source)?.first() {
            Some((position, old)) if !has_time || old.time == entry.time => {
                lists.set(destination, *position, entry)?;
            }
            _ => {
                lists.remove(destination, entry.source, None)?;
                lists.insert(destination, entry)?;
            }
        }
        Ok(())
    }

    /// Gives out an edge id, with a row of zeros in every edge tensor, in the type and its reverse.
    fn next_edge_id(&mut self, edge_type: EdgeTypeId) -> Result<u64, UpdateError> {
        let meta = self.catalog.edge_type(edge_type)?;
        let (id, reverse) = (meta.num_edge_ids, meta.reverse);
        for owner in [Some(edge_type), reverse.filter(|r| *r != edge_type)].into_iter().flatten() {
            let found = self.catalog.edge_types.get_mut(usize::from(owner.0));
            let Some(meta) = found.filter(|meta| meta.has_edge_ids) else { continue };
            meta.num_edge_ids = id + 1;
            let tensors = meta.tensors.len() as u16;
            for index in 0..tensors {
                self.clear_row(TensorRef { owner: Owner::Edge(owner), index }, id, true)?;
            }
        }
        Ok(id)
    }

    /// Deletes all parallel edges, or the one with `edge_id`; returns how many.
    pub fn delete_edge(
        &mut self,
        edge_type: EdgeTypeId,
        source: u64,
        destination: u64,
        edge_id: Option<u64>,
    ) -> Result<u64, UpdateError> {
        let meta = self.catalog.edge_type(edge_type)?;
        let (source_type, destination_type) = (meta.source, meta.destination);
        let (reverse, relation) = (meta.reverse, meta.relation.clone());
        if let Some(id) = edge_id.filter(|_| !meta.has_edge_ids) {
            let what = format!(
                "cannot delete edge {source} -> {destination} with edge id {id}: edges of type \
                 {relation:?} have no ids; omit the id to delete all parallel edges, or import \
                 the type with edge ids"
            );
            return Err(UpdateError::Unsupported { what });
        }
        self.check_node(source_type, source)?;
        self.check_node(destination_type, destination)?;
        let removed = self.lists(edge_type)?.remove(destination, source, edge_id)?;
        if removed.is_empty() {
            let detail = edge_id.map_or_else(String::new, |id| format!(" with edge id {id}"));
            let source_node = source;
            let edge_type = relation;
            return Err(UpdateError::EdgeNotFound { edge_type, source_node, destination, detail });
        }
        let is_loop = reverse == Some(edge_type) && source == destination;
        if let Some(reverse) = reverse.filter(|_| !is_loop) {
            self.lists(reverse)?.remove(source, destination, edge_id)?;
        }
        Ok(removed.len() as u64)
    }

    /// The segment and the layout of a tensor.
    pub fn tensor_place(&self, tensor: TensorRef) -> Result<(u32, RowLayout), UpdateError> {
        let what = || format!("tensor {tensor:?}");
        let meta =
            self.catalog.tensor(tensor).ok_or_else(|| ReadError::Missing { what: what() })?;
        Ok((meta.segment, meta.layout()))
    }

    /// What turns rows of f32 into rows as a tensor stores them.
    pub fn encoder(&self, meta: &TensorMeta) -> Result<RowEncoder, UpdateError> {
        refuse_sparse(meta)?;
        let missing = || ReadError::Missing { what: format!("scales of tensor {:?}", meta.name) };
        let scales = match (meta.scales, self.store()) {
            (Some(segment), Some(store)) => {
                Some(read_scales(&store.pages, meta, self.segment(segment)?)?)
            }
            (Some(_), None) => return Err(missing().into()),
            (None, _) => None,
        };
        let columns = usize::try_from(meta.num_columns()).unwrap_or(usize::MAX);
        RowEncoder::new(meta.dtype, columns, scales).map_err(|_| UpdateError::Unsupported {
            what: format!("tensor {:?} is {}, not floating point", meta.name, meta.dtype),
        })
    }

    /// Where the rows of nodes or edges lie in a tensor.
    pub fn rows_of<'i>(
        &self,
        tensor: TensorRef,
        ids: &'i [u64],
    ) -> Result<Cow<'i, [u64]>, UpdateError> {
        let Owner::Node(node_type) = tensor.owner else { return Ok(Cow::Borrowed(ids)) };
        match (self.catalog.node_type(node_type)?.order, self.store()) {
            (Some(meta), Some(store)) => {
                let segment = self.segment(meta.segment)?;
                Ok(Cow::Owned(read_rows(&store.pages, &meta, segment, ids)?))
            }
            (Some(_), None) => Err(ReadError::Missing { what: "order of rows".into() }.into()),
            (None, _) => Ok(Cow::Borrowed(ids)),
        }
    }

    fn row_of(&self, tensor: TensorRef, id: u64) -> Result<u64, UpdateError> {
        Ok(self.rows_of(tensor, &[id])?.first().copied().unwrap_or(id))
    }

    /// Makes the row of `row` 0; a new one extends the tensor.
    fn clear_row(&mut self, tensor: TensorRef, row: u64, is_new: bool) -> Result<(), UpdateError> {
        let (segment, layout) = self.tensor_place(tensor)?;
        if is_new {
            let (pages, page_bytes) = (layout.num_pages(row + 1), self.page_bytes(segment));
            while Some(self.segment(segment)?.num_pages) < pages {
                self.create(segment, vec![0; page_bytes])?;
            }
            let tensors = match tensor.owner {
                Owner::Node(id) => &mut self.node_meta_mut(id)?.tensors,
                Owner::Edge(id) => match self.catalog.edge_types.get_mut(usize::from(id.0)) {
                    Some(meta) => &mut meta.tensors,
                    None => return Ok(()),
                },
            };
            if let Some(meta) = tensors.get_mut(usize::from(tensor.index)) {
                meta.num_rows = row + 1;
            }
            return Ok(());
        }
        self.touched.row(tensor, row);
        let row = self.row_of(tensor, row)?;
        self.write_row(segment, layout, row, &vec![0; layout.row_bytes()])
    }

    /// Replaces the row of a node or an edge.
    pub fn set_row(
        &mut self,
        tensor: TensorRef,
        row: u64,
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        self.check_rows(tensor, &[row], bytes.len() as u64)?;
        if let Owner::Node(node_type) = tensor.owner {
            self.check_node(node_type, row)?;
        }
        self.touched.row(tensor, row);
        let (segment, layout) = self.tensor_place(tensor)?;
        let row = self.row_of(tensor, row)?;
        self.write_row(segment, layout, row, bytes)
    }

    /// An error unless these rows exist and have that many bytes; whether the nodes of node tensors
    /// do is for [`Edit::check_nodes`] to say.
    pub fn check_rows(
        &mut self,
        tensor: TensorRef,
        rows: &[u64],
        found: u64,
    ) -> Result<(), UpdateError> {
        let what = || format!("tensor {tensor:?}");
        let meta =
            self.catalog.tensor(tensor).ok_or_else(|| ReadError::Missing { what: what() })?;
        refuse_sparse(meta)?;
        let expected = meta.row_bytes();
        if expected != found && !rows.is_empty() {
            return Err(UpdateError::RowWidth { tensor: meta.name.clone(), expected, found });
        }
        let Owner::Edge(id) = tensor.owner else {
            return Ok(());
        };
        let bound = self.catalog.edge_type(id)?.num_edge_ids;
        let Some(row) = rows.iter().find(|row| **row >= bound) else {
            return Ok(());
        };
        let what = format!("edge id {row} is out of range: edge ids are below {bound}");
        Err(UpdateError::Unsupported { what })
    }

    fn write_row(
        &mut self,
        segment: u32,
        layout: RowLayout,
        row: u64,
        bytes: &[u8],
    ) -> Result<(), UpdateError> {
        let page_bytes = self.page_bytes(segment);
        let place = layout.place(row);
        let byte = place.block as usize * BLOCK_BYTES + place.offset;
        let (mut page, offset) = ((byte / page_bytes) as u64, byte % page_bytes);
        if layout.row_bytes() <= page_bytes {
            put(self.write(segment, page)?, offset, bytes);
            return Ok(());
        }
        // A wide row has its pages for itself, so they need not be read.
        for part in bytes.chunks(page_bytes) {
            let mut whole = part.to_vec();
            whole.resize(page_bytes, 0);
            self.put(segment, page, whole)?;
            page += 1;
        }
        Ok(())
    }
}

fn refuse_sparse(meta: &TensorMeta) -> Result<(), UpdateError> {
    if meta.is_sparse() {
        return Err(UpdateError::Sparse { tensor: meta.name.clone() });
    }
    Ok(())
}
