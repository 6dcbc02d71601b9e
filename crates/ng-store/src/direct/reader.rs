//! Reading a file of the direct layout: pages through a cache of its own in the store's memory,
//! sections out of them.
//!
//! What lives here: opening a file, the pages of many addresses in one call, the table of seeds.
//! What must not: draws. The invariants: the pages of a call are handed to the disk at once, those
//! that lie side by side in one read; a page is checked when it comes from the disk, and
//! each section at every use.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ng_io::{IoCounts, OpenOptions, open_dir};
use ng_types::{MemoryUser, NodeId, Reservation};

use super::cache::PageCache;
use super::error::DirectError;
use super::format::{Kind, PAGE_HEADER, check_page, count_of};
use super::head::{DIRECT, DirectInfo, Head};
use super::plan::{NODE, only_types};
use super::section::{Bounds, Position, Primary, Secondary, Spot};
use crate::bytes::ensure;
use crate::catalog::{Owner, TensorRef};
use crate::error::Damage;
use crate::io::{FileId, READ_BYTES_MAX, ReadOp, Reader, open_without_queue};
use crate::sealed::{Sealed, SealedError};
use crate::store::Snapshot;

/// Threads that read at once, for which staging memory is set aside.
const THREADS_MAX: u64 = 4;

/// Takes a primary section: the place of its address in the request.
pub type TakePrimary<'a> = dyn FnMut(usize, &Primary<'_>) -> Result<(), Damage> + 'a;

/// What is done with the sections of a page.
type VisitPage<'a> = dyn FnMut(usize, &[u8]) -> Result<(), DirectError> + 'a;

/// An open file of the direct layout of a snapshot.
pub struct DirectFile {
    snapshot: Arc<Snapshot>,
    reader: Reader,
    file: FileId,
    name: Arc<str>,
    head: Head,
    bounds: Bounds,
    /// Where page 0 begins.
    first: u64,
    file_bytes: u64,
    cache: Arc<PageCache>,
    /// What was read when reads were last added to the store's.
    counted: Mutex<IoCounts>,
    _staging: Reservation,
}

impl DirectFile {
    /// Reads the description of the file `name` in `directory`.
    ///
    /// # Errors
    /// [`DirectError::Sealed`], those of opening and reading.
    pub fn describe(directory: &Path, name: &str) -> Result<DirectInfo, DirectError> {
        let disk = open_without_queue(directory).map_err(SealedError::from)?;
        let reader = Reader::in_directory(disk, directory);
        let Sealed { text: head, end, .. } = open_head(&reader, name)?;
        Ok(head.info(end))
    }

    /// Opens the file `name` of `directory`, which must be compiled from `snapshot`. Its pages have
    /// a cache of their own, of memory that the store can take back.
    ///
    /// # Errors
    /// [`DirectError::Sealed`], [`DirectError::Stale`], [`DirectError::Unsupported`],
    /// [`DirectError::Budget`] if there is no memory to read with; those of opening and reading.
    pub fn open(
        snapshot: Arc<Snapshot>,
        directory: &Path,
        name: &str,
    ) -> Result<Self, DirectError> {
        only_types(&snapshot)?;
        let options = OpenOptions::default();
        let backend = snapshot.inner.pages.reader.disk().backend();
        let opened = open_dir(directory, backend.parse().unwrap_or_default(), &options);
        let opened = opened.map_err(SealedError::from)?;
        let each = opened.staging_bytes_per_queue;
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        let share = snapshot.budget().share(MemoryUser::DirectStaging) / each.max(1);
        let staging = snapshot.reserve(each * cores.min(THREADS_MAX).min(share).max(1));
        let staging = staging.or_else(|_| snapshot.reserve(each))?;
        let reader = Reader::in_directory(opened.disk, directory);
        let Sealed { file, name, text: head, start, end: file_bytes, .. } =
            open_head(&reader, name)?;
        head.info(file_bytes).check_version(&name, &snapshot)?;
        let cache = Arc::new(PageCache::new(&snapshot.inner.budget, &head.shape, file_bytes));
        let mut caches = snapshot.inner.direct.lock().unwrap_or_else(PoisonError::into_inner);
        caches.push(Arc::downgrade(&cache));
        drop(caches);
        Ok(Self {
            bounds: head.bounds(),
            first: head.first_page_at(start as usize),
            cache,
            counted: reader.stats().counts().into(),
            snapshot,
            reader,
            file,
            name,
            head,
            file_bytes,
            _staging: staging,
        })
    }

    /// What it is.
    pub fn info(&self) -> DirectInfo {
        self.head.info(self.file_bytes)
    }

    /// The snapshot that it was compiled from.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Whether addresses have 4 bytes.
    pub fn is_narrow(&self) -> bool {
        self.head.shape.width == 4
    }

    /// Bytes of all rows of a node.
    pub fn row_bytes(&self) -> usize {
        self.head.shape.row_bytes
    }

