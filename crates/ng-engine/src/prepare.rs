//! What is brought into memory before requests come, on a thread of its own: lists, then rows.
//!
//! Requests are answered meanwhile, from what is there. What must not live here: how rows are kept
//! (`table.rs`) and what reads them. The invariant: all of it is paid for by the store's budget.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ng_sample::{Batches, Fanouts, heat};
use ng_store::{Owner, ReadError, Snapshot};
use ng_types::{MemoryUser, NodeTypeId};

use crate::EngineError;
use crate::bind::{Binding, RowsOf};
use crate::pinned::Pinned;
use crate::table::{RowTable, has_table};

/// The data that an engine loads into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prepare {
    /// Page tables and indexes, before it is open.
    #[default]
    Metadata,
    /// Also the lists that are drawn from, if they fit, and then the rows that requests want most
    /// often, as many as fit.
    Hot,
    /// All lists and all dense rows that the model takes; refused if they do not fit.
    All,
}

/// Seeds of the batches that rows are hot for: so many that probabilities of most nodes are far
/// above what f32 can tell from 0, and few enough that not all nodes are wanted.
const SEEDS_TOGETHER: usize = 256;

/// The least that requests have beside what is prepared.
const REQUEST_BYTES_MIN: u64 = 16 << 20;

/// How far it is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    wanted: AtomicU64,
    loaded: AtomicU64,
    is_over: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Progress {
    /// The share of what shall be in memory that is there, 0 to 1.
    pub fn ready(&self) -> f64 {
        let (wanted, loaded) =
            (self.wanted.load(Ordering::Relaxed), self.loaded.load(Ordering::Relaxed));
        if self.is_over.load(Ordering::Acquire) {
            return if wanted == 0 { 1.0 } else { loaded as f64 / wanted as f64 };
        }
        // It is not over as long as nobody has said so.
        (loaded as f64 / wanted.max(1) as f64).min(0.999)
    }

    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Why not all of it came.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing more will come.
    pub fn end(&self, result: Result<(), EngineError>) {
        if let Err(error) = result {
            let text = Some(error.to_string());
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = text;
        }
        self.is_over.store(true, Ordering::Release);
    }
}

/// What to prepare, and of what.
#[derive(Clone)]
pub(crate) struct Preparing {
    pub how: Prepare,
    pub binding: Arc<Binding>,
    pub fanouts: Fanouts,
    /// The type of the nodes that are asked for.
    pub node_type: NodeTypeId,
}

impl Preparing {
    /// Refuses what can never fit.
    pub fn check(&self, pinned: &Pinned) -> Result<(), EngineError> {
        if self.how != Prepare::All {
            return Ok(());
        }
        let tables = self.tables(&pinned.snapshot);
        let rows: u64 = tables.iter().map(|(_, of, count)| whole_bytes(of, *count)).sum();
        let wanted_bytes = pinned.list_bytes(&self.fanouts).saturating_add(rows);
        let budget = pinned.snapshot.budget();
        let (limit, staging) = (budget.limit_bytes(), budget.share(MemoryUser::Slack));
        let free_bytes = limit.saturating_sub(request_bytes(limit) + staging);
        if wanted_bytes <= free_bytes {
            return Ok(());
        }
        let minimum_bytes = wanted_bytes.saturating_add(wanted_bytes / 4 + REQUEST_BYTES_MIN);
        Err(EngineError::TooLarge { wanted_bytes, free_bytes, minimum_bytes })
    }

    /// Whether nothing has to be loaded, as after a commit that changed little.
    pub fn has_all(&self, pinned: &Pinned, before: Option<&Pinned>) -> bool {
        let is_done =
            |before: &&Pinned| before.progress.is_over() && before.progress.failure().is_none();
        let is_there = |before| self.has_as_much(pinned, before);
        self.how == Prepare::Metadata || before.filter(is_done).is_some_and(is_there)
    }

    /// Whether a version has what the one `before` it had when all was there that found room.
    pub fn has_as_much(&self, pinned: &Pinned, before: &Pinned) -> bool {
        let has_lists = pinned.has_lists(true) || !before.has_lists(true);
        has_lists && self.missing_tables(pinned).is_empty()
    }

