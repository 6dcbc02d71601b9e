//! Edges between nodes with string ids, on their way through an [`Importer`].

use std::sync::PoisonError;

use ng_types::{EdgeTypeId, NodeTypeId};

use crate::edges::RawEdges;
use crate::failure::store_error;
use crate::importer::NodeType;
use crate::sink::EdgeSink;
use crate::strings::{NameKind, Ranks, StringEdges, check_name, relabel};
use crate::text::NamedEdges;
use crate::{ImportError, Importer};

impl Importer {
    /// Adds edges between nodes with string ids: `sources[i] -> destinations[i]`.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for columns that do not match the edge type, [`ImportError::Row`] for
    /// a name that is empty or too long.
    pub fn push_string_edges(
        &mut self,
        edge_type: EdgeTypeId,
        sources: &[&str],
        destinations: &[&str],
        times: Option<&[i64]>,
        weights: Option<&[f32]>,
    ) -> Result<(), ImportError> {
        let index = self.edge_index(edge_type)?;
        let spec = &self.edge_types[index].spec;
        if matches!(self.named_kind(index), None | Some(NameKind::Number)) {
            return Err(ImportError::spec(format!(
                "edge type {:?}: its nodes have numbers, not string ids",
                spec.relation
            )));
        }
        let given = [times.map(<[i64]>::len), weights.map(<[f32]>::len)];
        if [spec.time, spec.weight] != given.map(|len| len.is_some())
            || destinations.len() != sources.len()
            || given.into_iter().flatten().any(|len| len != sources.len())
        {
            return Err(ImportError::spec(format!(
                "edge type {:?}: give exactly the declared columns (times, weights), each with \
                 one element per edge",
                spec.relation
            )));
        }
        let mut edges = NamedEdges::default();
        let first = self.edge_types[index].rows;
        for (row, (source, destination)) in sources.iter().zip(destinations).enumerate() {
            let pushed = edges.push(source.as_bytes(), destination.as_bytes());
            pushed.map_err(|what| ImportError::Row {
                array: format!("edges of {:?}", spec.relation),
                row: row as u64,
                what,
            })?;
        }
        edges.times.extend_from_slice(times.unwrap_or_default());
        edges.weights.extend_from_slice(weights.unwrap_or_default());
        self.activate(index)?;
        self.edge_types[index].rows += sources.len() as u64;
        let result = self.intern(index, &edges, first);
        self.note(result)
    }

    /// Adds the string ids of the next nodes of a type, before any edge. A node's id is its
    /// position among them, and edges must not have other names.
    ///
    /// # Errors
    /// [`ImportError::Spec`] for a type without string ids, or keys that repeat or follow edges;
    /// [`ImportError::Row`] for a name that is empty or too long.
    pub fn push_keys(&mut self, id: NodeTypeId, keys: &[&str]) -> Result<(), ImportError> {
        self.check_collecting("push keys of nodes")?;
        let directory = self.scratch_dir.clone();
        let found = self.node_types.iter_mut().find(|known| known.id == id);
        let node_type = found.filter(|known| known.kind != NameKind::Number);
        let Some(NodeType { name, kind, names: Some(names), .. }) = node_type else {
            return Err(ImportError::spec(
                "keys can be pushed only for a node type with string ids",
            ));
        };
        *kind = NameKind::Key;
        let names = names.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (row, key) in keys.iter().enumerate() {
            check_name(key.as_bytes()).map_err(|what| ImportError::Row {
                array: format!("keys of node type {name:?}"),
                row: names.num_keys() + row as u64,
                what,
            })?;
        }
        keys.iter().try_for_each(|key| names.push_key(&directory, key.as_bytes()))
    }

    /// What names the ends of an edge type, if anything does.
    pub(crate) fn named_kind(&self, index: usize) -> Option<NameKind> {
        let node_type = &self.node_types[self.edge_types[index].source];
        node_type.strings.then_some(node_type.kind)
    }

