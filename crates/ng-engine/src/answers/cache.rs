//! [`EmbeddingCache`]: answers that are handed out again as long as they are right.
//!
//! Each row knows the snapshot that it was computed on (`since`), the last one that it is known to
//! be right for (`right_to`), and the nodes that it was made of. What commits changed is noted for
//! each model. A row that is asked for at a later commit is right there, too, if nothing that it
//! was made of changed since. So a commit costs what it changed and not what is kept, and nothing
//! depends on who comes first: an answer that was computed before a commit and is put here after
//! its changes is looked at like all others, and one for a snapshot whose changes have not come yet
//! is not handed out for it.
//!
//! What must not live here: how answers are made, and what commits change. Locks are taken in this
//! order: the turn of a model, a shard, the notes of a model.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ng_types::{NodeId, NodeTypeId, Reservation};

use crate::answers::changed::{ChangedNodes, WhyAll};
use crate::answers::history::Model;
use crate::answers::reach::Reach;
use crate::answers::shard::{New, Place, Put, Shard};

/// A shard has at least so many bytes, and there are so many of them at most.
const SHARD_BYTES_MIN: u64 = 1 << 20;
const SHARDS_MAX: u64 = 16;

/// A model with everything but seeds that its answers depend on: its weights, output, fanouts and
/// devices. A number is never given to anything else, not even after
/// [`EmbeddingCache::drop_model`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelKey(pub u64);

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// The model.
    pub model: ModelKey,
    /// The type of the node.
    pub node_type: NodeTypeId,
    /// The node.
    pub node: NodeId,
    /// What a request chooses beside the node: the seed of its draws, or a hash of all of it.
    pub parameters: u64,
}

impl AnswerKey {
    fn place(&self) -> Place {
        Place { model: self.model.0, node: self.node, node_type: self.node_type.0 }
    }
}

/// An answer that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The row.
    pub row: Arc<[u8]>,
    /// The newest snapshot, up to the one that was asked for, that it is right for.
    pub lsn: u64,
}

/// What a cache has done, and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheStats {
    /// Answers handed out that are right for the snapshot that was asked for.
    pub hits: u64,
    /// Those that are right for an older one, which the request allowed.
    pub stale_hits: u64,
    /// Requests for what was not here, or not right.
    pub misses: u64,
    /// Answers taken in.
    pub puts: u64,
    /// Answers not taken in: of a model that is not known, too long, or nothing new.
    pub refused_puts: u64,
    /// Answers that made room for others.
    pub evictions: u64,
    /// Changes that were noted.
    pub invalidations: u64,
    /// Answers that were asked for once more, and had been ended by one of them.
    pub ended: u64,
    /// Changes that ended all answers of a model.
    pub invalidations_of_all: u64,
    /// Answers that are held.
    pub answers: u64,
    /// Bytes of them, with what it takes to find them.
    pub bytes: u64,
    /// The most that these may be.
    pub bytes_max: u64,
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    stale_hits: AtomicU64,
    misses: AtomicU64,
    puts: AtomicU64,
    refused_puts: AtomicU64,
    invalidations: AtomicU64,
    ended: AtomicU64,
    invalidations_of_all: AtomicU64,
}

/// A cache of answers. Many threads may use it at once.
#[derive(Debug)]
pub struct EmbeddingCache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    models: RwLock<HashMap<ModelKey, Arc<Model>>>,
    counters: Counters,
    bytes_max: u64,
    _held: Option<Reservation>,
}

impl EmbeddingCache {
    /// A cache of at most `bytes`, what it takes to find answers included. Beside them, each model
    /// has up to 4 MiB of the last changes.
    pub fn new(bytes: u64) -> Self {
        let count = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shards = (0..count).map(|_| Mutex::new(Shard::new(bytes / count))).collect();
        let (hasher, models) = (RandomState::new(), RwLock::default());
        let counters = Counters::default();
        Self { shards, hasher, models, counters, bytes_max: bytes, _held: None }
    }

    /// A cache of the memory that `held` pays for.
    pub fn paid_by(held: Reservation) -> Self {
        let bytes = held.bytes();
        Self { _held: Some(held), ..Self::new(bytes) }
    }

    /// Takes answers of a model from now on. `lsn` is a snapshot that its store has come to: the
    /// changes of all later commits will be brought here.
    pub fn add_model(&self, model: ModelKey, lsn: u64) {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        models.entry(model).or_insert_with(|| Arc::new(Model::new(lsn)));
    }

    /// Forgets a model and its answers. An answer that comes later is not taken in.
    pub fn drop_model(&self, model: ModelKey) {
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let Some(dropped) = models.remove(&model) else { return };
        drop(models);
        dropped.set_dropped();
        // Whoever has found the model before puts its answer before this comes to the shard, or
        // sees that the model is gone.
        for shard in &self.shards {
            lock(shard).drop_model(model.0);
        }
    }

