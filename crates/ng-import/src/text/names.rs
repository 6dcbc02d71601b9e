//! Lines of a text to edges between names.

use ng_types::Remedy;

use super::fields::Fields;
use super::format::Format;
use super::number;
use super::parse::{BadLine, check_count, is_skipped, line_at};
use crate::error::Fault;
use crate::strings::{check_name, not_utf8};

/// Edges between names: the bytes of all names, and where each ends, source first.
#[derive(Debug, Default)]
pub(crate) struct NamedEdges {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pub times: Vec<i64>,
    pub weights: Vec<f32>,
    /// Names that lost spaces around them.
    trimmed: u64,
}

impl NamedEdges {
    pub(crate) fn len(&self) -> usize {
        self.ends.len() / 2
    }

    pub(super) fn trimmed(&self) -> u64 {
        self.trimmed
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.times.clear();
        self.weights.clear();
        self.trimmed = 0;
    }

    /// The names of the ends of each edge: source, destination.
    pub(crate) fn ends(&self) -> impl Iterator<Item = [&[u8]; 2]> {
        let start = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let name = move |at: usize| &self.bytes[start(at)..self.ends[at]];
        (0..self.len()).map(move |edge| [name(2 * edge), name(2 * edge + 1)])
    }

    pub(crate) fn push(&mut self, source: &[u8], destination: &[u8]) -> Result<(), Fault> {
        for name in [source, destination] {
            check_name(name)?;
        }
        for name in [source, destination] {
            self.bytes.extend_from_slice(name);
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }
}

/// Parses the lines of `padded` below `len` into `edges`; gives the number of lines.
pub(super) fn parse_names(
    padded: &[u8],
    len: usize,
    format: &Format,
    edges: &mut NamedEdges,
) -> Result<u64, BadLine> {
    let (mut at, mut lines) = (0, 0);
    while at < len {
        let line = line_at(padded, at);
        let bad =
            |what| BadLine { lines_before: lines, what: in_line(what, line), text: line.to_vec() };
        parse_line(line, format, edges).map_err(bad)?;
        at += line.len() + 1;
        lines += 1;
    }
    Ok(lines)
}

/// A fault in the encoding of a name as one of its line, whose bytes an editor counts.
fn in_line(what: Fault, line: &[u8]) -> Fault {
    match std::str::from_utf8(line) {
        Err(error) if what.remedy == Some(Remedy::GiveEncoding) => {
            not_utf8("the line", line, error)
        }
        _ => what,
    }
}

fn parse_line(line: &[u8], format: &Format, edges: &mut NamedEdges) -> Result<(), Fault> {
    if is_skipped(line, &format.comment) {
        return Ok(());
    }
    let mut fields = Fields::new(line, format.separator);
    if format.adjacency {
        let Some(source) = fields.next() else {
            return Ok(());
        };
        return fields.try_for_each(|destination| edges.push(&source, &destination));
    }
    let (mut source, mut destination, mut index) = (None, None, 0);
    let (mut time, mut weight) = (None, None);
    while let Some(field) = fields.next() {
        if Some(index) == format.time {
            time = Some(number::time(&field, format.time_scale)?);
        }
        if Some(index) == format.weight {
            weight = Some(number::weight(&field)?);
        }
        if index == format.source || index == format.destination {
            edges.trimmed += u64::from(fields.trimmed);
        }
        if index == format.source {
            source = Some(field.clone());
        }
        if index == format.destination {
            destination = Some(field);
        }
        index += 1;
    }
    check_count(index, fields.fault, format)?;
    edges.push(&source.unwrap_or_default(), &destination.unwrap_or_default())?;
    edges.times.extend(time);
    edges.weights.extend(weight);
    Ok(())
}
