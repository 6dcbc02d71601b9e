//! The first edges of a text as an import takes them, so that a wrong delimiter, header or column
//! shows before the import. The invariant: what is given here is what the import stores, because
//! the same parser gives it.

use serde::Serialize;

use super::chunks::Chunk;
use super::names::parse_names;
use super::parse::{is_skipped, line_at, parse_edges};
use super::{NamedEdges, Reader, TextRead};
use crate::ImportError;
use crate::edges::RawEdges;
use crate::source::TextFile;

/// The first edges of a text. Columns that the edge type lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TextPreview {
    /// Source and destination of each edge.
    pub ends: Vec<[End; 2]>,
    /// Times, scaled.
    pub times: Vec<i64>,
    /// Weights.
    pub weights: Vec<f32>,
}

/// A node, as an edge list calls it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum End {
    /// By a number.
    Number(u64),
    /// By a string.
    Name(String),
}

/// The first `rows` edges of a text; `strings`: nodes are named by strings.
pub(crate) fn first_edges(
    read: &TextRead<'_>,
    file: TextFile,
    strings: bool,
    rows: usize,
) -> Result<TextPreview, ImportError> {
    let reader = Reader::new(read, file, strings)?;
    let (mut chunk, mut preview) = (Chunk::default(), TextPreview::default());
    while preview.ends.len() < rows {
        let Some(format) = reader.next(&mut chunk)? else {
            break;
        };
        let wanted = rows - preview.ends.len();
        let end = end_of_lines(chunk.padded(), chunk.text().len(), &format.comment, wanted);
        let before = preview.ends.len();
        let parsed = if strings {
            let mut edges = NamedEdges::default();
            let parsed = parse_names(chunk.padded(), end, &format, &mut edges);
            preview.take_names(&edges);
            parsed
        } else {
            let mut edges = RawEdges::default();
            let parsed = parse_edges(chunk.padded(), end, &format, &mut edges);
            preview.take_numbers(&edges);
            parsed
        };
        reader.count(&chunk, preview.ends.len() - before, parsed)?;
    }
    Ok(preview)
}

impl TextPreview {
    fn take_names(&mut self, edges: &NamedEdges) {
        let name = |bytes: &[u8]| End::Name(String::from_utf8_lossy(bytes).into_owned());
        self.ends.extend(edges.ends().map(|ends| ends.map(name)));
        self.times.extend_from_slice(&edges.times);
        self.weights.extend_from_slice(&edges.weights);
    }

    fn take_numbers(&mut self, edges: &RawEdges) {
        let ends = edges.sources.iter().zip(&edges.destinations);
        self.ends
            .extend(ends.map(|(source, destination)| [*source, *destination].map(End::Number)));
        self.times.extend_from_slice(&edges.times);
        self.weights.extend_from_slice(&edges.weights);
    }
}

/// Where the first `wanted` lines of data end; `len` if there are fewer.
fn end_of_lines(padded: &[u8], len: usize, comment: &[u8], wanted: usize) -> usize {
    let (mut at, mut found) = (0, 0);
    while at < len && found < wanted {
        let line = line_at(padded, at);
        found += usize::from(!is_skipped(line, comment));
        at += line.len() + 1;
    }
    at.min(len)
}
