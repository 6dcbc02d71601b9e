//! A part of the cache of answers: rows by node, and which of them goes next.
//!
//! Eviction is S3-FIFO (Yang et al., SOSP 2023): new rows stand in a short queue and move on to the
//! long one if they were used before their turn came, or if they come again soon after they went;
//! rows of the long queue that were used stay another round. So a scan of nodes that nobody asks
//! for again passes by what is asked for often.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::answers::cache::KeptAnswer;
use crate::answers::reach::Reach;

/// What it takes to find a row: the tables and queues that it stands in, with their spare room.
pub(super) const ROW_OVERHEAD_BYTES: u64 = 256;

/// The short queue has this share of the bytes.
const SHORT_SHARE: u64 = 10;

/// No row has more than this share.
const LONGEST_SHARE: u64 = 4;

/// Uses that count.
const USES_MAX: u8 = 3;

/// Rows of one node with different parameters.
const ROWS_OF_NODE_MAX: usize = 32;

/// A node of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub model: u64,
    pub node: u64,
    pub node_type: u16,
}

/// An answer as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'a> {
    /// The snapshot that it was computed on.
    pub lsn: u64,
    pub row: &'a [u8],
    /// What it was made of, if it shall outlive commits.
    pub reach: Option<&'a Reach>,
}

impl New<'_> {
    fn bytes(&self) -> u64 {
        bytes_of(self.row, self.reach)
    }
}

/// A row.
#[derive(Debug)]
pub(super) struct Slot {
    parameters: u64,
    /// The snapshot that it was computed on.
    pub since: u64,
    /// The last one that it is known to be right for.
    pub right_to: u64,
    /// Whether that is the last one of all.
    has_ended: bool,
    row: Arc<[u8]>,
    reach: Option<Reach>,
    uses: u8,
    is_long: bool,
}

impl Slot {
    fn bytes(&self) -> u64 {
        bytes_of(&self.row, self.reach.as_ref())
    }

    /// Looks whether the row is right for `lsn`, too, as `is_the_same` says of what it was made of
    /// and a snapshot that it is right for. Returns whether it has ended just now.
    pub fn look(&mut self, lsn: u64, is_the_same: impl Fn(&Reach, u64) -> bool) -> bool {
        if self.has_ended || self.right_to >= lsn {
            return false;
        }
        if self.reach.as_ref().is_some_and(|reach| is_the_same(reach, self.right_to)) {
            self.right_to = lsn;
            return false;
        }
        (self.has_ended, self.uses) = (true, 0);
        true
    }

    /// Hands the row out as one that is right for `lsn`.
    pub fn used(&mut self, lsn: u64) -> KeptAnswer {
        self.uses = (self.uses + 1).min(USES_MAX);
        KeptAnswer { row: Arc::clone(&self.row), lsn }
    }
}

fn bytes_of(row: &[u8], reach: Option<&Reach>) -> u64 {
    row.len() as u64 + reach.map_or(0, Reach::num_bytes) + ROW_OVERHEAD_BYTES
}

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Taken,
    Refused,
}

/// A row as it stands in a queue.
type Queued = (Place, u64, u64);

/// A part of the cache.
#[derive(Debug, Default)]
pub(super) struct Shard {
    slots: HashMap<Place, Vec<Slot>>,
    short: VecDeque<Queued>,
    long: VecDeque<Queued>,
    /// Hashes of rows that went from the short queue, oldest first.
    gone: VecDeque<u64>,
    is_gone: HashSet<u64>,
    bytes_max: u64,
    bytes: u64,
    short_bytes: u64,
    pub evictions: u64,
}

impl Shard {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> u64 {
        (self.short.len() + self.long.len()) as u64
    }

    pub fn get(&mut self, place: &Place, parameters: u64) -> Option<&mut Slot> {
        self.slots.get_mut(place)?.iter_mut().find(|slot| slot.parameters == parameters)
    }

