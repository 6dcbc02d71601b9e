//! How long a systolic array and its vector unit compute on a batch (ScaleSim's output-stationary
//! model, as BeaconGNN uses it), and what rows cost that lie where an index says.
//!
//! Such a row is a random access to the memory below: whoever adds waits for it, but for as many
//! accesses as are under way together. An array alone follows no index. It can sum rows as a
//! product by a dense matrix that selects them, all zeros included; the core beside it, one lane
//! wide, writes that matrix, or adds the rows itself. The quicker of the two counts.

use serde::Serialize;

use super::layers::RowWork;
use super::work::{Gemm, Operand, Product, Work};
use crate::config::Accelerator;
use crate::scratchpad::Scratchpad;
use crate::time::{Picos, SECOND};

/// Bits of the words that `words_per_cycle` counts.
const WORD_BITS: u64 = 16;

/// The accelerator's time for a batch, by what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Computing {
    /// Products by weights, and their gradients.
    pub products: Picos,
    /// Everything else: rows found, scaled and summed, whichever unit does it.
    pub rest: Picos,
}

impl Computing {
    /// All of it.
    pub fn total(&self) -> Picos {
        self.products + self.rest
    }
}

impl std::iter::Sum for Computing {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            products: sum.products + part.products,
            rest: sum.rest + part.rest,
        })
    }
}

impl Accelerator {
    /// Cycles of one product: K + R + C - 2 a fold and the drain of the last one's R rows, for
    /// ceil(M / R) ceil(N / C) folds; or what the memory below needs to move `crossing` words.
    pub fn gemm_cycles(&self, gemm: Gemm, crossing: u64) -> u64 {
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        let folds = gemm.m.div_ceil(rows) * gemm.n.div_ceil(columns);
        if folds == 0 {
            return 0;
        }
        // A selection of many rows may be longer than can be counted.
        let computing = folds.saturating_mul(gemm.k + rows + columns - 2).saturating_add(rows);
        computing.max(self.moving_cycles(crossing))
    }

    /// Words between the accelerator's memory and the one below for each product of a batch.
    pub fn crossings(&self, work: &Work) -> Vec<u64> {
        let mut memory = Scratchpad::new(self.scratchpad_words());
        work.products.iter().map(|product| memory.crossing(product)).collect()
    }

    /// Words read from and written to the memory beside the array for one product.
    pub fn gemm_words(&self, gemm: Gemm) -> (u64, u64) {
        let down = gemm.m.div_ceil(u64::from(self.rows));
        let across = gemm.n.div_ceil(u64::from(self.columns));
        (gemm.m * gemm.k * across + gemm.k * gemm.n * down, gemm.m * gemm.n)
    }

    /// Cycles of what is done to rows: on the lanes, or on the array where that is quicker.
    pub fn row_cycles(&self, rows: &RowWork) -> u64 {
        let lanes = self.lane_cycles(rows);
        self.selection_cycles(rows).map_or(lanes, |array| array.min(lanes))
    }

    /// Whether rows are summed on the array, as a product.
    pub(crate) fn selects(&self, rows: &RowWork) -> bool {
        self.selection_cycles(rows).is_some_and(|array| array < self.lane_cycles(rows))
    }

    /// Cycles of all products of a batch, and of what is done to rows.
    pub fn cycles_of(&self, work: &Work) -> (u64, u64) {
        let each = work.gemms().zip(self.crossings(work));
        let products = each.map(|(gemm, words)| self.gemm_cycles(gemm, words)).sum();
        (products, work.rows.iter().map(|rows| self.row_cycles(rows)).sum())
    }

    /// The time of a batch; nothing where it is not counted.
    pub fn time_of(&self, work: &Work) -> Picos {
        self.computing(work).total()
    }

    /// The time of a batch in parts; nothing where it is not counted.
    pub fn computing(&self, work: &Work) -> Computing {
        if !self.timed {
            return Computing::default();
        }
        let (products, rows) = self.cycles_of(work);
        let time = |cycles: u64| (cycles as f64 * (SECOND as f64 / self.hertz)).round() as Picos;
        let (whole, products) = (time(products + rows), time(products));
        Computing { products, rest: whole.saturating_sub(products) }
    }

    /// Cycles of the lanes: operations and waits one after the other, and no less than the memory
    /// below takes to move the rows.
    fn lane_cycles(&self, rows: &RowWork) -> u64 {
        if self.lanes == 0 {
            return 0;
        }
        let once = rows.shape.n.div_ceil(u64::from(self.lanes));
        let computing = (rows.added + rows.multiplied) * once;
        if self.gathers_in_flight == 0 || self.keeps(rows) {
            return computing;
        }
        let cycles_each = self.gather_ns * 1e-9 * self.hertz / f64::from(self.gathers_in_flight);
        let waiting = (rows.gathered as f64 * cycles_each).ceil() as u64;
        (computing + waiting).max(self.moving_cycles(rows.gathered * rows.shape.n))
    }

