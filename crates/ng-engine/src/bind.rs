//! Which part of a store, or of a request, gives each input of a model.
//!
//! Names are those of batches in PyG: `x`, `edge_index`, `edge_attr`, ..., and after a dot the
//! type, as in `x_dict.paper` and `edge_index_dict.author__writes__paper`.

use std::collections::HashMap;

use ng_infer::dfg::{Dfg, Dim, TensorType};
use ng_simd::RowDecoder;
use ng_store::{Catalog, Owner, Snapshot, TensorMeta, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

use crate::EngineError;
use crate::schema::edge_types;

/// The node tensor that names the graph of each node.
pub(crate) const GRAPH_ID: &str = "graph_id";

/// What batches in PyG call how many nodes, or graphs, are asked for.
const NUM_SEEDS: &str = concat!("batch", "_size");

/// What gives an input.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// Rows of a tensor of nodes or edges.
    Rows(RowsOf),
    /// Local numbers of sources and destinations.
    EdgeIndex(EdgeTypeId),
    /// Weights of edges.
    Weights(EdgeTypeId),
    /// Times of edges.
    Times(EdgeTypeId),
    /// Ids of nodes.
    NodeIds(NodeTypeId),
    /// Ids of edges.
    EdgeIds(EdgeTypeId),
    /// In-degrees of nodes in the whole graph.
    InDegrees(NodeTypeId, EdgeTypeId),
    /// How many nodes are asked for.
    NumSeeds,
    /// Pairs of nodes that are asked for, by local number.
    Pairs,
    /// The place of each node's graph among those that are asked for.
    GraphOf(NodeTypeId),
    /// How many graphs are asked for.
    NumGraphs,
}

/// How rows of a tensor become an input.
#[derive(Clone, Debug)]
pub(crate) struct RowsOf {
    pub tensor: TensorRef,
    pub decoder: RowDecoder,
    /// Lengths of a row's dimensions.
    pub shape: Vec<usize>,
}

impl RowsOf {
    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }
}

/// An input of the model.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub name: String,
    pub given: Given,
}

/// What the first dimension of a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    Nodes(NodeTypeId),
    Pairs,
    Graphs,
}

/// A model on the types of a store. It holds for all versions of the store.
#[derive(Debug)]
pub(crate) struct Binding {
    pub inputs: Vec<Input>,
    /// By output, what it has a row for; `None` where the graph does not tell.
    pub outputs: Vec<(String, Option<Counts>)>,
    /// By output, the dtype and lengths of a row; `None` where the graph does not tell.
    pub row_types: Vec<Option<(Dtype, Vec<usize>)>>,
    /// Types of inputs that have none in the graph.
    pub types: Vec<(String, TensorType)>,
    /// What counts nodes in the graph, and of which type they are.
    pub nodes: Vec<(String, NodeTypeId)>,
}

