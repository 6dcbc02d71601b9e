//! Trained models that answer from a store: batches are sampled, rows read, the graph run.
//!
//! - [`ModelFile`]: a graph and what its file says of it;
//! - [`Engine`]: a model on a snapshot, and its answers for nodes, edges and graphs;
//! - [`Prepare`]: what is brought into memory before requests come.
//!
//! What must not live here: how operations are computed, formats, Python. The invariants: an answer
//! comes from one snapshot, and is the same, byte for byte, whatever is in memory and however many
//! threads there are.

#![forbid(unsafe_code)]

mod answer;
mod answers;
mod ask;
mod bind;
mod counts;
mod degrees;
mod each;
mod engine;
mod error;
mod explain;
mod foresee;
mod graphs;
mod layerwise;
mod measured;
mod mixes;
mod model_file;
mod pairs;
mod pinned;
mod prepare;
mod request;
mod rows;
mod sampled;
mod schema;
mod table;
mod value;
mod versions;
mod whole_graphs;

pub use answer::Answer;
pub use answers::cache::{AnswerKey, CacheStats, EmbeddingCache, KeptAnswer, ModelKey};
pub use answers::changed::{ChangedNodes, WhyAll};
pub use answers::reach::Reach;
pub use counts::{EngineStats, StageTimes};
pub use each::{Computing, On, Version};
pub use engine::{Engine, EngineOptions};
pub use error::EngineError;
pub use foresee::Foreseen;
pub use layerwise::{
    Begun, Hear, Inferred, InferredOutput, Layerwise, LayerwiseError, LayerwiseOptions,
    LayerwisePlan, PassPlan, Progress,
};
pub use measured::PerNode;
pub use model_file::{ModelFile, ModelFileError, ModelIdentity};
pub use prepare::Prepare;
