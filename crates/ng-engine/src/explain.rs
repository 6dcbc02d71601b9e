//! A readable description of an engine.

use std::fmt::Write;

use ng_store::{Catalog, Owner, TensorRef};
use ng_types::format_bytes;

use crate::Engine;
use crate::bind::{Given, RowsOf};
use crate::schema::edge_types;

impl Engine {
    /// Describes the source of each input, the device of each operation, and the data in memory.
    pub fn explain(&self) -> String {
        let (pinned, server) = (self.pinned(), &self.server);
        let catalog = pinned.snapshot.catalog();
        let mut out = String::from("inputs\n");
        for (at, input) in server.binding.inputs.iter().enumerate() {
            let held = pinned.tables[at].get().map_or(String::new(), |table| {
                format!(", {} of rows in memory", format_bytes(table.num_bytes()))
            });
            let _ = writeln!(out, "  {}: {}{held}", input.name, described(&input.given, catalog));
        }
        out.push_str("operations\n");
        for step in server.served.plan().explain().steps {
            let nodes: Vec<String> =
                step.nodes.iter().map(|(name, op)| format!("{name} ({op})")).collect();
            let device = step.device.as_deref().unwrap_or("no device (no data is moved)");
            let (shapes, nodes) = (step.shapes.join(", "), nodes.join(", "));
            let _ = writeln!(out, "  {} on {device}: {shapes} from {nodes}", step.op);
        }
        let lists = match (pinned.has_lists(false), pinned.has_lists(true)) {
            (true, _) => "in memory",
            (false, true) => {
                "in memory, except changed lists, for requests in which each node has its own \
                 subgraph"
            }
            (false, false) => "read from the store",
        };
        let _ = writeln!(out, "neighbour lists: {lists}");
        let _ = writeln!(out, "ready: {:.0} %", pinned.progress.ready() * 100.0);
        if let Some(failure) = pinned.progress.failure() {
            let _ = writeln!(out, "preparation is incomplete: {failure}");
        }
        out
    }
}

fn described(given: &Given, catalog: &Catalog) -> String {
    let node = |id: &ng_types::NodeTypeId| {
        catalog.node_types.get(usize::from(id.0)).map_or("", |meta| meta.name.as_str())
    };
    let edge = |id: &ng_types::EdgeTypeId| {
        edge_types(catalog).find(|(known, _)| known == id).map_or(String::new(), |(_, name)| name)
    };
    match given {
        Given::Rows(RowsOf { tensor, .. }) => {
            let TensorRef { owner, .. } = tensor;
            let name = catalog.tensor(*tensor).map_or("", |meta| meta.name.as_str());
            let of = match owner {
                Owner::Node(id) => format!("nodes of type {}", node(id)),
                Owner::Edge(id) => format!("edges of type {}", edge(id)),
            };
            format!("rows of tensor {name:?} of {of}")
        }
        Given::EdgeIndex(id) => format!("edges of type {}", edge(id)),
        Given::Weights(id) => format!("weights of edges of type {}", edge(id)),
        Given::Times(id) => format!("times of edges of type {}", edge(id)),
        Given::EdgeIds(id) => format!("ids of edges of type {}", edge(id)),
        Given::NodeIds(id) => format!("ids of nodes of type {}", node(id)),
        Given::InDegrees(_, id) => {
            format!("in-degrees for edges of type {} in the whole graph", edge(id))
        }
        Given::NumSeeds => "number of requested nodes".to_owned(),
        Given::Pairs => "requested pairs".to_owned(),
        Given::GraphOf(id) => format!("graph id of each node of type {}", node(id)),
        Given::NumGraphs => "number of requested graphs".to_owned(),
    }
}
