//! A look at places all over a text, so that partitions get equal shares even where the lines are
//! in order. What is found wrong here does not matter: the real pass comes later.

use ng_io::SourceFile;

use super::chunks::GZIP_MAGIC;
use super::format::{Bounds, Format};
use super::number::PADDING;
use super::parse::{is_skipped, line_at, parse_edges};
use crate::TextOptions;
use crate::edges::RawEdges;

const HEAD_BYTES: usize = 64 << 10;
const PLACES: u64 = 128;
const PLACE_BYTES: usize = 8 << 10;

/// Some edges of an uncompressed regular file that is long enough to need it.
pub(crate) fn sample_edges(
    file: &SourceFile,
    options: &TextOptions,
    bounds: Bounds,
) -> Option<RawEdges> {
    let len = file.len().ok()?;
    if len < 8 * PLACES * PLACE_BYTES as u64 {
        return None;
    }
    let head = lines_at(file, 0, HEAD_BYTES)?;
    if head.starts_with(&GZIP_MAGIC) {
        return None;
    }
    let comment = options.comment.as_deref().unwrap_or_default().as_bytes();
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !is_skipped(line, comment))?;
    let format = Format::detect(options, bounds, false, first).ok()?;
    let mut edges = RawEdges::default();
    for place in 1..PLACES {
        let at = place * (len - PLACE_BYTES as u64) / PLACES;
        let mut text = lines_at(file, at, PLACE_BYTES)?;
        let start = line_at(&text, 0).len() + 1;
        let end = text.len();
        if start < end {
            text.extend_from_slice(&[b'\n'; PADDING]);
            // A line that does not parse ends the sample of this place.
            let _ = parse_edges(&text[start..], end - start, &format, &mut edges);
        }
    }
    let whole = edges.sources.len().min(edges.destinations.len());
    edges.sources.truncate(whole);
    edges.destinations.truncate(whole);
    Some(edges)
}

/// What lies at `at`, up to the last newline.
fn lines_at(file: &SourceFile, at: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut text = vec![0; bytes];
    let len = file.read_at(at, &mut text).ok()?;
    text.truncate(len);
    let end = memchr::memrchr(b'\n', &text)?;
    text.truncate(end + 1);
    Some(text)
}
