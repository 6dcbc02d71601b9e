//! A graph that changes, in plain vectors: what each operation of a transaction must do.
//!
//! Operations are drawn from a seeded generator and from the graph itself, so a run is a function
//! of its seed. What must not live here: disks, faults, threads,
//! and what a snapshot must say, which is in `compare.rs`.

use std::sync::Arc;

use ng_store::{
    BuildOptions, EdgeData, EdgeTypeSpec, Entry, NewTensor, Owner, Store, StoreBuilder, TensorRef,
    TensorSpec, Transaction, UpdateError,
};
use ng_testing::{MemDisk, Random};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

/// What an edge type is.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeKind {
    pub source: u16,
    pub destination: u16,
    pub reverse: Option<u16>,
    pub unique: bool,
    pub ids: bool,
    pub time: bool,
    pub weight: bool,
}

/// What the graph holds at first.
#[derive(Clone, Debug)]
pub struct Schema {
    pub nodes: Vec<u64>,
    pub edges: Vec<EdgeKind>,
    /// Owner and bytes of a row.
    pub tensors: Vec<(Owner, usize)>,
    pub options: BuildOptions,
    /// Edges of each type that the import has.
    pub imported: u64,
}

impl Schema {
    /// Every kind of edge type and of tensor; `scale` nodes of the largest type.
    pub fn everything(scale: u64, options: BuildOptions) -> Self {
        let (a, b, c) = (0, 1, 2);
        let wide = EdgeKind { ids: true, time: true, weight: true, ..EdgeKind::default() };
        let edges = vec![
            EdgeKind { source: a, destination: a, reverse: Some(0), ..EdgeKind::default() },
            EdgeKind { source: a, destination: b, reverse: Some(2), ..wide },
            EdgeKind { source: b, destination: a, reverse: Some(1), ..wide },
            EdgeKind {
                source: a,
                destination: a,
                reverse: Some(3),
                unique: true,
                weight: true,
                ..EdgeKind::default()
            },
            EdgeKind { source: c, destination: c, time: true, ..EdgeKind::default() },
        ];
        let (node, edge) = (|t| Owner::Node(NodeTypeId(t)), |t| Owner::Edge(EdgeTypeId(t)));
        // Rows of 22,000 bytes fit no page well, so each has pages of its own.
        let tensors =
            vec![(node(a), 600), (node(a), 12), (node(b), 22_000), (edge(1), 8), (edge(2), 3)];
        Self { nodes: vec![scale, 4, scale / 3], edges, tensors, options, imported: 2 * scale }
    }
}

/// One operation on a transaction.
#[derive(Clone, Debug)]
pub enum Op {
    AddNode(u16),
    DeleteNode(u16, u64),
    AddEdge(u16, u64, u64, EdgeData),
    AddEdges(u16, Vec<u64>, Vec<u64>, Vec<EdgeData>),
    DeleteEdge(u16, u64, u64, Option<u64>),
    SetRow(usize, u64, Vec<u8>),
    SetRows(usize, Vec<u64>, Vec<u8>),
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ids(Vec<u64>),
    Count(u64),
    Done,
    NodeNotFound,
    EdgeNotFound,
    ReverseMissing,
    RowWidth,
    Unsupported,
}

/// The graph.
#[derive(Clone, Debug)]
pub struct Graph {
    pub schema: Arc<Schema>,
    pub live: Vec<Vec<bool>>,
    /// By edge type and destination.
    pub lists: Vec<Vec<Vec<Entry>>>,
    pub num_edge_ids: Vec<u64>,
    pub rows: Vec<Vec<u8>>,
}

impl Graph {
    /// The graph as it is imported.
    pub fn new(schema: Schema, random: &mut Random) -> Self {
        let live = schema.nodes.iter().map(|count| vec![true; *count as usize]).collect();
        let empty =
            |edge: &EdgeKind| vec![vec![]; schema.nodes[edge.destination as usize] as usize];
        let lists = schema.edges.iter().map(empty).collect();
        let num_edge_ids = vec![0; schema.edges.len()];
        let rows = vec![vec![]; schema.tensors.len()];
        let imported = schema.imported;
        let mut graph = Self { schema: Arc::new(schema), live, lists, num_edge_ids, rows };
        for edge_type in 0..graph.lists.len() as u16 {
            for _ in 0..imported {
                let op = graph.draw_edge(edge_type, random);
                graph.apply(&op, None);
            }
        }
        for list in graph.lists.iter_mut().flatten() {
            list.sort_by_key(|entry| (entry.time, entry.source, entry.edge_id));
        }
        for tensor in 0..graph.rows.len() {
            let bytes = graph.num_rows(tensor) as usize * graph.schema.tensors[tensor].1;
            graph.rows[tensor] = random.bytes(bytes);
        }
        graph
    }

