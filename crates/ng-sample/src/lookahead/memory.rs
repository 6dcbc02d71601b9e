//! How the budget is divided before the first read: window, hot rows, slots, buffers.
//!
//! The invariant: what is chosen here is all that the look-ahead takes for rows, reserved before it
//! is used; a policy that foresaw too little reads rows again, it never takes more.

use ng_store::DiskCosts;

use super::chosen::{Chosen, STRETCH_MIN};
use super::distribute::{BATCHES_MAX, Cold, Extent, cold, room_for_hot};
use super::policy::{Reading, Table};
use super::study::{Cost, TableStudy};
use crate::pipeline::Slots;

/// Slices that may have been read and not be used yet.
const LAG: u64 = 2;

/// Windows of such batches otherwise: filling the first one is a pass over the file for itself.
const STRETCH_WINDOWS: u64 = 8;

/// Longest reads of what was distributed.
const REGION_READ_BYTES: f64 = (4 << 20) as f64;

/// A choice with its parts by table.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub chosen: Chosen,
    /// Rows in at least so many of the studied batches are hot.
    pub common: usize,
    /// By table.
    pub slots: Vec<usize>,
}

/// What there is to divide, and among what.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub tables: &'a [TableStudy],
    pub costs: DiskCosts,
    /// Batches to look ahead, where that is not chosen.
    pub window: Option<u64>,
    /// For slots, maps and the window of sampled batches.
    pub bytes: u64,
    /// What others take, which may be more than the whole budget.
    pub taken_bytes: u64,
    /// Of one sampled batch.
    pub sample_bytes: u64,
    /// Batches that were studied.
    pub batches: usize,
    /// Batches that are known to come: no window is longer.
    pub given: u64,
    /// Bytes on disk for batches and their rows.
    pub disk_bytes: u64,
}

/// Bytes of `slots` for a table of `rows` rows of `width` bytes, with the bookkeeping.
pub(super) fn table_bytes(reading: Reading, (rows, width): (u64, u64), slots: u64) -> u64 {
    let memory = Slots::num_bytes(width as usize, slots as usize);
    memory + Table::num_bytes(reading, rows as usize, slots as usize)
}

/// Slots for each table when all room goes to them, in proportion to what batches want.
fn all_slots(reading: Reading, tables: &[TableStudy], bytes: u64) -> Vec<usize> {
    let weight = |table: &TableStudy| table.rows_per_batch() * table.width;
    let all: u64 = tables.iter().map(weight).sum::<u64>().max(1);
    let of = |table: &TableStudy| {
        let share = (u128::from(bytes) * u128::from(weight(table)) / u128::from(all)) as u64;
        let bytes = |slots| table_bytes(reading, (table.rows, table.width), slots);
        let fixed = bytes(0);
        let each = bytes(1 << 20).saturating_sub(fixed) >> 20;
        let slots = share.saturating_sub(fixed) / (each + 1);
        slots.saturating_sub(64).min(table.rows) as usize
    };
    tables.iter().map(of).collect()
}

/// The best layout of `reading`, or of any where it is `Auto`.
pub(crate) fn choose(reading: Reading, room: &Room<'_>) -> Option<Layout> {
    let best = match reading {
        // It has no slots.
        Reading::Distribute => return distribution(room),
        Reading::Scan => best_scan(room),
        Reading::Auto => {
            let other = fixed(Reading::Window, room);
            match best_scan(room) {
                Some(scan) if scan.chosen.seconds < other.chosen.seconds => Some(scan),
                _ => Some(other),
            }
        }
        reading => Some(fixed(reading, room)),
    };
    let needed = |layout: &Layout| {
        let enough = |(slots, table): (&usize, &TableStudy)| {
            *slots as u64 >= (table.rows_per_batch() * 5 / 4).min(table.rows)
        };
        layout.slots.iter().zip(room.tables).all(enough)
    };
    best.filter(needed)
}

/// The same layout, with samples on disk that are taken before the rows of the first are read.
pub(crate) fn sampled_first(mut layout: Layout, room: &Room<'_>) -> Layout {
    let most = (room.disk_bytes / room.sample_bytes.max(1)).max(1);
    let stretch = STRETCH_MIN.max(STRETCH_WINDOWS * layout.chosen.window);
    layout.chosen.sampled_first = Some(stretch.min(most));
    layout
}

