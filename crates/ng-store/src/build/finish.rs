//! What comes back to a builder, and the commit that makes a store of it.

use std::sync::Arc;

use ng_types::{EdgeTypeId, NodeTypeId};

use crate::build::builder::{RootOf, StoreBuilder};
use crate::build::spec::{BuildSummary, Part};
use crate::catalog::{Catalog, LogMeta, Owner, SegmentMeta, TensorMeta};
use crate::dictionary::writer::DictionaryPart;
use crate::error::BuildError;
use crate::io::Appender;
use crate::page::FinishedSegment;
use crate::tensor::writer::TensorPart;
use crate::topology::TopologyPart;
use crate::version::root;
use crate::write::log::{LOG_STEP_BYTES, LOGS};

/// The file whose bytes are locked by writers and readers of checkpoints.
pub(crate) const PINS: &str = "pins";

impl StoreBuilder {
    /// Adds a part that a writer has finished.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for a part of another builder, [`BuildError::RowCount`].
    pub fn add(&mut self, part: Part) -> Result<(), BuildError> {
        match part {
            Part::Topology(part) => self.add_topology(part),
            Part::Tensor(part) => self.add_tensor(part),
            Part::Dictionary(part) => self.add_dictionary(part),
        }
    }

    pub(super) fn add_segment(&mut self, segment: FinishedSegment) -> Result<(), BuildError> {
        match self.segments.get_mut(segment.id as usize) {
            Some(place @ None) => *place = Some(segment.meta),
            _ => {
                return Err(BuildError::invalid("a part does not belong to this builder"));
            }
        }
        Ok(())
    }

    fn add_topology(&mut self, part: TopologyPart) -> Result<(), BuildError> {
        for segment in part.segments {
            self.add_segment(segment)?;
        }
        let edge_type = self.edge_type_mut(EdgeTypeId(part.edge_type))?;
        edge_type.meta.topology = part.meta;
        edge_type.meta.num_edges = part.totals.num_edges;
        edge_type.totals = Some(part.totals);
        Ok(())
    }

    fn add_tensor(&mut self, part: TensorPart) -> Result<(), BuildError> {
        self.add_segment(part.segment)?;
        part.beside.map_or(Ok(()), |segment| self.add_segment(segment))?;
        match self.tensors.get_mut(usize::from(part.slot)) {
            Some((owner, meta, done)) if *owner == part.owner => {
                (*meta, *done) = (part.meta, true);
                Ok(())
            }
            _ => Err(BuildError::invalid("a part does not belong to this builder")),
        }
    }

    fn add_dictionary(&mut self, part: DictionaryPart) -> Result<(), BuildError> {
        for segment in part.segments {
            self.add_segment(segment)?;
        }
        self.dictionaries_open -= 1;
        let owner = self
            .node_types
            .get_mut(usize::from(part.node_type))
            .filter(|owner| owner.dictionary.is_none())
            .ok_or_else(|| {
                BuildError::invalid(
                    "the node type of a dictionary does not exist, or has two dictionaries",
                )
            })?;
        if part.num_names != owner.num_nodes {
            return Err(BuildError::RowCount {
                what: format!("dictionary of {:?}", owner.name),
                expected: owner.num_nodes,
                found: part.num_names,
            });
        }
        owner.dictionary = Some(part.meta);
        Ok(())
    }

