//! [`FaultDisk`]: any disk, made to misbehave by a seeded plan.
//!
//! It shuffles reads before they reach the disk and spoils answers on their way back, so what the
//! engine sees is what `docs/explanation/crash-model.md` says that real devices may do. What must
//! not live here: repair of any kind.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_io::{Access, BLOCK_BYTES, Disk, FileId, Lock, NextRead, ReadDone, ReadOp};

use crate::fault::{Fault, FaultCounts, FaultPlan};
use crate::random::Random;

/// A disk that misbehaves.
///
/// ```
/// use std::sync::Arc;
/// use ng_io::Reader;
/// use ng_testing::{FaultDisk, FaultPlan, MemDisk, Odds};
///
/// let inner = MemDisk::new();
/// inner.put("a.dat", vec![7; 65536]);
/// let plan = FaultPlan::new(1).with_odds(Odds::passing(200));
/// let disk = Arc::new(FaultDisk::new(Arc::new(inner), plan));
/// let reader = Reader::new(disk.clone());
/// let file = reader.open("a.dat")?;
/// assert_eq!(reader.read_at(file, 0, 65536)?, vec![7; 65536]);
/// assert!(disk.counts().operations >= 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FaultDisk {
    inner: Arc<dyn Disk>,
    state: Mutex<State>,
}

struct State {
    plan: FaultPlan,
    random: Random,
    counts: FaultCounts,
}

impl FaultDisk {
    /// `inner` as `plan` spoils it.
    pub fn new(inner: Arc<dyn Disk>, plan: FaultPlan) -> Self {
        let random = Random::new(plan.seed);
        let counts = FaultCounts::default();
        Self { inner, state: Mutex::new(State { plan, random, counts }) }
    }

    /// What happened so far.
    pub fn counts(&self) -> FaultCounts {
        self.lock().counts.clone()
    }

    /// Another plan from here on; operations are numbered from 0 again.
    pub fn replan(&self, plan: FaultPlan) {
        let random = Random::new(plan.seed);
        *self.lock() = State { plan, random, counts: FaultCounts::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation and says what strikes it, with a random number to shape that.
    fn strike(&self, applies: impl Fn(Fault) -> bool, is_read: bool) -> Option<(Fault, u64)> {
        let state = &mut *self.lock();
        let index = state.counts.operations;
        state.counts.operations += 1;
        state.counts.reads += u64::from(is_read);
        let drawn = state.random.below(1000);
        let shape = state.random.next_u64();
        let fault = state.plan.planned(index).or_else(|| state.plan.odds.pick(drawn));
        let fault = fault.filter(|fault| applies(*fault))?;
        *state.counts.struck.entry(fault).or_default() += 1;
        Some((fault, shape))
    }

    /// The error of an operation that moves no bytes, if one strikes it.
    fn strike_plain(&self) -> io::Result<()> {
        let applies = |fault| {
            matches!(fault, Fault::Interrupted | Fault::TryAgain | Fault::Error | Fault::Full)
        };
        match self.strike(applies, false) {
            Some((fault, _)) => Err(error_of(fault)),
            None => Ok(()),
        }
    }

    fn spoil(&self, op: ReadOp, answer: io::Result<&[u8]>, done: &mut ReadDone<'_>) {
        let Some((fault, shape)) = self.strike(|fault| fault != Fault::Full, true) else {
            return done(op, answer);
        };
        match (fault, answer) {
            (Fault::Short, Ok(bytes)) => done(op, Ok(&bytes[..shorter(bytes.len(), shape)])),
            (Fault::Nothing, Ok(_)) => done(op, Ok(&[])),
            (Fault::Flip, Ok(bytes)) if !bytes.is_empty() => {
                let mut bytes = bytes.to_vec();
                let bit = shape % (bytes.len() as u64 * 8);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                done(op, Ok(&bytes));
            }
            (Fault::Misdirected, Ok(_)) => self.misdirect(op, shape, done),
            (Fault::Interrupted | Fault::TryAgain | Fault::Error, _) => {
                done(op, Err(error_of(fault)));
            }
            (_, answer) => done(op, answer),
        }
    }

    /// Answers with what lies at some other block of the file.
    fn misdirect(&self, op: ReadOp, shape: u64, done: &mut ReadDone<'_>) {
        let block = BLOCK_BYTES as u64;
        let blocks = self.inner.len(op.file).unwrap_or(0) / block;
        let room = blocks.saturating_sub(u64::from(op.len) / block) + 1;
        let mut elsewhere = Some(ReadOp { offset: shape % room * block, ..op });
        let result = self.inner.read(&mut || elsewhere.take(), &mut |_, answer| done(op, answer));
        if let Err(error) = result {
            done(op, Err(error));
        }
    }
}

/// A length below `len`; every other time it is one of whole blocks.
fn shorter(len: usize, shape: u64) -> usize {
    let cut = (shape >> 1) as usize % len.max(1);
    if shape & 1 == 0 { cut / BLOCK_BYTES * BLOCK_BYTES } else { cut }
}

fn error_of(fault: Fault) -> io::Error {
    let number = match fault {
        Fault::Interrupted => 4,
        Fault::TryAgain => 11,
        Fault::Full => 28,
        _ => 5,
    };
    io::Error::from_raw_os_error(number)
}

impl Disk for FaultDisk {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        self.strike_plain()?;
        self.inner.open(name, access)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.inner.len(file)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        let window = self.lock().plan.window.max(1);
        let mut held = Vec::with_capacity(window);
        let mut shuffled = || {
            while held.len() < window {
                match next() {
                    Some(op) => held.push(op),
                    None => break,
                }
            }
            let count = held.len() as u64;
            let chosen = self.lock().random.below(count) as usize;
            (count > 0).then(|| held.swap_remove(chosen))
        };
        self.inner.read(&mut shuffled, &mut |op, answer| self.spoil(op, answer, done))
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let applies = |fault| !matches!(fault, Fault::Flip | Fault::Misdirected);
        match self.strike(applies, false) {
            None => self.inner.write(file, offset, bytes),
            Some((Fault::Short, shape)) => {
                let len = shorter(bytes.len(), shape).max(1).min(bytes.len());
                self.inner.write(file, offset, &bytes[..len])
            }
            Some((Fault::Nothing, _)) => Ok(0),
            Some((fault, _)) => Err(error_of(fault)),
        }
    }

    fn allocate(&self, file: FileId, len: u64) -> io::Result<()> {
        self.strike_plain()?;
        self.inner.allocate(file, len)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.strike_plain()?;
        self.inner.sync(file)
    }

    fn leave_cache(&self, file: FileId, end: u64) {
        self.inner.leave_cache(file, end);
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.strike_plain()?;
        self.inner.sync_dir()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.strike_plain()?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.strike_plain()?;
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn hold_off_writer(&self) -> io::Result<Option<Lock>> {
        self.strike_plain()?;
        self.inner.hold_off_writer()
    }

    fn lock_writer(&self) -> io::Result<Option<Lock>> {
        self.strike_plain()?;
        self.inner.lock_writer()
    }

    fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>> {
        self.strike_plain()?;
        self.inner.pin(checkpoint_id)
    }

    fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool> {
        self.strike_plain()?;
        self.inner.is_pinned_below(checkpoint_id)
    }
}
