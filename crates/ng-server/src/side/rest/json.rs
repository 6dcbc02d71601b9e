//! Requests and answers of the Open Inference Protocol as JSON, with binary tensors behind it.

use std::collections::{BTreeMap, HashMap};

use axum::body::Bytes;
use axum::http::HeaderMap;
use ng_rpc::open_inference as oip;
use ng_rpc::{Problem, v1};
use oip::infer_parameter::ParameterChoice;
use oip::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use oip::model_metadata_response::TensorMetadata;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::HEADER_LENGTH;

/// The parameters that say where numbers are.
const BINARY_SIZE: &str = "binary_data_size";
const BINARY: &str = "binary_data";
const BINARY_OUTPUT: &str = "binary_data_output";
/// Lists in lists of numbers.
const DEPTH_MAX: usize = 4;

type Parameters = BTreeMap<String, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    id: String,
    #[serde(default)]
    parameters: Parameters,
    inputs: Vec<Input>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    shape: Vec<i64>,
    datatype: String,
    #[serde(default)]
    parameters: Parameters,
    data: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

/// A request.
pub struct Infer {
    /// Without the name of the model.
    pub request: oip::ModelInferRequest,
    /// Whether numbers are answered in binary.
    pub binary: bool,
}

/// The request of a body.
///
/// # Errors
/// It is not valid.
pub fn request_of(headers: &HeaderMap, body: Bytes) -> Result<Infer, Problem> {
    let (head, mut rest) = match headers.get(HEADER_LENGTH) {
        None => (body, Bytes::new()),
        Some(length) => {
            let length = length.to_str().ok().and_then(|text| text.parse::<usize>().ok());
            let length = length.filter(|length| *length <= body.len()).ok_or_else(|| {
                let message = format!("{HEADER_LENGTH} is not the length of the JSON in the body");
                Problem::argument(HEADER_LENGTH, message)
                    .remedy("give the number of bytes before the binary tensors")
            })?;
            (body.slice(..length), body.slice(length..))
        }
    };
    let asked: Asked = serde_json::from_slice(&head).map_err(|error| {
        Problem::argument("body", format!("the body is not a valid request: {error}"))
            .remedy("send JSON of the Open Inference Protocol")
    })?;
    let Asked { id, mut parameters, inputs, outputs } = asked;
    let mut binary = flag(&mut parameters, BINARY_OUTPUT)?;
    let mut request = oip::ModelInferRequest { id, ..oip::ModelInferRequest::default() };
    for Input { name, shape, datatype, mut parameters, data } in inputs {
        let contents = match (parameters.remove(BINARY_SIZE), data) {
            (None, Some(data)) => Some(contents(&datatype, &data)?),
            (Some(size), None) => {
                let size = size.as_u64().filter(|size| *size <= rest.len() as u64);
                let size = size.ok_or_else(|| {
                    Problem::argument(
                        BINARY_SIZE,
                        format!("{BINARY_SIZE} of input {name:?} does not fit the body"),
                    )
                    .remedy("give the number of bytes of its binary tensor")
                })?;
                request.raw_input_contents.push(rest.split_to(size as usize));
                None
            }
            _ => {
                let message = format!("the values of input {name:?} are missing or given twice");
                return Err(Problem::argument("inputs.data", message)
                    .remedy("give them as data, or as a binary tensor after the JSON"));
            }
        };
        let parameters = converted(parameters)?;
        request.inputs.push(InferInputTensor { name, datatype, shape, parameters, contents });
    }
    if !rest.is_empty() {
        let message = format!("{} bytes follow the last tensor", rest.len());
        return Err(Problem::argument("body", message).remedy("send no bytes after the tensors"));
    }
    for Output { name, mut parameters } in outputs {
        binary |= flag(&mut parameters, BINARY)?;
        let parameters = converted(parameters)?;
        request.outputs.push(InferRequestedOutputTensor { name, parameters });
    }
    request.parameters = converted(parameters)?;
    Ok(Infer { request, binary })
}