    /// Which of these bytes are the row of a tensor; `None` if the file does not have it.
    pub fn row_of(&self, tensor: TensorRef) -> Option<Range<usize>> {
        let meta = self.snapshot.catalog().tensor(tensor)?;
        if tensor.owner != Owner::Node(NODE) {
            return None;
        }
        let mut at = 0;
        for held in &self.head.tensors {
            if held.is_of(meta) {
                return Some(at..at + held.row_bytes);
            }
            at += held.row_bytes;
        }
        None
    }

    /// The addresses of nodes, from the table at the end of the file.
    ///
    /// # Errors
    /// [`DirectError::Store`] if an id is out of range, [`DirectError::Damaged`], those of reading.
    pub fn addresses(&self, nodes: &[NodeId]) -> Result<Vec<u64>, DirectError> {
        self.snapshot.check_nodes(NODE, nodes)?;
        let shape = &self.head.shape;
        let per_page = shape.table_entries();
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        order.sort_unstable_by_key(|at| nodes[*at as usize]);
        let page_of = |at: &u32| self.bounds.pages + nodes[*at as usize] / per_page;
        let groups: Vec<&[u32]> = order.chunk_by(|a, b| page_of(a) == page_of(b)).collect();
        let pages: Vec<u64> = groups.iter().map(|group| page_of(&group[0])).collect();
        let mut found = vec![0; nodes.len()];
        let mut visit = |index: usize, bytes: &[u8]| {
            for at in groups[index] {
                let entry = nodes[*at as usize] % per_page;
                let wrong = |damage: Damage| self.damaged(pages[index], entry as usize, &damage);
                let count = count_of(bytes);
                ensure(entry < count as u64, || format!("the page has only {count} addresses"))
                    .map_err(wrong)?;
                let address = shape.number(bytes, PAGE_HEADER + entry as usize * shape.width);
                let is_inside = shape.place(address).0 < self.bounds.pages;
                ensure(is_inside, || format!("address {address:#x} is out of range"))
                    .map_err(wrong)?;
                found[*at as usize] = address;
            }
            Ok(())
        };
        self.read_pages(Kind::Table, &pages, &mut visit)?;
        Ok(found)
    }

    /// Lends the primary sections at `addresses` to `take`, each once, in the order of pages. The
    /// number that comes back is of sections that needed no read.
    ///
    /// # Errors
    /// [`DirectError::Damaged`], also for what `take` says; those of reading.
    pub fn primaries(
        &self,
        addresses: &[u64],
        take: &mut TakePrimary<'_>,
    ) -> Result<u64, DirectError> {
        let (shape, bounds) = (&self.head.shape, &self.bounds);
        let mut order: Vec<u32> = (0..addresses.len() as u32).collect();
        order.sort_unstable_by_key(|at| addresses[*at as usize]);
        let page_of = |at: &u32| shape.place(addresses[*at as usize]).0;
        let groups: Vec<&[u32]> = order.chunk_by(|a, b| page_of(a) == page_of(b)).collect();
        let pages: Vec<u64> = groups.iter().map(|group| page_of(&group[0])).collect();
        let mut visit = |index: usize, bytes: &[u8]| {
            for at in groups[index] {
                let (page, section) = shape.place(addresses[*at as usize]);
                let wrong = |damage: Damage| self.damaged(page, section, &damage);
                let primary = Primary::decode(bytes, section, shape, bounds).map_err(wrong)?;
                take(*at as usize, &primary).map_err(wrong)?;
            }
            Ok(())
        };
        let missing = self.read_pages(Kind::Primary, &pages, &mut visit)?;
        let read: usize = missing.iter().map(|index| groups[*index].len()).sum();
        Ok((addresses.len() - read) as u64)
    }

    /// Lends the entries at `spots` to `take` with their place in the request, each once, in the
    /// order of pages.
    ///
    /// # Errors
    /// As [`DirectFile::primaries`].
    pub fn secondaries(
        &self,
        spots: &[Spot],
        take: &mut dyn FnMut(usize, &crate::topology::Entry),
    ) -> Result<(), DirectError> {
        let mut order: Vec<u32> = (0..spots.len() as u32).collect();
        order.sort_unstable_by_key(|at| spots[*at as usize]);
        let page_of = |at: &u32| spots[*at as usize].page;
        let groups: Vec<&[u32]> = order.chunk_by(|a, b| page_of(a) == page_of(b)).collect();
        let pages: Vec<u64> = groups.iter().map(|group| page_of(&group[0])).collect();
        let mut visit = |index: usize, bytes: &[u8]| {
            let of_section =
                |a: &u32, b: &u32| spots[*a as usize].section == spots[*b as usize].section;
            for run in groups[index].chunk_by(of_section) {
                let section = spots[run[0] as usize].section;
                let wrong = |damage: Damage| self.damaged(pages[index], section, &damage);
                let (shape, bounds) = (&self.head.shape, &self.bounds);
                let part = Secondary::decode(bytes, section, shape, bounds).map_err(wrong)?;
                for at in run {
                    let entry = part.entry(&spots[*at as usize]).map_err(wrong)?;
                    take(*at as usize, &entry);
                }
            }
            Ok(())
        };
        self.read_pages(Kind::Secondary, &pages, &mut visit).map(drop)
    }

