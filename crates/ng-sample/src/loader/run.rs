//! [`Run`]: the batches of one epoch, from what a loader keeps or one by one.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ng_types::{ErrorKind, Explain};

use super::{Kept, Loader, Owner, Pipeline, Seen, State};
use crate::seeds::Place;
use crate::{MiniBatch, Note, Reading, SampleError, Sampler};

/// So often an epoch gets its memory back from others; after that it shares.
const REGAINED_MAX: u32 = 3;

/// A pass may be prepared that nobody makes. Its batches are dropped if there are at most
/// `SKIPPED_MIN`, or at most one in `SKIPPED_PART` of an epoch; otherwise the pipeline is replaced.
const SKIPPED_MIN: u64 = 16;
const SKIPPED_PART: u64 = 4;

/// Batches of an epoch that was left so early say nothing about the next one.
const CUT_MIN: u64 = 4;

/// Batches of one epoch, in order. Dropping it stops what it does not leave for the next epoch.
pub struct Run {
    loader: Arc<Loader>,
    epoch: u64,
    first: u64,
    /// The next one.
    batch: u64,
    /// Batches that came from what is kept.
    made: u64,
    regained: u32,
    /// Bytes of the largest batch.
    largest: u64,
    source: Source,
    note: Option<Note>,
    listens: bool,
}

enum Source {
    /// It is found when the first batch is asked for.
    NotYet,
    Kept(Seat),
    /// Batches are made one by one from here on.
    Each(Option<Pipeline>),
    /// No more batches are taken.
    Over,
}

/// A run's place at what a loader keeps.
struct Seat {
    /// Its own loader, or another that makes its batches beside its own.
    keeper: Arc<Loader>,
    /// What tells the run from others there.
    id: u64,
    /// Which of the keeper's passes it is.
    pass: Option<usize>,
    /// Batches for others that are dropped first.
    skipped: u64,
}

/// What came of asking for a batch.
type Found = Option<Result<MiniBatch, SampleError>>;

impl Run {
    pub(super) fn new(loader: Arc<Loader>, epoch: u64, first: u64) -> Self {
        Self {
            loader,
            epoch,
            first,
            batch: first,
            made: 0,
            regained: 0,
            largest: 0,
            source: Source::NotYet,
            note: None,
            listens: false,
        }
    }

    /// What is sampled.
    pub fn sampler(&self) -> &Sampler {
        self.loader.sampler()
    }

    /// Notes will be taken while batches are waited for: what is decided to write to disk begins
    /// once it was heard, or after a while.
    pub fn listen(&mut self) {
        self.listens = true;
    }

