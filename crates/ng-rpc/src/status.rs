//! Errors on the wire: a code, a message, and details with the field and the remedy.

use std::fmt;
use std::time::Duration;

use ng_types::{ErrorKind, Explain, Remedy, format_bytes_up};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::connect::with_causes;

/// The domain of the reasons in the details.
const DOMAIN: &str = "neargraph";

/// An error of a request, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The status code.
    pub code: Code,
    /// The reason as a word for programs, such as `MODEL_NOT_FOUND`.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// The field of the request, such as `targets.nodes.ids`; empty if no field is wrong.
    pub field: String,
    /// What to do; empty if nothing helps.
    pub remedy: String,
    /// The time after which a retry can succeed.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// A problem without a field or a remedy.
    pub fn new(code: Code, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            field: String::new(),
            remedy: String::new(),
            retry_after: None,
        }
    }

    /// An invalid argument.
    pub fn argument(field: &str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, "INVALID_ARGUMENT", message).at(field)
    }

    /// Something that does not exist.
    pub fn missing(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, reason, message)
    }

    /// Sets the field.
    pub fn at(mut self, field: &str) -> Self {
        field.clone_into(&mut self.field);
        self
    }

    /// Sets the remedy.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Sets the time after which a retry can succeed, at random from `after` to 1.5 times `after`,
    /// so that callers that were rejected together do not retry together.
    pub fn retry_about(self, after: Duration) -> Self {
        use std::hash::{BuildHasher, RandomState};
        let chance = RandomState::new().hash_one(after) as f64 / u64::MAX as f64;
        self.retry_after(after.mul_f64(1.0 + chance / 2.0))
    }

    /// Sets the time after which a retry can succeed.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

/// The message, and the remedy if there is one.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, ": {}", self.remedy) }
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let message = problem.to_string();
        let mut details = ErrorDetails::new();
        details.set_error_info(
            problem.reason,
            DOMAIN,
            [("remedy".to_owned(), problem.remedy.clone())],
        );
        if !problem.field.is_empty() {
            details.add_bad_request_violation(problem.field, problem.message.clone());
        }
        if let Some(after) = problem.retry_after {
            details.set_retry_info(Some(after));
        }
        Status::with_error_details(problem.code, message, details)
    }
}

/// Converts the status of a server to a problem. The message does not contain the remedy.
pub fn problem_told(status: &Status) -> Problem {
    let details = status.get_error_details();
    let info = details.error_info();
    let remedy = info.and_then(|info| info.metadata.get("remedy")).cloned().unwrap_or_default();
    let violations = details.bad_request().map(|bad| bad.field_violations.as_slice());
    let field = violations.and_then(|all| all.first()).map(|one| one.field.clone());
    let advice = format!(": {remedy}");
    let message = status.message();
    let message = match remedy.is_empty() {
        true => message,
        false => message.strip_suffix(advice.as_str()).unwrap_or(message),
    };
    Problem {
        code: status.code(),
        reason: info.map(|info| info.reason.clone()).unwrap_or_default(),
        message: message.to_owned(),
        field: field.unwrap_or_default(),
        remedy,
        retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
    }
}

/// The time after which a retry can succeed, if the server has set it.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_error_details().retry_info().and_then(|retry| retry.retry_delay)
}

/// Converts an error of a lower layer to a problem for a client.
pub fn problem_of(error: &dyn Explain) -> Problem {
    let (kind, remedies) = error.explain();
    let (code, reason) = code_of(kind);
    let mut advice: Vec<String> = remedies.iter().filter_map(advice).collect();
    advice.dedup();
    Problem::new(code, reason, with_causes(error)).remedy(advice.join(", or "))
}

