//! A graph in plain vectors, the store built from it, and the comparison of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use ng_store::{
    BuildOptions, EdgeTypeSpec, Entry, Expansion, OpenOptions, Owner, RowQueue, Snapshot,
    SparseValue, Store, StoreBuilder, TensorRef, TensorSpec,
};
use ng_testing::{FaultDisk, FaultPlan, MemDisk, Odds, Random};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

use super::Files;

#[derive(Clone, Debug, Default)]
pub struct ModelEdges {
    pub source: u16,
    pub destination: u16,
    pub has_edge_ids: bool,
    pub has_time: bool,
    pub has_weight: bool,
    pub lists: BTreeMap<u64, Vec<Entry>>,
}

#[derive(Clone, Debug)]
pub struct ModelTensor {
    pub owner: Owner,
    pub name: String,
    pub row_bytes: usize,
    pub bytes: Vec<u8>,
    /// Of the columns, where rows are int8 that stands for floats.
    pub scales: Option<Vec<f32>>,
    /// Rows of f32 are stored without their zeros.
    pub sparse: Option<SparseValue>,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub num_nodes: Vec<u64>,
    pub edges: Vec<ModelEdges>,
    pub tensors: Vec<ModelTensor>,
    pub names: Vec<Option<Vec<String>>>,
    pub page_bytes: u32,
    pub fill: f64,
}

impl Model {
    pub fn new(num_nodes: &[u64], page_bytes: u32) -> Self {
        let names = vec![None; num_nodes.len()];
        Self { num_nodes: num_nodes.to_vec(), page_bytes, fill: 0.9, names, ..Self::default() }
    }

    /// Adds an edge type with lists of the given (node, degree), entries random.
    pub fn edges(&mut self, mut edges: ModelEdges, degrees: &[(u64, usize)], random: &mut Random) {
        let sources = self.num_nodes[usize::from(edges.source)];
        let mut edge_id = 0;
        for (node, degree) in degrees {
            let mut list: Vec<Entry> = Vec::new();
            for _ in 0..*degree {
                list.push(Entry {
                    source: random.below(sources),
                    edge_id: if edges.has_edge_ids { edge_id } else { 0 },
                    time: if edges.has_time { random.next_u64() as i64 } else { 0 },
                    weight: if edges.has_weight { random.below(99) as f32 } else { 0.0 },
                });
                edge_id += 1;
            }
            list.sort_by_key(|e| (e.time, e.source, e.edge_id));
            edges.lists.insert(*node, list);
        }
        self.edges.push(edges);
    }

    pub fn num_edge_ids(&self, edge_type: usize) -> u64 {
        let edges = &self.edges[edge_type];
        let count = edges.lists.values().map(Vec::len).sum::<usize>() as u64;
        if edges.has_edge_ids { count } else { 0 }
    }

    pub fn tensor(&mut self, owner: Owner, row_bytes: usize, random: &mut Random) {
        let rows = match owner {
            Owner::Node(id) => self.num_nodes[usize::from(id.0)],
            Owner::Edge(id) => self.num_edge_ids(usize::from(id.0)),
        };
        let bytes = random.bytes(rows as usize * row_bytes);
        let name = format!("x{}", self.tensors.len());
        self.tensors.push(ModelTensor {
            owner,
            name,
            row_bytes,
            bytes,
            scales: None,
            sparse: None,
        });
    }

    /// Rows of scaled int8.
    pub fn scaled_tensor(&mut self, owner: Owner, columns: usize, random: &mut Random) {
        self.tensor(owner, columns, random);
        let scale = |_| f32::from_bits(0x3000_0000 + random.below(1 << 28) as u32);
        let scales = (0..columns).map(scale).collect();
        self.tensors.last_mut().unwrap().scales = Some(scales);
    }

    /// Rows of f32, one in `every` of them not 0, stored without their zeros.
    pub fn sparse_tensor(
        &mut self,
        owner: Owner,
        columns: usize,
        every: u64,
        value: SparseValue,
        random: &mut Random,
    ) {
        self.tensor(owner, 4 * columns, random);
        let tensor = self.tensors.last_mut().unwrap();
        tensor.sparse = Some(value);
        for element in tensor.bytes.chunks_exact_mut(4) {
            let number = match value {
                _ if random.below(every) > 0 => 0.0,
                SparseValue::One => 1.0,
                SparseValue::U8 => 1.0 + random.below(255) as f32,
                SparseValue::F32 => 1.0 / (1.0 + random.below(1000) as f32),
            };
            element.copy_from_slice(&f32::to_le_bytes(number));
        }
    }