    /// Loads what a version shall have and has not, as long as somebody wants it.
    pub fn load(&self, of: &Pinned, goes_on: &dyn Fn() -> bool) -> Result<(), EngineError> {
        match self.how {
            Prepare::Metadata => {}
            Prepare::Hot => self.load_hot(of)?,
            Prepare::All => self.load_all(of)?,
        }
        load_tables(of, goes_on)
    }

    /// Those whose rows are not in one yet.
    fn missing_tables<'a>(&'a self, pinned: &Pinned) -> Vec<(usize, &'a RowsOf, u64)> {
        let mut tables = self.tables(&pinned.snapshot);
        tables.retain(|(input, ..)| pinned.tables[*input].get().is_none());
        tables
    }

    /// The inputs whose rows can be in a table, and how many rows there are.
    fn tables(&self, snapshot: &Snapshot) -> Vec<(usize, &RowsOf, u64)> {
        // What the store holds by itself is in memory already.
        let is_wanted = |of: &RowsOf| {
            has_table(snapshot, of.tensor) && snapshot.lacking_bytes(&[], &[of.tensor]) > 0
        };
        let rows = self.binding.rows().filter(|(_, of)| is_wanted(of));
        let count = |of: &RowsOf| snapshot.catalog().tensor(of.tensor).map_or(0, |m| m.num_rows);
        rows.map(|(input, of)| (input, of, count(of))).collect()
    }

    fn load_all(&self, pinned: &Pinned) -> Result<(), EngineError> {
        let snapshot = &pinned.snapshot;
        let tables = self.missing_tables(pinned);
        let rows: u64 = tables.iter().map(|(_, of, count)| whole_bytes(of, *count)).sum();
        let lists = pinned.list_bytes(&self.fanouts);
        pinned.progress.wanted.store(rows + lists, Ordering::Relaxed);
        if !pinned.has_lists(true) {
            pinned.load_lists(&self.fanouts)?;
        }
        pinned.progress.loaded.fetch_add(lists, Ordering::Relaxed);
        for (input, of, count) in tables {
            let held = snapshot.reserve(whole_bytes(of, count)).map_err(ReadError::from)?;
            let order = order_of(pinned, of)?;
            let shape = (count, of.decoder.stored_bytes());
            let table = RowTable::of_all(of.tensor, shape, order, held)?;
            let _ = pinned.tables[input].set(table);
        }
        Ok(())
    }

    fn load_hot(&self, pinned: &Pinned) -> Result<(), EngineError> {
        let snapshot = &pinned.snapshot;
        let limit = snapshot.budget().limit_bytes();
        let free = || snapshot.free_beside_blocks(0).saturating_sub(request_bytes(limit));
        let lists = pinned.list_bytes(&self.fanouts);
        if !pinned.has_lists(true) && lists <= free() {
            pinned.progress.wanted.store(lists, Ordering::Relaxed);
            pinned.load_lists(&self.fanouts)?;
            pinned.progress.loaded.fetch_add(lists, Ordering::Relaxed);
        }
        let tables = self.missing_tables(pinned);
        if tables.is_empty() {
            return Ok(());
        }
        let whole: u64 = tables.iter().map(|(_, of, count)| whole_bytes(of, *count)).sum();
        if whole <= free() {
            for (input, of, count) in tables {
                let held = snapshot.reserve(whole_bytes(of, count)).map_err(ReadError::from)?;
                let shape = (count, of.decoder.stored_bytes());
                let table = RowTable::of_all(of.tensor, shape, order_of(pinned, of)?, held)?;
                let _ = pinned.tables[input].set(table);
            }
            return Ok(());
        }
        let batches = Batches {
            node_type: self.node_type,
            seeds: None,
            batch_size: SEEDS_TOGETHER,
            fanouts: self.fanouts.clone(),
        };
        let heat = heat(snapshot, &batches, &mut |_, _, _| true)?.by_type;
        let mut bytes = free();
        for (_, of, _) in &tables {
            let Owner::Node(id) = of.tensor.owner else { continue };
            bytes = bytes.saturating_sub(pinned.num_nodes(id) * RowTable::BYTES_PER_NODE);
        }
        let least = threshold(&heat, &tables, bytes);
        // Of rows that are equally hot, as many as there is room for.
        let mut left = bytes.saturating_sub(hot_bytes(&heat, &tables, least));
        for (input, of, _) in tables {
            let Owner::Node(id) = of.tensor.owner else { continue };
            let (width, num_nodes) = (of.decoder.stored_bytes(), pinned.num_nodes(id));
            let heat = &heat[usize::from(id.0)];
            let all_bytes = width + RowTable::BYTES_PER_SLOT;
            let is_hot = |node: &u64| {
                let density = density(heat[*node as usize], width);
                let fits = density == least && left >= all_bytes as u64;
                left -= if fits { all_bytes as u64 } else { 0 };
                density > least || fits
            };
            let nodes: Vec<u64> = (0..heat.len() as u64).filter(is_hot).collect();
            let wanted = RowTable::bytes_for(nodes.len() as u64, all_bytes)
                + num_nodes * RowTable::BYTES_PER_NODE;
            let held = snapshot.reserve(wanted).map_err(ReadError::from)?;
            let order = order_of(pinned, of)?;
            let of_some = (nodes, num_nodes);
            let table = RowTable::of_some(of.tensor, width, of_some, order.as_deref(), held)?;
            let _ = pinned.tables[input].set(table);
        }
        Ok(())
    }
}

