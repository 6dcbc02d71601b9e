//! The Open Inference Protocol, version 2, as a face of the models that are served.
//!
//! A model is named `GRAPH/MODEL`, or `MODEL` where one graph alone has it. Its inputs are `nodes`
//! INT64 [n], `edges` INT64 [2, n] or `graph_ids` INT64 [n], of which a request has one; its output
//! is `rows`. What must not live here: how anything is computed, JSON. The invariant: an answer has
//! the bytes that the service of this project gives.

mod tensors;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::open_inference as oip;
use ng_rpc::{Code, Problem};
use oip::infer_parameter::ParameterChoice;
use oip::model_infer_response::InferOutputTensor;
use oip::model_metadata_response::TensorMetadata;

use self::tensors::{datatype, targets};
use crate::guard::Caller;
use crate::model::Model;
use crate::rows::Rows;
use crate::schedule::Question;
use crate::state::State;
use crate::targets::Targets;

/// What the server calls itself.
pub const NAME: &str = "neargraph";
/// The parts of the protocol beyond its core.
pub const EXTENSIONS: [&str; 1] = ["binary_tensor_data"];
/// The name of what is answered.
pub const OUTPUT: &str = "rows";
/// What runs the models.
const PLATFORM: &str = "neargraph";

/// What this server is.
pub fn server_metadata() -> oip::ServerMetadataResponse {
    oip::ServerMetadataResponse {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    }
}

/// The model of a name, and of a version unless that is empty.
///
/// # Errors
/// There is none, or several graphs have one.
pub fn model(state: &State, name: &str, version: &str) -> Result<Arc<Model>, Problem> {
    let versioned = |plain: &str| match version {
        "" => plain.to_owned(),
        version => format!("{plain}@{version}"),
    };
    if let Some((graph, plain)) = name.split_once('/') {
        let found = state.catalogue.model(graph, &versioned(plain));
        return found.map_err(|problem| problem.at("model_name"));
    }
    let graphs = state.catalogue.graphs();
    let wanted = versioned(name);
    let of = |graph: &str| state.catalogue.model(graph, &wanted).ok();
    let found: Vec<Arc<Model>> = graphs.iter().filter_map(|graph| of(&graph.name)).collect();
    match found.as_slice() {
        [only] => Ok(Arc::clone(only)),
        [] => {
            let known = state.catalogue.models();
            let known: Vec<String> = known
                .iter()
                .map(|model| {
                    format!("{}/{} version {}", model.graph.name, model.name, model.version)
                })
                .collect();
            let known = if known.is_empty() { "no models".to_owned() } else { known.join(", ") };
            let of_version =
                if version.is_empty() { String::new() } else { format!(" of version {version:?}") };
            let message = format!("model {name:?}{of_version} does not exist");
            Err(Problem::missing("MODEL_NOT_FOUND", message)
                .at("model_name")
                .remedy(format!("the server has {known}")))
        }
        several => {
            let names: Vec<String> =
                several.iter().map(|model| format!("{}/{name}", model.graph.name)).collect();
            let message = format!("several graphs have a model {name:?}");
            Err(Problem::argument("model_name", message)
                .remedy(format!("use one of {}", names.join(", "))))
        }
    }
}

/// Whether a model answers.
pub fn is_ready(model: &Model) -> bool {
    !matches!(model.engine.prepared(), Some(Err(_)))
}

/// The inputs and the output of a model. What rows look like is asked of the model itself.
///
/// # Errors
/// As [`model`], and those of the engine.
pub async fn model_metadata(
    state: &State,
    name: &str,
    version: &str,
    caller: &Caller,
) -> Result<oip::ModelMetadataResponse, Problem> {
    let model = model(state, name, version)?;
    let versions = state.catalogue.models().into_iter();
    let versions = versions
        .filter(|one| one.graph.name == model.graph.name && one.name == model.name)
        .map(|one| one.version.to_string());
    let input = |name: &str, shape: &[i64]| TensorMetadata {
        name: name.to_owned(),
        datatype: "INT64".to_owned(),
        shape: shape.to_vec(),
    };
    let rows = like(state, &model, caller).await?;
    let shape = std::iter::once(-1).chain(rows.row.iter().map(|len| *len as i64)).collect();
    let output =
        TensorMetadata { name: OUTPUT.to_owned(), datatype: datatype(rows.dtype)?.into(), shape };
    Ok(oip::ModelMetadataResponse {
        name: name.to_owned(),
        versions: versions.collect(),
        platform: PLATFORM.to_owned(),
        inputs: vec![
            input(tensors::NODES, &[-1]),
            input(tensors::EDGES, &[2, -1]),
            input(tensors::GRAPHS, &[-1]),
        ],
        outputs: vec![output],
    })
}