    pub fn names(&mut self, node_type: usize, random: &mut Random) {
        let name = |id| format!("{}node-{}", "é".repeat((id % 60) as usize), id * 7919 % 1_000_003);
        let mut names: Vec<String> = (0..self.num_nodes[node_type]).map(name).collect();
        for at in (1..names.len()).rev() {
            names.swap(at, random.below(at as u64 + 1) as usize);
        }
        self.names[node_type] = Some(names);
    }

    /// Writes the model to a fresh disk.
    pub fn build(&self) -> Arc<MemDisk> {
        let disk = Arc::new(MemDisk::new());
        let options = BuildOptions {
            page_bytes: self.page_bytes,
            fill: self.fill,
            ..BuildOptions::default()
        };
        let mut builder = StoreBuilder::on_disk(disk.clone(), options).unwrap();
        for (index, count) in self.num_nodes.iter().enumerate() {
            builder.node_type(&format!("n{index}"), *count).unwrap();
        }
        for (index, edges) in self.edges.iter().enumerate() {
            let spec = EdgeTypeSpec {
                source: NodeTypeId(edges.source),
                relation: format!("r{index}"),
                destination: NodeTypeId(edges.destination),
                undirected: false,
                unique: false,
                has_edge_ids: edges.has_edge_ids,
                has_time: edges.has_time,
                has_weight: edges.has_weight,
            };
            let id = builder.edge_type(spec).unwrap();
            let mut writer = builder.topology(id).unwrap();
            for (node, list) in &edges.lists {
                let (first, second) = list.split_at(list.len() / 2);
                writer.push_run(*node, first).unwrap();
                second.iter().for_each(|entry| writer.push(*node, *entry).unwrap());
            }
            builder.add(writer.finish().unwrap()).unwrap();
        }
        for tensor in &self.tensors {
            let spec = TensorSpec {
                name: tensor.name.clone(),
                dtype: if tensor.scales.is_some() { Dtype::I8 } else { Dtype::U8 },
                shape: vec![tensor.row_bytes as u64],
                mask_width: None,
            };
            if let Some(value) = tensor.sparse {
                let shape = vec![tensor.row_bytes as u64 / 4];
                let spec = TensorSpec { dtype: Dtype::F32, shape, ..spec };
                let mut writer = builder.sparse_tensor(tensor.owner, spec, value).unwrap();
                for row in tensor.bytes.chunks_exact(tensor.row_bytes) {
                    let (columns, values) = entries(row);
                    writer.push_row(&columns, &values).unwrap();
                }
                builder.add(writer.finish().unwrap()).unwrap();
                continue;
            }
            let mut writer = match &tensor.scales {
                Some(scales) => builder.scaled_tensor(tensor.owner, spec, scales).unwrap(),
                None => builder.tensor(tensor.owner, spec).unwrap(),
            };
            for rows in tensor.bytes.chunks(tensor.row_bytes * 7) {
                writer.push_rows(rows).unwrap();
            }
            builder.add(writer.finish().unwrap()).unwrap();
        }
        for (index, names) in self.names.iter().enumerate() {
            let Some(names) = names else { continue };
            let mut writer = builder.dictionary(NodeTypeId(index as u16)).unwrap();
            names.iter().for_each(|name| writer.push_name(name).unwrap());
            let mut keys: Vec<(&String, u64)> = names.iter().zip(0..).collect();
            keys.sort();
            keys.iter().for_each(|(key, id)| writer.push_key(key, *id).unwrap());
            builder.add(writer.finish().unwrap()).unwrap();
        }
        builder.commit().unwrap();
        disk
    }

    pub fn files(&self) -> Files {
        self.build().image()
    }

    pub fn open(&self, memory: u64) -> Store {
        let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
        Store::open_on(self.build(), &options).unwrap()
    }

    /// Opens it on a disk that answers in another order, with short reads, EINTR and EAGAIN.
    pub fn open_unruly(&self, memory: u64, seed: u64) -> Store {
        let plan = FaultPlan::new(seed).with_odds(Odds::passing(20));
        let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
        Store::open_on(Arc::new(FaultDisk::new(self.build(), plan)), &options).unwrap()
    }