    /// Takes checked edges in, from any thread.
    pub(crate) fn take_edges(&self, index: usize, edges: &RawEdges) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        match &edge_type.sink {
            Some(sink) => sink.push(edges),
            None => self.intern_numbers(index, edges),
        }
    }

    /// Turns numbers into provisional ids, and keeps the edges.
    fn intern_numbers(&self, index: usize, edges: &RawEdges) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        let mut interned = edges.clone();
        for (node_type, ids) in [
            (edge_type.source, &mut interned.sources),
            (edge_type.destination, &mut interned.destinations),
        ] {
            let Some(names) = &self.node_types[node_type].names else {
                return Err(ImportError::spec(
                    "the edges have numbers, but the nodes have string ids",
                ));
            };
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            for id in ids {
                *id = names.intern(&id.to_be_bytes())?;
            }
        }
        edge_type.named_edges().push(&interned)
    }

    /// Turns names into provisional ids, and keeps the edges.
    pub(crate) fn intern(
        &self,
        index: usize,
        named: &NamedEdges,
        first_row: u64,
    ) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        let mut edges = RawEdges { first_row, ..RawEdges::default() };
        for (end, node_type) in [edge_type.source, edge_type.destination].into_iter().enumerate() {
            let Some(names) = &self.node_types[node_type].names else {
                return Err(ImportError::spec(
                    "the edges have string ids, but the nodes have numbers",
                ));
            };
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            let to = if end == 0 { &mut edges.sources } else { &mut edges.destinations };
            for ends in named.ends() {
                to.push(names.intern(ends[end])?);
            }
        }
        edges.times.clone_from(&named.times);
        edges.weights.clone_from(&named.weights);
        edge_type.named_edges().push(&edges)
    }

    /// Gives every name its id, writes the dictionaries, and hands the edges to their sinks.
    pub(crate) fn settle_names(&mut self) -> Result<Vec<Option<u64>>, ImportError> {
        let mut ranks: Vec<Option<Ranks>> = Vec::new();
        let sizes = self.plan.sizes(1, 2);
        for index in 0..self.node_types.len() {
            let NodeType { id, kind, names, name, .. } = &mut self.node_types[index];
            let (id, kind, names, type_name) = (*id, *kind, names.take(), name.clone());
            let Some(names) = names else {
                ranks.push(None);
                continue;
            };
            let table = names.into_inner().unwrap_or_else(PoisonError::into_inner);
            let writer = self.builder()?.dictionary(id).map_err(store_error)?;
            let settled = Ranks::settle(table, kind, writer, &self.scratch_dir, &self.slots, sizes);
            let (settled, part) = settled.map_err(|error| match error {
                ImportError::Spec(what) => {
                    ImportError::spec(format!("node type {type_name:?}: {what}"))
                }
                other => other,
            })?;
            // The names are the nodes: the store checks a dictionary against their number.
            self.builder()?.set_num_nodes(id, settled.names).map_err(store_error)?;
            self.builder()?.add(part).map_err(store_error)?;
            ranks.push(Some(settled));
        }
        for edge_type in &mut self.edge_types {
            let Some(named) = edge_type.named.take() else {
                continue;
            };
            let sink = EdgeSink::new(&edge_type.spec, self.slots.clone(), sizes);
            let [sources, destinations] =
                [edge_type.source, edge_type.destination].map(|node_type| {
                    ranks[node_type].as_ref().unwrap_or_else(|| panic!("named edges, but no names"))
                });
            relabel(named, sources, destinations, &sink)?;
            sink.pause()?;
            edge_type.sink = Some(sink);
        }
        Ok(ranks.iter().map(|ranks| ranks.as_ref().map(|ranks| ranks.names)).collect())
    }

    /// What keeps the edges of an edge type between named nodes.
    pub(crate) fn string_edges(&self, index: usize) -> StringEdges {
        let spec = &self.edge_types[index].spec;
        let sizes = self.plan.sizes(self.edge_types.len(), 1);
        StringEdges::new(&self.slots, spec.time, spec.weight, sizes)
    }
}
