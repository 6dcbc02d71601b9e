//! REST on the side port: the Open Inference Protocol below `/v2`, and `POST /v1/run`.
//!
//! What must not live here: what a request means, which the services of the same names know.

mod json;
mod own;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use ng_rpc::{Code, Problem, Status, problem_told};
use serde_json::json;

use self::json::{Infer, answer, request_of};
use crate::guard::Caller;
use crate::guard::refusal::Refusal;
use crate::open_inference::{
    EXTENSIONS, NAME, infer, is_ready, model, model_metadata, server_metadata, unknown,
};
use crate::state::State;

/// Bytes of a request at most: numbers in JSON take many times as much memory while they are read.
const BODY_BYTES_MAX: usize = 4 << 20;
/// How long the JSON at the begin of a body is that goes on with binary tensors.
pub(super) const HEADER_LENGTH: &str = "inference-header-content-length";

/// What REST serves.
pub fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route("/v2/health/live", get(|| async { StatusCode::OK }))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/{*path}", get(about_model).post(ask_model))
        .route("/v1/run", post(own::run))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// All bytes of a request, within the bounds on them.
struct Whole(Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = Bytes::from_request(request, state).await;
        Ok(Self(bytes.map_err(|rejection| not_whole(&rejection))?))
    }
}

/// Why a request did not come as a whole.
fn not_whole(rejection: &BytesRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("the request has more than {BODY_BYTES_MAX} bytes");
        return Problem::new(Code::OutOfRange, "MESSAGE_TOO_LARGE", message)
            .remedy("request less at once, or use gRPC");
    }
    let mut cause = std::error::Error::source(rejection);
    while let Some(error) = cause {
        if let Some(status) = error.downcast_ref::<Status>() {
            return problem_told(status);
        }
        cause = error.source();
    }
    Problem::argument("body", rejection.body_text()).remedy("send the request again")
}

async fn ready(Shared(state): Shared<Arc<State>>) -> Result<StatusCode, Refusal> {
    match state.not_ready() {
        None => Ok(StatusCode::OK),
        Some(why) => {
            let problem = Problem::new(Code::Unavailable, "NOT_READY", why);
            Err(problem.remedy("try again later").into())
        }
    }
}

async fn server() -> Response {
    let found = server_metadata();
    Json(json!({"name": NAME, "version": found.version, "extensions": EXTENSIONS})).into_response()
}

/// What a path below `/v2/models/` names.
struct Named {
    model: String,
    version: String,
    /// `infer`, `ready` or others; the model itself if empty.
    what: String,
}

/// Takes `GRAPH/MODEL/versions/V/infer` apart: graph, version and what is asked may be left out.
fn named(path: &str) -> Result<Named, Problem> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let is_action = |part: &&str| matches!(*part, "infer" | "ready" | "config" | "stats");
    let what = if parts.len() > 1 { parts.pop_if(|part| is_action(&*part)) } else { None };
    let mut version = "";
    if let [rest @ .., "versions", found] = parts.as_slice()
        && !rest.is_empty()
    {
        version = found;
        parts.truncate(parts.len() - 2);
    }
    if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
        let message = format!("{path:?} is not the path of a model");
        return Err(Problem::missing("PATH_NOT_FOUND", message)
            .remedy("use GRAPH/MODEL or MODEL, and /infer or /ready after that if needed"));
    }
    let (version, what) = (version.to_owned(), what.unwrap_or_default().to_owned());
    Ok(Named { model: parts.join("/"), version, what })
}

async fn about_model(
    Shared(state): Shared<Arc<State>>,
    Path(path): Path<String>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Refusal> {
    let Named { model: name, version, what } = named(&path)?;
    match what.as_str() {
        "" => {
            let found = model_metadata(&state, &name, &version, &caller).await?;
            Ok(Json(json::metadata(found)).into_response())
        }
        "ready" if is_ready(&*model(&state, &name, &version)?) => {
            Ok(StatusCode::OK.into_response())
        }
        "ready" => {
            let message = format!("model {name:?} is not ready");
            Err(Problem::new(Code::Unavailable, "MODEL_NOT_READY", message)
                .remedy("see the server's log about its preparation")
                .into())
        }
        "infer" => Err(Refusal(wrong_method("POST"))),
        other => Err(Refusal(unknown(other))),
    }
}

async fn ask_model(
    Shared(state): Shared<Arc<State>>,
    Path(path): Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Result<Response, Refusal> {
    let Named { model, version, what } = named(&path)?;
    if what != "infer" {
        return Err(Refusal(wrong_method("GET")));
    }
    let Infer { mut request, binary } = request_of(&headers, body)?;
    (request.model_name, request.model_version) = (model, version);
    let (head, data) = answer(infer(&state, request, &caller).await?, binary)?;
    let mut response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    if data.is_some() {
        response = response
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(HEADER_LENGTH, head.len());
    }
    let body = [head.as_slice(), data.as_deref().unwrap_or_default()].concat();
    let failed = |error| Problem::new(Code::Internal, "DEFECT", format!("no response: {error}"));
    Ok(response.body(Body::from(body)).map_err(failed)?)
}

fn wrong_method(right: &str) -> Problem {
    Problem::argument("", "the path does not support this HTTP method")
        .remedy(format!("use {right}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_models_versions_and_what_is_asked() {
        let parts = |path| named(path).ok().map(|it| [it.model, it.version, it.what].join("|"));
        for (path, wanted) in [
            ("sage", "sage||"),
            ("papers/sage", "papers/sage||"),
            ("sage/infer", "sage||infer"),
            ("papers/sage/versions/3/infer", "papers/sage|3|infer"),
            ("sage/versions/3", "sage|3|"),
            ("sage/versions/3/ready", "sage|3|ready"),
            ("infer", "infer||"),
        ] {
            assert_eq!(parts(path).as_deref(), Some(wanted), "{path}");
        }
        for path in ["", "/", "a/b/c", "a//infer", "/infer"] {
            assert_eq!(parts(path), None, "{path}");
        }
    }
}
