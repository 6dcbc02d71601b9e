//! The accelerators of HolisticGNN's prototypes (section 5), on one FPGA at 730 MHz.
//!
//! Published are: eight out-of-order cores, each with 160 KB and 1 MB of caches; systolic arrays
//! alone; four vector units beside 64 elements of a systolic array; 128 KB beside an array of 64;
//! memory of DDR4-2400. All else is a proposal that stands below with its reason; none is fitted to
//! a published ratio. Words have 16 bits, as everywhere here.

use super::Accelerator;

/// Makes an accelerator.
type Make = fn() -> Accelerator;

/// Words of 16 bits that one channel of DDR4-2400 (19.2 GB/s) moves in a cycle of 730 MHz.
const DDR4_WORDS: u32 = 13;

/// A row of that memory closed, another opened and the first bytes read are 17 of its cycles each
/// (JEDEC's speed bin 2400T) and the burst 4, 46 ns in all; the way through caches, network and
/// controller is put at 40 cycles of 730 MHz.
const GATHER_NS: f64 = 100.0;

/// Caches of a core, and the memory beside an array.
const CORE_BYTES: u64 = (1 << 20) + (160 << 10);
const ARRAY_BYTES: u64 = 128 << 10;

impl Accelerator {
    /// The three published accelerators and their names.
    pub const PUBLISHED: [(&'static str, Make); 3] =
        [("octa", Self::octa), ("lsap", Self::lsap), ("hetero", Self::hetero)];

    /// Octa-HGNN: eight cores do everything. A core does a multiplication with its addition in a
    /// cycle of a product, and one operation in a cycle of anything else. It has one row under way:
    /// the instructions that a core looks ahead are fewer than those of a row.
    pub fn octa() -> Self {
        let cores = 8;
        Self {
            rows: cores,
            columns: 1,
            lanes: cores,
            scratchpad_bytes: u64::from(cores) * CORE_BYTES,
            gathers_in_flight: cores,
            ..Self::bare()
        }
    }

    /// Lsap-HGNN: several systolic arrays, where Hetero-HGNN has one. Here they are two, of 64
    /// elements each. No array can follow an index, so the shell's core, which equals one core of
    /// Octa-HGNN, gathers rows, or the arrays multiply by a matrix that selects them.
    pub fn lsap() -> Self {
        Self {
            rows: 16,
            columns: 8,
            lanes: 1,
            scratchpad_bytes: 2 * ARRAY_BYTES,
            gathers_in_flight: 1,
            sums_on_array: true,
            ..Self::bare()
        }
    }

    /// Hetero-HGNN: one array of 64 elements, and four vector units of 128 bits, which are 8 words.
    /// The loads of a vector unit run ahead of its additions; a row under way holds registers, and
    /// four are put under way by each unit.
    pub fn hetero() -> Self {
        let units = 4;
        Self {
            rows: 8,
            columns: 8,
            lanes: 8 * units,
            scratchpad_bytes: ARRAY_BYTES,
            gathers_in_flight: 4 * units,
            ..Self::bare()
        }
    }

    /// What they have in common.
    fn bare() -> Self {
        Self {
            rows: 1,
            columns: 1,
            lanes: 1,
            hertz: 730e6,
            words_per_cycle: DDR4_WORDS,
            word_bits: Self::usual_word_bits(),
            gather_ns: GATHER_NS,
            gathers_in_flight: 1,
            sums_on_array: false,
            scratchpad_bytes: ARRAY_BYTES,
            timed: true,
        }
    }
}
