//! What can go wrong, one enum per operation: opening, reading, building.
//!
//! Each message says what is wrong and where. [`Damage`] is what a decoder says about
//! one structure; the caller that knows the file and the page turns it into a [`ReadError`].

use std::borrow::Cow;

use ng_simd::DecodeError;
use ng_types::{BudgetExceeded, explain, format_bytes};
use thiserror::Error;

use crate::io::{ReadError as IoReadError, WriteError};

/// A structure on disk is not what the format says.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}")]
pub struct Damage {
    /// Which field is wrong and how.
    pub what: Cow<'static, str>,
}

impl Damage {
    /// A damage described by a fixed text or a formatted one.
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into() }
    }
}

/// Reading from an open store failed.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The device or the file system failed.
    #[error(transparent)]
    Io(#[from] IoReadError),
    /// A block does not have the checksum that the page table holds for it.
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
        /// What the pointer to the block says.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// A structure is not what the format says although its checksum holds.
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
        /// What was asked for.
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
    /// Nodes in an order that is none.
    #[error("{what}; name each node once")]
    Order {
        /// What is wrong.
        what: String,
    },
    /// The memory budget does not allow the batch.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// What was asked for has to be read first. Whoever may not wait is told so; it never leaves
    /// the crate.
    #[doc(hidden)]
    #[error("not in memory yet")]
    NotYet,
    /// The system gave no memory although the budget had room.
    #[error("the system cannot allocate {} of memory: {source}", format_bytes(*bytes))]
    NoMemory {
        /// What was asked for.
        bytes: u64,
        /// The system's answer.
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

/// Opening a store failed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Nothing is there.
    #[error("{path}: no such store")]
    NotFound {
        /// The path given.
        path: String,
    },
    /// Something else than a directory is there.
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
    /// Written by a newer release.
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
    /// Two valid slots of one checkpoint that say different things.
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
        /// Bytes that the catalog asks for.
        expected: u64,
        /// Bytes that are there.
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
    /// The back end that was asked for cannot be used here.
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
        /// What the back end said.
        what: String,
    },
    /// What a crashed writer has left in the log cannot be put into the store.
    #[error("{path}: the last writer was interrupted, and recovery failed: {source}")]
    Recovery {
        /// The path given.
        path: String,
        /// What went wrong.
        source: Box<crate::write::error::UpdateError>,
    },
    /// Commits that a crashed writer has left in the log can neither be put into the store, because
    /// nothing can be written there, nor be held in memory.
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

/// Building a store failed. Nothing of it is visible: a store without roots does not open.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The device or the file system failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An argument is outside of what the format can hold.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what is allowed.
        what: String,
    },
    /// Destinations, or dictionary keys, came out of order.
    #[error("{what} was pushed after {previous}; push entries in ascending order")]
    OutOfOrder {
        /// What came.
        what: String,
        /// What came before it.
        previous: String,
    },
    /// An id does not fit the declared number of nodes or edge ids.
    #[error("{kind} {id} is out of range: {owner} has {bound}")]
    IdOutOfRange {
        /// `source`, `destination`, `edge id`.
        kind: &'static str,
        /// The id.
        id: u64,
        /// Whose bound it is.
        owner: String,
        /// The bound.
        bound: u64,
    },
    /// A tensor or dictionary has another number of rows than its owner.
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
    #[error("edge type {edge_type} has no topology; push its edges (possibly none) and add it")]
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
