//! Numbers as names: nodes ascend by number, the keys of their dictionary by the bytes of the
//! decimal text, which is another order.

use std::sync::Arc;

use ng_store::DictionaryWriter;

use crate::ImportError;
use crate::failure::store_error;
use crate::sort::{Full, Layout, Sizes, SlotFile, Sorter};

/// Digits of the largest number, which is below 2^63.
const DIGITS: u32 = 19;
/// A part of the digits, so that both parts fit in a record.
const LOW: u64 = 1_000_000_000_000_000_000;

/// Brings keys from the order of numbers into that of texts.
pub(super) struct Decimals {
    sorter: Sorter<Full>,
}

impl Decimals {
    pub(super) fn new(slots: &Arc<SlotFile>, sizes: Sizes) -> Self {
        let layout = Layout { edge_id: true, time: true, weight: false };
        Self { sorter: Sorter::new(Arc::clone(slots), layout, sizes) }
    }

    /// The next node, whose number is above that of the one before.
    pub(super) fn push(
        &self,
        number: u64,
        node: u64,
        dictionary: &mut DictionaryWriter,
    ) -> Result<(), ImportError> {
        dictionary.push_name(&number.to_string()).map_err(store_error)?;
        let digits = number.checked_ilog10().unwrap_or(0) + 1;
        // Texts compare as their digits filled up with zeros do; of equal ones, the shorter, which
        // has the smaller node, comes first.
        let filled = number * 10_u64.pow(DIGITS - digits);
        let record = Full {
            destination: filled / LOW,
            time: (filled % LOW) as i64,
            source: node,
            edge_id: u64::from(digits),
            weight: 0,
        };
        self.sorter.push(std::iter::once(record))
    }

    /// Gives all keys to the dictionary.
    pub(super) fn finish(self, dictionary: &mut DictionaryWriter) -> Result<(), ImportError> {
        self.sorter.finish()?.for_each(&mut |slice| {
            slice.iter().try_for_each(|record| {
                let filled = record.destination * LOW + record.time as u64;
                let number = filled / 10_u64.pow(DIGITS - record.edge_id as u32);
                dictionary.push_key(&number.to_string(), record.source).map_err(store_error)
            })
        })
    }
}

/// The number that a name of eight bytes stands for.
pub(super) fn number_of(name: &[u8]) -> Result<u64, ImportError> {
    let bytes = name.try_into().map_err(|_| ImportError::spec("temporary data is damaged"))?;
    Ok(u64::from_be_bytes(bytes))
}
