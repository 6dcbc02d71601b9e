//! [`Columns`]: the Arrow streams of a request, read from pieces as they come.

use std::collections::HashSet;
use std::sync::Arc;

use ng_import::{ArrowBatch, ArrowError, ArrowEvent, ArrowField, ArrowReader};
use ng_rpc::{Code, Message, Problem, v1};
use sha2::{Digest, Sha256};

/// Bytes of a record batch.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Gives the next piece; nothing once all have come.
pub type NextPiece<'a> = dyn FnMut() -> Result<Option<Vec<u8>>, Problem> + 'a;

/// The streams of a request, one after the other.
pub struct Columns<'a> {
    reader: ArrowReader,
    next: &'a mut NextPiece<'a>,
    /// Of the head and all pieces, where a key says that they may come again.
    hash: Option<Sha256>,
}

/// Which stream is read: the field of the head, and what messages call it.
pub struct Source {
    /// Such as `head.node_types[0]`.
    pub field: String,
    /// Such as `node type "paper"`.
    pub name: String,
}

impl Source {
    /// A problem of this stream.
    pub fn wrong(&self, what: &str) -> Problem {
        Problem::argument(&self.field, format!("{}: {what}", self.name))
    }

    /// A problem that came up below.
    pub fn told(&self, problem: Problem) -> Problem {
        let message = format!("{}: {}", self.name, problem.message);
        Problem { message, ..problem }.at(&self.field)
    }

    /// A problem of its bytes.
    pub fn refused(&self, error: &ArrowError) -> Problem {
        let (reason, remedy) = match error {
            ArrowError::Damaged { .. } => (
                "ARROW_DAMAGED",
                "send streams as an Arrow library writes them, each with its end marker, in the \
                 order of the types in the head",
            ),
            ArrowError::Type { .. } => (
                "ARROW_TYPE",
                "cast it: ids to int32, int64, uint32 or uint64; times to int64; weights to \
                 float32; rows to bool, int8 to int64, uint8, float16, float32 or float64, or \
                 fixed-size lists of these",
            ),
            ArrowError::Null { .. } => ("ARROW_NULL", "fill nulls, or drop rows with nulls"),
            ArrowError::Compressed { .. } => {
                ("ARROW_COMPRESSED", "write the stream without compression")
            }
            ArrowError::TooLarge { .. } => {
                ("BATCH_TOO_LARGE", "write record batches of fewer rows")
            }
        };
        let problem = Problem::new(Code::InvalidArgument, reason, error.to_string());
        self.told(problem.remedy(remedy))
    }
}

impl<'a> Columns<'a> {
    /// The streams that follow a head.
    pub fn new(head: &v1::UpdateGraphHead, next: &'a mut NextPiece<'a>) -> Self {
        let hash = (!head.idempotency_key.is_empty()).then(|| {
            let mut hash = Sha256::new();
            hash.update(head.encode_to_vec());
            hash
        });
        Self { reader: ArrowReader::new(BATCH_BYTES_MAX), next, hash }
    }

    fn piece(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let piece = (self.next)()?;
        if let (Some(hash), Some(piece)) = (&mut self.hash, &piece) {
            hash.update(piece);
        }
        Ok(piece)
    }

    fn event(&mut self, of: &Source) -> Result<ArrowEvent, Problem> {
        loop {
            let found = self.reader.next_event().map_err(|error| of.refused(&error))?;
            if let Some(event) = found {
                return Ok(event);
            }
            let Some(piece) = self.piece()? else {
                let problem = of.wrong("its stream is missing, or has no end marker");
                return Err(problem.remedy("send a stream for each type in the head"));
            };
            self.reader.push(&piece);
        }
    }

    /// The columns of the next stream.
    ///
    /// # Errors
    /// They are refused, or do not come.
    pub fn schema(&mut self, of: &Source) -> Result<Arc<[ArrowField]>, Problem> {
        match self.event(of)? {
            ArrowEvent::Schema(fields) => Ok(fields),
            ArrowEvent::Batch(_) | ArrowEvent::End => Err(of.wrong("its stream has no columns")),
        }
    }

