//! The snapshot that answers come from, and what is in memory of it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use ng_sample::{Engine as Reading, Fanouts, Method, OlderLists, SampleSpec, Sampler};
use ng_store::{Changes, Owner, ReadError, RowOrder, Snapshot, Spare, TensorRef};
use ng_types::{EdgeTypeId, MemoryUser, NodeTypeId};

use crate::EngineError;
use crate::bind::{Binding, Given, Input};
use crate::degrees::InDegrees;
use crate::graphs::GraphsOf;
use crate::prepare::{Preparing, Progress};
use crate::table::RowTable;

/// One version of the store.
pub(crate) struct Pinned {
    pub snapshot: Arc<Snapshot>,
    /// Samples from pages.
    cold: Sampler,
    /// Samples from memory, once the lists are there.
    warm: OnceLock<Sampler>,
    /// Samples subgraphs that share no nodes from lists of a version before, and reads those that
    /// have changed since.
    older: OnceLock<Sampler>,
    /// By input of the model.
    pub tables: Vec<OnceLock<RowTable>>,
    /// How far what is brought into memory is; shared by versions that come meanwhile.
    pub progress: Arc<Progress>,
    /// Which nodes make which graph, once somebody has asked.
    pub graphs: OnceLock<GraphsOf>,
    /// By input of the model, degrees of all nodes where it takes them.
    pub degrees: Vec<Option<InDegrees>>,
    /// What others may have of the memory of requests.
    _spare: Arc<Spare>,
    /// Orders of rows, which all reads find as long as they are held.
    pub orders: Vec<Option<Arc<RowOrder>>>,
}

/// The version before, and what differs, as far as that is known.
pub(crate) type Before<'a> = (Option<&'a Pinned>, Option<&'a Changes>);

impl Pinned {
    /// A version of which nothing but page tables and indexes is in memory, and degrees that the
    /// model takes.
    pub fn new(
        snapshot: Arc<Snapshot>,
        binding: &Binding,
        fanouts: &Fanouts,
        spare: Arc<Spare>,
        before: Before<'_>,
    ) -> Result<Self, EngineError> {
        snapshot.tenants().add_spare(&spare);
        let spec = SampleSpec::uniform(fanouts.clone(), 0);
        // What the store comes to hold by itself is loaded in the midst of a request.
        let cold = Sampler::new(Arc::clone(&snapshot), spec, Vec::new())?
            .without_held_topologies()
            .with_engine(Reading::Hops);
        let drawn = drawn_types(&snapshot, fanouts);
        let tensors: Vec<_> = binding.rows().map(|(_, rows)| rows.tensor).collect();
        snapshot.load_metadata(&drawn, &tensors)?;
        let mut orders = vec![None; snapshot.catalog().node_types.len()];
        for tensor in &tensors {
            let Owner::Node(id) = tensor.owner else { continue };
            let fits = snapshot.order_bytes(id) <= snapshot.budget().share(MemoryUser::Orders);
            if fits && orders[usize::from(id.0)].is_none() {
                orders[usize::from(id.0)] = snapshot.load_order(id)?;
            }
        }
        let degrees = degrees_of(&snapshot, binding, before)?;
        Ok(Self {
            snapshot,
            cold,
            warm: OnceLock::new(),
            older: OnceLock::new(),
            tables: binding.inputs.iter().map(|_| OnceLock::new()).collect(),
            progress: Arc::default(),
            graphs: OnceLock::new(),
            degrees,
            _spare: spare,
            orders,
        })
    }

    /// Takes over what is in memory of a version before, as far as it is the same; `changes` is what
    /// differs, if that is known.
    ///
    /// # Errors
    /// [`EngineError::Sample`], [`EngineError::Read`].
    pub fn take(
        &self,
        before: &Self,
        preparing: &Preparing,
        changes: Option<&Changes>,
    ) -> Result<(), EngineError> {
        self.take_tables(before, &preparing.binding, changes)?;
        self.take_lists(before, &preparing.fanouts, changes)
    }

