//! The client of the server: every method of its services, for programs with and without a runtime,
//! and a load generator.
//!
//! What lives here: [`AsyncClient`], whose calls are futures; [`Client`], whose calls block;
//! [`load`], which sends requests at planned times. What must not: messages and transports
//! (`ng-rpc` has them), Python. The invariants: a call returns an answer or an error within its
//! timeout; a call that is not safe to repeat is never retried.

#![forbid(unsafe_code)]

mod again;
mod blocking;
mod calls;
mod driven;
pub mod load;
mod methods;
mod settings;
mod streams;

pub use blocking::{Client, Running};
pub use calls::AsyncClient;
pub use ng_rpc::connect::{BadAddress, Tls};
pub use settings::{ClientError, Settings};
pub use streams::{Stream, Upload};