/// Rows distributed to as many batches at a time as the disk has room for.
pub(crate) fn distribution(room: &Room<'_>) -> Option<Layout> {
    let Room { tables, ref costs, window, .. } = *room;
    let bytes = room.bytes.saturating_sub(2 * LAG * room.sample_bytes);
    let extents: Vec<Extent> = tables.iter().map(TableStudy::extent).collect();
    let studied = room.batches.max(1) as f64;
    let mut batches = BATCHES_MAX.min(window.unwrap_or(u64::MAX));
    let (hot_rows, cold_bytes) = loop {
        let scale = batches as f64 / studied;
        let hot = room_for_hot(bytes, batches, &extents, scale);
        let Some(hot) = hot else {
            batches = Some(batches / 2).filter(|n| *n > 0)?;
            continue;
        };
        let cold = cold(&extents, hot);
        let of = |(cold, table): (&Cold, &TableStudy)| cold.uses / studied * table.width as f64;
        let each: f64 = cold.iter().zip(tables).map(of).sum();
        let fit = (room.disk_bytes as f64 / (each + room.sample_bytes as f64)) as u64;
        if fit >= batches || batches == 1 {
            break (cold.iter().map(|cold| cold.hot).sum(), each);
        }
        batches = fit.clamp(1, batches - 1);
    };
    // What more batches than were studied want is nearly the same.
    let known = batches.min(room.given.max(1));
    let passed = known.min(room.batches as u64).max(1) as usize;
    let pass = tables.iter().map(|table| table.scan_cost(usize::MAX, passed, costs));
    let pass = pass.fold(Cost::default(), Cost::plus);
    let share = passed as f64 / known as f64;
    let chosen = Chosen {
        reading: Reading::Distribute,
        window: batches,
        sampled_first: Some(batches),
        hot_rows,
        slots: hot_rows,
        slot_bytes: bytes,
        reads: pass.reads * share + cold_bytes / REGION_READ_BYTES,
        read_bytes: pass.bytes * share + cold_bytes,
        write_bytes: cold_bytes,
        seconds: pass.seconds * share + 2.0 * cold_bytes / costs.bytes_per_s,
    };
    Some(Layout { chosen, common: usize::MAX, slots: vec![0; tables.len()] })
}

/// The window, or a baseline: all memory is slots.
fn fixed(reading: Reading, room: &Room<'_>) -> Layout {
    let Room { tables, ref costs, window, .. } = *room;
    let most = (room.bytes / 8 / room.sample_bytes.max(1)).max(1);
    let ahead = if reading == Reading::Window { window.unwrap_or(64).min(most).max(1) } else { 1 };
    let bytes = room.bytes.saturating_sub(ahead * room.sample_bytes);
    let mut slots = all_slots(reading, tables, bytes);
    if reading == Reading::NaiveUring {
        let few = tables.iter().map(|table| table.rows_per_batch() as usize * 4);
        slots.iter_mut().zip(few).for_each(|(slots, few)| *slots = few.min(*slots));
    }
    let mut cost = Cost::default();
    for (table, slots) in tables.iter().zip(&slots) {
        let misses = match reading {
            Reading::NaiveUring => table.rows_per_batch() as f64,
            _ => table.window_misses(*slots as u64),
        };
        cost = cost.plus(table.window_cost(misses, costs));
    }
    layout(reading, ahead, usize::MAX, slots, tables, cost)
}

/// The rotating scan with the window and the hot rows that cost the device least.
fn best_scan(room: &Room<'_>) -> Option<Layout> {
    let Room { tables, ref costs, window, .. } = *room;
    let longest = room.batches.max(room.given as usize);
    let windows: Vec<usize> = match window {
        Some(window) => vec![(window as usize).min(longest).max(1)],
        None => (1..=longest).collect(),
    };
    let mut best: Option<Layout> = None;
    for eighths in [8, 7, 6, 5, 4, 3, 2] {
        let common = if eighths == 8 { usize::MAX } else { (room.batches * eighths / 8).max(1) };
        let fits = |window: &&usize| {
            let bytes = |table: &TableStudy| {
                let slots = scan_slots(table, common, **window);
                table_bytes(Reading::Scan, (table.rows, table.width), slots)
            };
            tables.iter().map(bytes).sum::<u64>() + (**window as u64 + 2 * LAG) * room.sample_bytes
                <= room.bytes
        };
        let Some(window) = windows.iter().rev().find(fits) else { continue };
        let cost = tables
            .iter()
            .map(|table| table.scan_cost(common, *window, costs))
            .fold(Cost::default(), Cost::plus);
        if best.as_ref().is_some_and(|best| best.chosen.seconds <= cost.seconds) {
            continue;
        }
        let left = room.bytes - (*window as u64 + 2 * LAG) * room.sample_bytes;
        let slots = all_slots(Reading::Scan, tables, left);
        best = Some(layout(Reading::Scan, *window as u64, common, slots, tables, cost));
    }
    best
}

fn scan_slots(table: &TableStudy, common: usize, window: usize) -> u64 {
    let moving = table.scan_slots(common, window, LAG);
    // What the study saw varies a little from batch to batch.
    table.num_hot(common) + moving + moving / 32
}

fn layout(
    reading: Reading,
    window: u64,
    common: usize,
    slots: Vec<usize>,
    tables: &[TableStudy],
    cost: Cost,
) -> Layout {
    let bytes = |(table, slots): (&TableStudy, &usize)| table.width * *slots as u64;
    let chosen = Chosen {
        reading,
        window,
        sampled_first: None,
        hot_rows: tables.iter().map(|table| table.num_hot(common)).sum(),
        slots: slots.iter().map(|slots| *slots as u64).sum(),
        slot_bytes: tables.iter().zip(&slots).map(bytes).sum(),
        reads: cost.reads,
        read_bytes: cost.bytes,
        write_bytes: 0.0,
        seconds: cost.seconds,
    };
    Layout { chosen, common, slots }
}