    /// Takes a row.
    pub fn put(&mut self, (place, parameters): (Place, u64), new: &New<'_>, hash: u64) -> Put {
        let bytes = new.bytes();
        if bytes > self.bytes_max / LONGEST_SHARE {
            return Put::Refused;
        }
        let New { lsn, row, reach } = *new;
        if let Some(slot) = self.get(&place, parameters) {
            // Newer, or right for this snapshot, too.
            if slot.since > lsn || slot.right_to >= lsn {
                return Put::Refused;
            }
            let before = slot.bytes();
            (slot.since, slot.right_to, slot.has_ended) = (lsn, lsn, false);
            (slot.row, slot.reach) = (Arc::from(row), reach.cloned());
            let is_long = slot.is_long;
            self.bytes = self.bytes + bytes - before;
            if !is_long {
                self.short_bytes = self.short_bytes + bytes - before;
            }
            self.make_room(0);
            return Put::Taken;
        }
        if self.slots.get(&place).is_some_and(|all| all.len() >= ROWS_OF_NODE_MAX) {
            return Put::Refused;
        }
        self.make_room(bytes);
        let is_long = self.is_gone.remove(&hash);
        let queue = if is_long { &mut self.long } else { &mut self.short };
        queue.push_back((place, parameters, hash));
        self.bytes += bytes;
        self.short_bytes += if is_long { 0 } else { bytes };
        let (row, reach) = (Arc::from(row), reach.cloned());
        let (since, right_to, has_ended) = (lsn, lsn, false);
        let slot = Slot { parameters, since, right_to, has_ended, row, reach, uses: 0, is_long };
        let all = self.slots.entry(place).or_default();
        // Most nodes have one row, and a list that grows by itself has room for four.
        all.reserve_exact(1);
        all.push(slot);
        Put::Taken
    }

    /// Forgets the rows of a model.
    pub fn drop_model(&mut self, model: u64) {
        self.slots.retain(|place, _| place.model != model);
        self.short.retain(|(place, ..)| place.model != model);
        self.long.retain(|(place, ..)| place.model != model);
        let sum = |is_long: bool| {
            let slots = self.slots.values().flatten();
            slots.filter(|slot| slot.is_long == is_long).map(Slot::bytes).sum::<u64>()
        };
        let (short, long) = (sum(false), sum(true));
        (self.bytes, self.short_bytes) = (short + long, short);
    }

    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.bytes_max {
            let is_short = self.long.is_empty() || self.short_bytes * SHORT_SHARE > self.bytes_max;
            let queue = if is_short { &mut self.short } else { &mut self.long };
            let Some(next) = queue.pop_front() else { return };
            self.pass(next, is_short);
        }
    }

    /// A row whose turn has come goes, or stays for another round.
    fn pass(&mut self, next: Queued, is_short: bool) {
        let (place, parameters, hash) = next;
        let Some(slot) = self.get(&place, parameters) else { return };
        let bytes = slot.bytes();
        self.short_bytes -= if is_short { bytes } else { 0 };
        let Some(slot) = self.get(&place, parameters) else { return };
        if slot.uses > 0 {
            slot.uses = if is_short { 0 } else { slot.uses - 1 };
            slot.is_long = true;
            self.long.push_back(next);
            return;
        }
        if let Some(all) = self.slots.get_mut(&place) {
            all.retain(|slot| slot.parameters != parameters);
            if all.is_empty() {
                self.slots.remove(&place);
            }
        }
        self.bytes -= bytes;
        self.evictions += 1;
        if is_short {
            self.remember(hash);
        }
    }

    fn remember(&mut self, hash: u64) {
        if self.is_gone.insert(hash) {
            self.gone.push_back(hash);
        }
        // Those that came back stand in the queue until it is their turn.
        while self.gone.len() > self.long.len().max(16) {
            let Some(oldest) = self.gone.pop_front() else { return };
            self.is_gone.remove(&oldest);
        }
    }
}