fn flag(parameters: &mut Parameters, name: &str) -> Result<bool, Problem> {
    match parameters.remove(name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => {
            Err(Problem::argument(name, format!("{name} is {other}")).remedy("give true or false"))
        }
    }
}

fn converted(parameters: Parameters) -> Result<HashMap<String, oip::InferParameter>, Problem> {
    let one = |(name, value): (String, Value)| {
        let choice = match &value {
            Value::Bool(flag) => ParameterChoice::BoolParam(*flag),
            Value::String(text) => ParameterChoice::StringParam(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => ParameterChoice::Int64Param(number),
                (_, Some(number), _) => ParameterChoice::Uint64Param(number),
                (.., number) => ParameterChoice::DoubleParam(number.unwrap_or(f64::NAN)),
            },
            other => {
                return Err(Problem::argument(
                    "parameters",
                    format!("parameter {name:?} is {other}, which is not valid"),
                )
                .remedy("give a number, a text, true or false"));
            }
        };
        Ok((name, oip::InferParameter { parameter_choice: Some(choice) }))
    };
    parameters.into_iter().map(one).collect()
}

/// Numbers of a tensor, as they stand in lists.
fn contents(datatype: &str, data: &Value) -> Result<oip::InferTensorContents, Problem> {
    let (mut signed, mut unsigned) = (Vec::new(), Vec::new());
    let takes_negative = datatype.starts_with('I');
    flattened(data, DEPTH_MAX, &mut |value| {
        let taken = if takes_negative {
            value.as_i64().map(|number| signed.push(number))
        } else {
            value.as_u64().map(|number| unsigned.push(number))
        };
        taken.ok_or_else(|| {
            Problem::argument("inputs.data", format!("{value} is not a valid {datatype} value"))
                .remedy("give whole numbers")
        })
    })?;
    let narrow = || {
        Problem::argument("inputs.data", format!("a number is too large for {datatype}"))
            .remedy("use the datatype INT64")
    };
    let mut made = oip::InferTensorContents::default();
    match datatype {
        "INT32" => {
            let all = signed.into_iter().map(|one| i32::try_from(one).map_err(|_| narrow()));
            made.int_contents = all.collect::<Result<_, _>>()?;
        }
        "UINT32" => {
            let all = unsigned.into_iter().map(|one| u32::try_from(one).map_err(|_| narrow()));
            made.uint_contents = all.collect::<Result<_, _>>()?;
        }
        _ => (made.int64_contents, made.uint64_contents) = (signed, unsigned),
    }
    Ok(made)
}

fn flattened(
    value: &Value,
    depth: usize,
    take: &mut impl FnMut(&Value) -> Result<(), Problem>,
) -> Result<(), Problem> {
    match value {
        Value::Array(all) if depth > 0 => {
            all.iter().try_for_each(|one| flattened(one, depth - 1, take))
        }
        Value::Array(_) => Err(Problem::argument("inputs.data", "the lists are nested too deep")
            .remedy("give one list of numbers")),
        number => take(number),
    }
}

/// Numbers that JSON can hold; what is not finite becomes `null`.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Numbers {
    /// With the fewest digits that give the same number again.
    Floats(Vec<f32>),
    /// The same of f64.
    Doubles(Vec<f64>),
    /// Whole ones.
    Whole(Vec<i64>),
    /// Flags.
    Flags(Vec<bool>),
}

