//! External-memory import of graphs into a store.
//!
//! What lives here: parsing of text, `.npy` and Arrow columns, names to ids, the sort of edges in
//! bounded memory, and the [`Importer`] that feeds the writers of `ng-store`. What must not: page
//! formats, files that are not users' input or temporary data. The invariant: the store depends on
//! the input alone, not on memory, threads or the order in which they worked, and nothing is
//! visible before it is whole.
#![forbid(unsafe_code)]

mod arrays;
mod arrow;
mod background;
mod edges;
mod error;
mod estimate;
mod failure;
mod files;
mod finish;
mod finite;
mod importer;
mod lists;
mod named;
mod note;
mod npy;
mod options;
mod place;
mod plan;
mod report;
mod sink;
mod sort;
mod source;
mod sparse;
mod strings;
mod tensors;
mod text;
mod threads;

pub use arrays::IdSlice;
pub use arrow::{ArrowBatch, ArrowError, ArrowEvent, ArrowField, ArrowReader, Elements, OwnedIds};
pub use error::{Fault, ImportError};
pub use estimate::{Estimate, PlannedEdges, estimate};
pub use importer::Importer;
pub use npy::NpyLayout;
pub use options::{
    Column, EdgeTypeSpec, ImportOptions, OnProgress, Progress, SelfLoops, TextOptions,
};
pub use plan::MEMORY_BYTES_MIN;
pub use report::{ImportReport, Note};
pub use sparse::{CsrChunk, SparseProbe};
pub use strings::NAME_BYTES_MAX;
pub use tensors::TensorId;
pub use text::{End, TextPreview};
