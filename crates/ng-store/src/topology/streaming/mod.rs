//! Expanding destinations as they become known, without a barrier between them.
//!
//! One queue of reads serves all: a completion hands its lists out, what becomes known by that is
//! looked up, and its reads join the queue. Blocks of the indexes are read by the same queue: a
//! group of requests whose lookup needs one waits for it, while all others go on. Positions are
//! drawn before blocks of long lists are read (BeaconGNN, sections IV and V, on a host).
//!
//! What must not live here: hops, and what a batch is. Invariant: every request is answered once,
//! with the entries that [`Snapshot::expand`] gives.

mod hand_out;
mod plan;
mod slab;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use ng_types::{EdgeTypeId, NodeId};

use crate::error::ReadError;
use crate::io::{BLOCK_BYTES, ReadOp};
use crate::page::{Absent, Located, Pages, Place, Segment};
use crate::store::Snapshot;
use crate::topology::Expansion;
use crate::topology::reader::{Arrivals, HubEntry, Wanted};
use crate::topology::streaming::plan::Plan;
use crate::topology::streaming::slab::Slab;

/// Requests that are looked up together.
const REQUESTS_TOGETHER: usize = 64;

/// So many lookups of a group may be put off for a block; the next one waits for what it needs, as
/// the cache seems not to keep it.
const TRIES_MAX: u32 = 32;

/// A list that is to be expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// The edge type.
    pub edge_type: EdgeTypeId,
    /// The destination.
    pub node: NodeId,
    /// Whatever the caller wants to know it by.
    pub tag: u64,
}

/// Appends what has become known since the last call; it is asked whenever the queue has room.
pub type NextRequests<'a> = dyn FnMut(&mut Vec<ListRequest>) + 'a;
/// As [`crate::Draw`], of a request.
pub type DrawList<'a> = dyn FnMut(&ListRequest, u64, &mut Vec<u64>) + 'a;
/// Takes the chosen entries of a request; an error ends the stream.
pub type TakeList<'a> = dyn FnMut(&ListRequest, &Expansion) -> Result<(), ReadError> + 'a;

/// What [`Snapshot::expand_stream`] needs for a while for each request that is under way, beside
/// what the caller keeps and outside of the budget.
pub const STREAM_BYTES_PER_REQUEST: u64 = 512;

impl Snapshot {
    /// Expands lists that become known while others are read. It calls `next` for requests until
    /// there are none and no read is in flight. `draw` chooses the positions of each list, and
    /// `take` receives the entries in any order. Results equal those of [`Snapshot::expand`].
    ///
    /// # Errors
    /// As [`Snapshot::expand`], and those of `take`.
    pub fn expand_stream(
        &self,
        next: &mut NextRequests<'_>,
        draw: &mut DrawList<'_>,
        take: &mut TakeList<'_>,
    ) -> Result<(), ReadError> {
        let stream = Stream {
            snapshot: self,
            patient: &self.inner.pages,
            hasty: self.inner.pages.without_waiting(),
            next,
            draw,
            take,
            pending: Vec::new(),
            groups: Slab::default(),
            runnable: Vec::new(),
            readings: Slab::default(),
            under_way: HashMap::new(),
            ready: VecDeque::new(),
            long: Slab::default(),
            failure: None,
        };
        stream.run()
    }
}

/// Requests of one edge type that are looked up together.
struct Group {
    edge_type: EdgeTypeId,
    requests: Vec<ListRequest>,
    /// Reads that it waits for.
    missing: usize,
    tries: u32,
}

/// A read, and who waits for it.
struct Reading {
    segment: u32,
    place: Place,
    run: Vec<Located>,
    users: Vec<User>,
}

enum User {
    /// A group, for a block of an index.
    Group(usize),
    /// Requests whose lists are on an L-type page.
    Short(u64, Vec<ListRequest>),
    /// Entries of a long list.
    Long(usize, Vec<HubEntry>),
}

/// A long list of which some entries are under way.
struct LongList {
    request: ListRequest,
    arrivals: Arrivals,
    missing: usize,
}

