//! `compact`: the same content in fresh files, laid out as an import would; and what it shares with
//! `reorganize`, which gives rows another order on the way.
//!
//! Built beside the store and put into its place in one step, so a crash leaves the old store or
//! the new one. Readers that have the old files open go on with them. Memory does not grow with the
//! store: lists and rows go through in windows.

use std::path::Path;
use std::time::{Duration, Instant};

use ng_io::{BackendChoice, Existing, StagingDir, StagingError};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId};

use crate::build::builder::{RootOf, StoreBuilder};
use crate::build::spec::{BuildOptions, EdgeTypeSpec};
use crate::catalog::EdgeTypeMeta;
use crate::dictionary::page::StringPage;
use crate::error::{Damage, ReadError};
use crate::page::scan_blocks;
use crate::store::{OpenOptions, PAUSE_MAX, REPLACED_MAX, Snapshot, Store};
use crate::topology::{Entry, Expansion};
use crate::version::root::SLOTS;
use crate::write::error::UpdateError;
use crate::write::log::LOGS;
use crate::write::reorganize::{MakeOrders, NewOrder};
use crate::write::rows::Moving;

/// Nodes whose lists are looked up together, and entries that are held.
pub(super) const NODES_TOGETHER: u64 = 8192;
const ENTRIES_TOGETHER: u64 = 1 << 18;

/// A report of compacting or rewriting.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CompactReport {
    /// Bytes of all files before.
    pub bytes_before: u64,
    /// Bytes of all files after.
    pub bytes_after: u64,
    /// The checkpoint of the new files.
    pub checkpoint_id: u64,
    /// Why the old files could not all be removed, if so; the next rewriting removes them.
    pub leftover: Option<String>,
}

