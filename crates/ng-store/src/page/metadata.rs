//! Indexes and page tables that stay in memory: whole files, in a share of the budget of their own.
//!
//! Every lookup goes through them, and all of them together take about a thousandth of a graph. So
//! where they fit they are read front to back, each file when it is needed first, and their blocks
//! are found by division from then on. What must not live here: what their bytes mean. The
//! invariants: a block is lent only if it had the checksum that leads to it, and blocks that are
//! written anew are forgotten before, so versions that share a file each see their own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ng_types::{Budget, MemoryUser, Reservation};

use crate::catalog::{Catalog, SegmentMeta};
use crate::error::ReadError;
use crate::io::{AnonMap, BLOCK_BYTES, FileId, READ_BYTES_MAX, ReadOp};
use crate::page::{INNER_ENTRIES, Leaf, Located, Pages, Place, Placed, verify_blocks};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A shorter file is read whole at its first use: that takes the time of a hundred single blocks.
/// A longer one is read once as many bytes of it were read block by block (ski rental).
const AT_ONCE_BYTES: u64 = 16 << 20;

/// Blocks that are looked up together while a file is read.
const TOGETHER: u64 = 4096;

/// Indexes and page tables of a store.
#[derive(Debug)]
pub(crate) struct Metadata {
    budget: Budget,
    /// For all files; `None` after a transaction took the memory.
    held: Mutex<Option<Reservation>>,
    /// By segment and place.
    files: Vec<[Option<File>; 2]>,
}

#[derive(Debug)]
struct File {
    resident: RwLock<Option<Arc<Resident>>>,
    loading: Mutex<()>,
    /// What is read block by block before the next pass, in favour of the pass.
    read_bytes: AtomicU64,
    /// Its part of what is held; changed under the lock of that.
    room_bytes: AtomicU64,
}

impl Metadata {
    /// Takes memory for all indexes and page tables from an unused budget; `None` if they do not
    /// fit into their share.
    pub fn reserve(catalog: &Catalog, budget: &Budget) -> Option<Self> {
        let mut is_index = vec![false; catalog.segments.len()];
        let edges = catalog.edge_types.iter().map(|edge_type| edge_type.topology.index);
        let names = catalog.node_types.iter().filter_map(|node_type| node_type.dictionary);
        for id in edges.chain(names.map(|dictionary| dictionary.names_index)) {
            is_index.get_mut(id as usize).into_iter().for_each(|is_index| *is_index = true);
        }
        let file = |blocks: u64| File {
            resident: RwLock::default(),
            loading: Mutex::default(),
            read_bytes: AtomicU64::new(AT_ONCE_BYTES),
            room_bytes: AtomicU64::new(Resident::bytes_of(blocks)),
        };
        let files = catalog.segments.iter().zip(is_index).map(|(meta, is_index)| {
            let data = is_index.then(|| file(num_blocks(meta, Place::Data)));
            [data, Some(file(num_blocks(meta, Place::Table)))]
        });
        let files: Vec<[Option<File>; 2]> = files.collect();
        let this = Self { budget: budget.clone(), held: Mutex::default(), files };
        let wanted = this.room_bytes();
        if wanted >= budget.share(MemoryUser::Metadata) {
            return None;
        }
        *this.lock() = Some(budget.reserve(wanted).ok()?);
        Some(this)
    }

    /// Bytes that are set aside.
    pub fn held_bytes(&self) -> u64 {
        self.lock().as_ref().map_or(0, Reservation::bytes)
    }

    /// Gives all of it back; returns its bytes.
    pub fn give_back(&self) -> u64 {
        let held = self.lock().take();
        self.forget_all(0);
        held.map_or(0, |held| held.bytes())
    }

    /// Takes memory anew, if it was given back and is free.
    pub fn take_back(&self) {
        let mut held = self.lock();
        if held.is_none()
            && let Ok(taken) = self.budget.reserve(self.room_bytes())
        {
            *held = Some(taken);
            self.forget_all(AT_ONCE_BYTES);
        }
    }

    fn forget_all(&self, read_bytes: u64) {
        for file in self.files.iter().flatten().flatten() {
            file.read_bytes.store(read_bytes, Ordering::Relaxed);
            file.set(None);
        }
    }

    /// Forgets a block that will be written anew.
    pub fn forget(&self, segment: u32, place: Place, block: u64) {
        let resident = self.file(segment, place).and_then(File::get);
        resident.iter().for_each(|resident| resident.forget(block));
    }