impl Binding {
    /// Finds what gives each input.
    pub fn new(graph: &Dfg, snapshot: &Snapshot) -> Result<Self, EngineError> {
        let asks_for_graphs =
            graph.inputs().any(|(value, _)| argument(graph.name(value)).0 == "batch");
        let finder = Finder { snapshot, catalog: snapshot.catalog(), asks_for_graphs };
        let (mut inputs, mut counts, mut types) = (Vec::new(), HashMap::new(), Vec::new());
        for (value, wanted) in graph.inputs() {
            let name = graph.name(value).to_owned();
            let wrong = |problem| EngineError::Input { input: name.clone(), problem };
            let given = finder.find(&name, wanted).map_err(wrong)?;
            let own = own_type(&given);
            note_counts(&given, wanted.unwrap_or(&own), &mut counts);
            if wanted.is_none() {
                types.push((name.clone(), own));
            }
            inputs.push(Input { name, given });
        }
        let given: Vec<(&str, TensorType)> =
            types.iter().map(|(name, own)| (name.as_str(), own.clone())).collect();
        let known = graph.check(&given).ok();
        let (outputs, row_types) = graph
            .outputs()
            .iter()
            .map(|(name, value)| {
                let at = graph.values().position(|one| one == *value);
                let found = known.as_ref().zip(at).and_then(|(known, at)| known.get(at));
                let shape = found.and_then(|found| found.shape.split_first());
                let counted = shape.and_then(|(first, _)| counts.get(first)).copied();
                let row = shape.and_then(|(_, row)| row.iter().map(length).collect());
                ((name.clone(), counted), found.map(|found| found.dtype).zip(row))
            })
            .unzip();
        let nodes = counts.iter().filter_map(|(dim, counted)| match counted {
            Counts::Nodes(id) => Some((dim.name()?.to_owned(), *id)),
            _ => None,
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_unstable();
        Ok(Self { inputs, outputs, row_types, types, nodes })
    }

    /// Node types and tensors whose rows the model takes.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &RowsOf)> {
        self.inputs.iter().enumerate().filter_map(|(at, input)| match &input.given {
            Given::Rows(rows) => Some((at, rows)),
            _ => None,
        })
    }

    pub fn has(&self, wanted: impl Fn(&Given) -> bool) -> bool {
        self.inputs.iter().any(|input| wanted(&input.given))
    }
}

fn length(of: &Dim) -> Option<usize> {
    of.number().and_then(|number| usize::try_from(number).ok())
}

/// What an input is, where the graph takes anything.
fn own_type(given: &Given) -> TensorType {
    let symbol = |kind: &str, id: u16| Dim::symbol(&format!("{kind}_{id}"));
    let (dtype, shape) = match given {
        Given::Rows(RowsOf { tensor, decoder, shape }) => {
            let first = match tensor.owner {
                Owner::Node(id) => symbol("nodes", id.0),
                Owner::Edge(id) => symbol("edges", id.0),
            };
            let row = shape.iter().map(|len| Dim::from(*len as i64));
            let dtype = match decoder.wanted() {
                Dtype::F32 | Dtype::Bool => decoder.wanted(),
                _ => Dtype::I64,
            };
            (dtype, std::iter::once(first).chain(row).collect())
        }
        Given::EdgeIndex(id) => (Dtype::I64, vec![Dim::from(2), symbol("edges", id.0)]),
        Given::Weights(id) => (Dtype::F32, vec![symbol("edges", id.0)]),
        Given::InDegrees(id, _) => (Dtype::F32, vec![symbol("nodes", id.0)]),
        Given::Times(id) | Given::EdgeIds(id) => (Dtype::I64, vec![symbol("edges", id.0)]),
        Given::NodeIds(id) | Given::GraphOf(id) => (Dtype::I64, vec![symbol("nodes", id.0)]),
        Given::Pairs => (Dtype::I64, vec![Dim::from(2), Dim::symbol("pairs")]),
        Given::NumSeeds | Given::NumGraphs => (Dtype::I64, Vec::new()),
    };
    TensorType { dtype, shape }
}

/// Learns what the symbol of a first dimension counts.
fn note_counts(given: &Given, of: &TensorType, counts: &mut HashMap<Dim, Counts>) {
    let (axis, counted) = match given {
        Given::Rows(RowsOf { tensor: TensorRef { owner: Owner::Node(id), .. }, .. })
        | Given::NodeIds(id)
        | Given::InDegrees(id, _)
        | Given::GraphOf(id) => (0, Counts::Nodes(*id)),
        Given::Pairs => (1, Counts::Pairs),
        _ => return,
    };
    if let Some(dim) = of.shape.get(axis).filter(|dim| dim.number().is_none()) {
        counts.insert(dim.clone(), counted);
    }
}

/// The argument and the key of an input's name.
fn argument(name: &str) -> (&str, Option<&str>) {
    match name.split_once('.') {
        Some((argument, key)) => (argument.strip_suffix("_dict").unwrap_or(argument), Some(key)),
        None => (name, None),
    }
}

struct Finder<'a> {
    snapshot: &'a Snapshot,
    catalog: &'a Catalog,
    asks_for_graphs: bool,
}