/// Rewrites the store in directory `path`: lists in order and packed, rows in place, nothing unused
/// between them. Ids, order of lists, order of rows and content stay. It needs free space for the
/// new store. `progress` receives the done and the total nodes and rows; returning `false` stops it
/// and leaves the store unchanged.
///
/// # Errors
/// [`UpdateError::Busy`] if somebody writes to the store, [`UpdateError::Stopped`],
/// [`UpdateError::Build`] if the new files cannot be written, [`UpdateError::Read`].
pub fn compact(
    path: &Path,
    options: &OpenOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CompactReport, UpdateError> {
    reorganize(path, options, &mut |_| Ok(Vec::new()), progress)
}

/// Rewrites the store in directory `path` as [`crate::compact`] does, with the rows of node types
/// in new orders: `orders` makes them, one for each type that shall have one, from the version that
/// is rewritten. Ids and all that is read by them stay. Needs the disk space that
/// [`crate::reorganize_bytes`] tells; a crash leaves the old store or the new one.
///
/// # Errors
/// Those of [`crate::compact`] and of `orders`, [`crate::ReadError::Order`] for an order that does
/// not have all nodes of its type, [`crate::ReadError::Budget`] if memory does not hold the orders.
pub fn reorganize<E: From<UpdateError>>(
    path: &Path,
    options: &OpenOptions,
    orders: &mut MakeOrders<'_, E>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CompactReport, E> {
    let mut options = options.passing();
    // The old files go away under this handle, so nothing may be mapped.
    if options.backend == BackendChoice::Mmap {
        options.backend = BackendChoice::Auto;
    }
    let store = open_to_rewrite(path, &options, &mut || progress(0, 1))?;
    store.checkpoint()?;
    let snapshot = store.snapshot();
    let orders = orders(&snapshot)?;
    Ok(rewrite_store(path, &store, &snapshot, orders, progress)?)
}

/// Opens a store and makes sure that nobody else writes to it. Whoever did may have been rewriting
/// it, too; then the new one is opened.
fn open_to_rewrite(
    path: &Path,
    options: &OpenOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Store, UpdateError> {
    let mut tries = 1;
    loop {
        let store = Store::open(path, options)?;
        let writes = store.become_writer(go_on);
        if writes.is_ok() || store.is_current() || tries == REPLACED_MAX {
            return writes.map(|()| store);
        }
        tries += 1;
    }
}

fn rewrite_store(
    path: &Path,
    store: &Store,
    snapshot: &Snapshot,
    new_orders: Vec<NewOrder>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<CompactReport, UpdateError> {
    let bytes_before = snapshot.catalog().disk_bytes() + bytes_apart(store)?;
    let staging = stage(path, store.busy_timeout, &mut || progress(0, 1))?;
    let mut run = Compaction::new(snapshot, staging.path(), progress)?;
    for (node_type, order) in new_orders {
        let order = Moving::new(snapshot, node_type, order)?;
        if let Some(place) = run.orders.get_mut(usize::from(node_type.0)) {
            *place = Some(order);
        }
    }
    run.rewrite()?;
    let version = &snapshot.version;
    let (checkpoint_id, lsn, chain) =
        (version.base.checkpoint_id + 1, version.lsn, version.fingerprint);
    let keys = version.catalog.keys.clone();
    run.builder.continue_from(RootOf { checkpoint_id, lsn, chain, keys });
    let summary = run.builder.commit()?;
    if !store.is_current() {
        let what = format!(
            "{} was replaced by another process while it was rewritten; try again",
            path.display()
        );
        return Err(UpdateError::Unsupported { what });
    }
    let leftover = staging.publish().map_err(staging_error)?.map(|error| error.to_string());
    Ok(CompactReport { bytes_before, bytes_after: summary.disk_bytes, checkpoint_id, leftover })
}

/// Makes the staging directory. Whoever rewrote the store before may still be removing old files.
fn stage(
    path: &Path,
    busy_timeout: Duration,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<StagingDir, UpdateError> {
    let start = Instant::now();
    loop {
        match StagingDir::create(path, Existing::Replace) {
            Err(StagingError::Busy { .. }) if start.elapsed() < busy_timeout => {}
            created => return created.map_err(staging_error),
        }
        if !go_on() {
            return Err(UpdateError::Stopped);
        }
        std::thread::sleep(PAUSE_MAX);
    }
}

/// Bytes of what no catalog counts: roots and logs.
fn bytes_apart(store: &Store) -> Result<u64, ReadError> {
    let reader = &store.inner.pages.reader;
    let len = |name: &str| Ok(reader.len(reader.open(name)?)?);
    SLOTS.into_iter().chain(LOGS).map(len).sum()
}

pub(super) fn staging_error(error: StagingError) -> UpdateError {
    UpdateError::Unsupported { what: error.to_string() }
}

/// Nodes of all lists and rows of all tensors.
fn work(snapshot: &Snapshot) -> u64 {
    let catalog = snapshot.catalog();
    let nodes = |t: &EdgeTypeMeta| {
        let owner = catalog.node_types.get(usize::from(t.destination.0));
        owner.map_or(0, |owner| owner.num_nodes)
    };
    let lists: u64 = catalog.edge_types.iter().map(nodes).sum();
    lists + catalog.all_tensors().map(|tensor| tensor.num_rows).sum::<u64>()
}

/// A rewriting under way.
pub(super) struct Compaction<'a> {
    pub snapshot: &'a Snapshot,
    pub builder: StoreBuilder,
    /// For temporary files.
    pub directory: &'a Path,
    /// New orders, by node type.
    pub orders: Vec<Option<Moving>>,
    /// What rows of floats become, where they are wider.
    pub narrow: Option<Dtype>,
    pub steps: Steps<'a>,
}

/// How far it is, and whether to go on.
pub(super) struct Steps<'a> {
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    done: u64,
    total: u64,
}

impl Steps<'_> {
    /// Counts nodes and rows that are done.
    pub fn step(&mut self, count: u64) -> Result<(), UpdateError> {
        self.done += count;
        if (self.progress)(self.done.min(self.total), self.total) {
            return Ok(());
        }
        Err(UpdateError::Stopped)
    }

    /// Asks from time to time whether to go on, while rows that were counted are written.
    pub fn go_on(&mut self, at: u64) -> Result<(), UpdateError> {
        if at.is_multiple_of(NODES_TOGETHER) { self.step(0) } else { Ok(()) }
    }
}

impl<'a> Compaction<'a> {
    /// Rewrites into an empty directory.
    pub fn new(
        snapshot: &'a Snapshot,
        directory: &'a Path,
        progress: &'a mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Self, UpdateError> {
        let catalog = snapshot.catalog();
        let (page_bytes, fill, reuse_ids) = (catalog.page_bytes, catalog.fill, catalog.reuse_ids);
        let build = BuildOptions { page_bytes, fill, reuse_ids };
        let builder = StoreBuilder::create(directory, build)?;
        let steps = Steps { progress, done: 0, total: work(snapshot) };
        let orders = catalog.node_types.iter().map(|_| None).collect();
        Ok(Self { snapshot, builder, directory, orders, narrow: None, steps })
    }

    /// Writes all that is in the snapshot.
    pub fn rewrite(&mut self) -> Result<(), UpdateError> {
        let catalog = self.snapshot.catalog();
        self.declare()?;
        for index in 0..catalog.edge_types.len() {
            self.topology(EdgeTypeId(index as u16))?;
        }
        self.tensors()?;
        for index in 0..catalog.node_types.len() {
            self.names(NodeTypeId(index as u16))?;
            self.order(NodeTypeId(index as u16))?;
        }
        Ok(())
    }

    fn declare(&mut self) -> Result<(), UpdateError> {
        let catalog = self.snapshot.catalog();
        for node_type in &catalog.node_types {
            self.builder.node_type(&node_type.name, node_type.num_nodes)?;
        }
        for meta in &catalog.edge_types {
            self.builder.edge_type(EdgeTypeSpec {
                source: meta.source,
                relation: meta.relation.clone(),
                destination: meta.destination,
                undirected: meta.undirected,
                unique: meta.unique,
                has_edge_ids: meta.has_edge_ids,
                has_time: meta.has_time,
                has_weight: meta.has_weight,
            })?;
        }
        for (index, meta) in catalog.edge_types.iter().enumerate() {
            let id = EdgeTypeId(index as u16);
            if let Some(reverse) = meta.reverse {
                self.builder.set_reverse(id, reverse)?;
            }
            if meta.has_edge_ids {
                self.builder.set_num_edge_ids(id, meta.num_edge_ids)?;
            }
        }
        Ok(())
    }

    fn topology(&mut self, id: EdgeTypeId) -> Result<(), UpdateError> {
        let snapshot = self.snapshot;
        let meta = snapshot.version.edge_type(id)?;
        let num_nodes = snapshot.version.node_type(meta.destination)?.num_nodes;
        let is_plain = !(meta.has_edge_ids || meta.has_time || meta.has_weight);
        let mut lists = self.builder.topology(id)?;
        let mut found = Expansion::default();
        for first in (0..num_nodes).step_by(NODES_TOGETHER as usize) {
            let nodes: Vec<u64> = (first..num_nodes.min(first + NODES_TOGETHER)).collect();
            let degrees = snapshot.degrees(id, &nodes)?;
            for (nodes, degree) in windows(&nodes, &degrees) {
                let mut from = 0;
                loop {
                    let to = degree.min(from + ENTRIES_TOGETHER);
                    let mut draw = |_: usize, degree: u64, positions: &mut Vec<u64>| {
                        positions.extend(from.min(degree)..to.min(degree));
                    };
                    snapshot.expand(id, nodes, &mut draw, &mut found)?;
                    for (node, range) in nodes.iter().zip(found.offsets.windows(2)) {
                        let (start, end) = (range[0], range[1]);
                        if is_plain {
                            let sources = &found.sources[start..end];
                            lists.push_sources(*node, sources)?;
                        } else {
                            let entries: Vec<Entry> =
                                (start..end).map(|at| entry(&found, at)).collect();
                            lists.push_run(*node, &entries)?;
                        }
                    }
                    from = to;
                    if from == degree {
                        break;
                    }
                }
            }
            self.steps.step(nodes.len() as u64)?;
        }
        Ok(self.builder.add(lists.finish()?)?)
    }

    /// String ids and deleted nodes.
    fn names(&mut self, id: NodeTypeId) -> Result<(), UpdateError> {
        let snapshot = self.snapshot;
        let meta = snapshot.version.node_type(id)?;
        if meta.dead.is_some() {
            let mut dead = self.builder.dead_nodes(id)?;
            for node in snapshot.dead_nodes(id)? {
                dead.push(node)?;
            }
            self.builder.add_dead_nodes(dead.finish()?)?;
        }
        let Some(dictionary) = meta.dictionary else {
            return Ok(());
        };
        let mut names = self.builder.dictionary(id)?;
        for first in (0..meta.num_nodes).step_by(NODES_TOGETHER as usize) {
            let ids: Vec<u64> = (first..meta.num_nodes.min(first + NODES_TOGETHER)).collect();
            for name in snapshot.names(id, &ids)? {
                names.push_name(&name)?;
            }
        }
        // Keys do not change, so their pages are in the order of the import: ascending.
        let keys = snapshot.version.segment(dictionary.keys)?;
        scan_blocks(&snapshot.inner, keys, 1, &mut |first, bytes| {
            for (page, bytes) in (first..).zip(bytes.chunks_exact(4096)) {
                let wrong = |damage: Damage| keys.damaged(page, &damage);
                let Ok(typed) = StringPage::decode(bytes, keys.id, 0) else {
                    continue;
                };
                for index in 0..typed.len() {
                    let (node, key) = typed.entry(index).map_err(wrong)?;
                    let key = String::from_utf8_lossy(key);
                    names.push_key(&key, node)?;
                }
            }
            Ok::<(), UpdateError>(())
        })?;
        Ok(self.builder.add(names.finish()?)?)
    }
}

fn entry(found: &Expansion, at: usize) -> Entry {
    /// The value in a column, or the default of one that the edge type lacks.
    fn value<T: Copy + Default>(column: &[T], at: usize) -> T {
        if column.is_empty() { T::default() } else { column[at] }
    }
    Entry {
        source: found.sources[at],
        edge_id: value(&found.edge_ids, at),
        time: value(&found.times, at),
        weight: value(&found.weights, at),
    }
}

/// Runs of nodes whose lists are held together; with each, the longest list in it: only a run of
/// one node may have more than the window.
fn windows<'a>(
    nodes: &'a [u64],
    degrees: &'a [u64],
) -> impl Iterator<Item = (&'a [u64], u64)> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &degrees[at..];
        let mut held = 0;
        let fits = |degree: &&u64| {
            held += **degree;
            held <= ENTRIES_TOGETHER
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let longest = rest[..count].iter().max()?;
        let run = &nodes[at..at + count];
        at += count;
        Some((run, *longest))
    })
}
