//! Edges from files: text, and NumPy arrays.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ng_types::EdgeTypeId;

use crate::source::TextFile;
use crate::strings::NameKind;
use crate::text::{
    TextFound, TextPreview, TextRead, check_columns, first_edges, read_edges, read_names,
    sample_edges,
};
use crate::threads::watched;
use crate::{ImportError, Importer, OnProgress, Progress, TextOptions};

impl Importer {
    /// Reads a text file of edges (SNAP style, CSV, or adjacency text), optionally compressed with
    /// gzip. Returns the number of edges. `progress` is called several times per second on the
    /// calling thread; `false` stops the import.
    ///
    /// # Errors
    /// [`ImportError::Line`] with the first line that is not an edge, [`ImportError::File`],
    /// [`ImportError::Io`], [`ImportError::Cancelled`].
    pub fn read_text(
        &mut self,
        edge_type: EdgeTypeId,
        path: &Path,
        options: &TextOptions,
        progress: &mut OnProgress<'_>,
    ) -> Result<u64, ImportError> {
        let index = self.edge_index(edge_type)?;
        let spec = &self.edge_types[index].spec;
        check_columns(options, spec.time, spec.weight)?;
        if self.edge_types[index].given_ids == Some(true) {
            return Err(ImportError::spec("earlier edges have edge ids, but a text file has none"));
        }
        let file = TextFile::open(path)?;
        self.activate(index)?;
        self.edge_types[index].given_ids = Some(false);
        let result = self.read_edges(index, path, options, file, progress);
        let TextFound { rows, notes } = self.note(result)?;
        self.edge_types[index].rows += rows;
        notes.into_iter().for_each(|note| self.add_note(note));
        Ok(rows)
    }

    /// Returns the first edges of a text file, parsed as by [`Importer::read_text`].
    ///
    /// # Errors
    /// As [`Importer::read_text`], for the lines that are parsed.
    pub fn preview_text(
        &self,
        edge_type: EdgeTypeId,
        path: &Path,
        options: &TextOptions,
        rows: usize,
    ) -> Result<TextPreview, ImportError> {
        let index = self.edge_index(edge_type)?;
        let spec = &self.edge_types[index].spec;
        check_columns(options, spec.time, spec.weight)?;
        let read = self.text_read(index, path, options);
        first_edges(&read, TextFile::open(path)?, self.is_named_by_text(index), rows)
    }

    fn is_named_by_text(&self, index: usize) -> bool {
        matches!(self.named_kind(index), Some(NameKind::Text | NameKind::Key))
    }

    fn text_read<'a>(
        &self,
        index: usize,
        path: &'a Path,
        options: &'a TextOptions,
    ) -> TextRead<'a> {
        let edge_type = &self.edge_types[index];
        TextRead {
            path: options.shown.as_deref().unwrap_or(path),
            options,
            bounds: self.bounds(edge_type),
            threads: self.plan.threads,
            first_row: edge_type.rows,
        }
    }

    fn read_edges(
        &self,
        index: usize,
        path: &Path,
        options: &TextOptions,
        file: TextFile,
        progress: &mut OnProgress<'_>,
    ) -> Result<TextFound, ImportError> {
        let edge_type = &self.edge_types[index];
        let read = self.text_read(index, path, options);
        if let (Some(sink), 0) = (&edge_type.sink, edge_type.rows)
            && let Some(sample) = sample_edges(&file.file, options, read.bounds)
        {
            sink.hint(&sample);
        }
        let (total, done) = (file.len(), file.read_bytes());
        let cancelled = AtomicBool::new(false);
        let check = || match cancelled.load(Ordering::Relaxed) {
            true => Err(ImportError::Cancelled),
            false => Ok(()),
        };
        let work = || match self.is_named_by_text(index) {
            true => read_names(&read, file, &|edges, row| {
                check()?;
                self.intern(index, edges, row)
            }),
            false => read_edges(&read, file, &|edges| {
                check()?;
                self.take_edges(index, edges)
            }),
        };
        watched(work, || {
            let done = done.load(Ordering::Relaxed);
            if !progress(Progress { stage: "read edges", done, total }) {
                cancelled.store(true, Ordering::Relaxed);
            }
        })
    }
}