    fn model(&self, model: ModelKey) -> Option<Arc<Model>> {
        self.models.read().unwrap_or_else(PoisonError::into_inner).get(&model).map(Arc::clone)
    }

    fn shard_of(&self, place: &Place) -> usize {
        (self.hasher.hash_one(place) % self.shards.len() as u64) as usize
    }

    /// The answer for the snapshot `lsn`, which may be an older one than the newest. Where there is
    /// none, one for a snapshot at most `lag` commits before it will do.
    pub fn get(&self, key: &AnswerKey, lsn: u64, lag: u64) -> Option<KeptAnswer> {
        let found = self.find(key, lsn, lag);
        self.count(found.as_ref(), lsn);
        found
    }

    /// As [`EmbeddingCache::get`], all of them or none. Nothing is counted where one is missing:
    /// whoever computes them asks for each.
    pub fn get_all(
        &self,
        keys: impl Iterator<Item = AnswerKey>,
        lsn: u64,
        lag: u64,
    ) -> Option<Vec<KeptAnswer>> {
        let found: Vec<_> = keys.map(|key| self.find(&key, lsn, lag)).collect::<Option<_>>()?;
        found.iter().for_each(|kept| self.count(Some(kept), lsn));
        Some(found)
    }

    fn find(&self, key: &AnswerKey, lsn: u64, lag: u64) -> Option<KeptAnswer> {
        let model = self.model(key.model)?;
        let place = key.place();
        let mut shard = lock(&self.shards[self.shard_of(&place)]);
        // In this order: whoever sees how far changes are noted sees them.
        let known_to = model.known_to();
        let slot = shard.get(&place, key.parameters)?;
        if slot.look(known_to, |reach, lsn| model.is_the_same(reach, lsn)) {
            self.counters.ended.fetch_add(1, Ordering::Relaxed);
        }
        let last = slot.right_to.min(lsn);
        let is_right = slot.since <= lsn && lsn - last <= lag;
        is_right.then(|| slot.used(last))
    }

    fn count(&self, found: Option<&KeptAnswer>, lsn: u64) {
        let counter = match found {
            Some(kept) if kept.lsn == lsn => &self.counters.hits,
            Some(_) => &self.counters.stale_hits,
            None => &self.counters.misses,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps what the model gave on the snapshot `lsn`. Without `reach`, the nodes that it was made
    /// of, it ends with the next commit.
    pub fn put(&self, key: &AnswerKey, lsn: u64, row: &[u8], reach: Option<&Reach>) {
        let put = self.model(key.model).map_or(Put::Refused, |model| {
            let place = key.place();
            let hash = self.hasher.hash_one((&place, key.parameters));
            let mut shard = lock(&self.shards[self.shard_of(&place)]);
            match model.is_dropped() {
                true => Put::Refused,
                false => shard.put((place, key.parameters), &New { lsn, row, reach }, hash),
            }
        });
        let counter = match put {
            Put::Refused => &self.counters.refused_puts,
            Put::Taken => &self.counters.puts,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes what the commits after `from` up to `to` changed that answers of a model can be made
    /// of. From then on, the others are handed out for `to`, too. Calls of several threads for a
    /// model come one after the other, in the order of commits; if commits were left out, or nobody
    /// knows what changed, all answers end.
    pub fn note(
        &self,
        model: ModelKey,
        changed: &Result<ChangedNodes, WhyAll>,
        (from, to): (u64, u64),
    ) {
        let Some(known) = self.model(model) else { return };
        let _turn = known.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let known_to = known.known_to();
        if to <= known_to {
            return;
        }
        self.counters.invalidations.fetch_add(1, Ordering::Relaxed);
        let is_noted = match changed {
            Ok(changed) if from <= known_to => known.note(changed, to),
            _ => {
                known.end_all(to);
                false
            }
        };
        self.counters.invalidations_of_all.fetch_add((!is_noted).into(), Ordering::Relaxed);
        known.set_known_to(to);
    }

    /// What was done since it was made, and what it holds.
    pub fn stats(&self) -> CacheStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { hits, stale_hits, misses, puts, .. } = &self.counters;
        let Counters { refused_puts, invalidations, ended, invalidations_of_all, .. } =
            &self.counters;
        let mut stats = CacheStats {
            hits: of(hits),
            stale_hits: of(stale_hits),
            misses: of(misses),
            puts: of(puts),
            refused_puts: of(refused_puts),
            invalidations: of(invalidations),
            ended: of(ended),
            invalidations_of_all: of(invalidations_of_all),
            bytes_max: self.bytes_max,
            ..CacheStats::default()
        };
        for shard in &self.shards {
            let shard = lock(shard);
            stats.answers += shard.len();
            stats.bytes += shard.bytes();
            stats.evictions += shard.evictions;
        }
        stats
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
