//! Before the first row is read: what the first samples tell, and how the budget is divided.

use std::iter::successors;
use std::time::{Duration, Instant};

use ng_simd::RowDecoder;
use ng_store::{DiskCosts, TensorMeta, TensorRef};

use super::chosen::{Chosen, STRETCH_MIN};
use super::engine::LookAhead;
use super::memory::{Layout, Room, choose, distribution, sampled_first};
use super::pieces::Sampled;
use super::policy::Reading;
use super::study::{BATCHES_MAX, TableStudy};
use ng_types::MemoryUser;

use crate::SampleError;
use crate::pipeline::ResidentTensor;

/// Rows of so many bytes are narrow.
const NARROW_BYTES: u64 = 16;

/// Times the size of a finished subgraph that its sampling takes for a while.
const SAMPLING_FACTOR: u64 = 8;

/// What a sampled batch takes beside its arrays.
const SAMPLE_OVERHEAD_BYTES: u64 = 4096;

/// Stretches of fewer batches than that are made if they are asked for.
const STRETCH_LEAST: u64 = 16;

/// Rows are distributed unasked if they have so many bytes, and if that takes at most this share of
/// the time that the best other way takes.
const DISTRIBUTED_BYTES: u64 = 64;
const DISTRIBUTED_SHARE: f64 = 0.7;

/// What is decided once.
pub(super) struct Prepared {
    pub tables: Vec<PreparedTable>,
    pub residents: Residents,
    pub chosen: Chosen,
    pub costs: DiskCosts,
}

/// Tensors that go through slots.
type Tables<'a> = Vec<(TensorRef, &'a TensorMeta)>;

/// Tensors that are held in memory whole.
type Residents = Vec<(TensorRef, ResidentTensor)>;

/// A tensor that goes through slots.
pub(super) struct PreparedTable {
    pub tensor: TensorRef,
    pub rows: u64,
    pub width: u64,
    pub slots: usize,
    pub hot: Vec<u32>,
    /// Of the buffers for what is handed out, all together.
    pub pool_bytes: u64,
}

/// What the first batches are like.
struct Seen<'a> {
    studies: &'a [TableStudy],
    costs: DiskCosts,
    sample_bytes: u64,
    /// Held by these batches themselves.
    held_bytes: u64,
    batches: usize,
    pool_bytes: Vec<u64>,
}

impl LookAhead {
    /// Samples the first batches, which `first` keeps, and decides.
    pub(super) fn prepare(&self, first: &mut Vec<Sampled>) -> Result<Prepared, SampleError> {
        self.take_sampled(1, u64::MAX, &mut |sampled| first.push(sampled))?;
        let budget = self.snapshot().budget().limit_bytes();
        let sample_bytes = first[0].num_bytes() + SAMPLE_OVERHEAD_BYTES;
        let study =
            (MemoryUser::Study.share(budget) / sample_bytes).clamp(2, BATCHES_MAX as u64 - 1);
        let start = Instant::now();
        self.take_sampled(study, u64::MAX, &mut |sampled| first.push(sampled))?;
        let each = start.elapsed() / first.len() as u32;
        let (tables, residents) = self.split_tensors(budget)?;
        let study = |(tensor, meta): (TensorRef, &TensorMeta)| {
            TableStudy::new(tensor, meta.num_rows, meta.row_bytes(), first)
        };
        let studies: Vec<TableStudy> = tables.into_iter().map(study).collect();
        let costs = match (self.settings.costs, studies.first()) {
            (Some(costs), _) => costs,
            (None, Some(study)) => self.snapshot().disk_costs(study.tensor)?,
            (None, None) => DiskCosts::default(),
        };
        let seen = self.see(&studies, costs, first);
        let layout = self.choose_phases(&seen, each)?;
        let table = |(at, study): (usize, &TableStudy)| PreparedTable {
            tensor: study.tensor,
            rows: study.rows,
            width: study.width,
            slots: layout.slots[at],
            hot: if layout.common == usize::MAX { Vec::new() } else { study.hot(layout.common) },
            pool_bytes: seen.pool_bytes[at],
        };
        let tables = studies.iter().enumerate().map(table).collect();
        Ok(Prepared { tables, residents, chosen: layout.chosen, costs })
    }