    pub fn tensor_ref(&self, index: usize) -> TensorRef {
        let owner = self.tensors[index].owner;
        let before = self.tensors[..index].iter().filter(|t| t.owner == owner).count();
        TensorRef { owner, index: before as u16 }
    }

    /// The expansion of `nodes` by positions that `pick` chooses from (place, degree).
    pub fn expansion(
        &self,
        edge_type: usize,
        nodes: &[u64],
        mut pick: impl FnMut(usize, u64) -> Vec<u64>,
    ) -> Expansion {
        let edges = &self.edges[edge_type];
        let mut out = Expansion { offsets: vec![0], ..Expansion::default() };
        for (place, node) in nodes.iter().enumerate() {
            let list = edges.lists.get(node).map_or(&[][..], Vec::as_slice);
            for position in pick(place, list.len() as u64) {
                let entry = list[position as usize];
                out.sources.push(entry.source);
                if edges.has_edge_ids {
                    out.edge_ids.push(entry.edge_id);
                }
                if edges.has_time {
                    out.times.push(entry.time);
                }
                if edges.has_weight {
                    out.weights.push(entry.weight);
                }
            }
            out.offsets.push(out.sources.len());
        }
        out
    }

    pub fn rows(&self, tensor: usize, rows: &[u64]) -> Vec<u8> {
        let tensor = &self.tensors[tensor];
        let width = tensor.row_bytes;
        rows.iter().flat_map(|r| tensor.bytes[*r as usize * width..][..width].to_vec()).collect()
    }

    /// Compares random transactions, twice each, so that the second comes from the caches.
    pub fn compare(&self, snapshot: &Snapshot, random: &mut Random, tx: usize) {
        for index in 0..self.edges.len() {
            let (id, edges) = (EdgeTypeId(index as u16), &self.edges[index]);
            let bound = self.num_nodes[usize::from(edges.destination)];
            let listed: Vec<u64> = edges.lists.keys().copied().collect();
            let nodes: Vec<u64> = (0..if bound == 0 { 0 } else { tx })
                .map(|_| match random.below(3) {
                    0 if !listed.is_empty() => listed[random.below(listed.len() as u64) as usize],
                    _ => random.below(bound),
                })
                .collect();
            for _ in 0..2 {
                let mut found = Expansion::default();
                snapshot.neighbors(id, &nodes, &mut found).unwrap();
                assert_eq!(found, self.expansion(index, &nodes, |_, d| (0..d).collect()));
                let salt = random.next_u64();
                let pick = |place: usize, degree: u64| -> Vec<u64> {
                    let mut draws = Random::new(salt ^ place as u64);
                    let count = if degree == 0 { 0 } else { draws.below(6) };
                    (0..count).map(|_| draws.below(degree)).collect()
                };
                let mut draw = |place: usize, degree: u64, out: &mut Vec<u64>| {
                    out.extend(pick(place, degree));
                };
                snapshot.expand(id, &nodes, &mut draw, &mut found).unwrap();
                assert_eq!(found, self.expansion(index, &nodes, pick));
                let degrees = snapshot.degrees(id, &nodes).unwrap();
                let list = |node: &u64| edges.lists.get(node).map_or(0, |l| l.len() as u64);
                assert_eq!(degrees, nodes.iter().map(list).collect::<Vec<_>>());
            }
        }
        for index in 0..self.tensors.len() {
            let tensor = &self.tensors[index];
            let count = (tensor.bytes.len() / tensor.row_bytes) as u64;
            let rows: Vec<u64> =
                (0..if count == 0 { 0 } else { tx }).map(|_| random.below(count)).collect();
            for _ in 0..2 {
                let mut out = vec![0xee; rows.len() * tensor.row_bytes];
                snapshot.gather(self.tensor_ref(index), &rows, &mut out).unwrap();
                assert!(out == self.rows(index, &rows), "tensor {index}");
            }
        }
        self.compare_queue(snapshot, random, tx);
        self.compare_names(snapshot, random, tx);
    }

