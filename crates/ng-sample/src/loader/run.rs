//! [`Run`]: the batches of one epoch, from what the loader keeps or one by one.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ng_types::{ErrorKind, Explain};

use super::{Loader, Owner, Pipeline, State};
use crate::{MiniBatch, Reading, SampleError, Sampler};

/// So often an epoch gets its memory back from others; after that it shares.
const REGAINED_MAX: u32 = 3;

/// Batches of one epoch, in order. Dropping it stops what it does not leave for the next epoch.
pub struct Run {
    loader: Arc<Loader>,
    id: u64,
    epoch: u64,
    /// The next one.
    batch: u64,
    /// Batches that came from what is kept.
    made: u64,
    regained: u32,
    source: Source,
    note: Option<String>,
}

enum Source {
    /// What the loader keeps, when the first batch is asked for.
    NotYet,
    Kept,
    /// Batches are made one by one from here on.
    Each(Option<Pipeline>),
}

/// What came of asking for a batch.
type Found = Option<Result<MiniBatch, SampleError>>;

impl Run {
    pub(super) fn new(loader: Arc<Loader>, id: u64, epoch: u64, batch: u64) -> Self {
        let source = Source::NotYet;
        Self { loader, id, epoch, batch, made: 0, regained: 0, source, note: None }
    }

    /// What is sampled.
    pub fn sampler(&self) -> &Sampler {
        &self.loader.sampler
    }

    /// What the user of the loader should hear, once.
    pub fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// Waits up to `timeout` for the next batch: `Ok(None)` after the last one, `Err(())` if time
    /// ran out, so that a caller can look at signals and come again.
    #[allow(clippy::result_unit_err)]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Found, ()> {
        if self.batch >= self.loader.plan.steps() {
            self.release(true);
            return Ok(None);
        }
        if let Source::NotYet = self.source {
            let is_kept = self.loader.keeps_memory && !self.loader.lock().gave_up;
            self.source = if is_kept { self.begin() } else { Source::Each(None) };
        }
        let found = loop {
            let found = match self.source {
                Source::Each(_) => self.next_of_each(timeout)?,
                _ => self.next_kept(timeout)?,
            };
            // Else others have to be asked once more, or it goes on in another way.
            if let Some(found) = found {
                break found;
            }
        };
        match found {
            Ok(_) => self.batch += 1,
            Err(_) => self.release(false),
        }
        Ok(Some(found))
    }

    /// Takes over what the loader keeps, and the memory that others hold.
    fn begin(&self) -> Source {
        let loader = &self.loader;
        let mut state = loader.lock();
        if state.owner != Owner::Nobody || state.next != Some((self.epoch, self.batch)) {
            state.pipeline = None;
        }
        self.own(&mut state);
        drop(state);
        let tenants = loader.sampler.snapshot().tenants();
        tenants.add(&loader.tenant);
        tenants.make_room(Some(&loader.tenant));
        Source::Kept
    }

    fn own(&self, state: &mut State) {
        state.owner = Owner::Run(self.id);
        state.next = None;
        state.is_busy = false;
        self.loader.tenant.set_reading(true);
    }

    /// The next batch of what is kept; `None` if it goes on one by one.
    fn next_kept(&mut self, timeout: Duration) -> Result<Found, ()> {
        let loader = Arc::clone(&self.loader);
        let mut state = loader.lock();
        if state.owner != Owner::Run(self.id) {
            self.regained += 1;
            if self.regained > REGAINED_MAX || !self.regain(&mut state) {
                return Ok(self.leave(state));
            }
        }
        let State { pipeline, is_busy, .. } = &mut *state;
        let begun = match pipeline {
            Some(pipeline) => Ok(pipeline),
            none => loader.start((self.epoch, self.batch)).map(|pipeline| none.insert(pipeline)),
        };
        let found = match begun {
            Err(error) => Some(Err(error)),
            Ok(pipeline) => {
                *is_busy = true;
                pipeline.next_within(timeout)?
            }
        };
        state.is_busy = false;
        match found {
            Some(Ok(batch)) => {
                self.made += 1;
                Ok(Some(Ok(batch)))
            }
            Some(Err(error)) => match self.gives_up(&error, &mut state) {
                true => Ok(self.leave(state)),
                false => Ok(Some(Err(error))),
            },
            // Somebody closed it.
            None => {
                state.pipeline = None;
                Ok(None)
            }
        }
    }

    /// Goes on in the midst of an epoch, unless those who took the memory still read.
    fn regain(&self, state: &mut State) -> bool {
        let tenants = self.loader.sampler.snapshot().tenants();
        if state.owner != Owner::Nobody || tenants.make_readers_share(&self.loader.tenant) {
            return false;
        }
        tenants.make_room(Some(&self.loader.tenant));
        state.pipeline = None;
        self.own(state);
        true
    }

    /// Whether an error is no reason to end: memory is too small and no way of reading was asked
    /// for, or compiled epochs are damaged that nobody insists on.
    fn gives_up(&mut self, error: &SampleError, state: &mut State) -> bool {
        if self.regained > 0 && error.kind() == ErrorKind::BudgetTooSmall {
            return true;
        }
        state.gave_up = match &self.loader.compiled {
            Some((_, insists)) => {
                let gives_up = !insists && error.kind() == ErrorKind::StoreDamaged;
                self.note = gives_up.then(|| format!("{error}; batches are sampled instead"));
                gives_up
            }
            None => {
                let settings = &self.loader.settings;
                let is_asked = settings.reading != Reading::Auto || settings.ask_to_look_ahead();
                self.made == 0 && !is_asked && error.kind() == ErrorKind::BudgetTooSmall
            }
        };
        state.gave_up
    }

    /// Leaves what is kept to others.
    fn leave(&mut self, mut state: MutexGuard<'_, State>) -> Found {
        self.give_back(&mut state, false);
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
                    && loader.sampler.snapshot().tenants().make_room(None) =>
            {
                self.source = Source::Each(None);
                Ok(None)
            }
            Some(found) => Ok(Some(found)),
            None => Ok(Some(Err(SampleError::ThreadLost))),
        }
    }

    /// Ends: after a whole epoch the next one is prepared.
    fn release(&mut self, is_done: bool) {
        self.source = Source::Each(None);
        let loader = Arc::clone(&self.loader);
        self.give_back(&mut loader.lock(), is_done);
    }

    fn give_back(&self, state: &mut State, is_done: bool) {
        if state.owner != Owner::Run(self.id) {
            return;
        }
        state.owner = Owner::Nobody;
        state.is_busy = false;
        self.loader.tenant.set_reading(false);
        if is_done && self.loader.goes_on {
            state.next = Some((self.epoch + 1, 0));
        } else {
            state.pipeline = None;
            state.next = None;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.release(self.batch >= self.loader.plan.steps());
    }
}

impl Loader {
    /// Whose seeds and draws an epoch has: its own, or those of the compiled epoch that stands for
    /// it.
    pub fn epoch_of(&self, epoch: u64) -> u64 {
        self.epochs().map_or(epoch, |epochs| epochs.epoch_of(epoch))
    }
}
