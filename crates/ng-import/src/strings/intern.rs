//! Names to provisional ids.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use ng_types::NODE_ID_BOUND;

use super::spool::{Spool, SpoolReader};
use crate::ImportError;

/// What an entry of the table takes besides its name, about.
const ENTRY_BYTES: usize = 80;

/// The names of one node type, while edges come in.
#[derive(Debug)]
pub(crate) struct StringTable {
    names: HashMap<Box<[u8]>, u64>,
    names_bytes: usize,
    bytes_max: usize,
    next: u64,
    spool: Spool,
    runs: Vec<Range<u64>>,
    /// The names that were given beforehand, one after the other, and how many.
    keys: Option<(Spool, u64)>,
}

impl StringTable {
    pub(crate) fn create(directory: &Path, bytes_max: usize) -> Result<Self, ImportError> {
        Ok(Self {
            names: HashMap::new(),
            names_bytes: 0,
            bytes_max,
            next: 0,
            spool: Spool::create(directory)?,
            runs: Vec::new(),
            keys: None,
        })
    }

    /// The provisional id of a name.
    pub(crate) fn intern(&mut self, name: &[u8]) -> Result<u64, ImportError> {
        if let Some(id) = self.names.get(name) {
            return Ok(*id);
        }
        self.insert(name)
    }

    /// Takes the name of the next node where nodes are numbered by their keys; edges come later.
    pub(crate) fn push_key(&mut self, directory: &Path, name: &[u8]) -> Result<(), ImportError> {
        let (spool, count) = match &mut self.keys {
            Some(keys) => keys,
            none => none.insert((Spool::create(directory)?, 0)),
        };
        if *count != self.next {
            return Err(ImportError::spec("keys of nodes must be pushed before edges"));
        }
        if let Some(row) = self.names.get(name) {
            return Err(key_twice(name, *row, *count));
        }
        spool.write(&(name.len() as u32).to_le_bytes())?;
        spool.write(name)?;
        *count += 1;
        self.insert(name).map(drop)
    }

    /// How many names were given beforehand.
    pub(crate) fn num_keys(&self) -> u64 {
        self.keys.as_ref().map_or(0, |(_, count)| *count)
    }

    fn insert(&mut self, name: &[u8]) -> Result<u64, ImportError> {
        if self.names_bytes + name.len() + ENTRY_BYTES > self.bytes_max {
            self.write_run()?;
        }
        if self.next >= NODE_ID_BOUND {
            return Err(ImportError::spec("the input has more than 2^40 string ids"));
        }
        let id = self.next;
        self.next += 1;
        self.names_bytes += name.len() + ENTRY_BYTES;
        self.names.insert(name.into(), id);
        Ok(id)
    }

    /// Ends the input.
    pub(super) fn finish(mut self) -> Result<Runs, ImportError> {
        self.write_run()?;
        self.spool.flush()?;
        if let Some((spool, _)) = &mut self.keys {
            spool.flush()?;
        }
        let (spool, runs, keys) = (self.spool, self.runs, self.keys);
        Ok(Runs { spool, runs, provisional: self.next, keys })
    }

    fn write_run(&mut self) -> Result<(), ImportError> {
        let mut sorted: Vec<(Box<[u8]>, u64)> =
            std::mem::take(&mut self.names).into_iter().collect();
        self.names_bytes = 0;
        if sorted.is_empty() {
            return Ok(());
        }
        sorted.sort_unstable();
        let start = self.spool.position();
        for (name, id) in sorted {
            self.spool.write(&(name.len() as u32).to_le_bytes())?;
            self.spool.write(&name)?;
            self.spool.write(&id.to_le_bytes())?;
        }
        self.runs.push(start..self.spool.position());
        Ok(())
    }
}

/// Sorted runs of (name, provisional id).
pub(super) struct Runs {
    spool: Spool,
    runs: Vec<Range<u64>>,
    /// How many provisional ids there are.
    pub(super) provisional: u64,
    keys: Option<(Spool, u64)>,
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// How many names were given beforehand, if there is a table of them.
    pub(super) fn num_keys(&self) -> Option<u64> {
        self.keys.as_ref().map(|(_, count)| *count)
    }

    /// The names that were given beforehand, in that order.
    pub(super) fn for_each_key(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let Some((spool, count)) = &self.keys else { return Ok(()) };
        let mut reader = spool.reader(0..spool.position(), 256 << 10);
        let mut name = Vec::new();
        for _ in 0..*count {
            let mut len = [0; 4];
            let whole = reader.read(&mut len)?;
            name.resize(u32::from_le_bytes(len) as usize, 0);
            if !(whole && reader.read(&mut name)?) {
                return Err(ImportError::spec("temporary data ends too early"));
            }
            take(&name)?;
        }
        Ok(())
    }

    pub(super) fn readers(&self, bytes: usize) -> impl Iterator<Item = SpoolReader<'_>> {
        let each = (bytes / self.runs.len().max(1)).clamp(4 << 10, 256 << 10);
        self.runs.iter().map(move |run| self.spool.reader(run.clone(), each))
    }
}

/// The error of a key that two rows have.
pub(super) fn key_twice(name: &[u8], first: u64, second: u64) -> ImportError {
    let name = String::from_utf8_lossy(name);
    ImportError::spec(format!("rows {first} and {second} of the nodes have the same key {name:?}"))
}

/// Reads the next entry of a run into `name`; gives its provisional id.
pub(super) fn next_entry(
    reader: &mut SpoolReader<'_>,
    name: &mut Vec<u8>,
) -> Result<Option<u64>, ImportError> {
    let mut len = [0; 4];
    if !reader.read(&mut len)? {
        return Ok(None);
    }
    name.resize(u32::from_le_bytes(len) as usize, 0);
    let mut id = [0; 8];
    let whole = reader.read(name)? && reader.read(&mut id)?;
    if !whole {
        return Err(ImportError::spec("temporary data ends too early"));
    }
    Ok(Some(u64::from_le_bytes(id)))
}
