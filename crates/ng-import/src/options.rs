//! The options of an import.

use std::path::PathBuf;

/// Resources of an import, and the form of the store.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Memory of the whole process in bytes. Default: a quarter of the machine's memory.
    pub memory: Option<u64>,
    /// Threads that parse and sort. Default: one per core.
    pub threads: Option<usize>,
    /// Bytes of a topology page: a power of two from 4096 to 65536.
    pub page_bytes: usize,
    /// The filled part of topology pages, above 0 and at most 1.
    pub fill: f64,
    /// Reuse the ids of deleted nodes.
    pub reuse_ids: bool,
    /// Replace an existing store.
    pub overwrite: bool,
    /// Fail if there is a note that no option requested.
    pub strict: bool,
    /// Directory for temporary data. Default: that of the store.
    pub scratch_dir: Option<PathBuf>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            memory: None,
            threads: None,
            page_bytes: ng_store::PAGE_SIZES[0] as usize,
            fill: 0.9,
            reuse_ids: false,
            overwrite: false,
            strict: false,
            scratch_dir: None,
        }
    }
}

/// The treatment of edges from a node to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfLoops {
    /// They are kept.
    #[default]
    Keep,
    /// They are removed.
    Remove,
    /// Every node without a self loop gets one. Its edge id is the number of edge ids of the list
    /// plus the node's id; its weight is 1.
    Add,
}

/// An edge type: how its edges are read, and the columns that are stored.
#[derive(Clone, Debug, Default)]
pub struct EdgeTypeSpec {
    /// Name of the node type of the sources.
    pub source: String,
    /// Name of the relation.
    pub relation: String,
    /// Name of the node type of the destinations.
    pub destination: String,
    /// Each edge of the list has both directions, with one edge id. A self loop has one entry.
    pub undirected: bool,
    /// Of several edges with the same ends, only the one with the smallest edge id is kept. If the
    /// type is undirected, the order of the ends does not matter.
    pub unique: bool,
    /// The treatment of self loops.
    pub self_loops: SelfLoops,
    /// Also store the edges by source, as an edge type of its own.
    pub reverse: bool,
    /// Store the edge id with each entry: the row in the list, or the given one.
    pub edge_ids: bool,
    /// The edges have a time, by which lists are sorted.
    pub time: bool,
    /// The edges have a weight.
    pub weight: bool,
}

impl EdgeTypeSpec {
    /// A directed multigraph without columns.
    pub fn between(source: &str, relation: &str, destination: &str) -> Self {
        Self {
            source: source.to_owned(),
            relation: relation.to_owned(),
            destination: destination.to_owned(),
            ..Self::default()
        }
    }
}

/// A column of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its position, counted from 0.
    Index(usize),
    /// By its name in the header.
    Name(String),
}

/// The format of a text file.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// The separator of columns. Default: detected in the first line of data. A space means any run
    /// of spaces and tabs.
    pub delimiter: Option<u8>,
    /// Lines that start with this are skipped.
    pub comment: Option<String>,
    /// The first line of data names the columns.
    pub header: bool,
    /// The column of the source.
    pub source_column: Column,
    /// The column of the destination.
    pub destination_column: Column,
    /// The column of the time; required if and only if the edge type has one.
    pub time_column: Option<Column>,
    /// The column of the weight; required if and only if the edge type has one.
    pub weight_column: Option<Column>,
    /// Times are multiplied by this and rounded, so that fractional times become integers.
    pub time_scale: Option<f64>,
    /// Each line is a source followed by any number of its destinations.
    pub adjacency: bool,
    /// The name of the file in messages. Default: its path.
    pub shown: Option<PathBuf>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            comment: Some("#".to_owned()),
            header: false,
            source_column: Column::Index(0),
            destination_column: Column::Index(1),
            time_column: None,
            weight_column: None,
            time_scale: None,
            adjacency: false,
            shown: None,
        }
    }
}

/// The progress of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage, as text for users.
    pub stage: &'static str,
    /// Units done.
    pub done: u64,
    /// Units in total.
    pub total: u64,
}

/// Called several times per second with the progress; `false` stops the import.
pub type OnProgress<'a> = dyn FnMut(Progress) -> bool + 'a;
