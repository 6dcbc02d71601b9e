//! What an import reports: what it did, and notes of what a user should know.

use ng_types::Remedy;
use serde::Serialize;

/// What an import did.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// Rows of the edge lists.
    pub rows: u64,
    /// Entries of the neighbour lists, both directions of undirected edges.
    pub entries: u64,
    /// From [`crate::Importer::new`] to the end.
    pub seconds: f64,
    /// Sorting and writing the topology.
    pub topology_seconds: f64,
    /// From the first tensor's beginning to the last row.
    pub tensor_seconds: f64,
    /// The part of the topology's time during which tensors were written, 0 to 1.
    pub hidden_share: f64,
    /// Making everything durable.
    pub publish_seconds: f64,
    /// The most temporary data on disk at once.
    pub temp_bytes: u64,
    /// All temporary data written.
    pub temp_written_bytes: u64,
    /// Bytes of the store.
    pub disk_bytes: u64,
    /// The largest resident memory of this process so far.
    pub peak_rss_bytes: u64,
    /// Threads that parsed and sorted.
    pub threads: usize,
    /// What was dropped, doubled, replaced or odd.
    pub notes: Vec<Note>,
    /// Why the store that was replaced could not be removed, if so; the next import to this name,
    /// and the next rewriting of the store, removes what is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// The store's fingerprint, 16 hexadecimal digits.
    pub fingerprint: String,
}

/// Something that a user should know about the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// A stable name of what happened, like `columns-dropped`.
    pub code: String,
    /// How many there are of it.
    pub count: u64,
    /// The file, column, tensor or type.
    #[serde(rename = "where")]
    pub place: String,
    /// What happened, without the place.
    pub message: String,
    /// What to do about it, where a face says it in words of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// An option of the import asked for it, so `strict` lets it pass.
    pub requested: bool,
}

impl Note {
    /// A note about something that nobody asked for.
    pub fn new(code: &str, count: u64, place: String, message: String) -> Self {
        Self { code: code.to_owned(), count, place, message, remedy: None, requested: false }
    }

    pub(crate) fn with(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    pub(crate) fn requested(self) -> Self {
        Self { requested: true, ..self }
    }
}
