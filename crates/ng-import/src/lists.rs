//! From sorted records to neighbour lists: duplicates dropped, self loops added, and whole runs of
//! one destination handed to the writer of the store.

use ng_store::{Entry, TopologyWriter};
use ng_types::canary::planted;

use crate::ImportError;
use crate::failure::store_error;
use crate::sink::Lists;
use crate::sort::{Full, Record, Sorted};

/// Entries that are handed over at once.
const RUN_LEN: usize = 4096;
/// Records that are looked through at once for those that repeat another.
const DISTINCT_LEN: usize = 64 << 10;

/// What sorting showed about the edges of a type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    /// Entries that say the same as the one before them: ends, and time if there is one.
    pub kept: u64,
    /// Entries that were left out because their ends were there already.
    pub removed: u64,
    /// All entries, with those that were left out.
    pub entries: u64,
}

/// How the records of a type become lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListRules {
    pub unique: bool,
    /// Give every node without a self loop one.
    pub add_loops: Option<AddLoops>,
    /// Edge ids, times or weights are stored.
    pub has_columns: bool,
}

/// Self loops to add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddLoops {
    pub num_nodes: u64,
    /// The edge id of node 0's loop.
    pub first_edge_id: u64,
}

/// A record as an entry of a list.
pub(crate) trait ListRecord: Record {
    fn entry(&self) -> Entry;
    fn source(&self) -> u64;
    /// Whether both have the same ends and time.
    fn repeats(&self, other: &Self) -> bool;
}

impl ListRecord for u64 {
    fn entry(&self) -> Entry {
        Entry { source: self.source(), ..Entry::default() }
    }

    #[inline]
    fn source(&self) -> u64 {
        self & 0xFFFF_FFFF
    }

    #[inline]
    fn repeats(&self, other: &Self) -> bool {
        self == other
    }
}

impl ListRecord for u128 {
    fn entry(&self) -> Entry {
        let edge_id = (self & ((1 << 40) - 1)) as u64;
        Entry { source: self.source(), edge_id, ..Entry::default() }
    }

    #[inline]
    fn source(&self) -> u64 {
        (self >> 40) as u64 & ((1 << 40) - 1)
    }

    #[inline]
    fn repeats(&self, other: &Self) -> bool {
        self >> 40 == other >> 40
    }
}

impl ListRecord for Full {
    fn entry(&self) -> Entry {
        let Self { source, edge_id, time, .. } = *self;
        Entry { source, edge_id, time, weight: f32::from_bits(self.weight) }
    }

    fn source(&self) -> u64 {
        self.source
    }

    fn repeats(&self, other: &Self) -> bool {
        let key = |full: &Self| (full.destination, full.source, full.time);
        key(self) == key(other)
    }
}

/// Where lists go.
pub(crate) trait ListWriter {
    fn sources(&mut self, destination: u64, run: &[u64]) -> Result<(), ImportError>;
    fn entries(&mut self, destination: u64, run: &[Entry]) -> Result<(), ImportError>;
}

impl ListWriter for TopologyWriter {
    fn sources(&mut self, destination: u64, run: &[u64]) -> Result<(), ImportError> {
        self.push_sources(destination, run).map_err(store_error)
    }

    fn entries(&mut self, destination: u64, run: &[Entry]) -> Result<(), ImportError> {
        self.push_run(destination, run).map_err(store_error)
    }
}

