//! Snapshots that are kept for a while, to be read though newer ones have come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ng_rpc::{Code, Problem};
use ng_store::Snapshot;

/// How long a snapshot is kept unless asked otherwise, and at most.
pub const PIN_SECONDS: u32 = 300;
const PIN_SECONDS_MAX: u32 = 3600;
/// Snapshots of a graph that are kept at a time.
const PINS_MAX: usize = 16;
/// Requests that pin one snapshot.
const HOLDERS_MAX: u32 = 1024;

struct Pin {
    snapshot: Arc<Snapshot>,
    until: Instant,
    /// Requests that have pinned it and not unpinned it.
    holders: u32,
}

/// The snapshots of a graph that are kept.
#[derive(Default)]
pub struct Pins {
    all: Mutex<BTreeMap<u64, Pin>>,
}

/// How long a snapshot is kept for whoever asks for `seconds`.
///
/// # Errors
/// That is too long.
pub fn seconds_of(seconds: u32) -> Result<u32, Problem> {
    match seconds {
        0 => Ok(PIN_SECONDS),
        1..=PIN_SECONDS_MAX => Ok(seconds),
        _ => {
            let message = format!("{seconds} s is too long for a pin");
            let remedy =
                format!("pin for at most {PIN_SECONDS_MAX} s, and renew the pin before its end");
            Err(Problem::argument("seconds", message).remedy(remedy))
        }
    }
}

impl Pins {
    fn lock(&self, now: Instant) -> MutexGuard<'_, BTreeMap<u64, Pin>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, pin| pin.until > now);
        all
    }

    /// Keeps a snapshot.
    ///
    /// # Errors
    /// There are too many.
    pub fn pin(&self, snapshot: Arc<Snapshot>, now: Instant, seconds: u32) -> Result<(), Problem> {
        let mut all = self.lock(now);
        let (until, commit) = (now + Duration::from_secs(seconds.into()), snapshot.lsn());
        let full = |message: String| {
            Problem::new(Code::ResourceExhausted, "TOO_MANY_PINS", message)
                .remedy("unpin a snapshot, or wait until one expires")
        };
        if let Some(pin) = all.get_mut(&commit) {
            if pin.holders >= HOLDERS_MAX {
                return Err(full(format!(
                    "commit {commit} is pinned {HOLDERS_MAX} times, which is the limit"
                )));
            }
            pin.until = pin.until.max(until);
            pin.holders += 1;
            return Ok(());
        }
        if all.len() >= PINS_MAX {
            return Err(full(format!(
                "{PINS_MAX} snapshots of this graph are pinned, which is the limit"
            )));
        }
        all.insert(commit, Pin { snapshot, until, holders: 1 });
        Ok(())
    }

    /// Lets go of a snapshot, once for each time that it was pinned.
    ///
    /// # Errors
    /// It is not pinned.
    pub fn unpin(&self, commit: u64, now: Instant) -> Result<(), Problem> {
        let mut all = self.lock(now);
        let message = || format!("commit {commit} is not pinned, or its pin has expired");
        let pin = all.get_mut(&commit);
        let pin =
            pin.ok_or_else(|| Problem::missing("SNAPSHOT_NOT_PINNED", message()).at("commit"))?;
        pin.holders -= 1;
        if pin.holders == 0 {
            all.remove(&commit);
        }
        Ok(())
    }

    /// A snapshot that is kept.
    pub fn find(&self, commit: u64, now: Instant) -> Option<Arc<Snapshot>> {
        self.lock(now).get(&commit).map(|pin| Arc::clone(&pin.snapshot))
    }

    /// The commits that are kept; those whose time is over are let go.
    pub fn commits(&self, now: Instant) -> Vec<u64> {
        self.lock(now).keys().copied().collect()
    }
}