/// What requests have beside what is prepared.
fn request_bytes(limit_bytes: u64) -> u64 {
    (limit_bytes / 10).max(REQUEST_BYTES_MIN)
}

fn whole_bytes(of: &RowsOf, count: u64) -> u64 {
    RowTable::bytes_for(count, of.decoder.stored_bytes())
}

fn order_of(pinned: &Pinned, of: &RowsOf) -> Result<Option<Arc<ng_store::RowOrder>>, EngineError> {
    let Owner::Node(id) = of.tensor.owner else { return Ok(None) };
    match &pinned.orders[usize::from(id.0)] {
        Some(order) => Ok(Some(Arc::clone(order))),
        None => Ok(pinned.snapshot.load_order(id)?),
    }
}

/// How much a byte is worth.
fn density(heat: f32, width: usize) -> f32 {
    heat / width.max(1) as f32
}

/// What rows take whose density is above `least`.
fn hot_bytes(heat: &[Vec<f32>], tables: &[(usize, &RowsOf, u64)], least: f32) -> u64 {
    let of_table = |(_, of, _): &(usize, &RowsOf, u64)| {
        let Owner::Node(id) = of.tensor.owner else { return 0 };
        let width = of.decoder.stored_bytes();
        let all = heat[usize::from(id.0)].iter();
        let hot = all.filter(|heat| density(**heat, width) > least).count() as u64;
        RowTable::bytes_for(hot, width + RowTable::BYTES_PER_SLOT)
    };
    tables.iter().map(of_table).sum()
}

/// The density that rows have to pass for all of them to fit into `bytes`.
fn threshold(heat: &[Vec<f32>], tables: &[(usize, &RowsOf, u64)], bytes: u64) -> f32 {
    // Densities are not negative, so their bits are in their order.
    let (mut low, mut high) = (0_u32, f32::MAX.to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        if hot_bytes(heat, tables, f32::from_bits(middle)) <= bytes {
            high = middle
        } else {
            low = middle + 1
        }
    }
    f32::from_bits(low)
}

/// Loads all chunks of all tables.
fn load_tables(of: &Pinned, goes_on: &dyn Fn() -> bool) -> Result<(), EngineError> {
    let tables = || of.tables.iter().filter_map(|table| table.get());
    let bytes: u64 = tables().map(RowTable::num_bytes).sum();
    let lists = of.progress.loaded.load(Ordering::Relaxed);
    of.progress.wanted.store(lists + bytes, Ordering::Relaxed);
    for table in tables() {
        for chunk in 0..table.num_chunks() {
            if !goes_on() {
                return Ok(());
            }
            if table.whole().is_some() {
                break;
            }
            table.load(&of.snapshot, chunk)?;
            of.progress.loaded.fetch_add(table.chunk_bytes(), Ordering::Relaxed);
        }
    }
    // The last chunk of a table may be shorter.
    of.progress.loaded.store(lists + bytes, Ordering::Relaxed);
    Ok(())
}
