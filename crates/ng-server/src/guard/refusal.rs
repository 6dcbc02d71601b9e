//! A problem as HTTP says it: the one table from codes to statuses, and from them back.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use ng_rpc::{Code, Problem, http};
use serde_json::json;

/// Why there is no answer, as REST and the page are told it.
#[derive(Debug)]
pub struct Refusal(pub Problem);

/// A problem beside the answer that tells it, for the log.
#[derive(Clone)]
pub struct Said {
    /// The code of gRPC.
    pub code: Code,
    /// What is wrong, and what to do.
    pub message: String,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let said = Said { code: problem.code, message: problem.to_string() };
        let after = problem.retry_after;
        let body = json!({
            "error": said.message,
            "reason": problem.reason,
            "field": problem.field,
            "retry_after_ms": after.map(|after| after.as_millis() as u64),
        });
        let mut response = (status_of(problem.code), Json(body)).into_response();
        response.extensions_mut().insert(said);
        let headers = response.headers_mut();
        if problem.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = after {
            // Whole seconds are all that the header can say.
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}

/// The status that says a code.
pub fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        // What nginx calls a client that has gone.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Internal | Code::DataLoss | Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The code of an answer that names none: those of the library in front of the services.
pub fn code_of(status: StatusCode) -> Code {
    match status {
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => Code::Unimplemented,
        StatusCode::PAYLOAD_TOO_LARGE => Code::OutOfRange,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        other if other.is_client_error() => Code::InvalidArgument,
        other if other.is_server_error() => Code::Internal,
        _ => Code::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_status_of_its_kind() {
        for number in 1..=16 {
            let code = Code::from_i32(number);
            let status = status_of(code);
            assert!(status.is_client_error() || status.is_server_error(), "{code:?}: {status}");
            let is_ours = matches!(
                code,
                Code::Internal
                    | Code::DataLoss
                    | Code::Unknown
                    | Code::Unimplemented
                    | Code::Unavailable
                    | Code::DeadlineExceeded
            );
            assert_eq!(status.is_server_error(), is_ours, "{code:?}: {status}");
        }
        assert_eq!((status_of(Code::Ok), code_of(StatusCode::OK)), (StatusCode::OK, Code::Ok));
    }
}
