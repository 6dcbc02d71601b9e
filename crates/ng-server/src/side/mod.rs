//! The side port: health for probes, the page and what it asks for.
//!
//! What must not live here: what is measured, how anything is done.

mod api;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::state::State;

/// What the side port serves.
pub fn router(state: Arc<State>) -> Router {
    let address = state.side_address.parse::<SocketAddr>();
    let is_local = address.is_ok_and(|address| address.ip().is_loopback());
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "ok\n" }))
        .merge(page::router())
        .merge(api::router(is_local))
        .with_state(state)
}
