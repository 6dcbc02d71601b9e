//! Writing a dictionary in one pass over names by id and one pass over keys in byte order.

use std::sync::Arc;

use ng_types::{NODE_ID_BOUND, NodeId};

use crate::build::spec::Part;
use crate::catalog::{DictionaryMeta, TreeRoot};
use crate::dictionary::page::StringPageBuilder;
use crate::error::BuildError;
use crate::io::{BLOCK_BYTES, Disk};
use crate::limits::STRING_BYTES_MAX;
use crate::page::{FinishedSegment, SegmentWriter};
use crate::tree::{Record, TreeKind, TreeWriter};

/// Writes the string ids of one node type.
///
/// Independent of its builder, so it may run on another thread.
pub struct DictionaryWriter {
    node_type: u16,
    names: SegmentWriter,
    names_index: SegmentWriter,
    keys: SegmentWriter,
    name_page: StringPageBuilder,
    tree: TreeWriter,
    levels: Vec<KeyLevel>,
    meta: DictionaryMeta,
    num_names: u64,
    num_keys: u64,
    last_key: Option<Vec<u8>>,
}

struct KeyLevel {
    page: StringPageBuilder,
    last_key: Vec<u8>,
}

/// A finished dictionary, to be given to [`crate::StoreBuilder::add`].
#[derive(Debug)]
pub struct DictionaryPart {
    pub(crate) node_type: u16,
    pub(crate) meta: DictionaryMeta,
    pub(crate) num_names: u64,
    pub(crate) segments: [FinishedSegment; 3],
}

impl DictionaryWriter {
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        node_type: u16,
        segments: [u32; 3],
    ) -> Result<Self, BuildError> {
        let [names, names_index, keys] = segments;
        let segment = |id, what: &str| {
            let name = format!("n{node_type}.{what}");
            SegmentWriter::create(disk, id, &name, BLOCK_BYTES as u32)
        };
        Ok(Self {
            node_type,
            names: segment(names, "names")?,
            names_index: segment(names_index, "index")?,
            keys: segment(keys, "keys")?,
            name_page: StringPageBuilder::new(names, 0),
            tree: TreeWriter::new(TreeKind::Names),
            levels: Vec::new(),
            meta: DictionaryMeta { names, names_root: None, names_index, keys, keys_root: None },
            num_names: 0,
            num_keys: 0,
            last_key: None,
        })
    }

    /// The name of the next node id, from 0 up.
    ///
    /// # Errors
    /// [`BuildError::Invalid`] for more than [`crate::STRING_BYTES_MAX`] bytes,
    /// [`BuildError::Write`].
    pub fn push_name(&mut self, name: &str) -> Result<(), BuildError> {
        check_length(name)?;
        if !self.name_page.fits(name.as_bytes()) {
            self.close_name_page()?;
        }
        self.name_page.add(self.num_names, name.as_bytes());
        self.num_names += 1;
        Ok(())
    }

    fn close_name_page(&mut self) -> Result<(), BuildError> {
        if self.name_page.is_empty() {
            return Ok(());
        }
        let page = self.names.push_page(&self.name_page.take())?;
        let record = Record { key: self.num_names - 1, page, extra: 0 };
        self.tree.push(&mut self.names_index, record)
    }

    /// The next key in strictly ascending byte order, with its node id.
    ///
    /// # Errors
    /// [`BuildError::OutOfOrder`] if it is not above the key before it, [`BuildError::Invalid`] for
    /// more than [`crate::STRING_BYTES_MAX`] bytes, [`BuildError::Write`].
    pub fn push_key(&mut self, key: &str, id: NodeId) -> Result<(), BuildError> {
        check_length(key)?;
        if id >= NODE_ID_BOUND {
            let owner = "a dictionary".into();
            return Err(BuildError::IdOutOfRange { kind: "node", id, owner, bound: NODE_ID_BOUND });
        }
        if let Some(last) = self.last_key.as_ref().filter(|last| last.as_slice() >= key.as_bytes())
        {
            return Err(BuildError::OutOfOrder {
                what: format!("key {key:?}"),
                previous: format!("key {:?}", String::from_utf8_lossy(last)),
            });
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key.as_bytes());
        self.num_keys += 1;
        self.push_at(0, id, key.as_bytes())
    }

    fn push_at(&mut self, level: usize, value: u64, key: &[u8]) -> Result<(), BuildError> {
        if self.levels.get(level).is_some_and(|l| !l.page.fits(key)) {
            self.flush(level)?;
        }
        if level == self.levels.len() {
            let page = StringPageBuilder::new(self.meta.keys, level as u8);
            self.levels.push(KeyLevel { page, last_key: Vec::new() });
        }
        if let Some(target) = self.levels.get_mut(level) {
            target.page.add(value, key);
            target.last_key.clear();
            target.last_key.extend_from_slice(key);
        }
        Ok(())
    }

    fn flush(&mut self, level: usize) -> Result<(), BuildError> {
        let Some(source) = self.levels.get_mut(level) else {
            return Ok(());
        };
        let (block, key) = (source.page.take(), std::mem::take(&mut source.last_key));
        let page = self.keys.push_page(&block)?;
        self.push_at(level + 1, page, &key)
    }

    /// Writes what is left and makes it durable.
    ///
    /// # Errors
    /// [`BuildError::RowCount`] if there are not as many keys as names, [`BuildError::Write`].
    pub fn finish(mut self) -> Result<Part, BuildError> {
        if self.num_keys != self.num_names {
            let what = format!("keys of the dictionary of node type {}", self.node_type);
            let (expected, found) = (self.num_names, self.num_keys);
            return Err(BuildError::RowCount { what, expected, found });
        }
        self.close_name_page()?;
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.flush(level)?;
            level += 1;
        }
        if let Some(top) = self.levels.get_mut(level) {
            let page = self.keys.push_page(&top.page.take())?;
            self.meta.keys_root = Some(TreeRoot { page, level: level as u8 });
        }
        self.meta.names_root = self.tree.finish(&mut self.names_index)?;
        let segments = [self.names.finish()?, self.names_index.finish()?, self.keys.finish()?];
        let (node_type, num_names) = (self.node_type, self.num_names);
        Ok(Part::Dictionary(DictionaryPart { node_type, meta: self.meta, num_names, segments }))
    }
}

fn check_length(text: &str) -> Result<(), BuildError> {
    if text.len() <= STRING_BYTES_MAX {
        return Ok(());
    }
    let start: String = text.chars().take(40).collect();
    let len = text.len();
    let what = format!("string id {start:?}... has {len} bytes, more than {STRING_BYTES_MAX}");
    Err(BuildError::invalid(what))
}
