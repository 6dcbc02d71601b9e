//! How the budget is divided before the first read: window, slots, regions.
//!
//! The invariant: what is chosen here is all that the look-ahead takes for rows, reserved before it
//! is used; a policy that foresaw too little reads rows again, it never takes more.

use ng_store::DiskCosts;

use super::chosen::Chosen;
use super::distribute::{BATCHES_MAX, Cold, Extent, cold, room_for_hot};
use super::policy::{Reading, Table};
use super::study::{Cost, TableStudy};
use crate::pipeline::Slots;

/// Slices that may have been read and not be used yet.
pub(super) const LAG: u64 = 2;

/// Longest reads of what was distributed.
const REGION_READ_BYTES: f64 = (4 << 20) as f64;

/// A choice with its parts by table.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub chosen: Chosen,
    /// By table.
    pub slots: Vec<usize>,
    /// By table: slots when the topology has made room.
    pub grown: Vec<usize>,
}

/// What there is to divide, and among what.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub tables: &'a [TableStudy],
    pub costs: DiskCosts,
    /// Batches to look ahead, where that is not chosen.
    pub window: Option<u64>,
    /// For slots, maps and sampled batches.
    pub bytes: u64,
    /// What others take, which may be more than the whole budget.
    pub taken_bytes: u64,
    /// Of one sampled batch.
    pub sample_bytes: u64,
    /// Sampled batches that there is memory for.
    pub samples: u64,
    /// Slots by table, where they are divided already.
    pub slots: Option<&'a [usize]>,
    /// Batches that are known to come: no window is longer.
    pub given: u64,
    /// Batches to the end of all jobs.
    pub left: u64,
    /// Bytes on disk for batches and their rows.
    pub disk_bytes: u64,
}

impl Room<'_> {
    /// Batches that were studied.
    fn batches(&self) -> usize {
        self.tables.first().map_or(1, TableStudy::batches)
    }
}

/// Bytes of `slots` for a table of `rows` rows of `width` bytes, with the bookkeeping.
pub(super) fn table_bytes(reading: Reading, (rows, width): (u64, u64), slots: u64) -> u64 {
    let memory = Slots::num_bytes(width as usize, slots as usize);
    memory + Table::num_bytes(reading, rows as usize, slots as usize)
}