    /// Holds the topology in memory if it fits.
    pub(super) fn load_topology(&self) -> Result<(), SampleError> {
        let given = self.given.clone();
        let sampler = if self.settings.may_have_two_phases() {
            given
                .with_topology_within(self.snapshot().budget().share(MemoryUser::PassingTopology))?
        } else {
            given.with_topology_that_fits()?
        };
        self.set_sampler(sampler.with_orders()?);
        Ok(())
    }

    /// Leaves the topology on disk.
    pub(super) fn sample_from_disk(&self) -> Result<(), SampleError> {
        self.set_sampler(self.given.clone().with_orders()?);
        Ok(())
    }

    /// The tensors that go through slots, and those that are held in memory.
    fn split_tensors(&self, budget: u64) -> Result<(Tables<'_>, Residents), SampleError> {
        let (mut tables, mut residents) = (Vec::new(), Vec::new());
        for (tensor, _) in self.given.columns().tensors() {
            let Some(meta) = self.snapshot().catalog().tensor(tensor) else { continue };
            if meta.is_sparse() {
                continue;
            }
            let most = user_of_whole(meta.row_bytes()).share(budget);
            if meta.num_rows.saturating_mul(meta.row_bytes()) <= most {
                residents.push((tensor, ResidentTensor::load(self.snapshot(), tensor)?));
            } else if meta.num_rows >= u64::from(u32::MAX) {
                let (tensor, num_rows) = (meta.name.clone(), meta.num_rows);
                return Err(SampleError::TooManyRows { tensor, num_rows });
            } else {
                tables.push((tensor, meta));
            }
        }
        Ok((tables, residents))
    }

