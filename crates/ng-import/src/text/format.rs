//! What the lines of a file look like, found out from the options and the first line of data.

use super::fields::Fields;
use super::number;
use crate::{Column, ImportError, TextOptions};

/// How columns are separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Separator {
    /// Runs of spaces and tabs.
    #[default]
    Whitespace,
    /// One byte; spaces around a field do not count, quotes do.
    Byte(u8),
}

/// Everything needed to parse a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Format {
    pub(super) separator: Separator,
    pub(super) comment: Vec<u8>,
    pub(super) columns: usize,
    pub(super) source: usize,
    pub(super) destination: usize,
    pub(super) time: Option<usize>,
    pub(super) weight: Option<usize>,
    pub(super) time_scale: Option<f64>,
    pub(super) adjacency: bool,
    /// Columns of the first line that nothing is made of, by place and, with a header, by name.
    pub(super) dropped: Vec<String>,
    /// What was taken for a header has numbers where ids are.
    pub(super) header_is_edge: bool,
    /// Ids below these are accepted.
    pub(super) bounds: Bounds,
}

/// The ids that the two node types of an edge allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub source: u64,
    pub destination: u64,
}

impl Format {
    /// The format of a file whose first line of data is `line`.
    pub(super) fn detect(
        options: &TextOptions,
        bounds: Bounds,
        strings: bool,
        line: &[u8],
    ) -> Result<Self, String> {
        let separator = match options.delimiter {
            Some(b' ') => Separator::Whitespace,
            Some(byte) => Separator::Byte(byte),
            None => guess(line, strings),
        };
        let names: Vec<Vec<u8>> = Fields::new(line, separator).map(|f| f.to_vec()).collect();
        let place = |column: &Column| match column {
            Column::Index(index) => Ok(*index),
            Column::Name(name) if !options.header => Err(format!(
                "the column {name:?} is given by name, but the text has no header; give its number"
            )),
            Column::Name(name) => {
                let found = names.iter().position(|n| n.as_slice() == name.as_bytes());
                found.ok_or_else(|| format!("the header has no column {name:?}"))
            }
        };
        let mut format = Self {
            separator,
            comment: options.comment.clone().unwrap_or_default().into_bytes(),
            columns: names.len(),
            source: place(&options.source_column)?,
            destination: place(&options.destination_column)?,
            time: options.time_column.as_ref().map(place).transpose()?,
            weight: options.weight_column.as_ref().map(place).transpose()?,
            time_scale: options.time_scale,
            adjacency: options.adjacency,
            dropped: Vec::new(),
            header_is_edge: false,
            bounds,
        };
        let last = [Some(format.source), Some(format.destination), format.time, format.weight];
        let last = last.into_iter().flatten().max().unwrap_or_default();
        if last >= format.columns && !format.adjacency {
            let columns = format.columns;
            return Err(format!(
                "column {last} is needed (counted from 0), but the line has {columns} columns"
            ));
        }
        if !format.adjacency {
            let used = |at: &usize| {
                [format.source, format.destination].contains(at)
                    || [format.time, format.weight].contains(&Some(*at))
            };
            let shown = |at: usize| match options.header {
                true => format!("{at} ({:?})", String::from_utf8_lossy(&names[at])),
                false => at.to_string(),
            };
            format.dropped = (0..format.columns).filter(|at| !used(at)).map(shown).collect();
        }
        let is_id = |at: usize| names.get(at).is_some_and(|field| number::id(field).is_ok());
        format.header_is_edge = options.header && is_id(format.source) && is_id(format.destination);
        Ok(format)
    }

    /// The format of a chunk without a line of data.
    pub(super) fn of_nothing(options: &TextOptions, bounds: Bounds) -> Self {
        let comment = options.comment.clone().unwrap_or_default().into_bytes();
        Self { comment, bounds, ..Self::default() }
    }

    /// Whether lines are two numbers and nothing else, source first or last.
    pub(super) fn is_plain(&self) -> bool {
        let ends = (self.source, self.destination);
        let two = self.columns == 2 && matches!(ends, (0, 1) | (1, 0));
        two && self.time.is_none() && self.weight.is_none() && !self.adjacency
    }
}

fn guess(line: &[u8], strings: bool) -> Separator {
    let mut candidates = [b',', b';', b'|'].into_iter();
    if let Some(byte) = candidates.find(|byte| line.contains(byte)) {
        return Separator::Byte(byte);
    }
    if strings && line.contains(&b'\t') {
        return Separator::Byte(b'\t');
    }
    Separator::Whitespace
}

/// Checks the columns of the options against those of the edge type.
pub(crate) fn check_columns(
    options: &TextOptions,
    time: bool,
    weight: bool,
) -> Result<(), ImportError> {
    for (name, declared, given) in [
        ("time", time, options.time_column.is_some()),
        ("weight", weight, options.weight_column.is_some()),
    ] {
        if declared != given {
            let what = if declared { "has" } else { "has no" };
            let fix = if declared { "give" } else { "leave out" };
            return Err(ImportError::spec(format!(
                "the edge type {what} {name}s: {fix} {name}_column="
            )));
        }
    }
    if options.adjacency && (time || weight) {
        return Err(ImportError::spec("a text of adjacency lists cannot have times or weights"));
    }
    if options.delimiter.is_some_and(|byte| matches!(byte, b'\n' | b'\r' | b'"')) {
        return Err(ImportError::spec("the delimiter must not be a newline or a quote"));
    }
    if options.time_scale.is_some_and(|scale| !scale.is_finite() || scale == 0.0) {
        return Err(ImportError::spec("the time scale must be a finite number other than 0"));
    }
    Ok(())
}
