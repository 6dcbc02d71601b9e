//! The server: graph learning requests answered where the data is, while the graph changes.
//!
//! What lives here: what is served ([`catalogue`]), how requests become groups ([`schedule`]), what
//! stands before the services ([`guard`]), what the server tells about itself ([`telemetry`]), the
//! services and the side port. What must not: how a model is computed, formats of stores, file
//! access, and anything of the RPC library but what `ng-rpc` hands on. The invariants: every answer
//! names its snapshot; it is the one that the engine gives for its targets alone, whatever is
//! computed beside it; a request costs what was admitted for it, and no more.

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
