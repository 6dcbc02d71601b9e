//! The on-disk graph store: pages, page table, topology, tensors, dictionaries, snapshots, verify.
//!
//! What lives here: format version 3 (`docs/format.md`), the writer that builds a store in one
//! pass, batches that change it, and the readers that serve whole batches from a pinned
//! [`Snapshot`]. What must not: sampling, parsing of users' files, any file access that does not go
//! through `ng-io`. The invariant: bytes are hostile until the checksum kept with their pointer
//! holds and a `decode` has typed them.
#![forbid(unsafe_code)]

mod absent;
mod bitmap_edit;
mod builder;
mod bytes;
mod cache;
mod catalog;
mod catalog_check;
mod costs;
mod dead_nodes;
mod dictionary;
mod direct;
mod edit;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod io;
mod memory;
mod open_root;
mod order;
mod page_map;
mod page_set;
mod page_table;
mod pages;
mod root;
mod row_plan;
mod scan;
mod segment;
mod snapshot;
mod store;
mod table_scan;
mod tensor;
mod topology;
mod tree;
mod tree_cursor;
mod tree_edit;
mod tree_lookup;
mod verify;
mod version;
mod write;

pub use builder::{
    BuildOptions, BuildSummary, EdgeTypeSpec, Entry, Part, StoreBuilder, TensorSpec,
};
pub use catalog::{
    Catalog, EdgeTypeMeta, NodeTypeMeta, Owner, ROW_BYTES_MAX, SparseValue, TensorMeta, TensorRef,
};
pub use costs::{DiskCosts, RequestRate};
pub use dictionary::page::STRING_BYTES_MAX;
pub use dictionary::writer::{DictionaryPart, DictionaryWriter};
pub use direct::{
    DIRECT_SUFFIX, DirectError, DirectFile, DirectInfo, DirectOptions, DirectPlan, DirectProgress,
    Position, Primary, Spot, TakePrimary, places,
};
pub use edit::EditCounts;
pub use error::{BuildError, Damage, OpenError, ReadError};
pub use order::RowOrder;
pub use root::FORMAT_VERSION;
pub use row_plan::{Merge, Planned, RowPart, RowPlan, TakeItem};
pub use scan::{VisitLists, VisitRows};
pub use snapshot::{
    Draw, EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, GATHER_BYTES_PER_ROW,
    GatherStats, SPARSE_BYTES_PER_ROW, Snapshot,
};
pub use store::{OpenOptions, Store, StoreStats};
pub use tensor::sparse::SparseRows;
pub use tensor::sparse_reader::{SparseSpans, VisitSparse};
pub use tensor::sparse_writer::SparseWriter;
pub use tensor::writer::{TensorPart, TensorWriter};
pub use topology::resident::{Packed, ResidentTopology, from_three};
pub use topology::streaming::{
    DrawList, ListRequest, NextRequests, STREAM_BYTES_PER_REQUEST, TakeList,
};
pub use topology::writer::{TopologyPart, TopologyWriter};
pub use verify::{Problem, Progress, VerifyReport, verify, verify_on};
pub use write::batch::{Commit, EdgeData, WriteBatch};
pub use write::checkpoint::CheckpointReport;
pub use write::compact::{CompactReport, compact};
pub use write::error::UpdateError;
pub use write::recover::Recovery;
pub use write::reorganize::{MakeOrders, NewOrder, reorganize, reorganize_bytes};
pub use write::writer::UpdateStats;
