//! The content of a file of the store in words, for messages about its damage.

use crate::catalog::{Catalog, TensorMeta};

/// What the data file or the page table `file` holds; `None` for other files.
pub(super) fn content_of(catalog: &Catalog, file: &str) -> Option<String> {
    let name = file.strip_suffix(".dat").or_else(|| file.strip_suffix(".map"))?;
    let at = catalog.segments.iter().position(|segment| segment.name == name)?;
    let segment = u32::try_from(at).ok()?;
    of_nodes(catalog, segment).or_else(|| of_edges(catalog, segment))
}

fn of_nodes(catalog: &Catalog, segment: u32) -> Option<String> {
    catalog.node_types.iter().find_map(|meta| {
        let whose = format!("node type {:?}", meta.name);
        let is_dead = meta.dead.is_some_and(|dead| dead.segment == segment);
        let is_order = meta.order.is_some_and(|order| order.segment == segment);
        let is_dictionary = meta.dictionary.is_some_and(|dictionary| {
            [dictionary.names, dictionary.names_index, dictionary.keys].contains(&segment)
        });
        let what = match (is_dead, is_order, is_dictionary) {
            (true, ..) => "deleted nodes",
            (_, true, _) => "order of rows",
            (.., true) => "string ids",
            _ => return of_tensors(&meta.tensors, segment, &whose),
        };
        Some(format!("{what} of {whose}"))
    })
}

fn of_edges(catalog: &Catalog, segment: u32) -> Option<String> {
    catalog.edge_types.iter().find_map(|meta| {
        let name = |id: ng_types::NodeTypeId| {
            catalog.node_types.get(usize::from(id.0)).map_or("", |end| end.name.as_str())
        };
        let (source, destination) = (name(meta.source), name(meta.destination));
        let whose = format!("edge type {source:?}, {:?}, {destination:?}", meta.relation);
        match segment {
            _ if segment == meta.topology.pages => Some(format!("neighbour lists of {whose}")),
            _ if segment == meta.topology.index => Some(format!("index of lists of {whose}")),
            _ => of_tensors(&meta.tensors, segment, &whose),
        }
    })
}

fn of_tensors(tensors: &[TensorMeta], segment: u32, whose: &str) -> Option<String> {
    tensors.iter().find_map(|tensor| {
        let is_its = tensor.segment == segment
            || tensor.scales == Some(segment)
            || tensor.sparse.is_some_and(|sparse| sparse.entries == segment);
        is_its.then(|| format!("tensor {:?} of {whose}", tensor.name))
    })
}