    /// Checks that the store is complete, writes both root slots and makes the directory durable.
    ///
    /// # Errors
    /// [`BuildError::TopologyMissing`], [`BuildError::RowCount`], [`BuildError::IdOutOfRange`],
    /// [`BuildError::Invalid`] if a part was not added, [`BuildError::Write`].
    pub fn commit(self) -> Result<BuildSummary, BuildError> {
        let disk = Arc::clone(&self.disk);
        let RootOf { checkpoint_id, lsn, .. } = self.root.clone();
        let catalog = self.into_catalog()?;
        catalog.check().map_err(|damage| BuildError::invalid(damage.to_string()))?;
        let slot = root::encode(&catalog, checkpoint_id, lsn)?;
        for name in root::SLOTS {
            let mut file = Appender::create(Arc::clone(&disk), name)?;
            file.write(&slot)?;
            file.finish()?;
        }
        for name in LOGS {
            let mut file = Appender::create(Arc::clone(&disk), name)?;
            file.write(&[0; LOG_STEP_BYTES as usize])?;
            file.finish()?;
        }
        Appender::create(Arc::clone(&disk), PINS)?.finish()?;
        crate::io::sync_dir(disk.as_ref())?;
        Ok(BuildSummary {
            disk_bytes: catalog.disk_bytes() + 2 * (slot.len() as u64 + LOG_STEP_BYTES),
            num_edges: catalog.edge_types.iter().map(|t| t.num_edges).sum(),
            fingerprint: root::fingerprint(&slot),
        })
    }

    fn into_catalog(mut self) -> Result<Catalog, BuildError> {
        for place in 0..self.edge_types.len() {
            self.settle_edge_type(place)?;
        }
        for (owner, meta, done) in std::mem::take(&mut self.tensors) {
            if !done {
                let what = format!("tensor {:?} was started but not added", meta.name);
                return Err(BuildError::invalid(what));
            }
            self.place_tensor(owner, meta)?;
        }
        let segments: Option<Vec<SegmentMeta>> = self.segments.into_iter().collect();
        Ok(Catalog {
            page_bytes: self.options.page_bytes,
            fill: self.options.fill,
            reuse_ids: self.options.reuse_ids,
            log: Some(LogMeta { chain: self.root.chain, ..LogMeta::default() }),
            keys: self.root.keys,
            node_types: self.node_types,
            edge_types: self.edge_types.into_iter().map(|t| t.meta).collect(),
            segments: segments
                .ok_or_else(|| BuildError::invalid("a dictionary was started but not added"))?,
        })
    }

    fn settle_edge_type(&mut self, place: usize) -> Result<(), BuildError> {
        let Some(edge_type) = self.edge_types.get_mut(place) else {
            return Ok(());
        };
        let meta = &mut edge_type.meta;
        let Some(totals) = edge_type.totals else {
            return Err(BuildError::TopologyMissing { edge_type: meta.relation.clone() });
        };
        if meta.has_edge_ids {
            meta.num_edge_ids = edge_type.num_edge_ids.unwrap_or(totals.edge_id_bound);
        }
        let nodes = |id: NodeTypeId| {
            let owner = self.node_types.get(usize::from(id.0));
            owner.map_or((0, String::new()), |t| (t.num_nodes, format!("node type {:?}", t.name)))
        };
        let (edge_bound, edge_owner) =
            (meta.num_edge_ids, format!("edge type {:?}", meta.relation));
        for (kind, bound, (allowed, owner)) in [
            ("source", totals.source_bound, nodes(meta.source)),
            ("destination", totals.destination_bound, nodes(meta.destination)),
            ("edge id", totals.edge_id_bound, (edge_bound, edge_owner)),
        ] {
            if bound > allowed {
                return Err(BuildError::IdOutOfRange {
                    kind,
                    id: bound - 1,
                    owner,
                    bound: allowed,
                });
            }
        }
        Ok(())
    }

    fn place_tensor(&mut self, owner: Owner, meta: TensorMeta) -> Result<(), BuildError> {
        let missing = || BuildError::invalid("the owner of a tensor does not exist");
        let (tensors, expected) = match owner {
            Owner::Node(id) => {
                let owner = self.node_types.get_mut(usize::from(id.0)).ok_or_else(missing)?;
                (&mut owner.tensors, owner.num_nodes)
            }
            Owner::Edge(id) => {
                let owner = self.edge_types.get_mut(usize::from(id.0)).ok_or_else(missing)?;
                (&mut owner.meta.tensors, owner.meta.num_edge_ids)
            }
        };
        if meta.num_rows != expected {
            let (what, found) = (format!("tensor {:?}", meta.name), meta.num_rows);
            return Err(BuildError::RowCount { what, expected, found });
        }
        tensors.push(meta);
        Ok(())
    }
}