    /// Checks every page that holds sections or addresses, and that the sections of each node are
    /// where they should be.
    ///
    /// # Errors
    /// The first damage.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), DirectError> {
        let total = self.head.table_pages();
        for page in 0..total {
            if !progress(page, total) {
                return Err(DirectError::Stopped);
            }
            let first = page * self.head.shape.table_entries();
            let end = self.head.num_nodes.min(first + self.head.shape.table_entries());
            let nodes: Vec<NodeId> = (first..end).collect();
            let mut lists = Vec::new();
            self.primaries(&self.addresses(&nodes)?, &mut |at, primary| {
                let (found, wanted) = (primary.node, nodes[at]);
                ensure(found == wanted, || {
                    format!("it belongs to node {found}, expected {wanted}")
                })?;
                for spot in primary.last_spots() {
                    if let Position::There(spot) = spot? {
                        lists.push(spot);
                    }
                }
                Ok(())
            })?;
            self.secondaries(&lists, &mut |_, _| {})?;
        }
        Ok(())
    }

    fn damaged(&self, page: u64, section: usize, damage: &Damage) -> DirectError {
        let (file, what) = (self.name.to_string(), damage.to_string());
        DirectError::Damaged { file, page, section: section as u32, what }
    }

    /// Lends pages, which ascend, to `visit` by their place in the request; says which were read
    /// from the disk.
    fn read_pages(
        &self,
        kind: Kind,
        pages: &[u64],
        visit: &mut VisitPage<'_>,
    ) -> Result<Vec<usize>, DirectError> {
        let missing = self.cache.with_each(kind, pages, &mut *visit)?;
        if missing.is_empty() {
            return Ok(missing);
        }
        let unit = self.head.shape.bytes_of(kind);
        let step = (unit / self.head.shape.page_bytes) as u64;
        let (mut at, failure) = (0, RefCell::new(None));
        let mut next = || {
            if failure.borrow().is_some() {
                return None;
            }
            let first = pages[*missing.get(at)?];
            let most = (READ_BYTES_MAX / unit).max(1);
            let follows =
                |(place, index): &(usize, &usize)| pages[**index] == first + *place as u64 * step;
            let run = missing[at..].iter().enumerate().take(most).take_while(follows).count();
            let offset = self.first + first * self.head.shape.page_bytes as u64;
            let op = ReadOp { tag: at as u64, file: self.file, offset, len: (run * unit) as u32 };
            at += run;
            Some(op)
        };
        let failed = |error| DirectError::from(SealedError::from(error));
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            if failure.borrow().is_some() {
                return;
            }
            let taken = result.map_err(failed).and_then(|bytes| {
                let indexes = missing[op.tag as usize..].iter();
                bytes.chunks_exact(unit).zip(indexes).try_for_each(|(bytes, index)| {
                    self.take_page(kind, pages[*index], bytes)?;
                    visit(*index, bytes)
                })
            });
            if let Err(error) = taken {
                failure.borrow_mut().get_or_insert(error);
            }
        };
        let read = self.reader.read(&mut next, &mut done).map_err(failed);
        self.count_reads((missing.len() * unit) as u64);
        read?;
        failure.into_inner().map_or(Ok(missing), Err)
    }

    /// Checks a page from the disk and keeps it.
    fn take_page(&self, kind: Kind, page: u64, bytes: &[u8]) -> Result<(), DirectError> {
        let checked = check_page(bytes, kind, page, self.head.build);
        checked.map_err(|damage| self.damaged(page, 0, &damage))?;
        self.cache.keep(kind, page, bytes);
        Ok(())
    }

    /// Adds what was read since the last call to what the store counts.
    fn count_reads(&self, useful: u64) {
        self.reader.stats().add_useful(useful);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.reader.stats().counts();
        self.snapshot.io_stats().add(&now.since(&counted));
        *counted = now;
    }
}

/// Opens a file and checks its head.
fn open_head(reader: &Reader, name: &str) -> Result<Sealed<Head>, DirectError> {
    let sealed = DIRECT.open(reader, name, |_: &Head| 0)?;
    let expected = sealed.text.file_bytes(sealed.start as usize);
    let is_whole = sealed.text.check().and_then(|()| {
        ensure(sealed.end == expected, || {
            format!("it has {} bytes, expected {expected}", sealed.end)
        })
    });
    is_whole.map_err(|damage| DIRECT.not_whole(&sealed.name, &damage))?;
    Ok(sealed)
}