/// Slots for each table when all room goes to them, in proportion to the rows of a batch.
fn all_slots(reading: Reading, tables: &[TableStudy], bytes: u64) -> Vec<usize> {
    let bytes_of =
        |table: &TableStudy, slots| table_bytes(reading, (table.rows, table.width), slots);
    // Bookkeeping by row comes first: a table of many narrow rows would have no slots else.
    let left = bytes.saturating_sub(tables.iter().map(|table| bytes_of(table, 0)).sum());
    let each = |table: &TableStudy| ((bytes_of(table, 1 << 20) - bytes_of(table, 0)) >> 20) + 1;
    let weight = |table: &TableStudy| table.rows_per_batch() * each(table);
    let all: u64 = tables.iter().map(weight).sum::<u64>().max(1);
    let of = |table: &TableStudy| {
        let share = (u128::from(left) * u128::from(weight(table)) / u128::from(all)) as u64;
        (share / each(table)).saturating_sub(64).min(table.rows) as usize
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

/// Rows distributed to as many batches at a time as the disk has room for.
pub(crate) fn distribution(room: &Room<'_>) -> Option<Layout> {
    let Room { tables, ref costs, window, .. } = *room;
    let bytes = room.bytes.saturating_sub(2 * LAG * room.sample_bytes);
    let extents: Vec<Extent> = tables.iter().map(TableStudy::extent).collect();
    let studied = room.batches().max(1) as f64;
    let mut most = BATCHES_MAX.min(window.unwrap_or(u64::MAX));
    let (batches, hot_rows, cold_bytes) = loop {
        let batches = in_equal_parts(room.left, most);
        let scale = batches as f64 / studied;
        let hot = room_for_hot(bytes, batches, &extents, scale);
        let Some(hot) = hot else {
            most = Some(batches / 2).filter(|n| *n > 0)?;
            continue;
        };
        let cold = cold(&extents, hot);
        let of = |(cold, table): (&Cold, &TableStudy)| cold.uses / studied * table.width as f64;
        let each: f64 = cold.iter().zip(tables).map(of).sum();
        let fit = (room.disk_bytes as f64 / (each + room.sample_bytes as f64)) as u64;
        if fit >= batches || batches == 1 {
            break (batches, cold.iter().map(|cold| cold.hot).sum(), each);
        }
        most = fit.clamp(1, batches - 1);
    };
    // What more batches than were studied want is nearly the same.
    let known = batches.min(room.left.max(1));
    let passed = known.min(room.batches() as u64).max(1) as usize;
    let pass = tables.iter().map(|table| table.scan_cost(passed, costs));
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
    let slots = vec![0; tables.len()];
    Some(Layout { chosen, grown: slots.clone(), slots })
}

/// Divides the `left` batches into the fewest equal stretches of up to `most`, and returns the
/// length of one. Unequal ones cost more: a short stretch reads as much as a long one.
fn in_equal_parts(left: u64, most: u64) -> u64 {
    left.max(1).div_ceil(left.max(1).div_ceil(most))
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
    layout(reading, ahead, slots, tables, cost)
}

/// The rotating scan with the longest window that there are slots and samples for.
fn best_scan(room: &Room<'_>) -> Option<Layout> {
    let Room { tables, ref costs, window, .. } = *room;
    let left = room.bytes.checked_sub(room.samples * room.sample_bytes)?;
    let divided = || all_slots(Reading::Scan, tables, left);
    let slots = room.slots.map_or_else(divided, <[usize]>::to_vec);
    let longest = room.samples.saturating_sub(2 * LAG).min(room.given).max(1);
    let window = longest_scan(tables, &slots, window.unwrap_or(longest).min(longest));
    if window == 0 {
        return None;
    }
    let cost = tables.iter().map(|table| table.scan_cost(window as usize, costs));
    let cost = cost.fold(Cost::default(), Cost::plus);
    Some(layout(Reading::Scan, window, slots, tables, cost))
}

/// The longest window of a scan that there are slots for, `longest` at most; 0 if there is none.
pub(super) fn longest_scan(tables: &[TableStudy], slots: &[usize], longest: u64) -> u64 {
    let fits = |window: &u64| {
        let enough = |(slots, table): (&usize, &TableStudy)| {
            scan_slots(table, *window as usize) <= *slots as u64
        };
        slots.iter().zip(tables).all(enough)
    };
    (1..=longest).rev().find(fits).unwrap_or(0)
}

fn scan_slots(table: &TableStudy, window: usize) -> u64 {
    let slots = table.scan_slots(window, LAG);
    // The number of rows varies a little from batch to batch. No table needs more slots than rows.
    (slots + slots / 32).min(table.rows)
}

fn layout(
    reading: Reading,
    window: u64,
    slots: Vec<usize>,
    tables: &[TableStudy],
    cost: Cost,
) -> Layout {
    let bytes = |(table, slots): (&TableStudy, &usize)| table.width * *slots as u64;
    let chosen = Chosen {
        reading,
        window,
        sampled_first: None,
        hot_rows: 0,
        slots: slots.iter().map(|slots| *slots as u64).sum(),
        slot_bytes: tables.iter().zip(&slots).map(bytes).sum(),
        reads: cost.reads,
        read_bytes: cost.bytes,
        write_bytes: 0.0,
        seconds: cost.seconds,
    };
    Layout { chosen, grown: slots.clone(), slots }
}

#[cfg(test)]
mod tests {
    use ng_store::{Owner, TensorRef};
    use ng_types::{Budget, NodeTypeId};

    use super::*;
    use crate::CompactSample;
    use crate::lookahead::pieces::Sampled;

    /// A read takes 1 ms, and so does a block: requests reach over a gap of one block.
    const COSTS: DiskCosts = DiskCosts { reads_per_s: 1e3, bytes_per_s: 4096e3 };

    /// Batches that want these rows of one block each, out of `rows`.
    fn study(rows: u64, batches: &[Vec<u32>]) -> TableStudy {
        let held = Budget::new(1 << 20);
        let sampled: Vec<Sampled> = (0..)
            .zip(batches)
            .map(|(index, rows)| Sampled {
                index,
                sample: CompactSample {
                    nodes: Vec::new(),
                    edges: Vec::new(),
                    extras: crate::Extras::default(),
                    _held: held.reserve(0).expect("nothing"),
                },
                ordered: vec![Some(rows.clone())],
                held: None,
            })
            .collect();
        let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
        let mut study = TableStudy::new(tensor, rows, 4096);
        sampled.iter().for_each(|sampled| study.add(sampled));
        study
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
    }

    #[test]
    fn a_plan_costs_what_one_computes_by_hand() {
        let found =
            study(100, &[vec![0, 10, 20], vec![0, 12, 40], vec![0, 10, 41], vec![0, 11, 90]]);
        assert_eq!(found.rows_per_batch(), 3);
        // Rows 0; 10 to 12, reaching over 11; 20; 40: six blocks in four requests for two batches.
        let scan = found.scan_cost(2, &COSTS);
        close(scan.seconds, (1.0 + 3.0 + 1.0 + 1.0) / 2.0 / 1e3);
        close(scan.reads, 4.0 / 2.0);
        close(scan.bytes, 6.0 * 4096.0 / 2.0);
        // Row 0 comes again after one batch each time: three times in four batches.
        close(found.window_misses(0), 3.0);
        close(found.window_misses(4), 2.0);
        close(found.window_cost(2.0, &COSTS).seconds, 2.0 / 1e3);
    }

    #[test]
    fn a_window_may_be_longer_than_what_was_studied() {
        // Sixteen batches of ten rows each that no other wants.
        let batches: Vec<Vec<u32>> =
            (0..16).map(|batch| (0..10).map(|at| batch * 10 + at).collect()).collect();
        let found = study(1_000, &batches);
        // 40 batches want 400 rows, 10 more each: 205 on average, and three slices of 10.
        assert_eq!(found.scan_slots(40, 2), 205 + 3 * 10);
        // No more than there are: 10 to 1,000 and then 1,000 a hundred times; one slice of 5.
        assert_eq!(found.scan_slots(200, 0), (50_500 + 100_000) / 200 + 5);
        let whole = found.scan_cost(40, &COSTS);
        close(whole.bytes, 1_000.0 * 4096.0 / 40.0);
        let tables = [found];
        let window = |given: u64| {
            let room = Room {
                tables: &tables,
                costs: COSTS,
                window: None,
                bytes: 1 << 20,
                taken_bytes: 0,
                sample_bytes: 64,
                samples: 1_004,
                slots: None,
                given,
                left: given,
                disk_bytes: 0,
            };
            choose(Reading::Scan, &room).expect("fits").chosen.window
        };
        assert_eq!(window(16), 16);
        let long = window(1_000);
        assert!(long > 16 && long <= 60, "{long}: room for some 240 rows");
    }

    #[test]
    fn the_cheaper_of_scan_and_window_is_taken() {
        // Forty batches of 500 rows out of 4,000, each as likely, and room for 1,500 of them.
        let rows = |batch: u32| (0..500).map(move |at| (at * 8 + batch * 37 + at * batch) % 4_000);
        let batches: Vec<Vec<u32>> = (0..40).map(|batch| rows(batch).collect()).collect();
        let tables = [study(4_000, &batches)];
        let chosen = |costs: DiskCosts| {
            let room = Room {
                tables: &tables,
                costs,
                window: None,
                bytes: 10 << 20,
                taken_bytes: 0,
                sample_bytes: 4096,
                samples: 104,
                slots: None,
                given: 1_000,
                left: 1_000,
                disk_bytes: 0,
            };
            let best = choose(Reading::Auto, &room).expect("fits");
            for other in [Reading::Scan, Reading::Window] {
                let other = choose(other, &room).expect("fits");
                assert!(best.chosen.seconds <= other.chosen.seconds, "{best:?} {other:?}");
            }
            best.chosen.reading
        };
        assert_eq!(chosen(DiskCosts { reads_per_s: 1e3, bytes_per_s: 1e9 }), Reading::Scan);
        assert_eq!(chosen(DiskCosts { reads_per_s: 1e6, bytes_per_s: 1e8 }), Reading::Window);
    }
}
