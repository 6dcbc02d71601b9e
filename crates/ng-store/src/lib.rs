//! The on-disk graph store: pages, page table, topology, tensors, dictionaries, snapshots, verify.
//!
//! What lives here: the format (`docs/reference/format.md`), the writer that builds a store in one
//! pass, transactions that change it, and the readers that serve whole batches from a pinned
//! [`Snapshot`]. What must not: sampling, parsing of users' files, any file access that does not go
//! through `ng-io`. The invariant: bytes are hostile until the checksum kept with their pointer
//! holds and a `decode` has typed them.
#![forbid(unsafe_code)]

mod backup;
mod build;
mod bytes;
mod cache;
mod catalog;
mod costs;
mod dictionary;
mod direct;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod io;
mod limits;
mod page;
mod rows;
mod sealed;
mod store;
mod tensor;
mod topology;
mod tree;
mod verify;
mod version;
mod write;

pub use backup::{
    BackupError, BackupReport, RestoreReport, backup, is_backup, restore, verify_backup,
};
pub use build::builder::StoreBuilder;
pub use build::spec::{BuildOptions, BuildSummary, EdgeTypeSpec, Part, TensorSpec};
pub use catalog::{
    Catalog, EdgeTypeMeta, KeyedCommit, NodeTypeMeta, Owner, SparseValue, TensorMeta, TensorRef,
};
pub use costs::{DiskCosts, RequestRate};
pub use dictionary::writer::DictionaryWriter;
pub use direct::{
    DirectError, DirectFile, DirectInfo, DirectOptions, DirectPlan, DirectProgress, Position,
    Primary, Spot, TakePrimary, places,
};
pub use error::{BuildError, Damage, OpenError, ReadError};
pub use limits::{PAGE_SIZES, ROW_BYTES_MAX, STRING_BYTES_MAX};
pub use page::{EditCounts, VisitRows};
pub use rows::order::RowOrder;
pub use rows::plan::{Merge, Planned, RowPart, RowPlan, TakeItem};
pub use rows::queue::{RowQueue, Ticket};
pub use sealed::{Sealed, SealedError, SealedKind, SealedWriter};
pub use store::{
    EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, GATHER_BYTES_PER_ROW, MemoryShare,
    OpenOptions, SPARSE_BYTES_PER_ROW, Snapshot, Spare, Store, StoreStats, Tenant, Tenants,
};
pub use tensor::reader::GatherStats;
pub use tensor::sparse::SparseRows;
pub use tensor::sparse_reader::{SparseSpans, VisitSparse};
pub use tensor::sparse_writer::SparseWriter;
pub use tensor::writer::TensorWriter;
pub use topology::{
    Draw, DrawList, Entry, Expansion, ListRequest, NextRequests, Packed, ResidentTopology,
    STREAM_BYTES_PER_REQUEST, TakeList, TopologyWriter, VisitLists, from_three,
};
pub use verify::{Problem, Progress, VerifyReport, verify, verify_on};
pub use version::changes::Changes;
pub use version::root::FORMAT_VERSION;
pub use write::add_tensor::{NewTensor, NextRows};
pub use write::checkpoint::CheckpointReport;
pub use write::compact::{CompactReport, compact, reorganize};
pub use write::error::UpdateError;
pub use write::keyed::Begun;
pub use write::narrow::narrow;
pub use write::recover::Recovery;
pub use write::reorganize::{MakeOrders, NewOrder, reorganize_bytes};
pub use write::transaction::{Commit, EdgeData, Transaction};
pub use write::writer::UpdateStats;