/// Sorts and writes the lists of one direction; gives the number of entries, and how many of them
/// repeat another.
pub(crate) fn write_lists(
    lists: Lists,
    rules: ListRules,
    writer: &mut dyn ListWriter,
    sorted_entries: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<(u64, Repeats), ImportError> {
    match lists {
        Lists::Pairs(sorter) => write_sorted(sorter.finish()?, rules, writer, sorted_entries),
        Lists::Triples(sorter) => write_sorted(sorter.finish()?, rules, writer, sorted_entries),
        Lists::Fulls(sorter) => write_sorted(sorter.finish()?, rules, writer, sorted_entries),
        Lists::BySource(sorter) => {
            // Duplicates are apart in lists that are ordered by time, so they go in a sort of
            // their own.
            let by_time = sorter.successor::<Full>();
            let mut last = None;
            let mut repeats = Repeats::default();
            sorter.finish()?.for_each(&mut |slice| {
                let fulls = slice.iter().map(|record| record.0);
                let is_first = |record: &Full| {
                    let ends = Some((record.destination, record.source));
                    let is_first = std::mem::replace(&mut last, ends) != ends;
                    repeats.entries += 1;
                    repeats.removed += u64::from(!is_first);
                    is_first
                };
                by_time.push(fulls.filter(is_first))
            })?;
            let rules = ListRules { unique: false, ..rules };
            let (count, _) = write_sorted(by_time.finish()?, rules, writer, sorted_entries)?;
            Ok((count, repeats))
        }
    }
}

fn write_sorted<R: ListRecord>(
    sorted: Sorted<R>,
    rules: ListRules,
    writer: &mut dyn ListWriter,
    sorted_entries: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<(u64, Repeats), ImportError> {
    let plain = rules.add_loops.is_none() && !rules.has_columns;
    let mut last: Option<R> = None;
    let (mut entries, mut repeated) = (0, 0);
    let mut count_slice = |slice: &[R]| {
        let across = last.iter().zip(slice.first()).filter(|(a, b)| a.repeats(b)).count();
        let within = slice.windows(2).filter(|pair| pair[0].repeats(&pair[1])).count();
        repeated += (across + within) as u64;
        entries += slice.len() as u64;
        last = slice.last().copied();
        sorted_entries(slice.len() as u64)
    };
    let count = if plain {
        let (mut run, mut distinct, mut last) = (Vec::new(), Vec::new(), None);
        sorted.for_each(&mut |slice| {
            count_slice(slice)?;
            if !rules.unique {
                return write_plain(slice, &mut run, writer);
            }
            slice.chunks(DISTINCT_LEN).try_for_each(|part| {
                distinct.clear();
                distinct.extend(part.iter().copied().filter(|record| {
                    let before = last.replace(*record);
                    before.is_none_or(|before: R| !before.repeats(record))
                }));
                write_plain(&distinct, &mut run, writer)
            })
        })?;
        if rules.unique { entries - repeated } else { entries }
    } else {
        let mut builder =
            ListBuilder { rules, writer, list: None, run: Vec::new(), count: 0, next: 0 };
        sorted.for_each(&mut |slice| {
            count_slice(slice)?;
            slice.iter().try_for_each(|record| builder.add(record.destination(), record.entry()))
        })?;
        builder.finish()?
    };
    let (kept, removed) = if rules.unique { (0, repeated) } else { (repeated, 0) };
    Ok((count, Repeats { kept, removed, entries }))
}

/// The sources of each run of equal destinations, as they are.
fn write_plain<R: ListRecord>(
    slice: &[R],
    run: &mut Vec<u64>,
    writer: &mut dyn ListWriter,
) -> Result<(), ImportError> {
    for list in slice.chunk_by(|a, b| a.destination() == b.destination()) {
        for part in list.chunks(RUN_LEN) {
            run.clear();
            run.extend(part.iter().map(ListRecord::source));
            if planted("merge_drops_ties") {
                run.dedup();
            }
            writer.sources(part[0].destination(), run)?;
        }
    }
    Ok(())
}

/// The list that is being built.
#[derive(Clone, Copy, Debug)]
struct OpenList {
    destination: u64,
    last_source: Option<u64>,
    has_loop: bool,
}

struct ListBuilder<'a> {
    rules: ListRules,
    writer: &'a mut dyn ListWriter,
    list: Option<OpenList>,
    run: Vec<Entry>,
    count: u64,
    /// The first node that has not been given its self loop.
    next: u64,
}

impl ListBuilder<'_> {
    fn add(&mut self, destination: u64, entry: Entry) -> Result<(), ImportError> {
        if self.list.is_none_or(|list| list.destination != destination) {
            self.close()?;
            self.add_lone_loops(destination)?;
            self.list = Some(OpenList { destination, last_source: None, has_loop: false });
        }
        let Some(mut list) = self.list else {
            return Ok(());
        };
        if self.rules.unique && list.last_source == Some(entry.source) {
            return Ok(());
        }
        if self.rules.add_loops.is_some() && !list.has_loop && entry.source >= destination {
            if entry.source > destination {
                self.push_loop(destination);
            }
            list.has_loop = true;
        }
        list.last_source = Some(entry.source);
        self.list = Some(list);
        self.push(entry)
    }

    fn finish(mut self) -> Result<u64, ImportError> {
        self.close()?;
        let num_nodes = self.rules.add_loops.map_or(0, |loops| loops.num_nodes);
        self.add_lone_loops(num_nodes)?;
        Ok(self.count)
    }

    fn push(&mut self, entry: Entry) -> Result<(), ImportError> {
        self.run.push(entry);
        if self.run.len() < RUN_LEN { Ok(()) } else { self.flush() }
    }

    fn push_loop(&mut self, node: u64) {
        let first_edge_id = self.rules.add_loops.map_or(0, |loops| loops.first_edge_id);
        let edge_id = first_edge_id + node;
        self.run.push(Entry { source: node, edge_id, time: 0, weight: 1.0 });
    }

    /// Ends the current list.
    fn close(&mut self) -> Result<(), ImportError> {
        let Some(list) = self.list else { return Ok(()) };
        if self.rules.add_loops.is_some() && !list.has_loop {
            self.push_loop(list.destination);
        }
        self.flush()?;
        self.next = list.destination + 1;
        self.list = None;
        Ok(())
    }

    /// Gives the nodes from the last list up to `end` their self loops.
    fn add_lone_loops(&mut self, end: u64) -> Result<(), ImportError> {
        if self.rules.add_loops.is_none() {
            return Ok(());
        }
        while self.next < end {
            let destination = self.next;
            self.list = Some(OpenList { destination, last_source: None, has_loop: false });
            self.close()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ImportError> {
        let (Some(list), false) = (self.list, self.run.is_empty()) else {
            return Ok(());
        };
        self.count += self.run.len() as u64;
        if self.rules.has_columns {
            self.writer.entries(list.destination, &self.run)?;
        } else {
            let sources: Vec<u64> = self.run.iter().map(|entry| entry.source).collect();
            self.writer.sources(list.destination, &sources)?;
        }
        self.run.clear();
        Ok(())
    }
}
