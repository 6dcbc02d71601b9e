//! Lines to edges. Lines of two plain numbers take a path that looks at eight bytes at a time;
//! every other line, and every line that has something wrong with it, goes through the fields.

use super::fields::Fields;
use super::format::{Bounds, Format, Separator};
use super::number;
use crate::edges::RawEdges;
use crate::error::Fault;
use crate::strings::NUMBER_BOUND;

/// What is wrong with a line of a chunk.
#[derive(Debug)]
pub(super) struct BadLine {
    /// Lines of the chunk before it.
    pub(super) lines_before: u64,
    pub(super) what: Fault,
    pub(super) text: Vec<u8>,
}

/// How far the parse of a chunk is.
struct Cursor {
    at: usize,
    lines: u64,
}

/// Parses the lines of `padded` below `len` into `edges`; gives the number of lines.
pub(super) fn parse_edges(
    padded: &[u8],
    len: usize,
    format: &Format,
    edges: &mut RawEdges,
) -> Result<u64, BadLine> {
    let mut cursor = Cursor { at: 0, lines: 0 };
    let plain = format.is_plain();
    while cursor.at < len {
        if plain {
            match format.separator {
                Separator::Whitespace => {
                    plain_lines(padded, len, &mut cursor, format, edges, |b| {
                        b == b' ' || b == b'\t'
                    })
                }
                Separator::Byte(byte) => {
                    plain_lines(padded, len, &mut cursor, format, edges, |b| b == byte);
                }
            }
        }
        if cursor.at < len {
            let line = line_at(padded, cursor.at);
            parse_line(line, format, edges).map_err(|what| BadLine {
                lines_before: cursor.lines,
                what,
                text: line.to_vec(),
            })?;
            cursor.at += line.len() + 1;
            cursor.lines += 1;
        }
    }
    Ok(cursor.lines)
}

/// The line at `at` without its newline; the text ends in one.
pub(super) fn line_at(padded: &[u8], at: usize) -> &[u8] {
    let rest = &padded[at..];
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

/// Whether there is nothing to read in a line.
pub(super) fn is_skipped(line: &[u8], comment: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.is_empty() || (!comment.is_empty() && line.starts_with(comment))
}

/// Takes lines as long as they are two numbers that are in bounds.
#[inline]
fn plain_lines(
    padded: &[u8],
    len: usize,
    cursor: &mut Cursor,
    format: &Format,
    edges: &mut RawEdges,
    is_separator: impl Fn(u8) -> bool,
) {
    let swapped = format.source == 1;
    let Bounds { source, destination } = format.bounds;
    let (first_bound, second_bound) =
        if swapped { (destination, source) } else { (source, destination) };
    while cursor.at < len {
        let Some((first, end)) = number::digits(padded, cursor.at) else {
            return;
        };
        if !is_separator(padded[end]) {
            return;
        }
        let start = if padded[end + 1] == b' ' { end + 2 } else { end + 1 };
        let Some((second, end)) = number::digits(padded, start) else {
            return;
        };
        let next = match (padded[end], padded.get(end + 1)) {
            (b'\n', _) => end + 1,
            (b'\r', Some(b'\n')) => end + 2,
            _ => return,
        };
        if first >= first_bound || second >= second_bound {
            return;
        }
        let (source, destination) = if swapped { (second, first) } else { (first, second) };
        edges.sources.push(source);
        edges.destinations.push(destination);
        cursor.at = next;
        cursor.lines += 1;
    }
}

fn parse_line(line: &[u8], format: &Format, edges: &mut RawEdges) -> Result<(), Fault> {
    if is_skipped(line, &format.comment) {
        return Ok(());
    }
    if format.adjacency {
        return parse_adjacency(line, format, edges);
    }
    let (mut source, mut destination, mut count) = (Ok(0), Ok(0), 0);
    let (mut time, mut weight) = (Ok(None), Ok(None));
    let mut fields = Fields::new(line, format.separator);
    for (index, field) in fields.by_ref().enumerate() {
        count += 1;
        if index == format.source {
            source = number::id(&field);
        }
        if index == format.destination {
            destination = number::id(&field);
        }
        if Some(index) == format.time {
            time = number::time(&field, format.time_scale).map(Some);
        }
        if Some(index) == format.weight {
            weight = number::weight(&field).map(Some);
        }
    }
    check_count(count, fields.fault, format)?;
    push(edges, source?, destination?, format.bounds)?;
    edges.times.extend(time?);
    edges.weights.extend(weight?);
    Ok(())
}

pub(super) fn check_count(
    count: usize,
    fault: Option<&str>,
    format: &Format,
) -> Result<(), String> {
    if let Some(fault) = fault {
        return Err(fault.to_owned());
    }
    if count != format.columns {
        let columns = format.columns;
        return Err(format!("{count} columns, but the first line of data has {columns}"));
    }
    Ok(())
}

fn parse_adjacency(line: &[u8], format: &Format, edges: &mut RawEdges) -> Result<(), Fault> {
    let mut fields = Fields::new(line, format.separator);
    let Some(source) = fields.next() else {
        return Ok(());
    };
    let source = number::id(&source)?;
    for field in fields {
        push(edges, source, number::id(&field)?, format.bounds)?;
    }
    Ok(())
}

fn push(edges: &mut RawEdges, source: u64, destination: u64, bounds: Bounds) -> Result<(), Fault> {
    for (name, id, bound) in
        [("source", source, bounds.source), ("destination", destination, bounds.destination)]
    {
        if id >= bound {
            return Err(out_of_bounds(name, id, bound));
        }
    }
    edges.sources.push(source);
    edges.destinations.push(destination);
    Ok(())
}

/// The message for an id that is too large.
pub(crate) fn out_of_bounds(name: &str, id: u64, bound: u64) -> Fault {
    if bound == NUMBER_BOUND {
        format!("{name} {id} is too large: ids to relabel are below 2^63").into()
    } else if bound == ng_types::NODE_ID_BOUND {
        let what = format!("{name} {id} is too large: ids are below 2^40");
        Fault::with(what, ng_types::Remedy::Relabel)
    } else {
        format!("{name} {id} is not below the number of nodes, {bound}").into()
    }
}
