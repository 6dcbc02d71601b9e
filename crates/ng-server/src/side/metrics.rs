//! Health for probes and metrics for Prometheus.

use std::sync::Arc;

use axum::extract::{RawQuery, State as Given};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use crate::state::State;
use crate::telemetry::gauges;

/// Whether the process is alive.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether requests should be sent here; with `?prepared`, not before all models are prepared.
pub async fn readyz(
    Given(state): Given<Arc<State>>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let why = match query.as_deref() {
        None | Some("") => state.not_ready(),
        Some("prepared") => state.not_ready().or_else(|| state.not_prepared()),
        Some(other) => {
            let odd = format!("condition {other:?} is unknown; use /readyz or /readyz?prepared\n");
            return (StatusCode::BAD_REQUEST, odd);
        }
    };
    match why {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// All numbers, in the text format of Prometheus.
pub async fn metrics(Given(state): Given<Arc<State>>) -> impl IntoResponse {
    gauges::refresh(&state);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render())
}