    /// What the user of the loader should hear, once.
    pub fn take_note(&mut self) -> Option<Note> {
        self.note.take().or_else(|| {
            let Source::Kept(seat) = &self.source else { return None };
            let state = seat.keeper.lock();
            let is_owner = state.owner == Owner::Run(seat.id);
            state.kept.as_ref().filter(|_| is_owner)?.pipeline.take_note()
        })
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` on a
    /// timeout, so that a caller can handle signals and try again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Found, ()> {
        if self.batch >= self.loader.origin.plan.steps() {
            self.release();
            return Ok(None);
        }
        if let Source::NotYet = self.source {
            self.loader.passes().begin();
            self.source = self.find_source();
        }
        let found = loop {
            let found = match &mut self.source {
                Source::Kept(_) => self.next_kept(timeout)?,
                Source::Each(_) => self.next_of_each(timeout)?,
                Source::NotYet | Source::Over => return Ok(None),
            };
            // Else others have to be asked once more, or it goes on in another way.
            if let Some(found) = found {
                break found;
            }
        };
        match &found {
            Ok(batch) => {
                self.batch += 1;
                self.largest = self.largest.max(batch.num_bytes());
            }
            Err(_) => self.release(),
        }
        Ok(Some(found))
    }

    /// The batch that comes next, at a loader where it is part of this pass.
    fn place(&self, pass: Option<usize>) -> Place {
        Place { pass, epoch: self.epoch, batch: self.batch }
    }

    /// Who makes the batches.
    fn find_source(&self) -> Source {
        let tenants = self.sampler().snapshot().tenants();
        let others = tenants.owners::<Loader>(&self.loader.tenant);
        if let Some(seat) = others.into_iter().find_map(|other| self.seat_at(other)) {
            let chosen = seat.keeper.chosen();
            self.loader.lock().last = chosen;
            return Source::Kept(seat);
        }
        if self.loader.keeps_memory && !self.loader.lock().gave_up {
            self.own_seat()
        } else {
            Source::Each(None)
        }
    }

    /// A seat at another loader that has prepared this very pass.
    fn seat_at(&self, keeper: Arc<Loader>) -> Option<Seat> {
        let mut state = keeper.state.try_lock().ok()?;
        let State { kept: Some(kept), owner: Owner::Nobody, .. } = &*state else { return None };
        let is_own = |pass: &usize| kept.others[*pass].is_like(&self.loader.origin);
        let place = |pass| Some((pass, kept.find(self.place(Some(pass)), kept.between())?));
        let (pass, skipped) = (0..kept.others.len()).filter(is_own).find_map(place)?;
        let id = own(&keeper, &mut state);
        drop(state);
        Some(Seat { keeper, id, pass: Some(pass), skipped })
    }

    /// Takes over what the loader itself keeps, and the memory that others hold.
    fn own_seat(&self) -> Source {
        let loader = &self.loader;
        let mut state = loader.lock();
        let is_free = state.owner == Owner::Nobody;
        let most = SKIPPED_MIN.max(loader.origin.plan.steps() / SKIPPED_PART);
        let kept = state.kept.as_ref().filter(|_| is_free);
        let skipped = kept.and_then(|kept| kept.find(self.place(None), most));
        if skipped.is_none() {
            state.kept = None;
        }
        let id = own(loader, &mut state);
        drop(state);
        let tenants = loader.sampler().snapshot().tenants();
        tenants.add(&loader.tenant);
        tenants.make_room(Some(&loader.tenant));
        let (keeper, skipped) = (Arc::clone(loader), skipped.unwrap_or(0));
        Source::Kept(Seat { keeper, id, pass: None, skipped })
    }

    /// The next batch of what is kept; `None` if it goes on in another way, or has to ask again.
    fn next_kept(&mut self, timeout: Duration) -> Result<Found, ()> {
        let Source::Kept(seat) = &mut self.source else { return Ok(None) };
        let (keeper, pass) = (Arc::clone(&seat.keeper), seat.pass);
        let place = Place { pass, epoch: self.epoch, batch: self.batch };
        let mut state = keeper.lock();
        // Nothing is prepared where the pass was expected to be shorter.
        state.kept = state.kept.take().filter(|kept| kept.place(seat.skipped) == place);
        let is_owner = state.owner == Owner::Run(seat.id);
        if pass.is_some() && (!is_owner || state.kept.is_none()) {
            drop(state);
            self.leave_host();
            return Ok(None);
        }
        if !is_owner {
            self.regained += 1;
            if self.regained > REGAINED_MAX || !self.regain(&mut state) {
                return Ok(self.leave(state));
            }
        }
        self.take(&keeper, state, timeout)
    }

    /// A batch of what a loader keeps, which is begun if need be.
    fn take(
        &mut self,
        keeper: &Loader,
        mut state: MutexGuard<'_, State>,
        timeout: Duration,
    ) -> Result<Found, ()> {
        let Source::Kept(seat) = &mut self.source else { return Ok(None) };
        let State { kept, is_busy, .. } = &mut *state;
        let begun = match kept {
            Some(kept) => Ok(kept),
            none => {
                seat.skipped = 0;
                keeper.start((self.epoch, self.batch)).map(|kept| none.insert(kept))
            }
        };
        let found = match begun {
            Err(error) => Some(Err(error)),
            Ok(Kept { pipeline, next, .. }) => {
                *is_busy = true;
                if self.listens {
                    pipeline.listen();
                }
                let found = pipeline.next_within(timeout)?;
                *next += u64::from(matches!(found, Some(Ok(_))));
                found
            }
        };
        *is_busy = false;
        match found {
            Some(Ok(_)) if seat.skipped > 0 => {
                seat.skipped -= 1;
                Ok(None)
            }
            Some(Ok(batch)) => {
                self.made += 1;
                Ok(Some(Ok(batch)))
            }
            Some(Err(error)) => Ok(self.fail(error, keeper, state)),
            // Somebody closed it.
            None => {
                state.kept = None;
                Ok(None)
            }
        }
    }

    /// What comes of an error: another way, or the end.
    fn fail(
        &mut self,
        error: SampleError,
        keeper: &Loader,
        mut state: MutexGuard<'_, State>,
    ) -> Found {
        state.kept = None;
        let is_guest = !std::ptr::eq(keeper, Arc::as_ptr(&self.loader));
        if is_guest && error.kind() == ErrorKind::BudgetTooSmall {
            // Both together do not fit.
            drop(state);
            keeper.passes().forget();
            self.leave_host();
            return None;
        }
        if !is_guest && self.gives_up(&error, &mut state) {
            self.note_fall_back(error);
            return self.leave(state);
        }
        Some(Err(error))
    }

    /// Goes on with what its own loader keeps.
    fn leave_host(&mut self) {
        if let Source::Kept(seat) = &self.source {
            let host = Arc::clone(&seat.keeper);
            self.give_back(&mut host.lock());
        }
        self.source = if self.loader.keeps_memory { self.own_seat() } else { Source::Each(None) };
    }

    /// Goes on in the midst of an epoch, unless those who took the memory still read.
    fn regain(&mut self, state: &mut State) -> bool {
        let tenants = self.loader.sampler().snapshot().tenants();
        if state.owner != Owner::Nobody || tenants.make_readers_share(&self.loader.tenant) {
            return false;
        }
        tenants.make_room(Some(&self.loader.tenant));
        state.kept = None;
        let id = own(&self.loader, state);
        if let Source::Kept(seat) = &mut self.source {
            (seat.id, seat.skipped) = (id, 0);
        }
        true
    }

    /// Whether an error is no reason to end: memory is too small and no way of reading was asked
    /// for, or compiled epochs are damaged that nobody insists on.
    fn gives_up(&self, error: &SampleError, state: &mut State) -> bool {
        if self.regained > 0 && error.kind() == ErrorKind::BudgetTooSmall {
            return true;
        }
        state.gave_up = match &self.loader.compiled {
            Some((_, insists)) => !insists && error.kind() == ErrorKind::StoreDamaged,
            None => {
                let settings = &self.loader.settings;
                let is_asked = settings.reading != Reading::Auto || settings.ask_to_look_ahead();
                self.made == 0 && !is_asked && error.kind() == ErrorKind::BudgetTooSmall
            }
        };
        state.gave_up
    }

    /// Notes why batches are made one by one from now on, unless it is to share memory.
    fn note_fall_back(&mut self, error: SampleError) {
        let is_replay = self.loader.compiled.is_some();
        self.note = match error.kind() {
            ErrorKind::StoreDamaged if is_replay => Some(Note::NotReplayed(error)),
            _ if self.regained == 0 => Some(Note::NotAhead(error)),
            _ => None,
        };
    }

    /// Leaves what is kept to others.
    fn leave(&mut self, mut state: MutexGuard<'_, State>) -> Found {
        self.give_back(&mut state);
        state.last = None;
        self.source = Source::Each(None);
        None
    }

    /// The next batch that is made by itself; `None` where memory was too small and others gave
    /// theirs back.
    fn next_of_each(&mut self, timeout: Duration) -> Result<Found, ()> {
        let loader = Arc::clone(&self.loader);
        let Source::Each(each) = &mut self.source else { return Ok(None) };
        let pipeline = match each {
            Some(pipeline) => pipeline,
            none => match loader.start_each((loader.epoch_of(self.epoch), self.batch)) {
                Ok(pipeline) => none.insert(pipeline),
                Err(error) => return Ok(Some(Err(error))),
            },
        };
        match pipeline.next_within(timeout)? {
            Some(Err(error))
                if error.kind() == ErrorKind::BudgetTooSmall
                    && loader.sampler().snapshot().tenants().make_room(None) =>
            {
                self.source = Source::Each(None);
                Ok(None)
            }
            Some(found) => Ok(Some(found)),
            None => Ok(Some(Err(SampleError::ThreadLost))),
        }
    }

    /// Ends: what comes next is prepared, and others learn of the pass.
    fn release(&mut self) {
        if let Source::Kept(seat) = &self.source {
            let keeper = Arc::clone(&seat.keeper);
            self.give_back(&mut keeper.lock());
        }
        let has_begun = !matches!(self.source, Source::NotYet | Source::Over);
        self.source = Source::Over;
        if !has_begun || self.first > 0 || self.batch == 0 {
            return;
        }
        let loader = &self.loader;
        let is_cut = self.batch < loader.origin.plan.steps() && self.batch >= CUT_MIN;
        loader.passes().end(is_cut.then_some(self.batch), self.largest);
        let (batches, largest) = (self.batch, self.largest);
        let seen = Seen { origin: loader.origin.clone(), epoch: self.epoch, batches, largest };
        let tenants = self.sampler().snapshot().tenants();
        for other in tenants.owners::<Loader>(&loader.tenant) {
            other.passes().note(&seen);
        }
    }

    /// Leaves the seat. The pipeline is kept if it goes on with another pass, else it is dropped.
    fn give_back(&self, state: &mut State) {
        let Source::Kept(Seat { keeper, id, pass, .. }) = &self.source else { return };
        if state.owner != Owner::Run(*id) {
            return;
        }
        state.owner = Owner::Nobody;
        state.is_busy = false;
        keeper.tenant.set_reading(false);
        let goes_on = |kept: &Kept| {
            let goes_on = kept.pipeline.jobs().goes_on;
            goes_on && (pass.is_some() || kept.place(0) != self.place(None))
        };
        if let Some(kept) = state.kept.take_if(|kept| !goes_on(&*kept)) {
            state.last = kept.pipeline.chosen();
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.release();
    }
}

/// Makes a new run the one that takes batches; returns what tells it from others.
fn own(keeper: &Loader, state: &mut State) -> u64 {
    state.runs += 1;
    state.owner = Owner::Run(state.runs);
    state.is_busy = false;
    keeper.tenant.set_reading(true);
    state.runs
}

impl Loader {
    /// Whose seeds and draws an epoch has: its own, or those of the compiled epoch that stands for
    /// it.
    pub fn epoch_of(&self, epoch: u64) -> u64 {
        self.epochs().map_or(epoch, |epochs| epochs.epoch_of(epoch))
    }
}