fn code_of(kind: ErrorKind) -> (Code, &'static str) {
    match kind {
        ErrorKind::StoreNotFound => (Code::NotFound, "STORE_NOT_FOUND"),
        ErrorKind::NotAStore => (Code::FailedPrecondition, "NOT_A_STORE"),
        ErrorKind::NewerVersion => (Code::FailedPrecondition, "NEWER_VERSION"),
        ErrorKind::StoreDamaged => (Code::DataLoss, "STORE_DAMAGED"),
        ErrorKind::LogDamaged => (Code::DataLoss, "LOG_DAMAGED"),
        ErrorKind::IoFailed => (Code::Internal, "IO_FAILED"),
        ErrorKind::BudgetTooSmall => (Code::ResourceExhausted, "BUDGET_TOO_SMALL"),
        ErrorKind::NodeOutOfRange => (Code::OutOfRange, "NODE_OUT_OF_RANGE"),
        ErrorKind::NameNotFound => (Code::NotFound, "NAME_NOT_FOUND"),
        ErrorKind::UnsupportedArgument => (Code::InvalidArgument, "UNSUPPORTED_ARGUMENT"),
        ErrorKind::StoreBusy => (Code::Unavailable, "STORE_BUSY"),
        ErrorKind::NodeNotFound => (Code::NotFound, "NODE_NOT_FOUND"),
        ErrorKind::EdgeNotFound => (Code::NotFound, "EDGE_NOT_FOUND"),
        ErrorKind::ReverseMissing => (Code::FailedPrecondition, "REVERSE_MISSING"),
        ErrorKind::RowWidth => (Code::InvalidArgument, "ROW_WIDTH"),
        ErrorKind::TransactionEnded => (Code::Aborted, "TRANSACTION_ENDED"),
        ErrorKind::StorePoisoned => (Code::FailedPrecondition, "STORE_POISONED"),
        ErrorKind::CompiledMismatch => (Code::FailedPrecondition, "COMPILED_MISMATCH"),
        ErrorKind::InvalidModel => (Code::InvalidArgument, "INVALID_MODEL"),
        ErrorKind::UnsupportedModel => (Code::InvalidArgument, "UNSUPPORTED_MODEL"),
        ErrorKind::WrongInput => (Code::InvalidArgument, "WRONG_INPUT"),
        ErrorKind::PluginRefused => (Code::FailedPrecondition, "PLUGIN_REFUSED"),
        ErrorKind::CompiledOutdated => (Code::FailedPrecondition, "COMPILED_OUTDATED"),
        ErrorKind::ImportFailed => (Code::InvalidArgument, "IMPORT_FAILED"),
        ErrorKind::Stopped => (Code::Cancelled, "STOPPED"),
        ErrorKind::Defect => (Code::Internal, "DEFECT"),
    }
}

/// A remedy in the words of this face, where a client or an operator can apply it.
fn advice(remedy: &Remedy) -> Option<String> {
    let words = match remedy {
        Remedy::RaiseMemory(bytes) => {
            let bytes = format_bytes_up(*bytes);
            return Some(format!("give the graph a memory budget of at least {bytes}"));
        }
        Remedy::FreeMemory => "free memory on the server's machine",
        Remedy::SmallerBatches => "request less at once",
        Remedy::DropBatches => "release batches that are still held",
        Remedy::MakeWritable => "make the folder of the graph writable",
        Remedy::Restore => "restore the graph from a backup",
        Remedy::CloseOther | Remedy::WaitLonger => "try again after the other writer has ended",
        Remedy::KeepReverse => "import the graph again and keep the reverse of edge types",
        Remedy::KeepEdgeIds => "import the graph again and keep edge ids",
        Remedy::ExportAgain => "export the trained model again",
        Remedy::CopyModel => "copy the model's files again from a complete copy",
        Remedy::TrainAgain => "train the model again, because its weights contain NaN or infinity",
        Remedy::Import => "check the path of the graph",
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_are_refused_together_come_back_apart() {
        let after = Duration::from_millis(100);
        let told = || Problem::new(Code::ResourceExhausted, "FULL", "full").retry_about(after);
        let times: std::collections::BTreeSet<_> =
            (0..100).filter_map(|_| told().retry_after).collect();
        assert!(times.len() > 50, "{} different times", times.len());
        assert!(times.iter().all(|time| (after..=after.mul_f64(1.5)).contains(time)), "{times:?}");
    }

    #[test]
    fn a_problem_tells_field_remedy_and_time() {
        let problem = Problem::argument("targets", "no targets")
            .remedy("name nodes")
            .retry_after(Duration::from_millis(20));
        let status = Status::from(problem.clone());
        assert_eq!(problem_told(&status), problem);
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "no targets: name nodes");
        let details = status.get_error_details();
        let violations = &details.bad_request().map(|bad| bad.field_violations.clone());
        assert_eq!(violations.as_ref().map(|all| all[0].field.as_str()), Some("targets"));
        let after = details.retry_info().and_then(|retry| retry.retry_delay);
        assert_eq!(after, Some(Duration::from_millis(20)));
        let info =
            details.error_info().map(|info| (info.reason.as_str(), &info.metadata["remedy"]));
        assert_eq!(info, Some(("INVALID_ARGUMENT", &"name nodes".to_owned())));
    }
}
