//! Errors, one enum per operation: opening, reading, building.
//!
//! Each message says what is wrong and where. [`Damage`] is the error of a decoder about one
//! structure. The caller, which knows the file and the page, turns it into a [`ReadError`].

use std::borrow::Cow;

use ng_simd::DecodeError;
use ng_types::{BudgetExceeded, explain, format_bytes};
use thiserror::Error;

use crate::io::{ReadError as IoReadError, WriteError};

/// A structure on disk violates the format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}")]
pub struct Damage {
    /// Which field is wrong and how.
    pub what: Cow<'static, str>,
}

impl Damage {
    /// Describes a damage by a fixed or a formatted text.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into() }
    }
}

/// An error of reading from an open store.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The device or the file system failed.
    #[error(transparent)]
    Io(#[from] IoReadError),
    /// The checksum of a block differs from the one in the page table.
    #[error(
        "{file}: page {page}, block {block}: checksum {found:#010x}, expected {expected:#010x}; \
         the file is damaged"
    )]
    Checksum {
        /// File inside the store directory.
        file: String,
        /// Logical page.
        page: u64,
        /// 4 KiB block of the file.
        block: u64,
        /// The checksum in the pointer to the block.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// A structure violates the format although its checksum is right.
    #[error("{file}: page {page}: {what}; the store is damaged")]
    Damaged {
        /// File inside the store directory.
        file: String,
        /// Logical page.
        page: u64,
        /// Which field is wrong and how.
        what: String,
    },
    /// A node id is not below the id bound of its type.
    #[error("node {id} is out of range: node type {node_type:?} has {num_nodes} nodes")]
    NodeOutOfRange {
        /// Name of the node type.
        node_type: String,
        /// The id.
        id: u64,
        /// The bound.
        num_nodes: u64,
    },
    /// A row is not below the number of rows of a tensor.
    #[error("row {row} is out of range: tensor {tensor:?} has {num_rows} rows")]
    RowOutOfRange {
        /// Name of the tensor.
        tensor: String,
        /// The row.
        row: u64,
        /// The bound.
        num_rows: u64,
    },
    /// The caller drew a position that the neighbour list does not have.
    #[error("position {position} is out of range: node {node} has {degree} neighbours")]
    PositionOutOfRange {
        /// The destination.
        node: u64,
        /// The position drawn.
        position: u64,
        /// The length of the list.
        degree: u64,
    },
    /// There is no such node type, edge type, tensor or dictionary.
    #[error("the store has no {what}")]
    Missing {
        /// The requested item.
        what: String,
    },
    /// The output buffer has the wrong size.
    #[error("the output buffer has {found} bytes, expected {expected}")]
    OutputSize {
        /// Rows times bytes per row.
        expected: usize,
        /// The length given.
        found: usize,
    },
    /// Rows of a tensor cannot be read as this type.
    #[error("tensor {tensor:?}: {source}")]
    Decode {
        /// Name of the tensor.
        tensor: String,
        /// Why, and what is possible.
        source: DecodeError,
    },
    /// The order of nodes is not a permutation.
    #[error("{what}; name each node once")]
    Order {
        /// What is wrong.
        what: String,
    },
    /// The memory budget does not allow the batch.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The data must be read first, and the caller may not wait. It never leaves the crate.
    #[doc(hidden)]
    #[error("not in memory yet")]
    NotYet,
    /// The system cannot allocate memory although the budget has room.
    #[error("the system cannot allocate {} of memory: {source}", format_bytes(*bytes))]
    NoMemory {
        /// The requested item.
        bytes: u64,
        /// The error of the system.
        source: std::io::Error,
    },
}

explain! { ReadError {
    NodeOutOfRange | RowOutOfRange => NodeOutOfRange,
    Damaged | Checksum => StoreDamaged [Restore],
    Budget { 0: error } => BudgetTooSmall [RaiseMemory(error.minimum_bytes()), SmallerBatches],
    NoMemory => BudgetTooSmall [FreeMemory],
    Missing => NameNotFound,
    Decode | Order => UnsupportedArgument,
    PositionOutOfRange | OutputSize | NotYet => Defect,
} of Io.0 }

