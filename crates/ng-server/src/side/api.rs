//! What the page of the side port asks for beside metrics, as JSON: what is served, lists of
//! neighbours, rows of a model. It reads alone, and every answer is small.
//!
//! What must not live here: what the page looks like, how anything is read or computed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query, State as Given};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use ng_rpc::{Code, Problem, problem_of, v1};
use ng_store::{
    Catalog, EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, Snapshot,
};
use ng_types::{EdgeTypeId, NodeTypeId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::graph::Graph;
use crate::guard::Caller;
use crate::guard::refusal::Refusal;
use crate::rows::Rows;
use crate::schedule::Question;
use crate::state::State;
use crate::targets::Targets;

/// Nodes of a request.
const IDS_MAX: usize = 256;
/// Neighbours of a node that are named.
const LIMIT_MAX: u64 = 64;
/// Numbers of a row that are shown.
const COLUMNS_MAX: usize = 64;
/// How long rows of a model are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The paths below `/api`.
pub fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/api/info", get(info))
        .route("/api/graphs", get(graphs))
        .route("/api/models", get(models))
        .route("/api/neighbors", get(neighbors))
        .route("/api/scores", get(scores))
        .layer(middleware::map_response(not_kept))
}

/// Nothing is kept by browsers, nor taken for anything but JSON.
async fn not_kept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    let nosniff = header::HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// The words of a query, as a handler wants them.
struct Asked<T>(T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let wrong = |rejection: QueryRejection| {
            Problem::argument("query", rejection.body_text())
                .remedy("correct the query string of the URL")
        };
        Ok(Self(query.map_err(wrong)?.0))
    }
}

type Answer = Result<Json<Value>, Refusal>;

/// Answers requests that call this machine by an address or as `localhost`. A site that a browser
/// on this machine shows could else let its own name point here and read what has no token.
pub async fn by_own_name(
    headers: HeaderMap,
    request: axum::extract::Request,
    next: Next,
) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_own_name(host) {
        let problem = Problem::new(
            Code::PermissionDenied,
            "FOREIGN_NAME",
            "this port accepts only requests whose host is an IP address or localhost",
        );
        return Refusal(problem.remedy("use the host name localhost")).into_response();
    }
    next.run(request).await
}

fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || inner.unwrap_or(name).parse::<std::net::IpAddr>().is_ok()
}

async fn info(Given(state): Given<Arc<State>>) -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": state.started.elapsed().as_secs_f64(),
        "addresses": state.addresses,
        "side_address": state.side_address,
        "read_only": state.config.read_only,
        "scheduler": state.config.scheduler.to_string(),
    }))
}

async fn graphs(Given(state): Given<Arc<State>>) -> Json<Value> {
    let graphs = state.catalogue.graphs();
    Json(graphs.iter().map(|graph| graph_json(graph)).collect())
}

fn graph_json(graph: &Graph) -> Value {
    let snapshot = graph.store.snapshot();
    let catalog = snapshot.catalog();
    let node_types = catalog.node_types.iter();
    let node_types = node_types.map(|meta| json!({ "name": meta.name, "nodes": meta.num_nodes }));
    let edge_types = edge_types(catalog).map(|(_, meta)| {
        json!({
            "name": meta.relation,
            "source": type_name(catalog, meta.source),
            "destination": type_name(catalog, meta.destination),
            "edges": meta.num_edges,
        })
    });
    json!({
        "name": graph.name,
        "commit": snapshot.lsn(),
        "fingerprint": format!("{:016x}", snapshot.fingerprint()),
        "read_only_because": graph.store.read_only_because(),
        "bytes_on_disk": catalog.disk_bytes(),
        "node_types": node_types.collect::<Vec<_>>(),
        "edge_types": edge_types.collect::<Vec<_>>(),
    })
}

