//! The server: inference and changes of graphs over gRPC and HTTP.
//!
//! What lives here: served graphs and models ([`catalogue`]), grouping of requests ([`schedule`]),
//! admission and access control ([`guard`]), logs, metrics and traces ([`telemetry`]), the services
//! and the side port. What must not: computation of models, formats of stores, file access, and the
//! RPC library except through `ng-rpc`. The invariants: every answer has its snapshot; it equals
//! the engine's answer for its targets alone; a request does not cost more than was admitted.

#![forbid(unsafe_code)]

mod accelerators;
pub mod catalogue;
mod command;
pub mod config;
mod door;
mod error;
mod graph;
pub mod guard;
pub mod jobs;
mod model;
mod open_inference;
mod reload;
mod rows;
mod sampling;
pub mod schedule;
mod serve;
mod service;
mod side;
mod state;
mod targets;
pub mod telemetry;
mod work;

pub use command::run_command;
pub use config::{Address, Config, ConfigError, Limits, Options};
pub use error::ServeError;
pub use graph::Graph;
pub use model::Model;
pub use rows::Rows;
pub use serve::{Ended, Serving, serve};
pub use state::State;
pub use targets::Targets;
