//! Sorted runs of names to ranks, and the dictionary of the store.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use ng_store::DictionaryWriter;

use super::NameKind;
use super::decimals::{Decimals, number_of};
use super::intern::{Runs, StringTable, key_twice, next_entry};
use super::spool::{Spool, SpoolReader};
use crate::ImportError;
use crate::failure::store_error;
use crate::sort::{Layout, Sizes, SlotFile, Sorter, triple};

/// Runs that are merged at once; more are refused, since memory bounds them.
const RUNS_MAX: usize = 4096;
const RANK_BYTES: u64 = 8;

/// The rank of each provisional id.
#[derive(Debug)]
pub(crate) struct Ranks {
    spool: Spool,
    provisional: u64,
    /// How many distinct names there are.
    pub(crate) names: u64,
}

impl Ranks {
    /// Merges the names, writes the dictionary, and keeps the ranks on scratch.
    pub(crate) fn settle(
        table: StringTable,
        kind: NameKind,
        mut dictionary: DictionaryWriter,
        directory: &Path,
        slots: &Arc<SlotFile>,
        sizes: Sizes,
    ) -> Result<(Self, ng_store::Part), ImportError> {
        let runs = table.finish()?;
        let layout = Layout::default();
        let by_provisional: Sorter<u128> = Sorter::new(Arc::clone(slots), layout, sizes);
        let decimals = Decimals::new(slots, sizes);
        let mut pending = Vec::with_capacity(4096);
        let names = merge(
            &runs,
            sizes.collect_bytes,
            &mut |name, rank| match kind {
                NameKind::Number => decimals.push(number_of(name)?, rank, &mut dictionary),
                NameKind::Key => push_key(&mut dictionary, name, rank),
                NameKind::Text => {
                    dictionary.push_name(text_of(name)?).map_err(store_error)?;
                    push_key(&mut dictionary, name, rank)
                }
            },
            &mut |provisional, rank| {
                pending.push(triple(provisional, rank, 0));
                if pending.len() == pending.capacity() {
                    by_provisional.push(pending.drain(..))?;
                }
                Ok(())
            },
        )?;
        by_provisional.push(pending.into_iter())?;
        decimals.finish(&mut dictionary)?;
        runs.for_each_key(&mut |name| dictionary.push_name(text_of(name)?).map_err(store_error))?;
        let mut spool = Spool::create(directory)?;
        by_provisional.finish()?.for_each(&mut |slice| {
            slice.iter().try_for_each(|record| {
                let rank = (record >> 40) as u64 & ((1 << 40) - 1);
                spool.write(&rank.to_le_bytes())
            })
        })?;
        spool.flush()?;
        let part = dictionary.finish().map_err(store_error)?;
        Ok((Self { spool, provisional: runs.provisional, names }, part))
    }

    /// Looks ranks up in ascending order of provisional ids.
    pub(super) fn lookup(&self) -> RankLookup<'_> {
        let all = 0..self.provisional * RANK_BYTES;
        RankLookup { reader: self.spool.reader(all, 256 << 10), next: 0, rank: 0 }
    }
}

/// A cursor over [`Ranks`].
pub(super) struct RankLookup<'a> {
    reader: SpoolReader<'a>,
    next: u64,
    rank: u64,
}

impl RankLookup<'_> {
    /// The rank of a provisional id, which is not below the one asked for before.
    pub(super) fn rank_of(&mut self, provisional: u64) -> Result<u64, ImportError> {
        while self.next <= provisional {
            let mut bytes = [0; 8];
            if !self.reader.read(&mut bytes)? {
                return Err(ImportError::spec("temporary data ends too early"));
            }
            self.rank = u64::from_le_bytes(bytes);
            self.next += 1;
        }
        Ok(self.rank)
    }
}

/// Takes a name and the id of its node.
type NameFound<'a> = dyn FnMut(&[u8], u64) -> Result<(), ImportError> + 'a;
/// Takes a provisional id and the id of its node.
type IdFound<'a> = dyn FnMut(u64, u64) -> Result<(), ImportError> + 'a;

/// Calls `name_found` for each distinct name in order, and `id_found` for each provisional id, with
/// the id of the node: the rank of its name, or its row where names were given beforehand. Gives
/// the number of names.
fn merge(
    runs: &Runs,
    buffers_bytes: usize,
    name_found: &mut NameFound<'_>,
    id_found: &mut IdFound<'_>,
) -> Result<u64, ImportError> {
    if runs.len() > RUNS_MAX {
        return Err(ImportError::spec(
            "the string ids do not fit in memory; give the import more memory",
        ));
    }
    let mut readers: Vec<SpoolReader<'_>> = runs.readers(buffers_bytes).collect();
    let mut heap = BinaryHeap::with_capacity(readers.len());
    for (run, reader) in readers.iter_mut().enumerate() {
        let mut name = Vec::new();
        if let Some(id) = next_entry(reader, &mut name)? {
            heap.push(Reverse((name, id, run)));
        }
    }
    let num_keys = runs.num_keys();
    let mut last: Option<Vec<u8>> = None;
    let (mut count, mut node) = (0, 0);
    while let Some(Reverse((mut name, id, run))) = heap.pop() {
        // Ids of a name ascend, so that of its key comes first.
        let is_key = num_keys.is_some_and(|keys| id < keys);
        if last.as_ref() != Some(&name) {
            if num_keys.is_some() && !is_key {
                let name = String::from_utf8_lossy(&name);
                let what = format!(
                    "an edge names the node {name:?}, which the node table lacks; add its row, or \
                     choose another key column of the table"
                );
                return Err(ImportError::spec(what));
            }
            node = if is_key { id } else { count };
            name_found(&name, node)?;
            count += 1;
            last.get_or_insert_default().clone_from(&name);
        } else if is_key {
            return Err(key_twice(&name, node, id));
        }
        id_found(id, node)?;
        if let Some(id) = next_entry(&mut readers[run], &mut name)? {
            heap.push(Reverse((name, id, run)));
        }
    }
    Ok(count)
}

fn text_of(name: &[u8]) -> Result<&str, ImportError> {
    std::str::from_utf8(name).map_err(|_| ImportError::spec("temporary data is damaged"))
}

fn push_key(dictionary: &mut DictionaryWriter, name: &[u8], node: u64) -> Result<(), ImportError> {
    dictionary.push_key(text_of(name)?, node).map_err(store_error)
}
