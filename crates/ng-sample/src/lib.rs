//! From seeds to mini-batches: neighbour sampling over a pinned snapshot, and the pipeline
//! that prepares batches ahead of their consumer.
//!
//! What lives here: fanouts, hops, numbering, gathering, look-ahead, orders of rows. What must not:
//! torch, Python, file formats. The invariant: same seed and same snapshot give the same
//! [`MiniBatch`], byte for byte, whatever the back end, cache size, number of threads or order of
//! completion.
#![forbid(unsafe_code)]

mod admission;
mod buffer;
mod clock;
mod columns;
mod compact;
mod compiled;
mod direct;
mod draw;
mod edge_places;
mod edge_sets;
mod error;
mod hops;
mod ids;
mod job;
mod links;
mod loader;
mod lookahead;
mod mini_batch;
mod node_filter;
mod node_map;
mod note;
mod older;
mod pipeline;
mod record;
mod reorganize;
mod roots;
mod sampler;
mod seeds;
mod shaped;
mod spec;
mod spread;
mod trace;

pub use buffer::Buffer;
pub use columns::ColumnSpec;
pub use compact::{CompactEdges, CompactNodes, CompactSample, Extras};
pub use compiled::{
    CompiledError, EpochFile, EpochId, EpochKey, EpochWriter, HotSet, Measured, ReplayMemory,
    Survey,
};
pub use draw::{METHODS, Method, MethodRow, Needs, Source};
pub use edge_places::EdgePlaces;
pub use error::SampleError;
pub use hops::streaming::{Engine, StreamingStats};
pub use hops::{DisjointSample, DisjointSeeds, HearNodes};
pub use ids::Ids;
pub use job::{Job, Seeds};
pub use loader::{Epochs, Loader, Pipeline, Run, Way};
pub use lookahead::{Chosen, Reading, Settings};
pub use mini_batch::{Column, EdgeBlock, MiniBatch, NodeBlock, SparseIndex};
pub use note::{Decided, Note, Times, Writes};
pub use older::OlderLists;
pub use reorganize::{
    BATCHES_TOGETHER, Batches, By, Heat, PageCounts, Phases, Reorganization, ReorganizeError,
    ReorganizeReport, heat, reorganize,
};
pub use sampler::{SampleScratch, Sampler};
pub use seeds::{Inputs, Jobs, SeedPlan};
pub use spec::{
    Budgets, EdgeSet, Fanouts, HeldOut, LinkSpec, Negatives, Roots, RootsOf, SampleSpec, Shape,
    Spread, Temporal, TimesOf, Visits, Walks,
};
pub use spread::WalksOf;
