//! BatchPre in a model file: a note in its metadata, since no runtime of ONNX has a store.
//!
//! The file has what BatchPre gives as inputs. The note says in JSON that they come from it:
//! `{"in": "Batch", "shape": ["seeds"], "out": ["1_0", "1_1"]}`. A name in the shape is a count.

use serde_json::{Value as Json, json};

use super::error::ConvertError;
use crate::dfg::{Dfg, Dim, Op, Source, TensorType, Value};
use crate::onnx::Model;
use ng_types::Dtype;

/// The key of the note.
pub const BATCH_PRE_KEY: &str = concat!("neargraph.", "batch_pre");

/// The node in a graph that is written.
pub(super) struct BatchPreNode {
    pub batch: Value,
    pub gives: Vec<Value>,
}

impl BatchPreNode {
    /// Whether it is an input of the graph that the file does not have.
    pub fn hides(&self, value: Value) -> bool {
        value == self.batch
    }

    /// Whether it is an input of the file that the graph does not have.
    pub fn gives(&self, value: Value) -> bool {
        self.gives.contains(&value)
    }

    /// The entry of the metadata.
    pub fn entry(&self, dfg: &Dfg) -> (String, String) {
        let dim = |dim: &Dim| match dim.number() {
            Some(number) => Json::from(number),
            None => Json::from(dim.to_string()),
        };
        let shape: Vec<Json> = match dfg.source(self.batch) {
            Source::Input { wanted: Some(wanted) } => wanted.shape.iter().map(dim).collect(),
            _ => Vec::new(),
        };
        let out: Vec<&str> = self.gives.iter().map(|value| dfg.name(*value)).collect();
        let note = json!({"in": dfg.name(self.batch), "shape": shape, "out": out});
        (BATCH_PRE_KEY.to_owned(), note.to_string())
    }
}

/// What the note of a file says.
pub(super) struct Note {
    batch: String,
    shape: Vec<Dim>,
    out: [String; 2],
}

impl Note {
    /// The note of a file, if it has one.
    pub fn of(model: &Model) -> Result<Option<Self>, ConvertError> {
        let Some((_, text)) = model.metadata.iter().find(|(key, _)| key == BATCH_PRE_KEY) else {
            return Ok(None);
        };
        let note = Self::parsed(text).filter(|note| {
            let is_input = |name: &String| model.graph.inputs.iter().any(|i| i.name == *name);
            note.out.iter().all(is_input) && note.out[0] != note.out[1]
        });
        note.map(Some).ok_or(ConvertError::Metadata { key: BATCH_PRE_KEY })
    }

    fn parsed(text: &str) -> Option<Self> {
        let note: Json = serde_json::from_str(text).ok()?;
        let name = |json: &Json| json.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        let dim = |json: &Json| match json.as_i64() {
            Some(number) => (number >= 0).then(|| Dim::from(number)),
            None => name(json).map(|name| Dim::symbol(&name)),
        };
        let out: Vec<String> = note["out"].as_array()?.iter().map(name).collect::<Option<_>>()?;
        Some(Self {
            batch: name(&note["in"])?,
            shape: note["shape"].as_array()?.iter().map(dim).collect::<Option<_>>()?,
            out: out.try_into().ok()?,
        })
    }

    /// Whether an input of the file comes from BatchPre.
    pub fn gives(&self, input: &str) -> bool {
        self.out.iter().any(|name| name == input)
    }

    /// Adds the input of BatchPre.
    pub fn create_in(&self, dfg: &mut Dfg) -> Result<(), ConvertError> {
        let wanted = TensorType { dtype: Dtype::I64, shape: self.shape.clone() };
        dfg.create_in(&self.batch, Some(wanted))?;
        Ok(())
    }

    /// Adds the node.
    pub fn create_op(&self, dfg: &mut Dfg) -> Result<(), ConvertError> {
        let batch: Vec<Value> = dfg.value(&self.batch).into_iter().collect();
        dfg.create_named("node 1", Op::BatchPre, &batch, &self.out)?;
        Ok(())
    }
}