    /// Rows that are asked for, read beside lists and by themselves, are those that are gathered.
    fn compare_queue(&self, snapshot: &Snapshot, random: &mut Random, tx: usize) {
        let (queue, tx) = (RowQueue::new(snapshot), tx.div_ceil(4));
        let ask = |index: usize, random: &mut Random| {
            let tensor = &self.tensors[index];
            let count = (tensor.bytes.len() / tensor.row_bytes) as u64;
            let rows: Vec<u64> =
                (0..if count == 0 { 0 } else { tx }).map(|_| random.below(count)).collect();
            (index, queue.ask(self.tensor_ref(index), &rows).unwrap(), rows)
        };
        let mut asked: Vec<_> = (0..self.tensors.len()).map(|index| ask(index, random)).collect();
        for (index, edges) in self.edges.iter().enumerate() {
            let bound = self.num_nodes[usize::from(edges.destination)];
            let nodes: Vec<u64> =
                (0..if bound == 0 { 0 } else { tx }).map(|_| random.below(bound)).collect();
            let mut found = Expansion::default();
            let mut all = |_, degree, positions: &mut Vec<u64>| positions.extend(0..degree);
            let id = EdgeTypeId(index as u16);
            snapshot.expand_beside(id, &nodes, &mut all, &mut found, &queue).unwrap();
            assert_eq!(found, self.expansion(index, &nodes, |_, d| (0..d).collect()));
        }
        asked.extend((0..self.tensors.len()).map(|index| ask(index, random)));
        queue.read().unwrap();
        for (index, ticket, rows) in asked {
            assert!(queue.take(ticket) == self.rows(index, &rows), "tensor {index}");
        }
    }

    fn compare_names(&self, snapshot: &Snapshot, random: &mut Random, tx: usize) {
        for (index, names) in self.names.iter().enumerate() {
            let Some(names) = names else { continue };
            let id = NodeTypeId(index as u16);
            let count = if names.is_empty() { 0 } else { tx };
            let ids: Vec<u64> = (0..count).map(|_| random.below(names.len() as u64)).collect();
            let expected: Vec<String> = ids.iter().map(|id| names[*id as usize].clone()).collect();
            assert_eq!(snapshot.names(id, &ids).unwrap(), expected);
            let mut keys: Vec<&str> = expected.iter().map(String::as_str).collect();
            keys.extend(["", "nobody", "~~~~"]);
            let mut wanted: Vec<Option<u64>> = ids.into_iter().map(Some).collect();
            wanted.extend([None, None, None]);
            assert_eq!(snapshot.lookup_strings(id, &keys).unwrap(), wanted);
        }
    }

    /// Reads everything there is and compares it; an error is handed out, a difference panics.
    pub fn read_all(&self, snapshot: &Snapshot) -> Result<(), ng_store::ReadError> {
        for (index, edges) in self.edges.iter().enumerate() {
            let mut nodes: Vec<u64> = edges.lists.keys().copied().collect();
            let bound = self.num_nodes[usize::from(edges.destination)];
            nodes.extend((0..bound.min(50)).chain(bound.saturating_sub(2)..bound));
            let mut found = Expansion::default();
            snapshot.neighbors(EdgeTypeId(index as u16), &nodes, &mut found)?;
            assert_eq!(found, self.expansion(index, &nodes, |_, d| (0..d).collect()));
        }
        for (index, tensor) in self.tensors.iter().enumerate() {
            let rows: Vec<u64> = (0..(tensor.bytes.len() / tensor.row_bytes) as u64).collect();
            let mut out = vec![0; tensor.bytes.len()];
            snapshot.gather(self.tensor_ref(index), &rows, &mut out)?;
            assert!(out == tensor.bytes, "tensor {index}");
        }
        for (index, names) in self.names.iter().enumerate() {
            let Some(names) = names else { continue };
            let id = NodeTypeId(index as u16);
            let ids: Vec<u64> = (0..names.len() as u64).collect();
            assert_eq!(&snapshot.names(id, &ids)?, names);
            let keys: Vec<&str> = names.iter().map(String::as_str).collect();
            let wanted: Vec<Option<u64>> = ids.into_iter().map(Some).collect();
            assert_eq!(snapshot.lookup_strings(id, &keys)?, wanted);
        }
        Ok(())
    }
}

/// What is not 0 in a row of f32.
pub fn entries(row: &[u8]) -> (Vec<u32>, Vec<f32>) {
    let values = row.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
    (0..).zip(values).filter(|(_, value)| *value != 0.0).unzip()
}