/// An error of opening a store.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The path does not exist.
    #[error("{path}: no such store")]
    NotFound {
        /// The path given.
        path: String,
    },
    /// The path is not a directory.
    #[error("{path}: not a directory; a store is a directory named NAME.ng")]
    NotADirectory {
        /// The path given.
        path: String,
    },
    /// A directory without root slots.
    #[error("{path}: not a store: it has neither root.a nor root.b")]
    NotAStore {
        /// The path given.
        path: String,
    },
    /// The store was written by a newer release.
    #[error(
        "{path}: the store has format version {found}, and this release reads up to {supported}; \
         upgrade neargraph to open it"
    )]
    NewerVersion {
        /// The path given.
        path: String,
        /// Version of the store.
        found: u32,
        /// Newest version that this release knows.
        supported: u32,
    },
    /// Neither root slot can be read.
    #[error(
        "{path}: both root slots are damaged (root.a: {a}; root.b: {b}); restore them from a copy"
    )]
    RootsDamaged {
        /// The path given.
        path: String,
        /// What is wrong with slot A.
        a: String,
        /// What is wrong with slot B.
        b: String,
    },
    /// Two valid root slots of one checkpoint differ.
    #[error(
        "{path}: root.a and root.b both belong to checkpoint {checkpoint_id} but differ; one may \
         come from another store; restore both from one copy"
    )]
    RootsDisagree {
        /// The path given.
        path: String,
        /// The checkpoint of both.
        checkpoint_id: u64,
    },
    /// A segment is missing or shorter than the catalog says.
    #[error(
        "{path}/{file} is truncated: it has {found} bytes, expected {expected}; restore it from a \
         copy"
    )]
    Truncated {
        /// The path given.
        path: String,
        /// File inside the store directory.
        file: String,
        /// Bytes according to the catalog.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The budget cannot hold the smallest working set.
    #[error(
        "a memory budget of {} is too small for this store and these options",
        format_bytes(*limit_bytes)
    )]
    BudgetTooSmall {
        /// The budget given.
        limit_bytes: u64,
        /// The smallest that works.
        minimum_bytes: u64,
    },
    /// The requested back end is not available.
    #[error("{path}: {what}")]
    BackendUnavailable {
        /// The path given.
        path: String,
        /// Why not.
        what: String,
    },
    /// No back end could be opened.
    #[error("{path}: {what}")]
    Backend {
        /// The path given.
        path: String,
        /// The error of the back end.
        what: String,
    },
    /// The commits that a crashed writer left in the log cannot be applied to the store.
    #[error("{path}: the last writer was interrupted, and recovery failed: {source}")]
    Recovery {
        /// The path given.
        path: String,
        /// The cause.
        source: Box<crate::write::error::UpdateError>,
    },
    /// The commits that a crashed writer left in the log can neither be applied to the store, which
    /// is not writable, nor be held in memory.
    #[error(
        "{path}: {commits} commits of an interrupted writer cannot be applied to the store \
         ({cause}), and do not fit into a memory budget of {}",
        format_bytes(*limit_bytes)
    )]
    CommitsTooLarge {
        /// The path given.
        path: String,
        /// How many.
        commits: u64,
        /// Why nothing can be written.
        cause: String,
        /// The budget given.
        limit_bytes: u64,
        /// One that is large enough.
        minimum_bytes: u64,
    },
    /// Reading failed while opening.
    #[error(transparent)]
    Read(#[from] ReadError),
}

explain! { OpenError {
    NotFound => StoreNotFound [Import],
    NotAStore | NotADirectory => NotAStore,
    NewerVersion => NewerVersion,
    RootsDamaged | RootsDisagree | Truncated => StoreDamaged,
    BudgetTooSmall { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes)],
    CommitsTooLarge { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes), MakeWritable],
    BackendUnavailable => IoFailed [AnyBackend],
    Backend => IoFailed,
} of Read.0, Recovery.source }

impl From<IoReadError> for OpenError {
    fn from(error: IoReadError) -> Self {
        Self::Read(error.into())
    }
}

/// An error of building a store. Nothing of it is visible: a store without roots does not open.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The device or the file system failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An argument exceeds the limits of the format.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what is allowed.
        what: String,
    },
    /// Destinations or dictionary keys were pushed out of order.
    #[error("{what} was pushed after {previous}; push entries in ascending order")]
    OutOfOrder {
        /// What came.
        what: String,
        /// What came before it.
        previous: String,
    },
    /// An id does not fit the declared number of nodes or edge ids.
    #[error("{kind} {id} is out of range: {owner} allows ids below {bound}")]
    IdOutOfRange {
        /// `source`, `destination`, `edge id`.
        kind: &'static str,
        /// The id.
        id: u64,
        /// The owner of the bound.
        owner: String,
        /// The bound.
        bound: u64,
    },
    /// The number of rows of a tensor or dictionary differs from that of its owner.
    #[error("{what}: {found} rows, expected {expected}")]
    RowCount {
        /// Which tensor or dictionary.
        what: String,
        /// Rows that its owner has.
        expected: u64,
        /// Rows pushed.
        found: u64,
    },
    /// An edge type has no topology at commit.
    #[error("edge type {edge_type} has no topology; add one, even if it has no edges")]
    TopologyMissing {
        /// The relation.
        edge_type: String,
    },
}

// Of files that are written from a store: what they hold was checked when it came into the store.
explain! { BuildError {
    Write => IoFailed,
    Invalid | OutOfOrder | IdOutOfRange | RowCount | TopologyMissing => Defect,
} }

impl BuildError {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }
}