/// Rows of no nodes.
async fn like(state: &State, model: &Arc<Model>, caller: &Caller) -> Result<Rows, Problem> {
    if let Some(like) = model.like() {
        return Ok(like);
    }
    let targets = Targets::Nodes(Vec::new());
    let (model, at, lag, deadline) = (Arc::clone(model), None, 0, caller.deadline);
    let question = Question { model, targets, seed: 0, at, lag, deadline, permit: None };
    Ok(state.ask(caller, question).await?.rows)
}

/// Answers a request; the numbers are in `raw_output_contents`.
///
/// # Errors
/// The request is wrong, and those of the engine.
pub async fn infer(
    state: &State,
    mut request: oip::ModelInferRequest,
    caller: &Caller,
) -> Result<oip::ModelInferResponse, Problem> {
    let model = model(state, &request.model_name, &request.model_version)?;
    let (mut seed, mut at, mut lag, mut deadline) = (0, None, 0, caller.deadline);
    for (name, parameter) in &request.parameters {
        let number = || whole(name, parameter.parameter_choice.as_ref());
        match name.as_str() {
            "seed" => seed = number()?,
            "at_snapshot" => at = Some(model.graph.snapshot(Some(number()?))?),
            "max_lag_commits" => lag = number()?,
            "timeout" => {
                let end = Instant::now().checked_add(Duration::from_micros(number()?));
                deadline = [deadline, end].into_iter().flatten().min();
            }
            _ => {
                let message = format!("parameter {name:?} is unknown");
                return Err(Problem::argument("parameters", message)
                    .remedy("use seed, at_snapshot, max_lag_commits or timeout"));
            }
        }
    }
    if let Some(other) = request.outputs.iter().find(|output| output.name != OUTPUT) {
        let message = format!("the model has no output {:?}", other.name);
        return Err(Problem::argument("outputs", message).remedy(format!("request {OUTPUT:?}")));
    }
    let targets = targets(&mut request)?;
    let model_of = Arc::clone(&model);
    let question = Question { model: model_of, targets, seed, at, lag, deadline, permit: None };
    let answered = state.ask(caller, question).await?;
    let rows = answered.rows;
    let shape = std::iter::once(rows.count).chain(rows.row.iter().copied());
    let output = InferOutputTensor {
        name: OUTPUT.to_owned(),
        datatype: datatype(rows.dtype)?.to_owned(),
        shape: shape.map(|len| len as i64).collect(),
        ..InferOutputTensor::default()
    };
    let (commit, fingerprint) = answered.snapshot;
    let parameters = [
        ("commit", ParameterChoice::Uint64Param(commit)),
        // As a number, readers of JSON would round it.
        ("fingerprint", ParameterChoice::StringParam(format!("{fingerprint:016x}"))),
    ]
    .map(|(name, choice)| {
        (name.to_owned(), oip::InferParameter { parameter_choice: Some(choice) })
    });
    Ok(oip::ModelInferResponse {
        model_name: request.model_name,
        model_version: model.version.to_string(),
        id: request.id,
        parameters: parameters.into(),
        outputs: vec![output],
        raw_output_contents: vec![rows.data.into()],
    })
}

fn whole(name: &str, given: Option<&ParameterChoice>) -> Result<u64, Problem> {
    let found = match given {
        Some(ParameterChoice::Int64Param(number)) => u64::try_from(*number).ok(),
        Some(ParameterChoice::Uint64Param(number)) => Some(*number),
        _ => None,
    };
    found.ok_or_else(|| {
        let message = format!("parameter {name:?} must be a whole number of at least 0");
        Problem::argument("parameters", message).remedy("give an integer")
    })
}

/// What the protocol knows and this server does not.
pub fn unknown(what: &str) -> Problem {
    let message = format!("this server does not support the path /{what} of a model");
    Problem::new(Code::Unimplemented, "UNIMPLEMENTED", message)
        .remedy("request the metadata of the model, or inference")
}
