//! A fuzzer of the ONNX reader that knows the wire format and needs no special compiler.
//!
//! What lives here: the loop, and what must hold for every input. What must not: mutations. The
//! invariant: an input either becomes a model whose parts fit together, or an error whose message
//! is one short line; nothing panics.
//!
//! Inputs with an outcome not seen before (a message with other words, or an accepted model of
//! other size) join the corpus, so that changes add up. Three of four inputs are made from
//! accepted models, because only these come far.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ng_infer::onnx::{Data, ExternalFiles, Graph, Model, OnnxError, Range};
use ng_testing::Random;
use prost::Message;

use super::wire::{INPUT_BYTES_MAX, index, mutate};
use super::{full, small};

/// Models, and refused inputs, that are kept at most.
const CORPUS_MAX: usize = 512;
/// Bytes of a message at most.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Bytes of each file beside a model.
const FILE_BYTES: u64 = 64;

/// What a run did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Inputs that were read.
    pub executions: u64,
    /// Those that became models.
    pub accepted: u64,
    /// Messages with other words, and sizes of models, that were seen.
    pub kinds: usize,
}

/// Reads `executions` mutated inputs.
///
/// # Errors
/// The input in hexadecimal with what went wrong.
pub fn run(seed: u64, executions: u64) -> Result<Outcome, String> {
    let mut random = Random::new(seed);
    let mut models = vec![small().encode_to_vec(), full().encode_to_vec()];
    let mut refused: Vec<Vec<u8>> = Vec::new();
    let mut seen = HashSet::new();
    let mut outcome = Outcome::default();
    for execution in 0..executions {
        let corpus = if random.below(4) > 0 || refused.is_empty() { &models } else { &refused };
        let base = &corpus[index(&mut random, corpus.len())];
        let donor = &corpus[index(&mut random, corpus.len())];
        let input = mutate(base, donor, &mut random);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = Model::decode_within(&input, INPUT_BYTES_MAX as u64);
            check(&result);
            result
        }));
        let Ok(result) = result else {
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(format!("seed {seed}, execution {execution}, input {hex}"));
        };
        outcome.accepted += u64::from(result.is_ok());
        let corpus = if result.is_ok() { &mut models } else { &mut refused };
        if seen.insert(kind(&result)) && corpus.len() < CORPUS_MAX {
            corpus.push(input);
        }
    }
    outcome.executions = executions;
    outcome.kinds = seen.len();
    Ok(outcome)
}

/// What tells one outcome from another: words of the message outside quotes, without numbers.
fn kind(result: &Result<Model, OnnxError>) -> String {
    match result {
        Ok(model) => {
            let graph = &model.graph;
            format!(
                "{} {} {} {}",
                graph.nodes.len(),
                graph.initializers.len(),
                model.functions.len(),
                graph.inputs.len()
            )
        }
        Err(error) => {
            let message = error.to_string();
            let words = message.split('"').step_by(2).flat_map(str::chars);
            words.filter(|c| !c.is_ascii_digit()).take(200).collect()
        }
    }
}

/// What must hold for every result.
fn check(result: &Result<Model, OnnxError>) {
    let model = match result {
        Ok(model) => model,
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() <= MESSAGE_BYTES_MAX, "{} bytes", message.len());
            assert!(!message.chars().any(char::is_control), "{message:?}");
            return;
        }
    };
    check_graph(&model.graph);
    check_files(model);
}

/// Weights are read inside files of any length, or refused.
fn check_files(model: &Model) {
    let read = |range: &Range, into: &mut [u8]| {
        assert_eq!(into.len() as u64, range.length);
        assert!(range.offset + range.length <= FILE_BYTES);
        Ok(())
    };
    if let Ok(mut files) = ExternalFiles::new(model, |_| Ok(FILE_BYTES), read) {
        for tensor in &model.graph.initializers {
            let bytes = files.bytes(tensor).map(|bytes| bytes.len() as u64);
            assert_eq!(bytes.ok(), Some(tensor.bytes_len()), "zeros are finite");
        }
    }
}

/// Values are defined before they are read, and data fits its shape.
fn check_graph(graph: &Graph) {
    let mut defined: HashSet<&str> = graph.inputs.iter().map(|value| value.name.as_str()).collect();
    for tensor in &graph.initializers {
        assert!(defined.insert(&tensor.name), "{}", tensor.name);
        let elements: u64 = tensor.dims.iter().product();
        assert_eq!(tensor.bytes_len(), elements * tensor.dtype.size_bytes() as u64);
        if let Data::External(range) = &tensor.data {
            assert!(!range.file.contains(['/', '\\', '\0']) && !range.file.contains(".."));
            assert!(range.offset.checked_add(range.length).is_some());
        }
    }
    for node in &graph.nodes {
        assert!(node.inputs.iter().all(|name| name.is_empty() || defined.contains(name.as_str())));
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            assert!(defined.insert(name), "{name}");
        }
    }
    assert!(graph.outputs.iter().all(|value| defined.contains(value.name.as_str())));
}
