//! NumPy `.npy` files of edges, streamed: an array of shape `[E, 2]` or `[2, E]`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ng_io::SourceFile;
use ng_types::EdgeTypeId;

use crate::arrays::Check;
use crate::edges::RawEdges;
use crate::source::open;
use crate::strings::NameKind;
use crate::threads::watched;
use crate::{ImportError, Importer, OnProgress, Progress};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer headers are refused before they are read.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Places of the file that are sampled, and rows at each.
const SAMPLE_PLACES: u64 = 128;
const SAMPLE_ROWS: u64 = 512;

/// The layout of edges in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NpyLayout {
    /// Shape `[E, 2]`: a row is an edge.
    Pairs,
    /// Shape `[2, E]`: the first row holds the sources, the second the destinations.
    TwoRows,
}

/// Integer types of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Int {
    I32,
    I64,
    U32,
    U64,
}

/// A file of edges, ready to be read at any row.
#[derive(Debug)]
struct NpyEdges {
    file: SourceFile,
    path: PathBuf,
    int: Int,
    rows: u64,
    data_start: u64,
    /// The two ends of an edge lie side by side.
    interleaved: bool,
}

impl Importer {
    /// Reads edges from a `.npy` file of 32-bit or 64-bit integers. Returns the number of edges.
    /// `layout` is needed only if the shape is `[2, 2]`; otherwise it is checked.
    ///
    /// # Errors
    /// [`ImportError::File`] for an array of another type or shape, [`ImportError::Row`],
    /// [`ImportError::Cancelled`].
    pub fn read_npy(
        &mut self,
        edge_type: EdgeTypeId,
        path: &Path,
        layout: Option<NpyLayout>,
        progress: &mut OnProgress<'_>,
    ) -> Result<u64, ImportError> {
        let index = self.edge_index(edge_type)?;
        let spec = &self.edge_types[index].spec;
        if spec.time || spec.weight {
            return Err(ImportError::spec(
                "a .npy edge list has no times or weights; push the edges as arrays, with times \
                 and weights",
            ));
        }
        if matches!(self.named_kind(index), Some(NameKind::Text | NameKind::Key)) {
            return Err(ImportError::spec(
                "the nodes have string ids, but a .npy file has numbers",
            ));
        }
        let npy = NpyEdges::open(path, layout)?;
        self.activate(index)?;
        self.edge_types[index].given_ids = Some(false);
        let result = self.push_npy(index, &npy, progress);
        self.note(result)?;
        self.edge_types[index].rows += npy.rows;
        Ok(npy.rows)
    }

    fn push_npy(
        &self,
        index: usize,
        npy: &NpyEdges,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), ImportError> {
        let edge_type = &self.edge_types[index];
        let check = Check::new(edge_type, self.bounds(edge_type)).of_file(&npy.path);
        if edge_type.rows == 0 && npy.rows > 2 * SAMPLE_PLACES * SAMPLE_ROWS {
            let sample = npy.sample()?;
            if let (Some(sink), Ok(())) = (&edge_type.sink, check.edges(&sample)) {
                sink.hint(&sample);
            }
        }
        let next = AtomicU64::new(0);
        let fill = |start, end, edges: &mut RawEdges, bytes: &mut Vec<u8>| {
            npy.read(start, end, edges, bytes)
        };
        let cancelled = std::sync::atomic::AtomicBool::new(false);
        let pushed = watched(
            || self.push_chunks(index, &check, npy.rows, &next, fill),
            || {
                let done = next.load(Ordering::Relaxed).min(npy.rows);
                if !progress(Progress { stage: "read edges", done, total: npy.rows }) {
                    next.store(npy.rows, Ordering::Relaxed);
                    cancelled.store(true, Ordering::Relaxed);
                }
            },
        );
        if cancelled.into_inner() { Err(ImportError::Cancelled) } else { pushed }
    }
}

impl NpyEdges {
    fn open(path: &Path, layout: Option<NpyLayout>) -> Result<Self, ImportError> {
        let file = open(path)?;
        let mut head = vec![0; HEADER_BYTES_MAX];
        let len = file.read_at(0, &mut head).map_err(ImportError::Source)?;
        let bad = |what: String| ImportError::file(path, what);
        let header = Header::decode(&head[..len]).map_err(bad)?;
        let (rows, in_rows) = match (header.shape.as_slice(), layout) {
            ([rows, 2], Some(NpyLayout::Pairs)) => (*rows, true),
            ([2, rows], Some(NpyLayout::TwoRows)) => (*rows, false),
            ([rows, 2], None) if *rows != 2 => (*rows, true),
            ([2, rows], None) if *rows != 2 => (*rows, false),
            ([2, 2], None) => {
                return Err(bad("the shape [2, 2] is ambiguous: set the layout to \"pairs\" or \
                                \"rows\""
                    .into()));
            }
            (shape, _) => {
                let wanted = match layout {
                    Some(NpyLayout::Pairs) => "[E, 2]",
                    Some(NpyLayout::TwoRows) => "[2, E]",
                    None => "[E, 2] or [2, E]",
                };
                return Err(bad(format!("the shape is {shape:?}, expected {wanted}")));
            }
        };
        let data_start = header.data_start as u64;
        let data_bytes = rows.checked_mul(2 * header.int.bytes() as u64);
        let file_bytes = file.len().map_err(ImportError::Source)?;
        if data_bytes.and_then(|bytes| bytes.checked_add(data_start)) != Some(file_bytes) {
            return Err(bad(format!(
                "the file has {file_bytes} bytes, which does not match its shape {:?}",
                header.shape
            )));
        }
        let path = path.to_owned();
        let interleaved = in_rows != header.fortran_order;
        Ok(Self { file, path, int: header.int, rows, data_start, interleaved })
    }

