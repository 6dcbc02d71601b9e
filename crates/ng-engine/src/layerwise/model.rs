//! A split model on a store: where each of its inputs and tables is.

use std::collections::HashMap;
use std::sync::Arc;

use ng_infer::dfg::levels::{Domain, Loops, Space, SpaceId};
use ng_infer::dfg::{Dfg, Elements, Moves, Value};
use ng_infer::run::Devices;
use ng_store::{Owner, Snapshot};
use ng_types::{EdgeTypeId, NodeTypeId};
use sha2::{Digest, Sha256};

use super::error::LayerwiseError;
use super::lists::Wanted;
use super::part::{Leaf, refused};
use super::passes::{Passes, Scan};
use super::rows::{Place, Stored};
use crate::bind::{Binding, Given, RowsOf};
use crate::degrees::InDegrees;
use crate::{EngineError, ModelFile};

/// What gives an input that has a row for each edge.
#[derive(Clone, Debug)]
pub(super) enum EdgeRows {
    Weights,
    Tensor(RowsOf),
}

/// In-degrees of the whole graph that were counted already.
pub(super) type Degrees = HashMap<EdgeTypeId, Arc<InDegrees>>;

/// A model that is computed pass by pass over the nodes of a store.
pub(super) struct Model {
    pub snapshot: Arc<Snapshot>,
    pub passes: Passes,
    pub stored: HashMap<Value, Stored>,
    pub edge_rows: HashMap<Value, EdgeRows>,
    nodes: HashMap<SpaceId, NodeTypeId>,
    edges: HashMap<Value, EdgeTypeId>,
    /// What computes, which decides how results are rounded.
    devices: String,
}

impl Model {
    pub fn new(
        snapshot: Arc<Snapshot>,
        model: &ModelFile,
        moves: Moves,
        degrees: &mut Degrees,
    ) -> Result<Self, LayerwiseError> {
        crate::schema::check(model, snapshot.catalog())?;
        let types = &snapshot.catalog().node_types;
        if let Some(large) = types.iter().find(|meta| meta.num_nodes > u64::from(u32::MAX)) {
            let problem = format!(
                "{} nodes of type {:?} are too many for layer-wise inference: at most 2^32 - 1",
                large.num_nodes, large.name
            );
            return Err(EngineError::Question { problem }.into());
        }
        let binding = Binding::new(&model.graph, &snapshot)?;
        let passes = Passes::new(&model.graph, moves)?;
        let mut this = Self {
            snapshot,
            passes,
            stored: HashMap::new(),
            edge_rows: HashMap::new(),
            nodes: HashMap::new(),
            edges: HashMap::new(),
            devices: String::new(),
        };
        for input in &binding.inputs {
            if let Some(value) = this.passes.graph.value(&input.name) {
                this.note_input(value, &input.name, &input.given, degrees)?;
            }
        }
        this.note_tables()?;
        Ok(this)
    }

    fn note_input(
        &mut self,
        value: Value,
        name: &str,
        given: &Given,
        degrees: &mut Degrees,
    ) -> Result<(), LayerwiseError> {
        let domain = self.passes.levels.fact(value).domain;
        match (given, domain) {
            (Given::Rows(of), Domain::Rows(rows)) => match of.tensor.owner {
                Owner::Node(id) => {
                    self.nodes.insert(rows.space, id);
                    let stored = self.tensor(of, id);
                    self.stored.insert(value, stored);
                }
                Owner::Edge(_) => {
                    self.edge_rows.insert(value, EdgeRows::Tensor(of.clone()));
                }
            },
            (Given::Weights(_), Domain::Rows(_)) => {
                self.edge_rows.insert(value, EdgeRows::Weights);
            }
            (Given::EdgeIndex(id), Domain::Edges(_)) => {
                self.edges.insert(value, *id);
            }
            (Given::InDegrees(node_type, id), Domain::Rows(rows)) => {
                self.nodes.insert(rows.space, *node_type);
                let known = match degrees.get(id) {
                    Some(known) => Arc::clone(known),
                    None => {
                        Arc::new(InDegrees::read(&self.snapshot, *id).map_err(EngineError::from)?)
                    }
                };
                degrees.insert(*id, Arc::clone(&known));
                let place = Place::InDegrees(known);
                let stored = Stored { place, dims: vec![], read_bytes: 0, is_scattered: false };
                self.stored.insert(value, stored);
            }
            _ => {
                let problem = "layer-wise inference does not support this input".to_owned();
                return Err(EngineError::Input { input: name.to_owned(), problem }.into());
            }
        }
        Ok(())
    }

    fn tensor(&self, of: &RowsOf, node_type: NodeTypeId) -> Stored {
        let catalog = self.snapshot.catalog();
        let has_order = catalog
            .node_types
            .get(usize::from(node_type.0))
            .is_some_and(ng_store::NodeTypeMeta::has_order);
        let is_sparse = catalog.tensor(of.tensor).is_some_and(ng_store::TensorMeta::is_sparse);
        Stored {
            dims: of.shape.clone(),
            read_bytes: of.decoder.stored_bytes() as u64,
            place: Place::Tensor(of.clone()),
            is_scattered: has_order || is_sparse,
        }
    }

