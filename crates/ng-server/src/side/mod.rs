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
use ng_rpc::Problem;

use crate::guard::gate::side_gate;
use crate::guard::refusal::Refusal;
use crate::state::State;

async fn nothing() -> Refusal {
    let problem = Problem::missing("PATH_NOT_FOUND", "this path does not exist");
    Refusal(problem.remedy("see /, /metrics, /readyz, /v1/run and /v2"))
}

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
        .fallback(nothing)
        .with_state(Arc::clone(state))
        .layer(middleware::from_fn_with_state(guard, side_gate))
}