impl LongList {
    /// Decodes entries from the block that holds them.
    fn take(
        &mut self,
        topo: &Segment,
        entries: &[HubEntry],
        block: &[u8],
    ) -> Result<(), ReadError> {
        for entry in entries {
            let wrong = |damage| topo.damaged(entry.block / topo.blocks_per_page(), &damage);
            self.arrivals.take_hub_entry(entry, block).map_err(wrong)?;
        }
        Ok(())
    }
}

struct Stream<'a> {
    snapshot: &'a Snapshot,
    /// Pages that are read where they are not cached.
    patient: &'a Pages,
    /// The same without reading.
    hasty: Pages,
    next: &'a mut NextRequests<'a>,
    draw: &'a mut DrawList<'a>,
    take: &'a mut TakeList<'a>,
    /// Requests that are in no group yet.
    pending: Vec<ListRequest>,
    groups: Slab<Group>,
    /// Groups that have what they waited for.
    runnable: Vec<usize>,
    readings: Slab<Reading>,
    /// Reads by segment, file and first block.
    under_way: HashMap<(u32, Place, u64), usize>,
    /// Reads that the queue has not taken yet.
    ready: VecDeque<usize>,
    long: Slab<LongList>,
    failure: Option<ReadError>,
}

impl Stream<'_> {
    fn run(self) -> Result<(), ReadError> {
        let reader = self.patient.reader.clone();
        let stream = RefCell::new(self);
        let mut next = || stream.borrow_mut().next_read();
        let mut done = |op: ReadOp, result: Result<&[u8], crate::io::ReadError>| {
            let mut stream = stream.borrow_mut();
            if let Err(error) = stream.arrived(op, result) {
                stream.failure.get_or_insert(error);
            }
        };
        reader.read(&mut next, &mut done)?;
        stream.into_inner().failure.map_or(Ok(()), Err)
    }

    fn next_read(&mut self) -> Option<ReadOp> {
        while self.failure.is_none() {
            if let Some(index) = self.ready.pop_front() {
                let Some(reading) = self.readings.get_mut(index) else { continue };
                let first = reading.run[0].block;
                let file = self.snapshot.version.segment(reading.segment).ok()?.file(reading.place);
                return Some(ReadOp {
                    tag: index as u64,
                    file: file.0,
                    offset: first * BLOCK_BYTES as u64,
                    len: (reading.run.len() * BLOCK_BYTES) as u32,
                });
            }
            let group = self.runnable.pop().or_else(|| self.new_group())?;
            if let Err(error) = self.look_up(group) {
                self.failure = Some(error);
            }
        }
        None
    }

    /// Makes a group of requests that have become known.
    fn new_group(&mut self) -> Option<usize> {
        if self.pending.is_empty() {
            (self.next)(&mut self.pending);
        }
        let edge_type = self.pending.last()?.edge_type;
        let mut requests = Vec::new();
        while requests.len() < REQUESTS_TOGETHER {
            match self.pending.pop_if(|request| request.edge_type == edge_type) {
                Some(request) => requests.push(request),
                None => break,
            }
        }
        requests.sort_unstable_by_key(|request| request.node);
        Some(self.groups.insert(Group { edge_type, requests, missing: 0, tries: 0 }))
    }

    /// Finds the lists of a group, or puts it off until what that needs has been read.
    fn look_up(&mut self, index: usize) -> Result<(), ReadError> {
        let Some(group) = self.groups.get_mut(index) else { return Ok(()) };
        group.tries += 1;
        let tries = group.tries;
        match self.plan(index, tries <= TRIES_MAX) {
            Ok(plan) => self.start(index, plan),
            Err(ReadError::NotYet) => {
                let absent = self.hasty.take_absent();
                if let Some(group) = self.groups.get_mut(index) {
                    group.missing = absent.len();
                }
                if absent.is_empty() {
                    self.runnable.push(index);
                }
                for Absent { segment, place, run } in absent {
                    self.read(segment, place, run, User::Group(index));
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Hands out what is at hand of a group, and has the rest read.
    fn start(&mut self, index: usize, mut plan: Plan) -> Result<(), ReadError> {
        let Some(group) = self.groups.remove(index) else { return Ok(()) };
        let snapshot = self.snapshot;
        let (_, topo, _) = snapshot.version.topology(group.edge_type)?;
        let span = topo.blocks_per_page();
        let request = |wanted: &Wanted| group.requests.get(wanted.place).copied();
        let without = plan.lists.without_page().iter().filter_map(request);
        self.take_empty(&without.collect::<Vec<_>>())?;
        let mut held = Vec::new();
        for hit in &plan.lists.short_hits {
            let page = hit.record.page;
            let wanted = &plan.lists.short[hit.keys.clone()];
            let requests: Vec<ListRequest> = wanted.iter().filter_map(request).collect();
            let run = plan.run(page.saturating_mul(span), span as usize);
            if self.at_hand(topo, page.saturating_mul(span), run, &mut held)? {
                self.take_short(page, &requests, &held)?;
            } else {
                self.read(topo.id, Place::Data, run.to_vec(), User::Short(page, requests));
            }
        }
        for (mut list, entries) in std::mem::take(&mut plan.long) {
            let mut reads = Vec::new();
            for entries in entries.chunk_by(|a, b| a.block == b.block) {
                let block = entries[0].block;
                let run = plan.run(block, 1);
                if self.at_hand(topo, block, run, &mut held)? {
                    list.take(topo, entries, &held)?;
                } else {
                    reads.push((run.to_vec(), entries.to_vec()));
                }
            }
            if reads.is_empty() {
                self.take_long(list)?;
                continue;
            }
            list.missing = reads.len();
            let list = self.long.insert(list);
            for (run, entries) in reads {
                self.read(topo.id, Place::Data, run, User::Long(list, entries));
            }
        }
        Ok(())
    }

    /// Copies logical blocks from `first` on to `held` if they are in memory.
    fn at_hand(
        &self,
        topo: &Segment,
        first: u64,
        run: &[Located],
        held: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let span = topo.blocks_per_page();
        let Some(page) = topo.changed_page(first / span)? else {
            // The index may name a page that no file can have.
            if run.is_empty() {
                return Err(topo.nowhere(first / span));
            }
            return Ok(self.patient.copy_cached(topo, run, held));
        };
        let from = (first % span) as usize * BLOCK_BYTES;
        held.clear();
        held.extend_from_slice(&page.bytes()[from..]);
        Ok(true)
    }

    /// Reads a run for `user`, with others if it is under way.
    fn read(&mut self, segment: u32, place: Place, run: Vec<Located>, user: User) {
        let key = (segment, place, run[0].block);
        let known = self.under_way.get(&key).and_then(|index| self.readings.get_mut(*index));
        if let Some(reading) = known {
            return reading.users.push(user);
        }
        let index = self.readings.insert(Reading { segment, place, run, users: vec![user] });
        self.under_way.insert(key, index);
        self.ready.push_back(index);
    }

    fn arrived(
        &mut self,
        op: ReadOp,
        result: Result<&[u8], crate::io::ReadError>,
    ) -> Result<(), ReadError> {
        let Some(reading) = self.readings.remove(op.tag as usize) else { return Ok(()) };
        let Reading { segment, place, run, users } = reading;
        self.under_way.remove(&(segment, place, run[0].block));
        if self.failure.is_some() {
            return Ok(());
        }
        let bytes = result?;
        self.patient.take_read(self.snapshot.version.segment(segment)?, place, &run, bytes)?;
        for user in users {
            match user {
                User::Group(index) => {
                    let Some(group) = self.groups.get_mut(index) else { continue };
                    group.missing -= 1;
                    if group.missing == 0 {
                        self.runnable.push(index);
                    }
                }
                User::Short(page, requests) => self.take_short(page, &requests, bytes)?,
                User::Long(index, entries) => {
                    let Some(list) = self.long.get_mut(index) else { continue };
                    list.take(self.snapshot.version.segment(segment)?, &entries, bytes)?;
                    list.missing -= 1;
                    if list.missing == 0
                        && let Some(list) = self.long.remove(index)
                    {
                        self.take_long(list)?;
                    }
                }
            }
        }
        Ok(())
    }
}
