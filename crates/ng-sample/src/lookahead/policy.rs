//! Which rows are read when, and how long they stay.
//!
//! What lives here: the rotating scan, the window with the provably best replacement, and the two
//! policies of published loaders that they are measured against. All work on [`Table`]s: the map
//! of rows to slots and what is known of the future. What must not: reading, memory, threads.

use std::str::FromStr;

use ng_io::vec_in_huge_pages;
use ng_simd::prefetch_at;
use ng_store::TensorRef;

use super::pieces::Sampled;
use super::places::{NEAR, Places};

/// How rows that are not in memory are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Chosen by what the first batches show and by the costs of the disk.
    #[default]
    Auto,
    /// Batch by batch, through the store's own caches: nothing waits for a later batch.
    OnDemand,
    /// Each batch's missing rows in the order of the file; rows stay for the batches of the window
    /// that want them, the farthest goes first (Belady).
    Window,
    /// The file in slices, one slice a batch, round and round; rows stay that a batch wants before
    /// the slice returns.
    Scan,
    /// Many batches are sampled first, then the file is read once and each row written to the
    /// batches that want it, on disk.
    Distribute,
    /// What published loaders do, for comparison: one aligned read for each row, in groups with a
    /// barrier after each, no cache.
    NaiveUring,
    /// The same behind a SIEVE cache of rows.
    NaiveUringSieve,
}

impl Reading {
    /// Every way, for tables and messages.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Auto, "auto"),
        (Self::OnDemand, "on_demand"),
        (Self::Window, "window"),
        (Self::Scan, "scan"),
        (Self::Distribute, "distribute"),
        (Self::NaiveUring, "naive-uring"),
        (Self::NaiveUringSieve, "naive-uring+sieve"),
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(reading, _)| *reading == self).map_or("", |(_, name)| name)
    }

    /// Whether it is a baseline.
    pub fn is_naive(self) -> bool {
        matches!(self, Self::NaiveUring | Self::NaiveUringSieve)
    }
}

impl FromStr for Reading {
    type Err = String;

    /// Parses the name that [`Reading::name`] gives.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(reading, _)| *reading).ok_or_else(|| {
            let known = Self::ALL.map(|(_, name)| name).join(", ");
            format!("unknown reading {text:?}; known: {known}")
        })
    }
}

/// One tensor whose rows are kept in slots.
#[derive(Debug)]
pub(crate) struct Table {
    pub tensor: TensorRef,
    pub places: Places,
    pub future: Future,
}

/// What is known of the batches ahead, by row.
#[derive(Debug)]
pub(crate) enum Future {
    /// Scan: the last batch that wants a row.
    Last(Stamps),
    /// Window: the last batch that wants a row, and its place there.
    Chain { batch: Vec<u32>, place: Vec<u32> },
    /// SIEVE: nothing ahead, only what was.
    Sieve(Sieve),
    /// Nothing.
    Unknown,
}

impl Table {
    /// Bytes of bookkeeping a row and a slot cost under `reading`.
    pub fn num_bytes(reading: Reading, rows: usize, slots: usize) -> u64 {
        let future = match reading {
            Reading::Scan => 2 * rows,
            Reading::Window => 8 * rows,
            Reading::NaiveUringSieve => 12 * slots,
            _ => 0,
        };
        Places::num_bytes(rows, slots) + future as u64
    }

    /// Of `slots` slots the first `limit` are there from the start.
    pub fn new(
        reading: Reading,
        tensor: TensorRef,
        rows: usize,
        (slots, limit): (usize, usize),
    ) -> Self {
        let future = match reading {
            Reading::Scan => Future::Last(Stamps::new(rows)),
            Reading::Window => {
                let (batch, place) = (vec_in_huge_pages(0, rows), vec_in_huge_pages(0, rows));
                Future::Chain { batch, place }
            }
            Reading::NaiveUringSieve => Future::Sieve(Sieve::new(slots)),
            _ => Future::Unknown,
        };
        Self { tensor, places: Places::new(rows, slots, limit), future }
    }
}