    /// Imports the graph into an empty disk.
    pub fn build_into(&self, disk: &Arc<dyn ng_io::Disk>) {
        let builder = StoreBuilder::on_disk(Arc::clone(disk), self.schema.options).unwrap();
        self.build(builder);
    }

    /// Imports the graph.
    pub fn build(&self, mut builder: StoreBuilder) {
        for (index, count) in self.schema.nodes.iter().enumerate() {
            builder.node_type(&format!("n{index}"), *count).unwrap();
        }
        for (index, edge) in self.schema.edges.iter().enumerate() {
            let spec = EdgeTypeSpec {
                source: NodeTypeId(edge.source),
                relation: format!("r{index}"),
                destination: NodeTypeId(edge.destination),
                undirected: edge.reverse == Some(index as u16),
                unique: edge.unique,
                has_edge_ids: edge.ids,
                has_time: edge.time,
                has_weight: edge.weight,
            };
            builder.edge_type(spec).unwrap();
        }
        for (index, edge) in self.schema.edges.iter().enumerate() {
            let id = EdgeTypeId(index as u16);
            if let Some(reverse) = edge.reverse {
                builder.set_reverse(id, EdgeTypeId(reverse)).unwrap();
            }
            if edge.ids {
                builder.set_num_edge_ids(id, self.num_edge_ids[index]).unwrap();
            }
            let mut writer = builder.topology(id).unwrap();
            for (node, list) in (0..).zip(&self.lists[index]) {
                list.iter().for_each(|entry| writer.push(node, *entry).unwrap());
            }
            builder.add(writer.finish().unwrap()).unwrap();
        }
        for (index, (owner, width)) in self.schema.tensors.iter().enumerate() {
            let spec = TensorSpec {
                name: format!("x{index}"),
                dtype: Dtype::U8,
                shape: vec![*width as u64],
                mask_width: None,
            };
            let mut writer = builder.tensor(*owner, spec).unwrap();
            writer.push_rows(&self.rows[index]).unwrap();
            builder.add(writer.finish().unwrap()).unwrap();
        }
        builder.commit().unwrap();
    }

    /// A disk with the graph on it.
    pub fn disk(&self) -> MemDisk {
        let disk = MemDisk::new();
        let shared: Arc<dyn ng_io::Disk> = Arc::new(disk.clone());
        self.build_into(&shared);
        disk
    }

    /// A tensor more, of random rows, some of which are wider than a page; for nodes alone.
    pub fn draw_tensor(&mut self, random: &mut Random) {
        let node_type = random.below(self.live.len() as u64) as u16;
        let width = [12, 600, 5000][random.below(3) as usize];
        let rows = random.bytes(self.live[node_type as usize].len() * width);
        let mut schema = Schema::clone(&self.schema);
        schema.tensors.push((Owner::Node(NodeTypeId(node_type)), width));
        self.schema = Arc::new(schema);
        self.rows.push(rows);
    }

    /// The last tensor as a store gets it that lacks it.
    pub fn new_tensor(&self) -> NewTensor {
        let index = self.rows.len() - 1;
        let (owner, width) = self.schema.tensors[index];
        let Owner::Node(node_type) = owner else { panic!("tensor {index} is of edges") };
        let (name, dtype, shape) = (format!("x{index}"), Dtype::U8, vec![width as u64]);
        let spec = TensorSpec { name, dtype, shape, mask_width: None };
        NewTensor { node_type, spec, num_rows: self.num_rows(index), lsn: None }
    }