impl Finder<'_> {
    fn find(&self, name: &str, wanted: Option<&TensorType>) -> Result<Given, String> {
        let (argument, key) = argument(name);
        let (node_type, edge_type) = (self.node_type(key), self.edge_type(key));
        if let Some(id) = node_type
            && let Some(tensor) = self.catalog.find_tensor(Owner::Node(id), argument)
        {
            return self.rows(tensor, wanted);
        }
        if let Some(id) = edge_type {
            if let Some(tensor) = self.catalog.find_tensor(Owner::Edge(id), argument) {
                return self.rows(tensor, wanted);
            }
            let meta = &self.catalog.edge_types[usize::from(id.0)];
            match argument {
                "edge_index" => return expect(Given::EdgeIndex(id), wanted, Dtype::I64),
                "edge_weight" if meta.has_weight => {
                    return expect(Given::Weights(id), wanted, Dtype::F32);
                }
                "edge_time" if meta.has_time => {
                    return expect(Given::Times(id), wanted, Dtype::I64);
                }
                "in_degree" => {
                    return expect(Given::InDegrees(meta.destination, id), wanted, Dtype::F32);
                }
                "e_id" if meta.has_edge_ids => {
                    return expect(Given::EdgeIds(id), wanted, Dtype::I64);
                }
                _ => {}
            }
        }
        match (argument, node_type) {
            ("n_id", Some(id)) => expect(Given::NodeIds(id), wanted, Dtype::I64),
            ("edge_label_index", _) => expect(Given::Pairs, wanted, Dtype::I64),
            ("batch", Some(id)) => match self.catalog.find_tensor(Owner::Node(id), GRAPH_ID) {
                Some(_) => expect(Given::GraphOf(id), wanted, Dtype::I64),
                None => Err(format!(
                    "the store has no node tensor {GRAPH_ID:?}, which assigns nodes to graphs"
                )),
            },
            ("size" | "num_graphs", _) if self.asks_for_graphs => {
                expect(Given::NumGraphs, wanted, Dtype::I64)
            }
            (NUM_SEEDS, _) if self.asks_for_graphs => expect(Given::NumGraphs, wanted, Dtype::I64),
            (NUM_SEEDS, _) => expect(Given::NumSeeds, wanted, Dtype::I64),
            _ => Err(self.nothing(argument, key)),
        }
    }

    /// The node type of a key; without a key, the only one.
    fn node_type(&self, key: Option<&str>) -> Option<NodeTypeId> {
        let types = &self.catalog.node_types;
        let at = match key {
            Some(key) => types.iter().position(|meta| meta.name == key),
            None => (types.len() == 1).then_some(0),
        };
        at.map(|at| NodeTypeId(at as u16))
    }

    fn edge_type(&self, key: Option<&str>) -> Option<EdgeTypeId> {
        let mut all: Vec<_> = edge_types(self.catalog).collect();
        match key {
            Some(key) => all.retain(|(_, name)| name == key),
            None if all.len() > 1 => return None,
            None => {}
        }
        all.first().map(|(id, _)| *id)
    }

    fn rows(&self, tensor: TensorRef, wanted: Option<&TensorType>) -> Result<Given, String> {
        let meta = self.catalog.tensor(tensor).ok_or("the tensor does not exist in the store")?;
        let shape: Vec<usize> = meta.shape.iter().map(|len| *len as usize).collect();
        let dtype = dtype_for(meta, wanted)?;
        if let Some(wanted) = wanted {
            let own = wanted.shape.get(1..).unwrap_or_default();
            let found: Vec<Dim> = shape.iter().map(|len| Dim::from(*len as i64)).collect();
            if wanted.shape.is_empty() || !fits(own, &found) {
                let show = |dims: &[Dim]| {
                    dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                };
                return Err(format!(
                    "rows of tensor {:?} have shape [{}] in the store, and the model expects [{}]",
                    meta.name,
                    show(&found),
                    show(own)
                ));
            }
        }
        if let Owner::Edge(id) = tensor.owner
            && !self.catalog.edge_types[usize::from(id.0)].has_edge_ids
        {
            return Err(format!(
                "edge tensor {:?} cannot be read, because its edge type has no edge ids in the \
                 store; import the store again with edge ids",
                meta.name
            ));
        }
        let decoder = self.snapshot.decoder(tensor, dtype).map_err(|error| error.to_string())?;
        Ok(Given::Rows(RowsOf { tensor, decoder, shape }))
    }

    /// What there is in place of something that nothing gives.
    fn nothing(&self, argument: &str, key: Option<&str>) -> String {
        let types = &self.catalog.node_types;
        let of_type = key.map_or(String::new(), |key| format!(" of {key:?}"));
        let mut there: Vec<String> = Vec::new();
        for meta in types {
            let of = if types.len() > 1 { format!(" of {}", meta.name) } else { String::new() };
            there.extend(meta.tensors.iter().map(|tensor| format!("{}{of}", tensor.name)));
            there.push(format!("n_id{of}"));
        }
        let all: Vec<_> = edge_types(self.catalog).collect();
        for (id, name) in &all {
            let meta = &self.catalog.edge_types[usize::from(id.0)];
            let of = if all.len() > 1 { format!(" of {name}") } else { String::new() };
            there.push(format!("edge_index{of}"));
            there.extend(meta.tensors.iter().map(|tensor| format!("{}{of}", tensor.name)));
            there.push(format!("in_degree{of}"));
            there.extend(meta.has_weight.then(|| format!("edge_weight{of}")));
            there.extend(meta.has_time.then(|| format!("edge_time{of}")));
        }
        format!("the store has no {argument:?}{of_type}, only {}", there.join(", "))
    }
}

/// What rows are read as for the model.
fn dtype_for(meta: &TensorMeta, wanted: Option<&TensorType>) -> Result<Dtype, String> {
    let read = meta.read_dtype();
    let is_number = matches!(read, Dtype::F32 | Dtype::F16 | Dtype::Bf16);
    let computed = match read {
        Dtype::F32 | Dtype::F16 | Dtype::Bf16 => Dtype::F32,
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 | Dtype::U8 => Dtype::I64,
        other => other,
    };
    let has = wanted.map_or(computed, |wanted| wanted.dtype);
    if has != computed || read == Dtype::F64 {
        return Err(format!(
            "tensor {:?} is {} in the store, and the model expects {}",
            meta.name,
            read.name(),
            has.name()
        ));
    }
    Ok(if is_number { Dtype::F32 } else { read })
}

fn fits(wanted: &[Dim], found: &[Dim]) -> bool {
    wanted.len() == found.len()
        && wanted
            .iter()
            .zip(found)
            .all(|(wanted, found)| wanted.number().is_none() || wanted.number() == found.number())
}

fn expect(given: Given, wanted: Option<&TensorType>, dtype: Dtype) -> Result<Given, String> {
    match wanted {
        Some(wanted) if wanted.dtype != dtype => Err(format!(
            "the engine provides this input as {}, but the model expects {}",
            dtype.name(),
            wanted.dtype.name()
        )),
        _ => Ok(given),
    }
}
