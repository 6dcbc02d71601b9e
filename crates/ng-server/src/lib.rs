//! The server: graph learning requests answered where the data is, while the graph changes.
//!
//! What lives here: what is served ([`catalogue`]), how requests become groups ([`schedule`]), the
//! services and the side port. What must not: how a model is computed, formats of stores, file
//! access, and anything of the RPC library but what `ng-rpc` hands on. The invariants: every answer
//! names its snapshot; it is the one that the engine gives for its targets alone, whatever is
//! computed beside it; a request costs what was admitted for it, and no more.

#![forbid(unsafe_code)]

pub mod catalogue;
mod command;
pub mod config;
mod graph;
mod model;
mod rows;
pub mod schedule;
mod serve;
mod service;
mod side;
mod state;
mod targets;

pub use command::run_command;
pub use config::{Address, Config};
pub use serve::{ServeError, Serving, serve};