    fn note_tables(&mut self) -> Result<(), LayerwiseError> {
        for (at, pass) in self.passes.passes.iter().enumerate() {
            if !self.nodes.contains_key(&pass.nodes) {
                let value = pass.targets[0];
                let problem = "the node type of its rows is unknown, because no input of the \
                               model has rows of the same nodes";
                return Err(refused(&self.passes.graph, value, problem));
            }
            for (place, target) in pass.targets.iter().enumerate() {
                let dims = self.passes.row_dims(*target);
                let read_bytes = 4 * dims.iter().product::<usize>() as u64;
                let place = Place::Table(format!("{at}-{place}"));
                let stored = Stored { place, dims, read_bytes, is_scattered: false };
                // An output that is an input is copied, and read from the store elsewhere.
                self.stored.entry(*target).or_insert(stored);
            }
        }
        Ok(())
    }

    /// The name of the table of a target.
    pub fn table(at: usize, place: usize) -> String {
        format!("{at}-{place}")
    }

    pub fn graph(&self) -> &Dfg {
        &self.passes.graph
    }

    /// The type of the nodes that a pass is over.
    pub fn node_type(&self, space: SpaceId) -> NodeTypeId {
        self.nodes.get(&space).copied().unwrap_or(NodeTypeId(0))
    }

    /// How many nodes of a space there are.
    pub fn num_nodes(&self, space: SpaceId) -> u64 {
        let at = usize::from(self.node_type(space).0);
        self.snapshot.catalog().node_types.get(at).map_or(0, |meta| meta.num_nodes)
    }

    /// The edges of a scan: their type, which loops are among them, and where they come from.
    pub fn edges(&self, scan: &Scan) -> Option<(EdgeTypeId, Loops, u64)> {
        let Space::Edges { input, loops, .. } = self.passes.levels.space(scan.edges) else {
            return None;
        };
        let id = *self.edges.get(input)?;
        let catalog = self.snapshot.catalog();
        let source = catalog.edge_types.get(usize::from(id.0))?.source;
        let num_sources = catalog.node_types.get(usize::from(source.0))?.num_nodes;
        Some((id, *loops, num_sources))
    }

    /// What a scan needs to know of each edge.
    pub fn wanted(&self, scan: &Scan) -> Wanted {
        let mut wanted = Wanted::default();
        for (_, leaf) in &scan.messages.leaves {
            if let Leaf::OfEdge(value) = leaf {
                match self.edge_rows.get(value) {
                    Some(EdgeRows::Weights) => wanted.weights = true,
                    Some(EdgeRows::Tensor(_)) => wanted.ids = true,
                    None => {}
                }
            }
        }
        wanted
    }

    /// The shape of a value that has `rows` rows.
    pub fn lengths(&self, value: Value, rows: usize) -> Vec<i64> {
        let shape = &self.passes.levels.type_of(value).shape;
        let lies = match self.passes.levels.fact(value).domain {
            Domain::Rows(rows) => Some(rows),
            _ => None,
        };
        let length = |(axis, dim): (usize, &ng_infer::dfg::Dim)| match lies {
            Some(of) if of.axis == axis => (of.outer * of.inner * rows) as i64,
            _ => dim.number().unwrap_or(1),
        };
        shape.iter().enumerate().map(length).collect()
    }

    /// Elements of a node's row of a value.
    pub fn width(&self, value: Value) -> usize {
        self.passes.row_dims(value).iter().product()
    }

    /// Makes all parts ready to run.
    pub fn prepare(&mut self, devices: &Devices) -> Result<(), LayerwiseError> {
        self.devices = devices.identity();
        let Passes { levels, passes, .. } = &mut self.passes;
        for pass in passes {
            pass.finish.prepare(levels, devices)?;
            for reduced in &mut pass.reductions {
                reduced.fill.prepare(levels, devices)?;
            }
            for scan in &mut pass.scans {
                for part in [&mut scan.view, &mut scan.before, &mut scan.messages, &mut scan.added]
                {
                    part.prepare(levels, devices)?;
                }
            }
        }
        Ok(())
    }

    /// Tells this model on this snapshot and these devices from others.
    pub fn key(&self) -> String {
        let mut hash = Sha256::new();
        let mut note = |bytes: &[u8]| {
            // Lengths keep what follows apart.
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        note(self.devices.as_bytes());
        note(self.graph().text().as_bytes());
        for (_, tensor) in self.graph().weights() {
            let bytes: Vec<u8> = match tensor.elements() {
                Elements::F32(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Elements::I64(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Elements::Bool(all) => all.iter().map(|flag| u8::from(*flag)).collect(),
                Elements::F16(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
                Elements::I8(all) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
            };
            note(&bytes);
        }
        for pass in &self.passes.passes {
            let names = pass.targets.iter().map(|value| self.passes.name(*value));
            note(names.collect::<Vec<_>>().join("\n").as_bytes());
        }
        let digest = hash.finalize();
        let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{:016x}-{hex}", self.snapshot.fingerprint())
    }
}