    /// Takes over what a version before has only now, however many lie between them.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_over(&self, before: &Self, preparing: &Preparing) -> Result<(), EngineError> {
        self.take(before, preparing, self.snapshot.changes_since(&before.snapshot).as_ref())
    }

    /// Takes over the rows in memory of the version before, as far as they are the same; `changes`
    /// is what differs, if that is known.
    ///
    /// # Errors
    /// [`ReadError`].
    fn take_tables(
        &self,
        before: &Self,
        binding: &Binding,
        changes: Option<&Changes>,
    ) -> Result<(), ReadError> {
        for (input, of) in binding.rows() {
            let Some(table) = before.tables[input].get() else { continue };
            if self.tables[input].get().is_some() {
                continue;
            }
            let Owner::Node(id) = of.tensor.owner else { continue };
            let nodes = self.num_nodes(id);
            let Ok(held) = self.snapshot.reserve(RowTable::stale_bytes_for(nodes)) else {
                continue;
            };
            let changed = match changes {
                Some(changes) => Some(changed_rows(changes, of.tensor, id)),
                None => self.snapshot.rows_changed_since(&before.snapshot, of.tensor)?,
            };
            let newer = changed.and_then(|rows| table.for_newer(&rows, nodes, held));
            if let Some(newer) = newer {
                let _ = self.tables[input].set(newer);
            }
        }
        Ok(())
    }

    /// Takes over the lists in memory of the version before, where few have changed.
    ///
    /// # Errors
    /// [`EngineError::Sample`].
    fn take_lists(
        &self,
        before: &Self,
        fanouts: &Fanouts,
        changes: Option<&Changes>,
    ) -> Result<(), EngineError> {
        let Some(sampler) = before.warm.get().or_else(|| before.older.get()) else {
            return Ok(());
        };
        let Some(changes) = changes.filter(|_| !self.has_lists(true)) else { return Ok(()) };
        let mut older = vec![None; self.snapshot.catalog().edge_types.len()];
        for id in drawn_types(&self.snapshot, fanouts) {
            let meta = &self.snapshot.catalog().edge_types[usize::from(id.0)];
            let nodes = self.num_nodes(meta.destination);
            let Ok(held) = self.snapshot.reserve(OlderLists::bytes_for(nodes)) else {
                return Ok(());
            };
            let changed = changes.lists.get(&id).map_or(&[][..], Vec::as_slice);
            let lists = match (sampler.resident_lists(id), sampler.older_lists(id)) {
                (Some(topology), _) => {
                    OlderLists::new(Arc::clone(topology), (changed, nodes), held)
                }
                (None, Some(lists)) => lists.for_newer((changed, nodes), held),
                (None, None) => None,
            };
            if lists.is_none() {
                return Ok(());
            }
            older[usize::from(id.0)] = lists;
        }
        let _ = self.older.set(self.cold.clone().with_older(older)?);
        Ok(())
    }

    /// What samples: from memory if the lists are there. Subgraphs that share no nodes are drawn
    /// from lists of a version before, too.
    pub fn sampler(&self, is_apart: bool) -> &Sampler {
        let older = self.older.get().filter(|_| is_apart);
        self.warm.get().or(older).unwrap_or(&self.cold)
    }

    /// Whether lists are in memory, for subgraphs that share no nodes those of a version before.
    pub fn has_lists(&self, is_apart: bool) -> bool {
        self.warm.get().is_some() || (is_apart && self.older.get().is_some())
    }

    /// Loads the lists that are drawn from.
    pub fn load_lists(&self, fanouts: &Fanouts) -> Result<(), EngineError> {
        let snapshot = &self.snapshot;
        let mut resident = vec![None; snapshot.catalog().edge_types.len()];
        for id in drawn_types(snapshot, fanouts) {
            let held = snapshot.held_topology(id);
            resident[usize::from(id.0)] =
                Some(held.map_or_else(|| snapshot.load_topology(id), Ok)?);
        }
        let warm = self.cold.clone().with_resident(resident)?;
        // Another thread may have done the same.
        let _ = self.warm.set(warm);
        Ok(())
    }

    /// Bytes that [`Self::load_lists`] takes.
    pub fn list_bytes(&self, fanouts: &Fanouts) -> u64 {
        self.snapshot.lacking_bytes(&drawn_types(&self.snapshot, fanouts), &[])
    }

    /// A sampler of whole graphs: nodes, and the edges between them.
    pub fn induced(&self) -> Result<Sampler, EngineError> {
        let edge_types = self.snapshot.catalog().edge_types.iter().enumerate();
        let fanouts = edge_types.map(|(id, meta)| {
            let is_of_graph = !self.snapshot.catalog().is_reverse_index(EdgeTypeId(id as u16));
            vec![if is_of_graph && meta.source == meta.destination { -1 } else { 0 }]
        });
        let fanouts = Fanouts::new(fanouts.collect())?;
        let spec = SampleSpec { method: Method::Induced, ..SampleSpec::uniform(fanouts, 0) };
        Ok(Sampler::new(Arc::clone(&self.snapshot), spec, Vec::new())?.without_held_topologies())
    }

    /// Nodes of a type.
    pub fn num_nodes(&self, node_type: NodeTypeId) -> u64 {
        let meta = self.snapshot.catalog().node_types.get(usize::from(node_type.0));
        meta.map_or(0, |meta| meta.num_nodes)
    }
}

/// Nodes whose rows are no longer what they were.
fn changed_rows(changes: &Changes, tensor: TensorRef, of: NodeTypeId) -> Vec<Range<u64>> {
    let rows = changes.rows.get(&tensor).into_iter().chain(changes.deleted.get(&of));
    rows.flatten().map(|node| *node..*node + 1).collect()
}

/// The degrees that inputs take: those of the version before where few lists have changed.
fn degrees_of(
    snapshot: &Snapshot,
    binding: &Binding,
    (before, changes): Before<'_>,
) -> Result<Vec<Option<InDegrees>>, ReadError> {
    let of = |(at, input): (usize, &Input)| {
        let Given::InDegrees(_, id) = input.given else { return Ok(None) };
        let older = before.and_then(|before| before.degrees[at].as_ref());
        let newer = match (older, changes) {
            (Some(older), Some(changes)) => {
                let changed = changes.lists.get(&id).map_or(&[][..], Vec::as_slice);
                older.for_newer(snapshot, id, changed)?
            }
            _ => None,
        };
        newer.map_or_else(|| InDegrees::read(snapshot, id), Ok).map(Some)
    };
    binding.inputs.iter().enumerate().map(of).collect()
}

/// The edge types that any hop draws from.
pub(crate) fn drawn_types(snapshot: &Snapshot, fanouts: &Fanouts) -> Vec<EdgeTypeId> {
    let ids = (0..snapshot.catalog().edge_types.len() as u16).map(EdgeTypeId);
    ids.filter(|id| (0..fanouts.hops()).any(|hop| fanouts.get(*id, hop) != 0)).collect()
}
