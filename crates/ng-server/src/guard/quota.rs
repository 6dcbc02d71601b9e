//! Quotas of a token: requests and seeds in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// What a token may ask of the server in a second; no limit unless given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Requests.
    pub requests: Option<u32>,
    /// Targets of requests for answers.
    pub seeds: Option<u32>,
}

/// How much of its quotas a token has used.
pub struct Quota {
    requests: Option<Bucket>,
    seeds: Option<Bucket>,
}

impl Quota {
    /// All of it is left.
    pub fn new(quotas: Quotas) -> Self {
        let bucket = |rate: Option<u32>| rate.map(Bucket::new);
        Self { requests: bucket(quotas.requests), seeds: bucket(quotas.seeds) }
    }

    /// Takes over what was used of another.
    pub fn go_on_from(&self, before: &Self) {
        for (new, old) in [(&self.requests, &before.requests), (&self.seeds, &before.seeds)] {
            if let (Some(new), Some(old)) = (new, old) {
                let old = *old.lock();
                let mut new = new.lock();
                (new.left, new.at) = (old.left.min(new.rate), old.at);
            }
        }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// When there is room for it again.
    pub fn take_request(&self) -> Result<(), Duration> {
        self.requests.as_ref().map_or(Ok(()), |bucket| bucket.take(1, Instant::now()))
    }

    /// Takes seeds. A request of more than a second's seeds is taken when all are left, and those
    /// after it wait for longer.
    ///
    /// # Errors
    /// When there is room for them again.
    pub fn take_seeds(&self, seeds: u64) -> Result<(), Duration> {
        self.seeds.as_ref().map_or(Ok(()), |bucket| bucket.take(seeds, Instant::now()))
    }
}

/// A bucket that holds what may be taken in a second.
struct Bucket(Mutex<Level>);

#[derive(Clone, Copy)]
struct Level {
    rate: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: u32) -> Self {
        let rate = f64::from(rate);
        Self(Mutex::new(Level { rate, left: rate, at: Instant::now() }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Level> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, amount: u64, now: Instant) -> Result<(), Duration> {
        let mut level = self.lock();
        let passed = now.saturating_duration_since(level.at).as_secs_f64();
        level.left = (level.left + passed * level.rate).min(level.rate);
        level.at = now.max(level.at);
        let needed = (amount as f64).min(level.rate);
        if level.left < needed {
            return Err(Duration::from_secs_f64((needed - level.left) / level.rate));
        }
        level.left -= amount as f64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gives_what_the_quota_says() {
        let (bucket, start) = (Bucket::new(10), Instant::now());
        let taken = (0..25).filter(|_| bucket.take(1, start).is_ok()).count();
        assert_eq!(taken, 10);
        let wait = bucket.take(1, start).expect_err("empty");
        assert!(wait <= Duration::from_millis(100), "{wait:?}");
        assert!(bucket.take(1, start + wait).is_ok());
        let later = start + Duration::from_secs(60);
        let taken = (0..25).filter(|_| bucket.take(1, later).is_ok()).count();
        assert_eq!(taken, 10, "what was not used does not add up");
    }

    #[test]
    fn a_large_request_is_paid_for_by_those_after_it() {
        let (bucket, start) = (Bucket::new(10), Instant::now());
        assert!(bucket.take(35, start).is_ok());
        let wait = bucket.take(1, start).expect_err("overdrawn");
        assert!(wait > Duration::from_secs(2), "{wait:?}");
        assert!(bucket.take(1, start + wait).is_ok());
    }

    #[test]
    fn a_reload_does_not_give_the_quota_anew() {
        let quotas = Quotas { requests: Some(2), seeds: None };
        let (old, new) = (Quota::new(quotas), Quota::new(quotas));
        assert!(old.take_request().is_ok() && old.take_request().is_ok());
        new.go_on_from(&old);
        assert!(new.take_request().is_err());
    }
}