    /// Adds the last tensor to a store that lacks it, some rows at a time; gives the commit.
    ///
    /// # Errors
    /// Those of the store.
    pub fn add_tensor_to(&self, store: &Store) -> Result<u64, UpdateError> {
        let new = self.new_tensor();
        let width = new.spec.shape[0] as usize;
        let mut parts = self.rows.last().unwrap().chunks(7 * width);
        let mut next = |out: &mut Vec<u8>| {
            out.extend(parts.next().into_iter().flatten());
            Ok(())
        };
        store.add_tensor::<UpdateError>(&new, &mut next).map(|report| report.lsn)
    }

    pub fn tensor_ref(&self, tensor: usize) -> TensorRef {
        let tensors = &self.schema.tensors;
        let owner = tensors[tensor].0;
        let before = tensors[..tensor].iter().filter(|(other, _)| *other == owner).count();
        TensorRef { owner, index: before as u16 }
    }

    pub fn num_rows(&self, tensor: usize) -> u64 {
        match self.schema.tensors[tensor].0 {
            Owner::Node(id) => self.live[id.0 as usize].len() as u64,
            Owner::Edge(id) => self.num_edge_ids[id.0 as usize],
        }
    }

    fn is_live(&self, node_type: u16, id: u64) -> bool {
        self.live[node_type as usize].get(id as usize) == Some(&true)
    }

    /// How many entries all lists have.
    pub fn num_entries(&self) -> u64 {
        self.lists.iter().flatten().map(|list| list.len() as u64).sum()
    }

    /// The next operation: mostly one that works. While `grow`, more comes than goes.
    pub fn draw(&self, random: &mut Random, grow: bool) -> Op {
        let edge_type = random.below(self.lists.len() as u64) as u16;
        match random.below(100) {
            0..3 => self.draw_node_change(random),
            3..22 => self.draw_row(random),
            22..24 => self.draw_rows(random),
            24..60 if grow => self.draw_edge(edge_type, random),
            60..63 if grow => self.draw_edges(edge_type, random),
            24..40 => self.draw_edge(edge_type, random),
            _ => self.draw_deletion(edge_type, random),
        }
    }

    /// A node more or less. Their numbers stay near those of the import.
    fn draw_node_change(&self, random: &mut Random) -> Op {
        let node_type = random.below(self.live.len() as u64) as u16;
        let live = &self.live[node_type as usize];
        let count = live.iter().filter(|live| **live).count() as u64;
        let usual = self.schema.nodes[node_type as usize];
        let is_full = live.len() as u64 > 5 * usual && !self.schema.options.reuse_ids;
        if count > usual * 3 / 2 || (count > usual / 2 && random.below(2) == 0) {
            return Op::DeleteNode(node_type, self.draw_node(node_type, random));
        }
        if is_full { self.draw_row(random) } else { Op::AddNode(node_type) }
    }

    /// A node; low ids more often, seldom one that is not there.
    fn draw_node(&self, node_type: u16, random: &mut Random) -> u64 {
        let bound = self.live[node_type as usize].len() as u64;
        if random.below(200) == 0 {
            return bound + random.below(3);
        }
        for _ in 0..4 {
            let id = match random.below(4) {
                0 => random.below(3.min(bound)),
                1 => random.below(bound) * random.below(bound) / bound,
                _ => random.below(bound),
            };
            if self.is_live(node_type, id) || random.below(50) == 0 {
                return id;
            }
        }
        random.below(bound)
    }

    fn draw_data(random: &mut Random) -> EdgeData {
        let time = random.below(1000) as i64 - 500;
        EdgeData { time, weight: random.below(1000) as f32 / 8.0 }
    }

    fn draw_edge(&self, edge_type: u16, random: &mut Random) -> Op {
        let kind = self.schema.edges[edge_type as usize];
        let source = self.draw_node(kind.source, random);
        let destination = self.draw_node(kind.destination, random);
        Op::AddEdge(edge_type, source, destination, Self::draw_data(random))
    }

    /// Many edges to one node.
    fn draw_edges(&self, edge_type: u16, random: &mut Random) -> Op {
        let kind = self.schema.edges[edge_type as usize];
        let destination = self.draw_node(kind.destination, random);
        if !self.is_live(kind.destination, destination) {
            return self.draw_edge(edge_type, random);
        }
        let drawn = (0..random.below(150)).map(|_| self.draw_node(kind.source, random));
        let sources: Vec<u64> = drawn.filter(|id| self.is_live(kind.source, *id)).collect();
        let data = sources.iter().map(|_| Self::draw_data(random)).collect();
        Op::AddEdges(edge_type, sources.clone(), vec![destination; sources.len()], data)
    }