/// For each row the last batch that wants it, in two bytes: batches are told apart as long as
/// fewer than 65,535 lie between them and every row is looked at once in so many.
#[derive(Debug)]
pub(crate) struct Stamps {
    stamps: Vec<u16>,
}

const STAMPS: u64 = u16::MAX as u64;

impl Stamps {
    fn new(rows: usize) -> Self {
        Self { stamps: vec_in_huge_pages(0, rows) }
    }

    /// Batch `index` wants these rows.
    pub fn want(&mut self, rows: &[u32], index: u64) {
        let number = (index % STAMPS) as u16 + 1;
        for (place, row) in rows.iter().enumerate() {
            if let Some(later) = rows.get(place + NEAR) {
                prefetch_at(&self.stamps, *later as usize);
            }
            self.stamps[*row as usize] = number;
        }
    }

    /// How many batches after `now` the row is wanted last; `None` if not within `window`, and then
    /// it is forgotten.
    pub fn last(&mut self, row: u32, now: u64, window: u64) -> Option<u64> {
        let stamp = &mut self.stamps[row as usize];
        let found = distance(*stamp, now).filter(|distance| *distance < window);
        if found.is_none() {
            *stamp = 0;
        }
        found
    }
}

fn distance(stamp: u16, now: u64) -> Option<u64> {
    let at = u64::from(stamp).checked_sub(1)?;
    Some((at + STAMPS - now % STAMPS) % STAMPS)
}

/// SIEVE (Zhang et al., NSDI 2024) over slots: new rows enter at the head; a hand moves from the
/// tail to the head, spares what was used since it came by, and takes the first that was not.
#[derive(Debug)]
pub(crate) struct Sieve {
    newer: Vec<u32>,
    older: Vec<u32>,
    used: Vec<bool>,
    head: u32,
    tail: u32,
    hand: u32,
}

const NONE: u32 = u32::MAX;

impl Sieve {
    fn new(slots: usize) -> Self {
        let links = || vec![NONE; slots];
        let used = vec![false; slots];
        Self { newer: links(), older: links(), used, head: NONE, tail: NONE, hand: NONE }
    }

    /// A slot was used.
    pub fn touch(&mut self, slot: u32) {
        self.used[slot as usize] = true;
    }

    /// A slot got a new row.
    pub fn insert(&mut self, slot: u32) {
        let at = slot as usize;
        debug_assert!(slot != self.head, "slot {slot} is linked already");
        self.used[at] = false;
        self.newer[at] = NONE;
        self.older[at] = self.head;
        if let Some(newer) = self.newer.get_mut(self.head as usize) {
            *newer = slot;
        }
        self.head = slot;
        if self.tail == NONE {
            self.tail = slot;
        }
    }

    /// Takes out a slot that may go; `may_go` says of each candidate whether it can.
    pub fn evict(&mut self, mut may_go: impl FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..2 * self.used.len() {
            let slot = if self.hand == NONE { self.tail } else { self.hand };
            let at = slot as usize;
            let newer = *self.newer.get(at)?;
            self.hand = newer;
            if self.used[at] {
                self.used[at] = false;
            } else if may_go(slot) {
                self.unlink(slot);
                return Some(slot);
            }
        }
        None
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.newer[slot as usize], self.older[slot as usize]);
        match self.older.get_mut(newer as usize) {
            Some(link) => *link = older,
            None => self.head = older,
        }
        match self.newer.get_mut(older as usize) {
            Some(link) => *link = newer,
            None => self.tail = newer,
        }
    }
}

/// Where each row of a batch is wanted next: by table, the number of batches until then, 0 for
/// not within the window.
pub(crate) type NextUses = Vec<Vec<u16>>;

/// A registered batch of the window.
#[derive(Debug)]
pub(crate) struct Registered {
    /// `None` once its rows have their slots.
    pub sampled: Option<Sampled>,
    pub next: NextUses,
}