    /// Counts blocks of a file that were not in memory.
    pub fn count(&self, segment: u32, place: Place, blocks: usize) {
        if let Some(file) = self.file(segment, place) {
            file.read_bytes.fetch_add(blocks as u64 * BLOCK, Ordering::Relaxed);
        }
    }

    fn file(&self, segment: u32, place: Place) -> Option<&File> {
        self.files.get(segment as usize)?[place as usize].as_ref()
    }

    /// Whether there is memory for a file that takes so much now.
    fn make_room(&self, file: &File, bytes: u64) -> bool {
        let mut held = self.lock();
        let Some(held) = held.as_mut() else { return false };
        let room = file.room_bytes.load(Ordering::Relaxed);
        let all = held.bytes() + bytes.saturating_sub(room);
        let fits = bytes <= room
            || (all < self.budget.share(MemoryUser::Metadata) && held.resize(all).is_ok());
        if fits {
            file.room_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn room_bytes(&self) -> u64 {
        let files = self.files.iter().flatten().flatten();
        files.map(|file| file.room_bytes.load(Ordering::Relaxed)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    fn get(&self) -> Option<Arc<Resident>> {
        self.resident.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, resident: Option<Arc<Resident>>) -> Option<Arc<Resident>> {
        let mut slot = self.resident.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, resident)
    }

    /// Whether as much was read block by block as a pass over so many blocks takes.
    fn is_due(&self, blocks: u64) -> bool {
        blocks > 0 && self.read_bytes.load(Ordering::Relaxed) >= blocks * BLOCK
    }
}

/// The blocks of one file that one version leads to.
#[derive(Debug)]
pub(crate) struct Resident {
    memory: AnonMap,
    /// A bit for each block: whether it has matched its checksum and nobody has written it anew.
    sound: Box<[AtomicU64]>,
}

impl Resident {
    fn bytes_of(blocks: u64) -> u64 {
        blocks * BLOCK + blocks.div_ceil(64) * 8
    }

    fn new(blocks: u64) -> Option<Self> {
        let memory = AnonMap::with_huge_pages(usize::try_from(blocks * BLOCK).ok()?).ok()?;
        let sound = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Some(Self { memory, sound })
    }

    /// The bytes of a block.
    #[inline]
    pub fn block(&self, block: u64) -> Option<&[u8]> {
        let bits = self.sound.get(usize::try_from(block / 64).ok()?)?.load(Ordering::Acquire);
        if bits >> (block % 64) & 1 == 1 { self.raw(block) } else { None }
    }

    fn raw(&self, block: u64) -> Option<&[u8]> {
        let at = usize::try_from(block).ok()?.checked_mul(BLOCK_BYTES)?;
        self.memory.as_slice().get(at..at.checked_add(BLOCK_BYTES)?)
    }

    /// Lends a block from now on if it has its checksum; whoever asks for another one reads it, and
    /// hears what is wrong.
    fn admit(&self, segment: &Placed, at: &Located) -> Option<&[u8]> {
        let bytes = self.raw(at.block)?;
        verify_blocks(segment, "", std::slice::from_ref(at), bytes).ok()?;
        self.sound[(at.block / 64) as usize].fetch_or(1 << (at.block % 64), Ordering::Release);
        Some(bytes)
    }

    fn forget(&self, block: u64) {
        if let Some(bits) = self.sound.get((block / 64) as usize) {
            bits.fetch_and(!(1 << (block % 64)), Ordering::AcqRel);
        }
    }
}

fn num_blocks(meta: &SegmentMeta, place: Place) -> u64 {
    match place {
        Place::Data => meta.physical_pages() * (u64::from(meta.page_bytes) / BLOCK),
        Place::Table => meta.map_blocks,
    }
}

impl Pages {
    /// The file if it is one that stays in memory; read now if it is time. Whoever asks holds a
    /// version that `segment` is of, so nothing that it leads to is written anew meanwhile.
    pub(super) fn resident(&self, segment: &Placed, place: Place) -> Option<Arc<Resident>> {
        let metadata = self.metadata.as_ref()?;
        let file = metadata.file(segment.id, place)?;
        let blocks = num_blocks(&segment.meta, place);
        if !file.is_due(blocks) {
            return file.get();
        }
        let _loading = file.loading.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have read it meanwhile.
        if !file.is_due(blocks) {
            return file.get();
        }
        // What is there goes first. It is lent for moments only.
        if let Some(old) = file.set(None) {
            while Arc::strong_count(&old) > 1 {
                std::thread::yield_now();
            }
        }
        let has_room = metadata.make_room(file, Resident::bytes_of(blocks));
        let loaded = has_room.then(|| self.load(segment, place, blocks)).flatten().map(Arc::new);
        // A transaction may have taken the memory while the file was read.
        let held = metadata.lock();
        file.set(loaded.filter(|_| held.is_some()));
        // Only now: until then others wait for the file instead of reading its blocks one by one.
        file.read_bytes.store(0, Ordering::Relaxed);
        file.get()
    }

    /// Reads the page table of a segment into memory, and its pages where they are an index, before
    /// that pays; whether they are there.
    pub(crate) fn load_metadata(&self, segment: &Placed, is_index: bool) -> bool {
        let load = |place: Place| {
            let blocks = num_blocks(&segment.meta, place);
            let file = self.metadata.as_ref().and_then(|all| all.file(segment.id, place));
            let Some(file) = file else { return false };
            if file.get().is_none() {
                file.read_bytes.fetch_max(blocks * BLOCK, Ordering::Relaxed);
            }
            blocks == 0 || self.resident(segment, place).is_some()
        };
        load(Place::Table) && (!is_index || load(Place::Data))
    }

    fn load(&self, segment: &Placed, place: Place, blocks: u64) -> Option<Resident> {
        let mut loaded = Resident::new(blocks)?;
        // A failure is left to whoever needs a block that is not there for it.
        let expected = match place {
            Place::Data => self.places_of(segment),
            Place::Table => Vec::new(),
        };
        self.read_whole(segment.file(place).0, loaded.memory.as_mut_slice()).ok()?;
        match place {
            Place::Data => admit_all(&loaded, segment, expected),
            Place::Table => admit_table(&loaded, segment),
        }
        Some(loaded)
    }

    /// Where all blocks of a segment are.
    fn places_of(&self, segment: &Placed) -> Vec<Located> {
        let end = segment.meta.num_pages * segment.blocks_per_page();
        let chunks = (0..end).step_by(TOGETHER as usize).flat_map(|first| {
            let blocks: Vec<u64> = (first..end.min(first + TOGETHER)).collect();
            self.resolve(segment, &blocks).unwrap_or_default()
        });
        chunks.filter(|at| *at != Located::NOWHERE).collect()
    }

    /// Reads a file front to back; what cannot be read stays 0.
    fn read_whole(&self, file: FileId, memory: &mut [u8]) -> Result<(), ReadError> {
        let (mut at, end) = (0, memory.len());
        let mut next = || {
            let len = (end - at).min(READ_BYTES_MAX);
            let op = ReadOp { tag: 0, file, offset: at as u64, len: len as u32 };
            at += len;
            (len > 0).then_some(op)
        };
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            if let Ok(bytes) = result {
                crate::bytes::put(memory, op.offset as usize, bytes);
            }
        };
        Ok(self.reader.read(&mut next, &mut done)?)
    }
}

fn admit_all(loaded: &Resident, segment: &Placed, all: impl IntoIterator<Item = Located>) {
    for at in all {
        loaded.admit(segment, &at);
    }
}

/// Admits the blocks of a page table from the root down.
fn admit_table(loaded: &Resident, segment: &Placed) {
    let num_leaves = segment.meta.num_leaves();
    for (index, at) in (0..).zip(&segment.meta.table) {
        let bytes = loaded.admit(segment, at);
        let Some(inner) = bytes.and_then(|bytes| segment.inner(bytes, index).ok()) else {
            continue;
        };
        let first = index * INNER_ENTRIES as u64;
        for leaf in first..num_leaves.min(first + INNER_ENTRIES as u64) {
            let at = inner.leaf((leaf - first) as usize).filter(|at| *at != Located::NOWHERE);
            let bytes = at.and_then(|at| loaded.admit(segment, &at));
            let leaf = bytes.map(|bytes| Leaf::decode(bytes, &segment.leaf_spec(leaf)));
            if let Some(Ok(Leaf::Fan(fan))) = leaf {
                admit_all(loaded, segment, fan.children());
            }
        }
    }
}