    fn draw_deletion(&self, edge_type: u16, random: &mut Random) -> Op {
        let kind = self.schema.edges[edge_type as usize];
        let destination = self.draw_node(kind.destination, random);
        let list = self.lists[edge_type as usize].get(destination as usize);
        let found = list.filter(|list| !list.is_empty());
        let found = found.map(|list| list[random.below(list.len() as u64) as usize]);
        match found {
            Some(entry) if random.below(50) > 0 => {
                // Seldom an id where edges have none.
                let percent = if kind.ids { 67 } else { 1 };
                let one = (random.below(100) < percent).then_some(entry.edge_id);
                Op::DeleteEdge(edge_type, entry.source, destination, one)
            }
            _ => Op::DeleteEdge(edge_type, self.draw_node(kind.source, random), destination, None),
        }
    }

    fn draw_row(&self, random: &mut Random) -> Op {
        let tensor = random.below(self.rows.len() as u64) as usize;
        let (owner, width) = self.schema.tensors[tensor];
        let row = match owner {
            Owner::Node(id) => self.draw_node(id.0, random),
            Owner::Edge(_) => random.below(self.num_rows(tensor) + 1),
        };
        let extra = usize::from(random.below(50) == 0);
        Op::SetRow(tensor, row, random.bytes(width + extra))
    }

    fn draw_rows(&self, random: &mut Random) -> Op {
        let tensor = random.below(self.rows.len() as u64) as usize;
        let (owner, width) = self.schema.tensors[tensor];
        let mut rows: Vec<u64> = (0..self.num_rows(tensor)).collect();
        if let Owner::Node(id) = owner {
            rows.retain(|row| self.is_live(id.0, *row));
        }
        let count = random.below(6).min(rows.len() as u64);
        let rows: Vec<u64> =
            (0..count).map(|_| rows[random.below(rows.len() as u64) as usize]).collect();
        let bytes = random.bytes(rows.len() * width);
        Op::SetRows(tensor, rows, bytes)
    }

    /// Does to the graph what `op` does; `given` is the outcome of a store that may choose the id
    /// of a new node.
    pub fn apply(&mut self, op: &Op, given: Option<&Outcome>) -> Outcome {
        match op {
            Op::AddNode(node_type) => self.add_node(*node_type, given),
            Op::DeleteNode(node_type, id) => self.delete_node(*node_type, *id),
            Op::AddEdge(edge_type, source, destination, data) => {
                self.add_edge(*edge_type, *source, *destination, *data)
            }
            Op::AddEdges(edge_type, sources, destinations, data) => {
                let mut ids = Vec::new();
                for ((source, destination), data) in sources.iter().zip(destinations).zip(data) {
                    match self.add_edge(*edge_type, *source, *destination, *data) {
                        Outcome::Ids(new) => ids.extend(new),
                        refused => return refused,
                    }
                }
                Outcome::Ids(ids)
            }
            Op::DeleteEdge(edge_type, source, destination, id) => {
                self.delete_edge(*edge_type, *source, *destination, *id)
            }
            Op::SetRow(tensor, row, bytes) => self.set_row(*tensor, *row, bytes),
            Op::SetRows(tensor, rows, bytes) => {
                let width = self.schema.tensors[*tensor].1;
                for (row, bytes) in rows.iter().zip(bytes.chunks(width)) {
                    assert_eq!(self.set_row(*tensor, *row, bytes), Outcome::Done);
                }
                Outcome::Done
            }
        }
    }

