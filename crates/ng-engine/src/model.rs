//! A model: its graph, and what its file says of it.

use std::sync::Arc;

use ng_infer::dfg::Dfg;

/// A graph with the metadata of its file.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// What is computed.
    pub graph: Arc<Dfg>,
    /// Keys and values of the file, such as `neargraph.fanouts`.
    pub metadata: Vec<(String, String)>,
}

impl ModelFile {
    /// The value of a key.
    pub fn said(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}