    /// Cycles of the same gather as a product with the matrix that selects the rows. A core writes
    /// that matrix word by word. `None` if this accelerator or these rows do not allow it.
    fn selection_cycles(&self, rows: &RowWork) -> Option<u64> {
        if !self.sums_on_array || self.lanes == 0 || !rows.is_linear || rows.gathered == 0 {
            return None;
        }
        let operand = |id, is_made_inside| Operand { id, is_made_inside, is_result: false };
        let operands = [operand(0, false), operand(1, self.keeps(rows)), operand(2, true)];
        let product = Product { gemm: rows.shape, operands };
        let crossing = Scratchpad::new(self.scratchpad_words()).crossing(&product);
        let written = rows.shape.m * rows.shape.k.div_ceil(u64::from(self.lanes));
        Some(self.gemm_cycles(rows.shape, crossing).saturating_add(written))
    }

    /// Whether all rows that an index picks from were made inside, and are there still.
    fn keeps(&self, rows: &RowWork) -> bool {
        !rows.are_features && rows.shape.k * rows.shape.n <= self.scratchpad_words()
    }

    /// Words that the memory beside the array has room for.
    fn scratchpad_words(&self) -> u64 {
        self.scratchpad_bytes * 8 / u64::from(self.word_bits)
    }

    /// Cycles in which the memory below moves `words`. Its bytes a cycle do not depend on the size
    /// of a word.
    fn moving_cycles(&self, words: u64) -> u64 {
        match u64::from(self.words_per_cycle) {
            0 => 0,
            per_cycle => {
                words.saturating_mul(u64::from(self.word_bits)).div_ceil(WORD_BITS * per_cycle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::accelerator::{Layer, Model};

    #[test]
    fn one_fold_streams_k_past_both_edges_and_drains() {
        let array = Config::paper().accelerator;
        let gemm = Gemm { m: 64, k: 100, n: 64 };
        assert_eq!(array.gemm_cycles(gemm, 0), 100 + 64 + 64 - 2 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 65, ..gemm }, 0), 2 * 226 + 64);
        assert_eq!(array.gemm_cycles(Gemm { m: 0, ..gemm }, 0), 0);
    }

    #[test]
    fn a_narrow_memory_stalls_a_product() {
        let mut array = Config::paper().accelerator;
        array.words_per_cycle = 1;
        assert_eq!(array.gemm_cycles(Gemm { m: 64, k: 1, n: 64 }, 4224), 4224);
        array.words_per_cycle = 16;
        assert_eq!(array.gemm_cycles(Gemm { m: 64, k: 1, n: 64 }, 4224), 264);
    }

    fn sage(backward: bool) -> Work {
        let layer = Layer::Sage;
        let model = Model { columns: 200, hidden: 128, outputs: 10, backward, layer };
        Work::of_batch(&model, &[128, 384, 1152, 3456])
    }

    fn crossed(array: &Accelerator, backward: bool) -> u64 {
        array.crossings(&sage(backward)).iter().sum()
    }

    #[test]
    fn features_weights_and_results_cross_once_and_nothing_in_between() {
        let array = Config::paper().accelerator;
        let weights = (200 + 128 + 128) * 128 + 128 * 10;
        let inputs = 1664 * 200 + weights;
        assert_eq!(crossed(&array, false), inputs + 128 * 10);
        // Backwards the gradients of the weights leave, too; the features are there already.
        assert_eq!(crossed(&array, true), inputs + 128 * 10 + weights);
        let small = Accelerator { scratchpad_bytes: 64 << 10, ..array };
        assert!(crossed(&small, true) > 2 * crossed(&Config::paper().accelerator, true));
    }

    #[test]
    fn shorter_words_cross_in_fewer_cycles_and_more_of_them_fit() {
        let gemm = Gemm { m: 64, k: 1, n: 64 };
        let with = |word_bits| Accelerator { word_bits, ..Config::paper().accelerator };
        let cycles = [8, 16, 32].map(|bits| with(bits).gemm_cycles(gemm, 8000));
        assert_eq!(cycles, [250, 500, 1000]);
        // The array is the same: where nothing crosses, so is the time.
        assert_eq!(with(8).gemm_cycles(gemm, 0), with(32).gemm_cycles(gemm, 0));
        // Memories of as many words are alike, and one of as many bytes holds fewer long ones.
        let narrow = |bytes, bits| Accelerator { scratchpad_bytes: bytes, ..with(bits) };
        let alike = crossed(&narrow(256 << 10, 16), true);
        assert_eq!(crossed(&narrow(128 << 10, 8), true), alike);
        assert_eq!(crossed(&narrow(512 << 10, 32), true), alike);
        assert!(crossed(&narrow(256 << 10, 8), true) < alike);
        assert!(crossed(&narrow(256 << 10, 32), true) > alike);
    }

    /// A core of 1 GHz, one operation a cycle, without a memory of its own.
    fn core() -> Accelerator {
        Accelerator {
            rows: 4,
            columns: 4,
            lanes: 1,
            hertz: 1e9,
            words_per_cycle: 0,
            scratchpad_bytes: 1024,
            ..Config::paper().accelerator
        }
    }

    /// The sums of 5 nodes with 10 neighbours between them, rows of 100.
    fn sums(are_features: bool) -> RowWork {
        RowWork {
            shape: Gemm { m: 5, k: 15, n: 100 },
            added: 10,
            multiplied: 0,
            gathered: 10,
            is_linear: true,
            are_features,
        }
    }

    #[test]
    fn who_adds_waits_for_each_row_that_an_index_names() {
        let cycles = |array: &Accelerator| array.row_cycles(&sums(true));
        assert_eq!(cycles(&core()), 10 * 100);
        let mut waits = Accelerator { gather_ns: 80.0, gathers_in_flight: 1, ..core() };
        assert_eq!(cycles(&waits), 10 * (100 + 80));
        // Several accesses under way share the wait; several lanes share the additions alone.
        waits.gathers_in_flight = 4;
        assert_eq!(cycles(&waits), 10 * (100 + 20));
        waits.lanes = 8;
        assert_eq!(cycles(&waits), 10 * (13 + 20));
        // At twice the frequency a wait is twice as many cycles.
        waits.hertz = 2e9;
        assert_eq!(cycles(&waits), 10 * (13 + 40));
        // No memory is outrun: 2 words a cycle, 1 of 32 bits.
        waits.words_per_cycle = 1;
        assert_eq!(cycles(&waits), 10 * 100);
        waits.word_bits = 32;
        assert_eq!(cycles(&waits), 10 * 200);
        waits.lanes = 0;
        assert_eq!(cycles(&waits), 0);
    }

    #[test]
    fn rows_that_were_made_inside_and_fit_are_not_waited_for() {
        let mut waits = Accelerator { gather_ns: 80.0, gathers_in_flight: 1, ..core() };
        assert_eq!(waits.row_cycles(&sums(false)), 1800);
        // 15 rows of 100 words.
        waits.scratchpad_bytes = 2 * 1500;
        assert_eq!(waits.row_cycles(&sums(false)), 1000);
        assert_eq!(waits.row_cycles(&sums(true)), 1800);
        waits.word_bits = 32;
        assert_eq!(waits.row_cycles(&sums(false)), 1800);
        (waits.word_bits, waits.scratchpad_bytes) = (8, 1500);
        assert_eq!(waits.row_cycles(&sums(false)), 1000);
    }

    #[test]
    fn an_array_alone_sums_by_a_product_where_that_is_quicker() {
        let alone =
            Accelerator { gather_ns: 80.0, gathers_in_flight: 1, sums_on_array: true, ..core() };
        // 2 by 25 folds of 15 + 4 + 4 - 2 cycles and a drain of 4; 5 x 15 words written before.
        let folds = 2 * 25 * 21 + 4;
        assert_eq!(alone.row_cycles(&sums(true)), folds + 75);
        assert!(alone.selects(&sums(true)));
        // Products by zeros grow with the rows to choose from: of 60, 2 x 25 x 66 cycles and more.
        let mut wide = sums(true);
        wide.shape.k = 60;
        assert_eq!(alone.row_cycles(&wide), 1800);
        assert!(!alone.selects(&wide));
        // The matrix crosses as well, and the rows.
        let slow = Accelerator { words_per_cycle: 1, scratchpad_bytes: 1 << 20, ..alone.clone() };
        assert_eq!(slow.row_cycles(&sums(true)), (5 * 15 + 15 * 100) + 75);
        // Products of elements are none of matrices, and who follows an index needs none.
        let of_pairs = RowWork { is_linear: false, ..sums(true) };
        assert_eq!(alone.row_cycles(&of_pairs), 1800);
        let follows = Accelerator { sums_on_array: false, ..alone };
        assert_eq!(follows.row_cycles(&sums(true)), 1800);
    }

    #[test]
    fn a_selection_of_more_rows_than_can_be_counted_is_not_chosen() {
        let alone = Accelerator { rows: 1, columns: 1, sums_on_array: true, ..core() };
        let mut huge = sums(true);
        (huge.shape.m, huge.shape.k, huge.shape.n) = (1 << 24, 1 << 24, 1 << 20);
        assert_eq!(alone.row_cycles(&huge), 10 << 20);
    }

    #[test]
    fn the_parts_of_the_time_are_all_of_it() {
        for (_, make) in Accelerator::PUBLISHED {
            let array = make();
            let (work, parts) = (sage(true), array.computing(&sage(true)));
            assert_eq!(parts.total(), array.time_of(&work));
            let (products, rows) = array.cycles_of(&work);
            let cycles = |time: Picos| time as f64 * array.hertz / SECOND as f64;
            assert!((cycles(parts.products) - products as f64).abs() < 1.0);
            assert!((cycles(parts.rest) - rows as f64).abs() < 1.0);
            let silent = Accelerator { timed: false, ..array };
            assert_eq!(silent.computing(&work), Computing::default());
        }
    }
}
