//! A model: its graph, and what its file says of it.

use std::sync::Arc;

use ng_infer::dfg::Dfg;

/// What keys of this program begin with.
const PREFIX: &str = "neargraph.";

/// A graph with the metadata of its file.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// What is computed.
    pub graph: Arc<Dfg>,
    /// Keys and values of the file; those of this program begin with its name and a dot.
    pub metadata: Vec<(String, String)>,
}

impl ModelFile {
    /// What this program, when it wrote the file, said under a key.
    pub fn said(&self, key: &str) -> Option<&str> {
        let is_it = |known: &str| known.strip_prefix(PREFIX) == Some(key);
        self.metadata.iter().find(|(known, _)| is_it(known)).map(|(_, value)| value.as_str())
    }
}
