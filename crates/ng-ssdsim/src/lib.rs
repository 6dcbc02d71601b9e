//! An event-driven simulator of computational SSDs that sample graphs (BeaconGNN, section VII).
//!
//! A [`Plan`] says which pages a batch reads and which read brings forth which; a [`Machine`] is a
//! [`Config`] on one path through the device; the [`Engine`] gives the time of each command.
//! Nothing here reads files, knows a store or draws neighbours: traces come from elsewhere. The
//! invariant: a run is a function of its plan and its machine, in whole picoseconds.
#![forbid(unsafe_code)]

mod accelerator;
mod config;
mod crowd;
mod dataset;
mod energy;
mod engine;
mod host;
mod host_side;
mod in_memory;
mod job;
mod layout;
mod on_host;
mod ordinary;
mod plan;
mod planning;
mod platform;
mod reuse;
mod scratchpad;
mod simulate;
mod summary;
mod time;

pub use accelerator::{Computing, Gemm, Layer, Model, Operand, Product, RowWork, WidthError, Work};
pub use config::{
    Accelerator, Allowed, Config, ConfigError, Constant, Dram, Energy, Firmware, Flash, Host,
    Memory, Payload, Router, Switch,
};
pub use crowd::Crowd;
pub use dataset::{DATASETS, Dataset, SIGMA};
pub use energy::Joules;
pub use engine::{Audit, End, Engine, Machine, Outcome, Path, Pcie, Round, Stamps, Start};
pub use host::{HostError, HostOutcome, MeasuredHost};
pub use job::{Job, run_all};
pub use layout::{Address, Format, Layout, LayoutError, Page, Placement, Stripes};
pub use on_host::{HostBatch, HostRun, host_plans, run_on_host};
pub use ordinary::{OrdinaryRun, Request, run_requests};
pub use plan::{Plan, flag};
pub use planning::{Asked, plan};
pub use platform::{
    Access, COALESCED, MORE_PLATFORMS, PLATFORMS, Platform, Sampler, ToHost, UnknownPlatform,
};
pub use reuse::Reuse;
pub use simulate::{BatchRun, Run, Shares, SimulateError, simulate};
pub use summary::{Curve, Latency, Spread};
pub use time::{MICRO, NANO, Picos, Rate, SECOND, from_ns, to_seconds};
