//! The side port: health for probes.
//!
//! What must not live here: what is measured, how anything is done.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::state::State;

/// What the side port serves.
pub fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "ok\n" }))
        .with_state(state)
}
