//! Notes: input that an import dropped, doubled, replaced or found unusual.
//!
//! What lives here: the one list that every part of an import and its callers add to, and the
//! wording of what the core finds. What must not: finding it. The invariant: nothing of the
//! input is lost without a note or an error, and `strict` turns every note that nobody asked for
//! into a refusal before anything is published.

use ng_types::Remedy;

use crate::importer::EdgeType;
use crate::lists::Repeats;
use crate::{ImportError, Importer, Note};

impl Importer {
    /// Adds a note to the report.
    pub fn add_note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The notes; with `strict`, an error if there are any that nobody asked for.
    pub(crate) fn take_notes(&mut self) -> Result<Vec<Note>, ImportError> {
        let notes = std::mem::take(&mut self.notes);
        if self.options.strict && notes.iter().any(|note| !note.requested) {
            return Err(ImportError::Strict { notes });
        }
        Ok(notes)
    }

    /// Notes what the ids and rows of an edge type looked like, once all of them are in.
    pub(crate) fn note_edges(&mut self, index: usize) {
        let edge_type = &self.edge_types[index];
        let loops = edge_type.sink.as_ref().map_or(0, crate::sink::EdgeSink::loops_removed);
        if loops > 0 {
            let message = format!("{loops} self loops were left out");
            let place = edge_type.place();
            self.add_note(Note::new("self-loops-removed", loops, place, message).requested());
        }
    }

    /// Notes nodes that no edge can touch, where their number comes from the ids of edges alone.
    pub(crate) fn note_sparse_ids(&mut self, node_type: usize, num_nodes: u64) {
        let (mut ends, mut least) = (0_u64, u64::MAX);
        for edge_type in &self.edge_types {
            let Some(sink) = &edge_type.sink else { continue };
            for (end, min) in [
                (edge_type.source, sink.sources_min()),
                (edge_type.destination, sink.destinations_min()),
            ] {
                if end == node_type {
                    ends = ends.saturating_add(edge_type.rows);
                    least = least.min(min);
                }
            }
        }
        let place = format!("node type {:?}", self.node_types[node_type].name);
        if num_nodes > ends && ends > 0 {
            let idle = num_nodes - ends;
            let message = format!(
                "the largest id implies {num_nodes} nodes, but the edges can touch at most {ends} \
                 of them"
            );
            self.add_note(Note::new("sparse-ids", idle, place, message).with(Remedy::Relabel));
        } else if least != u64::MAX && least > 0 {
            let message =
                format!("the smallest id is {least}, so the nodes below it have no edges");
            let note = Note::new("ids-start-above-0", least, place, message);
            self.add_note(note.with(Remedy::Relabel));
        }
    }

    /// Notes edges that say the same as another.
    pub(crate) fn note_repeats(&mut self, index: usize, repeats: Repeats) {
        let edge_type = &self.edge_types[index];
        let (place, spec) = (edge_type.place(), &edge_type.spec);
        let Repeats { kept, removed, entries } = repeats;
        if removed > 0 {
            let message = format!(
                "{removed} of {entries} entries were removed, because another entry has the same \
                 ends"
            );
            self.add_note(Note::new("duplicates-removed", removed, place, message).requested());
            return;
        }
        if kept == 0 {
            return;
        }
        let time = if spec.time { " and time" } else { "" };
        if spec.undirected {
            let all = if kept * 2 == entries { " (every edge occurs twice)" } else { "" };
            let message = format!(
                "{kept} of {entries} entries have the same ends{time} as another entry{all}: the \
                 input lists edges in both directions or twice"
            );
            let note = Note::new("doubled-edges", kept, place, message);
            self.add_note(note.with(Remedy::KeepOneDirection));
        } else {
            let message = format!(
                "{kept} of {entries} edges have the same ends{time} as another edge and are kept"
            );
            let note = Note::new("parallel-edges", kept, place, message);
            self.add_note(note.with(Remedy::KeepOneOfEach));
        }
    }
}

impl EdgeType {
    /// How notes and messages call the type.
    pub(crate) fn place(&self) -> String {
        let spec = &self.spec;
        format!("edge type ({}, {}, {})", spec.source, spec.relation, spec.destination)
    }
}