    fn add_node(&mut self, node_type: u16, given: Option<&Outcome>) -> Outcome {
        let live = &mut self.live[node_type as usize];
        let id = match given {
            Some(Outcome::Ids(ids)) => ids[0] as usize,
            _ => live.len(),
        };
        let is_new = id == live.len();
        assert!(is_new || (self.schema.options.reuse_ids && !live[id]), "id {id} is given out");
        live.resize(live.len() + usize::from(is_new), true);
        live[id] = true;
        for (tensor, (owner, width)) in self.schema.tensors.iter().enumerate() {
            if *owner == Owner::Node(NodeTypeId(node_type)) {
                let rows = &mut self.rows[tensor];
                rows.resize(rows.len().max((id + 1) * width), 0);
                rows[id * width..][..*width].fill(0);
            }
        }
        for (edge, lists) in self.schema.edges.iter().zip(&mut self.lists) {
            if edge.destination == node_type {
                lists.resize(lists.len() + usize::from(is_new), vec![]);
            }
        }
        Outcome::Ids(vec![id as u64])
    }

    fn delete_node(&mut self, node_type: u16, id: u64) -> Outcome {
        if !self.is_live(node_type, id) {
            return Outcome::NodeNotFound;
        }
        let schema = Arc::clone(&self.schema);
        let blocks = |(edge, lists): (&EdgeKind, &Vec<Vec<Entry>>)| {
            edge.source == node_type
                && edge.reverse.is_none()
                && lists.iter().any(|list| !list.is_empty())
        };
        if schema.edges.iter().zip(&self.lists).any(blocks) {
            return Outcome::ReverseMissing;
        }
        for (edge_type, edge) in schema.edges.iter().enumerate() {
            if edge.destination != node_type {
                continue;
            }
            let list = std::mem::take(&mut self.lists[edge_type][id as usize]);
            if let Some(reverse) = edge.reverse {
                for entry in list {
                    self.lists[reverse as usize][entry.source as usize].retain(|e| e.source != id);
                }
            }
        }
        self.live[node_type as usize][id as usize] = false;
        Outcome::Done
    }

    fn insert(&mut self, edge_type: u16, node: u64, entry: Entry) {
        let list = &mut self.lists[edge_type as usize][node as usize];
        let at = list.partition_point(|other| other.time <= entry.time);
        list.insert(at, entry);
    }

    fn replace(&mut self, edge_type: u16, node: u64, entry: Entry) {
        let list = &mut self.lists[edge_type as usize][node as usize];
        let at = list.iter().position(|other| other.source == entry.source).unwrap();
        if list[at].time == entry.time {
            list[at] = entry;
        } else {
            list.remove(at);
            self.insert(edge_type, node, entry);
        }
    }

    fn add_edge(
        &mut self,
        edge_type: u16,
        source: u64,
        destination: u64,
        data: EdgeData,
    ) -> Outcome {
        let kind = self.schema.edges[edge_type as usize];
        if !self.is_live(kind.source, source) || !self.is_live(kind.destination, destination) {
            return Outcome::NodeNotFound;
        }
        let mirror = kind.reverse.filter(|r| *r != edge_type || source != destination);
        let time = if kind.time { data.time } else { 0 };
        let weight = if kind.weight { data.weight } else { 0.0 };
        let mut entry = Entry { source, edge_id: 0, time, weight };
        let list = &self.lists[edge_type as usize][destination as usize];
        let old = list.iter().find(|e| kind.unique && e.source == source).copied();
        if let Some(old) = old {
            entry.edge_id = old.edge_id;
            self.replace(edge_type, destination, entry);
            if let Some(reverse) = mirror {
                self.replace(reverse, source, Entry { source: destination, ..entry });
            }
        } else {
            if kind.ids {
                entry.edge_id = self.next_edge_id(edge_type);
            }
            self.insert(edge_type, destination, entry);
            if let Some(reverse) = mirror {
                self.insert(reverse, source, Entry { source: destination, ..entry });
            }
        }
        Outcome::Ids(if kind.ids { vec![entry.edge_id] } else { vec![] })
    }

    fn next_edge_id(&mut self, edge_type: u16) -> u64 {
        let id = self.num_edge_ids[edge_type as usize];
        for owner in [Some(edge_type), self.schema.edges[edge_type as usize].reverse] {
            let Some(owner) = owner else { continue };
            self.num_edge_ids[owner as usize] = id + 1;
            for (tensor, (other, width)) in self.schema.tensors.iter().enumerate() {
                if *other == Owner::Edge(EdgeTypeId(owner)) {
                    self.rows[tensor].resize((id as usize + 1) * width, 0);
                }
            }
        }
        id
    }