/// The numbers of a tensor.
///
/// # Errors
/// JSON cannot hold them.
pub fn numbers(dtype: v1::Dtype, bytes: &[u8]) -> Result<Numbers, Problem> {
    fn of<const N: usize, T>(bytes: &[u8], to: impl Fn([u8; N]) -> T) -> Vec<T> {
        let (chunks, _) = bytes.as_chunks::<N>();
        chunks.iter().map(|chunk| to(*chunk)).collect()
    }
    Ok(match dtype {
        v1::Dtype::F64 => Numbers::Doubles(of(bytes, f64::from_le_bytes)),
        v1::Dtype::F32 => Numbers::Floats(of(bytes, f32::from_le_bytes)),
        v1::Dtype::I64 => Numbers::Whole(of(bytes, i64::from_le_bytes)),
        v1::Dtype::I32 => Numbers::Whole(of(bytes, |it| i32::from_le_bytes(it).into())),
        v1::Dtype::I16 => Numbers::Whole(of(bytes, |it| i16::from_le_bytes(it).into())),
        v1::Dtype::I8 => Numbers::Whole(of(bytes, |it| i8::from_le_bytes(it).into())),
        v1::Dtype::U8 => Numbers::Whole(of(bytes, |[it]: [u8; 1]| it.into())),
        v1::Dtype::Bool => Numbers::Flags(of(bytes, |[it]: [u8; 1]| it != 0)),
        v1::Dtype::F16 | v1::Dtype::Bf16 | v1::Dtype::Unspecified => {
            let message =
                format!("rows of dtype {} cannot be written as JSON", dtype.as_str_name());
            return Err(Problem::argument("outputs", message)
                .remedy("request binary data with binary_data=true"));
        }
    })
}

/// An answer: its JSON, and what comes behind that.
///
/// # Errors
/// JSON cannot hold the numbers.
pub fn answer(
    found: oip::ModelInferResponse,
    binary: bool,
) -> Result<(Vec<u8>, Option<Bytes>), Problem> {
    let raw = found.raw_output_contents.into_iter().next().unwrap_or_default();
    let output = found.outputs.into_iter().next().unwrap_or_default();
    let dtype = dtype_of(&output.datatype);
    let whole = |parameter: &oip::InferParameter| match parameter.parameter_choice {
        Some(ParameterChoice::Uint64Param(number)) => json!(number),
        _ => Value::Null,
    };
    let parameters = found.parameters.iter().map(|(name, it)| (name.clone(), whole(it)));
    let shown = Shown {
        model_name: found.model_name,
        model_version: found.model_version,
        id: Some(found.id).filter(|id| !id.is_empty()),
        parameters: parameters.collect(),
        outputs: [ShownOutput {
            name: output.name,
            datatype: output.datatype,
            shape: output.shape,
            parameters: binary.then(|| json!({BINARY_SIZE: raw.len()})),
            data: (!binary).then(|| numbers(dtype, &raw)).transpose()?,
        }],
    };
    let head = serde_json::to_vec(&shown)
        .map_err(|error| Problem::argument("outputs", error.to_string()))?;
    Ok((head, binary.then_some(raw)))
}

#[derive(Serialize)]
struct Shown {
    model_name: String,
    model_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    parameters: Parameters,
    outputs: [ShownOutput; 1],
}

#[derive(Serialize)]
struct ShownOutput {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Numbers>,
}

fn dtype_of(datatype: &str) -> v1::Dtype {
    match datatype {
        "FP64" => v1::Dtype::F64,
        "FP32" => v1::Dtype::F32,
        "INT64" => v1::Dtype::I64,
        "INT32" => v1::Dtype::I32,
        "INT16" => v1::Dtype::I16,
        "INT8" => v1::Dtype::I8,
        "UINT8" => v1::Dtype::U8,
        "BOOL" => v1::Dtype::Bool,
        "FP16" => v1::Dtype::F16,
        "BF16" => v1::Dtype::Bf16,
        _ => v1::Dtype::Unspecified,
    }
}

/// What a model takes and gives.
pub fn metadata(found: oip::ModelMetadataResponse) -> Value {
    let tensor = |it: &TensorMetadata| {
        let shape = &it.shape;
        json!({"name": it.name, "datatype": it.datatype, "shape": shape})
    };
    let tensors = |all: &[TensorMetadata]| all.iter().map(tensor).collect::<Vec<_>>();
    json!({
        "name": found.name, "versions": found.versions, "platform": found.platform,
        "inputs": tensors(&found.inputs), "outputs": tensors(&found.outputs),
    })
}
