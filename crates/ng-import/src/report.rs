//! The report of an import: sizes, times and notes.

use ng_types::Remedy;
use serde::Serialize;

/// The result of an import.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// Rows of the edge lists.
    pub rows: u64,
    /// Entries of the neighbour lists, both directions of undirected edges.
    pub entries: u64,
    /// Time from [`crate::Importer::new`] to the end.
    pub seconds: f64,
    /// Time of sorting and writing the topology.
    pub topology_seconds: f64,
    /// Time from the start of the first tensor to the last row.
    pub tensor_seconds: f64,
    /// The part of the topology's time during which tensors were written, 0 to 1.
    pub hidden_share: f64,
    /// Time of syncing.
    pub publish_seconds: f64,
    /// The largest size of temporary data on disk.
    pub temp_bytes: u64,
    /// Bytes of temporary data written.
    pub temp_written_bytes: u64,
    /// Bytes of the store.
    pub disk_bytes: u64,
    /// The largest resident memory of this process so far.
    pub peak_rss_bytes: u64,
    /// Threads that parsed and sorted.
    pub threads: usize,
    /// Input that was dropped, doubled, replaced or unusual.
    pub notes: Vec<Note>,
    /// Why the replaced store could not be removed, if so. The next import to this path or the next
    /// rewriting of the store removes the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// The store's fingerprint, 16 hexadecimal digits.
    pub fingerprint: String,
}

/// A fact about the input that a user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// A stable code, such as `columns-dropped`.
    pub code: String,
    /// The number of affected items.
    pub count: u64,
    /// The file, column, tensor or type.
    #[serde(rename = "where")]
    pub place: String,
    /// The message, without the place.
    pub message: String,
    /// What to do, if an interface has its own words for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
    /// An option of the import requested it, so `strict` ignores it.
    pub requested: bool,
}

impl Note {
    /// A note that no option requested.
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
