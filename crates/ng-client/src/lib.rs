//! The client of the server: every method of its services, for programs with and without a runtime,
//! and a load generator.
//!
//! What lives here: [`AsyncClient`], whose calls are futures; [`Client`], whose calls wait;
//! [`load`], which asks at times that are fixed beforehand. What must not: messages and transports
//! (`ng-rpc` has them), Python. The invariants: a call gives an answer or an error, and waits no
//! longer than its timeout; a call that could be done twice is never tried again.

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
