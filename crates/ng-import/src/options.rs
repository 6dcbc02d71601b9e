//! What a caller can choose.

use std::path::PathBuf;

/// How an import uses the machine, and what the store looks like.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Memory for the whole process in bytes; `None` takes a quarter of the machine's.
    pub memory: Option<u64>,
    /// Threads that parse and sort; `None` takes one per core.
    pub threads: Option<usize>,
    /// Bytes of a topology page: 4096 to 65536, a power of two.
    pub page_bytes: usize,
    /// How full topology pages are made, above 0 and at most 1.
    pub fill: f64,
    /// Give the ids of deleted nodes to new ones.
    pub reuse_ids: bool,
    /// Replace a store that exists already.
    pub overwrite: bool,
    /// Refuse to publish a store if there is a note that no option asked for.
    pub strict: bool,
    /// Where temporary data goes; `None` takes the directory of the store.
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

/// What happens to edges from a node to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelfLoops {
    /// They stay as they are.
    #[default]
    Keep,
    /// They are left out.
    Remove,
    /// Every node without one gets one. Its edge id is the number of edge ids of the list plus
    /// the node's id; its weight is 1.
    Add,
}

/// An edge type: how its edges are read and what is stored with them.
#[derive(Clone, Debug, Default)]
pub struct EdgeTypeSpec {
    /// Name of the node type of the sources.
    pub source: String,
    /// Name of the relation.
    pub relation: String,
    /// Name of the node type of the destinations.
    pub destination: String,
    /// Each edge of the list stands for both directions, under one edge id. A self loop has one
    /// entry all the same.
    pub undirected: bool,
    /// Of several edges with the same ends, only the one with the smallest edge id stays (both
    /// orders of the ends count as the same where the type is undirected).
    pub unique: bool,
    /// What happens to self loops.
    pub self_loops: SelfLoops,
    /// Also store the edges by source, as an edge type of its own.
    pub reverse: bool,
    /// Store the edge id with each entry: the row in the list, or the given one.
    pub edge_ids: bool,
    /// The edges have a time, by which lists are ordered.
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
    /// By its place, counted from 0.
    Index(usize),
    /// By its name in the header.
    Name(String),
}

/// How a text file is read.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// What separates columns; `None` finds out from the first line of data. A space stands for
    /// any run of spaces and tabs.
    pub delimiter: Option<u8>,
    /// Lines that start with this are skipped.
    pub comment: Option<String>,
    /// The first line of data names the columns.
    pub header: bool,
    /// Where the source is.
    pub source_column: Column,
    /// Where the destination is.
    pub destination_column: Column,
    /// Where the time is; needed if and only if the edge type has one.
    pub time_column: Option<Column>,
    /// Where the weight is; needed if and only if the edge type has one.
    pub weight_column: Option<Column>,
    /// Times are multiplied by this and rounded, so that fractional times become integers.
    pub time_scale: Option<f64>,
    /// Each line is a source followed by any number of its destinations.
    pub adjacency: bool,
    /// What messages call the file, where its path says nothing to the user.
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

/// How far a stage has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, for people.
    pub stage: &'static str,
    /// Units done.
    pub done: u64,
    /// Units altogether.
    pub total: u64,
}

/// Called several times a second with the progress; `false` stops the import.
pub type OnProgress<'a> = dyn FnMut(Progress) -> bool + 'a;