    fn read(
        &self,
        start: u64,
        end: u64,
        edges: &mut RawEdges,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ImportError> {
        let width = self.int.bytes();
        let count = (end - start) as usize;
        if self.interleaved {
            self.read_at(2 * start, 2 * count, bytes)?;
            for pair in bytes.chunks_exact(2 * width) {
                edges.sources.push(self.int.decode(&pair[..width]));
                edges.destinations.push(self.int.decode(&pair[width..]));
            }
            return Ok(());
        }
        for (from, to) in
            [(start, &mut edges.sources), (self.rows + start, &mut edges.destinations)]
        {
            self.read_at(from, count, bytes)?;
            to.extend(bytes.chunks_exact(width).map(|id| self.int.decode(id)));
        }
        Ok(())
    }

    fn read_at(&self, from: u64, count: usize, bytes: &mut Vec<u8>) -> Result<(), ImportError> {
        let width = self.int.bytes();
        bytes.resize(count * width, 0);
        let offset = self.data_start + from * width as u64;
        self.file.read_exact_at(offset, bytes).map_err(ImportError::Source)
    }

    fn sample(&self) -> Result<RawEdges, ImportError> {
        let (mut sample, mut bytes) = (RawEdges::default(), Vec::new());
        for place in 0..SAMPLE_PLACES {
            let start = place * (self.rows - SAMPLE_ROWS) / SAMPLE_PLACES;
            self.read(start, start + SAMPLE_ROWS, &mut sample, &mut bytes)?;
        }
        Ok(sample)
    }
}

impl Int {
    fn bytes(self) -> usize {
        match self {
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 => 8,
        }
    }

    /// The id; a negative one becomes huge, and fails the check of bounds.
    #[inline]
    fn decode(self, bytes: &[u8]) -> u64 {
        match (self, bytes) {
            (Self::I32, [a, b, c, d]) => i64::from(i32::from_le_bytes([*a, *b, *c, *d])) as u64,
            (Self::U32, [a, b, c, d]) => u32::from_le_bytes([*a, *b, *c, *d]).into(),
            _ => bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    int: Int,
    fortran_order: bool,
    shape: Vec<u64>,
    data_start: usize,
}

impl Header {
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is not a .npy file")?;
        let (len, start) = match rest {
            [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 10_usize),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12),
            _ => return Err("the version of the .npy format is unknown".to_owned()),
        };
        let text = bytes.get(start..start.saturating_add(len)).ok_or("the header is truncated")?;
        let text = std::str::from_utf8(text).map_err(|_| "the header is not valid UTF-8")?;
        let value = |key: &str| {
            let (_, after) = text.split_once(&format!("'{key}':"))?;
            Some(after.trim_start())
        };
        let descr = value("descr").and_then(|v| v.strip_prefix('\'')?.split_once('\''));
        let (descr, _) = descr.ok_or("the header has no type, or a structured one")?;
        let int = match descr {
            "<i4" => Int::I32,
            "<i8" => Int::I64,
            "<u4" => Int::U32,
            "<u8" => Int::U64,
            other => {
                return Err(format!(
                    "the array has type {other:?}, expected integers of type <i4, <i8, <u4 or <u8"
                ));
            }
        };
        let fortran_order = value("fortran_order").is_some_and(|v| v.starts_with("True"));
        let shape = value("shape").and_then(|v| v.strip_prefix('(')?.split_once(')'));
        let (shape, _) = shape.ok_or("the header has no shape")?;
        let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape: Result<Vec<u64>, _> = dims.map(str::parse).collect();
        let shape = shape.map_err(|_| "the shape in the header is not a list of numbers")?;
        Ok(Self { int, fortran_order, shape, data_start: start + len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: Result<(Int, bool, &[u64]), &str>) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        match (Header::decode(&bytes), expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!((found.int, found.fortran_order, &found.shape[..]), expected);
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{header}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn headers_decode_or_say_what_is_wrong() {
        let good = "{'descr': '<i8', 'fortran_order': False, 'shape': (10, 2), }   \n";
        check(good, Ok((Int::I64, false, &[10, 2])));
        check(&good.replace("False", "True"), Ok((Int::I64, true, &[10, 2])));
        check(&good.replace("<i8", "<u4"), Ok((Int::U32, false, &[10, 2])));
        check(&good.replace("<i8", "<f8"), Err("integers"));
        check(&good.replace("<i8", ">i8"), Err("integers"));
        check(&good.replace("(10, 2)", "(10, x)"), Err("shape"));
        check(&good.replace("shape", "shade"), Err("no shape"));
        check("", Err("no type, or a structured one"));
        assert!(Header::decode(b"\x93NUMPY\x01\x00\xFF\xFFabc").is_err());
        assert!(Header::decode(b"PK").is_err());
    }
}
