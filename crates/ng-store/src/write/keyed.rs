//! Transactions with a key: who sends one again, not knowing what has become of it, gets the answer
//! of the first time.
//!
//! What must not live here: where keys are kept (`catalog/keys.rs`). The invariant: a key is
//! durable exactly if its transaction is, since both stand in one record; and no record has a key
//! before a root says that the store has keys, so that an older release sees that it cannot read
//! it.

use std::sync::{Arc, PoisonError};

use ng_types::canary::planted;

use crate::catalog::{Catalog, KeyedCommit};
use crate::store::Store;
use crate::version::base::Version;
use crate::write::error::UpdateError;
use crate::write::log::chain;
use crate::write::transaction::{Transaction, check_key};
use crate::write::writer::Writer;

/// What taking up keys is in the chain of commits.
const TAKEN_UP: &[u8] = b"keys";

/// The result of starting a transaction with a key.
pub enum Begun {
    /// It is new; [`Transaction::keep`] notes the key before it is committed.
    New(Box<Transaction>),
    /// It was committed, and is durable.
    Known(KeyedCommit),
    /// It may have been committed or not: keys up to this commit may have been forgotten.
    Forgotten(u64),
}

impl Store {
    /// Starts a transaction that has a key, unless a transaction with this key was committed. Keys
    /// of thousands of transactions are remembered, whatever happens to the process, the oldest
    /// ones forgotten first. `since` is a commit that there was when somebody first tried to commit
    /// the transaction: with it, a transaction whose key may have been forgotten is told from a new
    /// one.
    ///
    /// The first call on a store is a commit of its own, after which releases that know no keys
    /// cannot read it.
    ///
    /// # Errors
    /// Those of [`Store::write`], and [`UpdateError::Unsupported`] for a key that is empty or too
    /// long.
    pub fn write_keyed(&self, key: &[u8], since: Option<u64>) -> Result<Begun, UpdateError> {
        check_key(key)?;
        let writer = self.writer()?;
        if self.snapshot().catalog().keys.is_none() {
            writer.take_up_keys()?;
        }
        let mut tx = Transaction::begin(Arc::clone(&writer))?;
        let Some(known) = tx.keyed(key)? else {
            let forgotten = tx.forgotten_to()?;
            let may_be_known = since.is_some_and(|since| since < forgotten);
            return Ok(match may_be_known && !planted("forgotten_keys_are_new") {
                true => Begun::Forgotten(forgotten),
                false => Begun::New(Box::new(tx)),
            });
        };
        drop(tx);
        // Its transaction may have been queued a moment ago.
        writer.wait_for(known.lsn)?;
        Ok(Begun::Known(known))
    }
}

impl Writer {
    /// Writes a root that has keys.
    fn take_up_keys(&self) -> Result<(), UpdateError> {
        let files = &mut *self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut head = self.take_durable_head()?;
        if head.version.catalog.keys.is_some() {
            self.give_back(head);
            return Ok(());
        }
        let mut catalog = Catalog::clone(&head.version.catalog);
        catalog.keys = Some(Default::default());
        let lsn = head.version.lsn + 1;
        let fingerprint = chain(head.version.fingerprint, lsn, TAKEN_UP);
        let next = Version { catalog: catalog.into(), lsn, fingerprint, ..head.version.clone() };
        let done = self.publish_as_checkpoint(files, &mut head, next);
        match &done {
            Ok(_) => self.give_back_rebased(head),
            Err(_) => self.give_back(head),
        }
        self.count_checkpoint(files);
        let _ = self.pool.settle(|bytes| self.inner.try_reserve(bytes));
        done.map(drop)
    }
}