    fn see<'a>(&self, studies: &'a [TableStudy], costs: DiskCosts, first: &[Sampled]) -> Seen<'a> {
        let pool = |study: &TableStudy| {
            let rows = first.iter().map(|s| s.rows(study.tensor.owner).len() as u64);
            let rows = rows.max().unwrap_or(0);
            let out_bytes = self.decoder(study.tensor).map_or(0, RowDecoder::out_bytes) as u64;
            let each = ((rows + rows / 64 + 64) * out_bytes).next_multiple_of(2 << 20);
            self.settings.buffers() * each
        };
        let bytes = first.iter().map(Sampled::num_bytes);
        let sample_bytes = bytes.max().unwrap_or(0) + SAMPLE_OVERHEAD_BYTES;
        Seen {
            studies,
            costs,
            sample_bytes,
            held_bytes: first.len() as u64 * sample_bytes,
            batches: first.len().min(BATCHES_MAX - 1),
            pool_bytes: studies.iter().map(pool).collect(),
        }
    }

    /// The layout, with sampling beside reading or before it.
    fn choose_phases(&self, seen: &Seen<'_>, each: Duration) -> Result<Layout, SampleError> {
        let topology = self.sampler().topology_bytes();
        let sampling = self.settings.threads() as u64 * SAMPLING_FACTOR * seen.sample_bytes;
        let room = self.room(seen, topology + sampling);
        let sampled = |mut layout: Layout| {
            layout.chosen.seconds += each.as_secs_f64();
            layout
        };
        if self.settings.reading == Reading::Distribute {
            return self.lay_out(&room).map(sampled);
        }
        let held = self.choose_phases_of_memory(seen, &room, each)?;
        let is_wide = seen.studies.iter().all(|study| study.width >= DISTRIBUTED_BYTES);
        if self.settings.reading != Reading::Auto
            || !self.settings.may_have_two_phases()
            || !is_wide
        {
            return Ok(held);
        }
        let dealt = distribution(&room).map(sampled);
        let pays =
            |layout: &Layout| layout.chosen.seconds <= held.chosen.seconds * DISTRIBUTED_SHARE;
        Ok(dealt.filter(pays).unwrap_or(held))
    }

    /// The layout that writes no rows; `room` is there once batches have been sampled.
    fn choose_phases_of_memory(
        &self,
        seen: &Seen<'_>,
        room: &Room<'_>,
        each: Duration,
    ) -> Result<Layout, SampleError> {
        let one = self.lay_out(&self.room(seen, 0));
        if !self.settings.may_have_two_phases() || self.sampler().topology_bytes() == 0 {
            return one;
        }
        let two = self.lay_out(room).map(|layout| sampled_first(layout, room));
        let is_short = two.as_ref().is_ok_and(|two| two.chosen.sampled_first < Some(STRETCH_LEAST));
        match (&one, &two) {
            _ if self.settings.two_phase == Some(true) => two,
            // The disk has no room for samples.
            _ if is_short => one,
            (Ok(shorter), Ok(longer)) => {
                let seconds = [shorter.chosen.seconds, longer.chosen.seconds];
                let bytes: u64 = seen.studies.iter().map(|s| s.rows * s.width).sum();
                // More may come than could be given before the window was known.
                let known = if room.given < STRETCH_MIN { room.given } else { u64::MAX };
                let batches = longer.chosen.sampled_first.unwrap_or(0).min(known);
                let pays = pays_to_sample_first(batches, seconds, each, seen.costs.seconds(bytes));
                if pays { two } else { one }
            }
            (Err(_), Ok(_)) => two,
            _ => one,
        }
    }

    /// The best way to divide the room.
    fn lay_out(&self, room: &Room<'_>) -> Result<Layout, SampleError> {
        let reading = self.settings.reading;
        choose(reading, room).ok_or_else(|| {
            // One way and one window are soon tried; a longer window takes up to an eighth more.
            let quick = if reading == Reading::Auto { Reading::Window } else { reading };
            let window = room.window.or(Some(1));
            let fits = |bytes: &u64| {
                choose(quick, &Room { bytes: bytes / 5 * 4, window, ..*room }).is_some()
            };
            let grown = |bytes: &u64| bytes.checked_add(bytes / 4);
            let enough = successors(Some(room.bytes.max(1 << 20)), grown).find(fits);
            self.too_small(room, enough.unwrap_or(u64::MAX))
        })
    }

    /// The error where `room` is less than `enough`, with a budget that has so much.
    fn too_small(&self, room: &Room<'_>, enough: u64) -> SampleError {
        let limit_bytes = self.snapshot().budget().limit_bytes();
        // Staging memory, slack and samples take up to a third of what a budget grows by.
        let with = |bytes: u64| bytes.saturating_add(bytes / 2);
        let missing = enough.saturating_add(room.taken_bytes).saturating_sub(limit_bytes);
        let mut minimum_bytes = limit_bytes.saturating_add(with(missing));
        // What fits into its share then is held whole.
        let is_held = self.sampler().topology_bytes() > 0;
        let topology = if is_held { 0 } else { self.sampler().drawn_bytes() };
        let whole = room.tables.iter().map(|s| (user_of_whole(s.width), s.rows * s.width));
        for (user, bytes) in whole.chain([(MemoryUser::PassingTopology, topology)]) {
            if bytes <= user.share(with(minimum_bytes)) {
                minimum_bytes = minimum_bytes.saturating_add(with(bytes));
            }
        }
        let wanted_bytes = room.tables.iter().map(|s| s.rows_per_batch() * s.width).sum();
        let free_bytes = room.bytes;
        SampleError::TooSmallToLookAhead { wanted_bytes, free_bytes, limit_bytes, minimum_bytes }
    }

    /// What is free, and `more`.
    fn room<'a>(&self, seen: &Seen<'a>, more: u64) -> Room<'a> {
        let snapshot = self.snapshot();
        let (tables, sample_bytes) = (seen.studies, seen.sample_bytes);
        let table_pages: u64 = tables.iter().map(|s| s.rows * s.width / 800).sum();
        let blocks = table_pages + (16 << 20) + self.sampler().block_cache_bytes();
        let others = seen.pool_bytes.iter().sum::<u64>()
            + self.settings.threads() as u64 * SAMPLING_FACTOR * sample_bytes
            + tables.iter().map(|s| s.rows_per_batch() * 16 * 4).sum::<u64>()
            + (128 << 10) * ng_store::RowPlan::BYTES_PER_ROW
            + snapshot.budget().share(MemoryUser::LookAheadSlack);
        let given_back = seen.held_bytes + more;
        let free = snapshot.free_beside_blocks(blocks) + given_back;
        let bytes = free.saturating_sub(others);
        let used = snapshot.budget().limit_bytes() - snapshot.free_beside_blocks(0);
        let taken_bytes = (used + blocks + others).saturating_sub(given_back);
        Room {
            tables,
            costs: seen.costs,
            window: self.settings.window,
            bytes,
            taken_bytes,
            sample_bytes,
            batches: seen.batches,
            given: self.known(&self.shared.lock()),
            disk_bytes: self.settings.spill_room(),
        }
    }
}

