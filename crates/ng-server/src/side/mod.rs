//! The side port: health for probes, REST.
//!
//! What must not live here: what is measured, how anything is done.

mod rest;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::state::State;

/// What the side port serves.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "ok\n" }))
        .merge(rest::router())
        .with_state(state)
}
