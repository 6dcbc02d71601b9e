//! `POST /v1/run`: the service of this project, as JSON.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::{Extension, Json};
use ng_rpc::{Problem, v1};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Whole;
use super::json::{Numbers, numbers};
use crate::guard::Caller;
use crate::guard::refusal::Refusal;
use crate::service::run as answer;
use crate::state::State;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    graph: String,
    model: String,
    nodes: Option<Vec<u64>>,
    edges: Option<Vec<[u64; 2]>>,
    graph_ids: Option<Vec<u64>>,
    #[serde(default)]
    seed: u64,
    at_snapshot: Option<u64>,
    #[serde(default)]
    max_lag_commits: u64,
}

#[derive(Serialize)]
pub struct Shown {
    model: String,
    snapshot: Value,
    rows: Vec<Numbers>,
    rows_cached: u64,
}

/// Rows of nodes, edges or graphs.
pub async fn run(
    Shared(state): Shared<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Whole(body): Whole,
) -> Result<Json<Shown>, Refusal> {
    let asked = serde_json::from_slice(&body).map_err(|error| {
        Problem::argument("body", format!("the body is not a valid request: {error}"))
            .remedy("send JSON such as {\"model\": \"sage\", \"nodes\": [1, 2]}")
    })?;
    let found = answer(&state, request_of(asked)?, &caller).await?;
    let rows = found.rows.unwrap_or_default();
    let count = rows.shape.first().copied().unwrap_or(0) as usize;
    let width = rows.data.len().checked_div(count).unwrap_or(0);
    let lists = rows.data.chunks_exact(width.max(1)).map(|row| numbers(rows.dtype(), row));
    let rows: Vec<_> = lists.collect::<Result<_, _>>()?;
    let snapshot = found.snapshot.unwrap_or_default();
    // As a number, readers of JSON would round it.
    let fingerprint = format!("{:016x}", snapshot.fingerprint);
    let snapshot = json!({"commit": snapshot.commit, "fingerprint": fingerprint});
    Ok(Json(Shown { model: found.model, snapshot, rows, rows_cached: found.rows_cached }))
}

fn request_of(asked: Asked) -> Result<v1::RunRequest, Problem> {
    let Asked { nodes, edges, graph_ids, .. } = asked;
    let node_type = String::new();
    let targets = match (nodes, edges, graph_ids) {
        (Some(ids), None, None) => v1::targets::Targets::Nodes(v1::Nodes { node_type, ids }),
        (None, Some(pairs), None) => v1::targets::Targets::Edges(v1::Edges {
            edge_type: String::new(),
            sources: pairs.iter().map(|[from, _]| *from).collect(),
            destinations: pairs.iter().map(|[_, to]| *to).collect(),
        }),
        (None, None, Some(ids)) => v1::targets::Targets::Graphs(v1::Graphs { ids }),
        _ => {
            let message = "the request does not have exactly one kind of targets";
            return Err(Problem::argument("targets", message)
                .remedy("give one of nodes, edges and graph_ids"));
        }
    };
    Ok(v1::RunRequest {
        graph: asked.graph,
        dfg: Some(v1::run_request::Dfg::Model(asked.model)),
        targets: Some(v1::Targets { targets: Some(targets) }),
        seed: asked.seed,
        at_snapshot: asked.at_snapshot,
        max_lag_commits: asked.max_lag_commits,
        ..v1::RunRequest::default()
    })
}