/// Who holds a tensor of so wide rows whole.
fn user_of_whole(width: u64) -> MemoryUser {
    if width <= NARROW_BYTES { MemoryUser::NarrowTensor } else { MemoryUser::WholeTensor }
}

/// Whether sampling `batches` before their rows are read pays, where a batch then takes the second
/// number of `seconds` of the device instead of the first: it costs the time of sampling, `each`,
/// and one `pass` over the file, for what batches want before a slice comes by for the first time.
fn pays_to_sample_first(batches: u64, seconds: [f64; 2], each: Duration, pass: f64) -> bool {
    let gain = seconds[0] - seconds[1] - each.as_secs_f64();
    batches as f64 * gain > pass
}

#[cfg(test)]
mod tests {
    use ng_store::Owner;
    use ng_types::{Budget, NodeTypeId};

    use super::*;
    use crate::CompactSample;

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
                    _held: held.reserve(0).expect("nothing"),
                },
                ordered: vec![Some(rows.clone())],
                held: None,
            })
            .collect();
        let tensor = TensorRef { owner: Owner::Node(NodeTypeId(0)), index: 0 };
        TableStudy::new(tensor, rows, 4096, &sampled)
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
        let scan = found.scan_cost(usize::MAX, 2, &COSTS);
        close(scan.seconds, (1.0 + 3.0 + 1.0 + 1.0) / 2.0 / 1e3);
        close(scan.reads, 4.0 / 2.0);
        close(scan.bytes, 6.0 * 4096.0 / 2.0);
        // Without row 0, which all batches want.
        close(found.scan_cost(4, 2, &COSTS).seconds, 5.0 / 2.0 / 1e3);
        assert_eq!((found.num_hot(4), found.hot(4)), (1, vec![0]));
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
        assert_eq!(found.scan_slots(usize::MAX, 40, 2), 205 + 3 * 10);
        // No more than there are: 10 to 1,000 and then 1,000 a hundred times; one slice of 5.
        assert_eq!(found.scan_slots(usize::MAX, 200, 0), (50_500 + 100_000) / 200 + 5);
        let whole = found.scan_cost(usize::MAX, 40, &COSTS);
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
                batches: 16,
                given,
                disk_bytes: 0,
            };
            choose(Reading::Scan, &room).expect("fits").chosen.window
        };
        assert_eq!(window(16), 16);
        let long = window(1_000);
        assert!(long > 16 && long <= 60, "{long}: room for some 240 rows");
    }

    #[test]
    fn a_stretch_has_many_windows_and_room_on_disk() {
        let batches: Vec<Vec<u32>> = (0..4).map(|batch| vec![batch]).collect();
        let tables = [study(100, &batches)];
        let stretch = |window, disk_bytes| {
            let room = Room {
                tables: &tables,
                costs: COSTS,
                window: Some(window),
                bytes: 1 << 20,
                taken_bytes: 0,
                sample_bytes: 64,
                batches: 4,
                given: 1_000,
                disk_bytes,
            };
            let layout = choose(Reading::Scan, &room).expect("fits");
            assert_eq!((layout.chosen.window, layout.chosen.sampled_first), (window, None));
            sampled_first(layout, &room).chosen.sampled_first
        };
        assert_eq!(stretch(4, 1 << 20), Some(1_024));
        assert_eq!(stretch(200, 1 << 20), Some(1_600));
        assert_eq!(stretch(200, 64 * 50), Some(50));
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
                batches: 40,
                given: 1_000,
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

    #[test]
    fn sampling_first_pays_once_the_batches_make_up_for_sampling_and_the_first_window() {
        // 30 ms less a batch for 10 ms of sampling, and a pass of 2 s: 100 batches break even.
        let pays = |batches, each| {
            pays_to_sample_first(batches, [0.08, 0.05], Duration::from_millis(each), 2.0)
        };
        assert!(!pays(99, 10) && pays(101, 10));
        assert!(!pays(1_000_000, 31) && pays(1_000_000, 29));
        assert!(!pays(0, 0));
    }
}