/// Edge types that callers name: not those that list another's edges by their sources.
fn edge_types(catalog: &Catalog) -> impl Iterator<Item = (EdgeTypeId, &ng_store::EdgeTypeMeta)> {
    let all = (0_u16..).map(EdgeTypeId).zip(&catalog.edge_types);
    all.filter(|(id, _)| !catalog.is_reverse_index(*id))
}

fn type_name(catalog: &Catalog, id: NodeTypeId) -> &str {
    catalog.node_types.get(usize::from(id.0)).map_or("", |meta| meta.name.as_str())
}

async fn models(Given(state): Given<Arc<State>>) -> Json<Value> {
    let models = state.catalogue.models();
    let models = models.iter().map(|model| {
        let problem = model.engine.prepared().and_then(Result::err);
        json!({
            "name": model.name,
            "version": model.version,
            "graph": model.graph.name,
            "node_type": model.engine.node_type().0,
            "ready": model.engine.ready(),
            "problem": problem,
        })
    });
    Json(models.collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    #[serde(default)]
    graph: String,
    /// Its place among the edge types of `/api/graphs`; the first unless given.
    #[serde(default)]
    edge_type: usize,
    ids: String,
    limit: Option<u64>,
}

#[derive(Serialize)]
struct List {
    id: u64,
    degree: u64,
    neighbors: Vec<u64>,
}

/// The beginnings of the lists of nodes: where their messages come from.
async fn neighbors(
    Given(state): Given<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Asked(Lists { graph, edge_type, ids, limit }): Asked<Lists>,
) -> Answer {
    let (graph, ids) = (state.catalogue.graph(&graph)?, ids_of(&ids)?);
    let limit = limit.unwrap_or(16);
    if limit > LIMIT_MAX {
        let problem = Problem::argument("limit", format!("{limit} neighbours are too many"));
        return Err(problem.remedy(format!("request at most {LIMIT_MAX}")).into());
    }
    let read = move || lists(&graph.store.snapshot(), edge_type, &ids, limit);
    let (commit, lists) = state.work.read(caller.deadline, read).await?;
    Ok(Json(json!({ "commit": commit, "lists": lists })))
}

fn lists(
    snapshot: &Snapshot,
    edge_type: usize,
    ids: &[u64],
    limit: u64,
) -> Result<(u64, Vec<List>), Problem> {
    let found = edge_types(snapshot.catalog()).nth(edge_type);
    let missing = || {
        Problem::missing("EDGE_TYPE_NOT_FOUND", format!("the graph has no edge type {edge_type}"))
    };
    let (edge_type, _) = found.ok_or_else(missing)?;
    let of_node = EXPAND_BYTES_PER_DESTINATION + limit * EXPAND_BYTES_PER_ENTRY;
    let full = |error: &dyn std::fmt::Display| {
        Problem::new(Code::ResourceExhausted, "OUT_OF_MEMORY", error.to_string())
    };
    let _held = snapshot.reserve(ids.len() as u64 * of_node).map_err(|e| full(&e))?;
    let degrees = snapshot.degrees(edge_type, ids).map_err(|e| problem_of(&e))?;
    let mut first = |_: usize, degree: u64, positions: &mut Vec<u64>| {
        positions.extend(0..degree.min(limit));
    };
    let mut all = Expansion::default();
    snapshot.expand(edge_type, ids, &mut first, &mut all).map_err(|e| problem_of(&e))?;
    let spans = all.offsets.windows(2).map(|ends| all.sources[ends[0]..ends[1]].to_vec());
    let lists = ids.iter().zip(degrees).zip(spans);
    let lists = lists.map(|((id, degree), neighbors)| List { id: *id, degree, neighbors });
    Ok((snapshot.lsn(), lists.collect()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scores {
    #[serde(default)]
    graph: String,
    model: String,
    ids: String,
}

/// Rows of a model for nodes, or their beginnings.
async fn scores(
    Given(state): Given<Arc<State>>,
    Extension(caller): Extension<Caller>,
    Asked(Scores { graph, model, ids }): Asked<Scores>,
) -> Answer {
    let (model, ids) = (state.catalogue.model(&graph, &model)?, ids_of(&ids)?);
    let title = model.title();
    let patience = Instant::now().checked_add(PATIENCE);
    let deadline = [caller.deadline, patience].into_iter().flatten().min();
    let question = Question {
        model,
        targets: Targets::Nodes(ids),
        seed: 0,
        at: None,
        lag: 0,
        deadline,
        permit: None,
    };
    let answered = state.ask(&caller, question).await?;
    let rows = &answered.rows;
    let numbers: Option<Vec<Vec<Value>>> =
        (0..rows.count as usize).map(|at| row(rows, at)).collect();
    let numbers = numbers.ok_or_else(|| {
        Problem::argument(
            "model",
            format!("the dashboard cannot show the output dtype of model {title}"),
        )
    })?;
    Ok(Json(json!({
        "model": title,
        "commit": answered.snapshot.0,
        "columns": rows.row.iter().product::<u64>(),
        "rows": numbers,
    })))
}

/// The first numbers of a row; what is no number stands as text.
fn row(rows: &Rows, at: usize) -> Option<Vec<Value>> {
    fn each<const N: usize>(bytes: &[u8], of: impl Fn([u8; N]) -> Value) -> Vec<Value> {
        let all = bytes.chunks_exact(N).take(COLUMNS_MAX);
        all.filter_map(|bytes| bytes.try_into().ok()).map(of).collect()
    }
    let bytes = rows.get(at);
    let float = |number: f32| match number.is_finite() {
        true => json!(number),
        false => json!(number.to_string()),
    };
    match rows.dtype {
        v1::Dtype::F32 => Some(each(bytes, |four| float(f32::from_le_bytes(four)))),
        v1::Dtype::I64 => Some(each(bytes, |eight| json!(i64::from_le_bytes(eight)))),
        v1::Dtype::I8 => Some(each(bytes, |one| json!(i8::from_le_bytes(one)))),
        v1::Dtype::Bool => Some(each(bytes, |one: [u8; 1]| json!(one[0]))),
        _ => None,
    }
}

/// Ids that commas separate.
fn ids_of(text: &str) -> Result<Vec<u64>, Problem> {
    if text.split(',').count() > IDS_MAX {
        let problem = Problem::argument("ids", "the request has too many nodes");
        return Err(problem.remedy(format!("give at most {IDS_MAX}")));
    }
    let number = |word: &str| {
        word.trim().parse::<u64>().map_err(|_| {
            let shown: String = word.chars().take(40).collect();
            Problem::argument("ids", format!("{shown:?} is not a node id"))
                .remedy("write ids as 1,2,3")
        })
    };
    text.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_sites_can_have_are_foreign() {
        for own in ["127.0.0.1:7401", "localhost", "LOCALHOST:1", "[::1]:7401", "10.0.0.7"] {
            assert!(is_own_name(own), "{own}");
        }
        for foreign in ["", "evil.example:7401", "localhost.evil.example", "127.0.0.1.evil:80"] {
            assert!(!is_own_name(foreign), "{foreign}");
        }
    }

    #[test]
    fn ids_are_numbers_and_few() {
        assert_eq!(ids_of("3, 1,3").ok(), Some(vec![3, 1, 3]));
        for text in ["", "1,,2", "-1", "18446744073709551616", "x"] {
            assert!(ids_of(text).is_err(), "{text:?}");
        }
        assert!(ids_of(&"1,".repeat(IDS_MAX)).is_err());
    }

    #[test]
    fn what_is_no_number_is_shown_as_text() {
        let data = [1.5_f32, f32::NAN].iter().flat_map(|n| n.to_le_bytes()).collect();
        let rows = Rows { dtype: v1::Dtype::F32, row: vec![2], count: 1, data };
        assert_eq!(row(&rows, 0), Some(vec![json!(1.5), json!("NaN")]));
    }
}
