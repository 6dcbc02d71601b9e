//! The side port: health for probes, metrics, the page and what it asks for.
//!
//! What must not live here: what is measured, how anything is done.

mod api;
mod metrics;
mod page;
mod rest;

use std::sync::Arc;

use axum::routing::get;
use axum::{Router, middleware};

use crate::guard::gate::side_gate;
use crate::state::State;

/// What the side port serves. Nobody from another machine reaches it if it `is_local`.
pub fn router(state: &Arc<State>, is_local: bool) -> Router {
    let guard = (Arc::clone(&state.guard), is_local);
    let shown = Router::new()
        .route("/metrics", get(metrics::metrics))
        .merge(page::router())
        .merge(api::router())
        .merge(rest::router());
    // Pages from elsewhere must not reach it under a name of theirs. Probes may.
    let shown = if is_local { shown.layer(middleware::from_fn(api::by_own_name)) } else { shown };
    Router::new()
        .route("/healthz", get(metrics::healthz))
        .route("/readyz", get(metrics::readyz))
        .merge(shown)
        .with_state(Arc::clone(state))
        .layer(middleware::from_fn_with_state(guard, side_gate))
}