    fn delete_edge(&mut self, edge_type: u16, source: u64, to: u64, id: Option<u64>) -> Outcome {
        let kind = self.schema.edges[edge_type as usize];
        if id.is_some() && !kind.ids {
            return Outcome::Unsupported;
        }
        if !self.is_live(kind.source, source) || !self.is_live(kind.destination, to) {
            return Outcome::NodeNotFound;
        }
        let is_it = |entry: &Entry, source| {
            entry.source == source && id.is_none_or(|id| id == entry.edge_id)
        };
        let list = &mut self.lists[edge_type as usize][to as usize];
        let before = list.len();
        list.retain(|entry| !is_it(entry, source));
        let removed = (before - list.len()) as u64;
        if removed == 0 {
            return Outcome::EdgeNotFound;
        }
        if let Some(reverse) = kind.reverse {
            let list = &mut self.lists[reverse as usize][source as usize];
            list.retain(|entry| !is_it(entry, to));
        }
        Outcome::Count(removed)
    }

    fn set_row(&mut self, tensor: usize, row: u64, bytes: &[u8]) -> Outcome {
        let (owner, width) = self.schema.tensors[tensor];
        if bytes.len() != width {
            return Outcome::RowWidth;
        }
        match owner {
            Owner::Node(id) if !self.is_live(id.0, row) => return Outcome::NodeNotFound,
            Owner::Edge(_) if row >= self.num_rows(tensor) => return Outcome::Unsupported,
            _ => {}
        }
        self.rows[tensor][row as usize * width..][..width].copy_from_slice(bytes);
        Outcome::Done
    }

    /// Does `op` to an open transaction.
    ///
    /// # Errors
    /// What is no refusal.
    pub fn run(&self, tx: &mut Transaction, op: &Op) -> Result<Outcome, UpdateError> {
        let done = match op {
            Op::AddNode(node_type) => {
                tx.add_node(NodeTypeId(*node_type)).map(|id| Outcome::Ids(vec![id]))
            }
            Op::DeleteNode(node_type, id) => {
                tx.delete_node(NodeTypeId(*node_type), *id).map(|_| Outcome::Done)
            }
            Op::AddEdge(edge_type, source, destination, data) => tx
                .add_edge(EdgeTypeId(*edge_type), *source, *destination, *data)
                .map(|id| Outcome::Ids(id.into_iter().collect())),
            Op::AddEdges(edge_type, sources, destinations, data) => {
                tx.add_edges(EdgeTypeId(*edge_type), sources, destinations, data).map(Outcome::Ids)
            }
            Op::DeleteEdge(edge_type, source, destination, id) => tx
                .delete_edge(EdgeTypeId(*edge_type), *source, *destination, *id)
                .map(Outcome::Count),
            Op::SetRow(tensor, row, bytes) => {
                tx.set_row(self.tensor_ref(*tensor), *row, bytes).map(|()| Outcome::Done)
            }
            Op::SetRows(tensor, rows, bytes) => {
                tx.set_rows(self.tensor_ref(*tensor), rows, bytes).map(|()| Outcome::Done)
            }
        };
        Ok(match done {
            Ok(outcome) => outcome,
            Err(UpdateError::NodeNotFound { .. }) => Outcome::NodeNotFound,
            Err(UpdateError::EdgeNotFound { .. }) => Outcome::EdgeNotFound,
            Err(UpdateError::ReverseMissing { .. }) => Outcome::ReverseMissing,
            Err(UpdateError::RowWidth { .. }) => Outcome::RowWidth,
            Err(UpdateError::Unsupported { .. }) => Outcome::Unsupported,
            Err(error) => return Err(error),
        })
    }

    /// Draws an operation, does it to both, and compares what came of it.
    ///
    /// # Errors
    /// What is no refusal; the graph is as before then.
    pub fn step(
        &mut self,
        tx: &mut Transaction,
        random: &mut Random,
        grow: bool,
    ) -> Result<Outcome, UpdateError> {
        let op = self.draw(random, grow);
        let outcome = self.run(tx, &op)?;
        let wanted = self.apply(&op, Some(&outcome));
        assert_eq!(outcome, wanted, "{op:?}");
        Ok(outcome)
    }
}