    /// The next rows of the stream; nothing at its end.
    ///
    /// # Errors
    /// As [`Columns::schema`].
    pub fn batch(&mut self, of: &Source) -> Result<Option<ArrowBatch>, Problem> {
        match self.event(of)? {
            ArrowEvent::Batch(batch) => Ok(Some(batch)),
            ArrowEvent::End => Ok(None),
            ArrowEvent::Schema(_) => Err(of.wrong("its stream has two schemas")),
        }
    }

    /// Ends the request: no bytes may follow. Gives the hash of all of it, if it has a key.
    ///
    /// # Errors
    /// Bytes follow.
    pub fn finish(mut self) -> Result<[u8; 32], Problem> {
        let mut is_at_end = self.reader.is_at_end();
        while let Some(piece) = self.piece()? {
            is_at_end &= piece.is_empty();
        }
        match is_at_end {
            true => Ok(self.hash()),
            false => Err(Problem::argument("arrow", "bytes follow the stream of the last type")
                .remedy("list all types in the head, and send one stream for each")),
        }
    }

    /// Reads all pieces for their hash alone.
    ///
    /// # Errors
    /// They do not come.
    pub fn skip(mut self) -> Result<[u8; 32], Problem> {
        while self.piece()?.is_some() {}
        Ok(self.hash())
    }

    fn hash(self) -> [u8; 32] {
        self.hash.map_or([0; 32], |hash| hash.finalize().into())
    }
}

/// Where columns stand in a stream: those that are wanted, in their order. No others may be there.
///
/// # Errors
/// One is missing or wanted twice, or there is another.
pub fn places(of: &Source, fields: &[ArrowField], wanted: &[&str]) -> Result<Vec<usize>, Problem> {
    let mut seen = HashSet::new();
    if let Some(name) = wanted.iter().find(|name| !seen.insert(**name)) {
        let problem = of.wrong(&format!("the head lists tensor {name:?} twice"));
        return Err(problem.remedy("list each tensor once"));
    }
    let listed = || fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &&str| {
        let found = fields.iter().position(|field| field.name == **name);
        found.ok_or_else(|| {
            let problem = of.wrong(&format!("column {name:?} is missing"));
            problem.remedy(format!("columns of the stream: {}", listed()))
        })
    };
    let found = wanted.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    match fields.iter().find(|field| !wanted.contains(&field.name.as_str())) {
        None => Ok(found),
        Some(odd) => Err(of
            .wrong(&format!("column {:?} is not in the head", odd.name))
            .remedy("list it as a tensor in the head, or drop the column")),
    }
}

/// Columns of a stream of edges.
pub struct EdgeColumns {
    pub source: usize,
    pub destination: usize,
    pub time: Option<usize>,
    pub weight: Option<usize>,
    pub edge_id: Option<usize>,
    /// Tensors of the edges.
    pub others: Vec<usize>,
}

impl EdgeColumns {
    /// Finds them by name.
    ///
    /// # Errors
    /// One end is missing.
    pub fn new(of: &Source, fields: &[ArrowField]) -> Result<Self, Problem> {
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let needed = |name: &str| {
            let missing = || of.wrong(&format!("column {name:?} is missing"));
            find(name).ok_or_else(|| {
                missing().remedy("name the columns of node ids \"source\" and \"destination\"")
            })
        };
        let named = ["source", "destination", "time", "weight", "edge_id"];
        let is_other = |at: &usize| !named.contains(&fields[*at].name.as_str());
        Ok(Self {
            source: needed("source")?,
            destination: needed("destination")?,
            time: find("time"),
            weight: find("weight"),
            edge_id: find("edge_id"),
            others: (0..fields.len()).filter(is_other).collect(),
        })
    }
}

/// The stream of a node type.
pub fn of_nodes(head: &v1::UpdateGraphHead, at: usize) -> Source {
    let name = head.node_types.get(at).map_or("", |one| one.name.as_str());
    let name = format!("node type {name:?}");
    Source { field: format!("head.node_types[{at}]"), name }
}

/// The stream of an edge type.
pub fn of_edges(head: &v1::UpdateGraphHead, at: usize) -> Source {
    let name = head.edge_types.get(at).map_or("", |one| one.name.as_str());
    let name = format!("edge type {name:?}");
    Source { field: format!("head.edge_types[{at}]"), name }
}
