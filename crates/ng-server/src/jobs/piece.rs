//! [`Pieces`]: a job's targets cut into questions, and their answers put together.

use std::time::Duration;

use ng_rpc::{Code, Problem};

use super::Work;
use crate::rows::Rows;
use crate::schedule::{Answered, Question};

/// How long a piece is foreseen to take: others wait no longer for it.
const PIECE_TIME: Duration = Duration::from_millis(10);
/// Targets of a piece.
const PIECE_TARGETS: usize = 4096;

/// The targets of a job, piece by piece.
pub(super) struct Pieces<'a> {
    work: &'a Work,
    result_bytes: u64,
    /// Where the next piece begins, and where the one that is computed ends.
    next: usize,
    rows: Option<Rows>,
    cached: u64,
}

impl<'a> Pieces<'a> {
    pub fn new(work: &'a Work, result_bytes: u64) -> Self {
        Self { work, result_bytes, next: 0, rows: None, cached: 0 }
    }

    /// Targets that have rows.
    pub fn done(&self) -> u64 {
        self.rows.as_ref().map_or(0, |rows| rows.count)
    }

    /// The question of the next piece.
    pub fn next(&mut self) -> Option<Question> {
        let all = self.work.targets.len();
        if self.next >= all {
            return None;
        }
        let of_target = self.work.targets.nodes().div_ceil(all);
        let most = self.work.model.nodes_within(PIECE_TIME) / of_target.max(1);
        let most = most.clamp(1, PIECE_TARGETS);
        let end = all.min(self.next.saturating_add(most));
        let targets = self.work.targets.part(self.next..end);
        self.next = end;
        Some(Question {
            model: self.work.model.clone(),
            targets,
            seed: self.work.seed,
            at: Some(self.work.snapshot.clone()),
            lag: 0,
            deadline: None,
            permit: None,
        })
    }

    /// Puts the answer of a piece behind those before it.
    pub fn take(&mut self, answered: Answered) -> Result<(), Problem> {
        let piece = answered.rows;
        self.cached += answered.cached;
        let Some(rows) = &mut self.rows else {
            let bytes = (piece.row_bytes() as u64).saturating_mul(self.work.targets.len() as u64);
            if bytes > self.result_bytes {
                let most = self.result_bytes;
                let message = format!("the result needs {bytes} bytes, and the limit is {most}");
                return Err(Problem::new(Code::ResourceExhausted, "RESULT_TOO_LARGE", message)
                    .remedy("use fewer targets per job"));
            }
            let mut rows = piece;
            rows.data.reserve_exact((bytes as usize).saturating_sub(rows.data.len()));
            self.rows = Some(rows);
            return Ok(());
        };
        if (rows.dtype, &rows.row) != (piece.dtype, &piece.row) {
            let message =
                "the model was replaced during the job; the new rows have another dtype or shape";
            return Err(
                Problem::new(Code::Aborted, "MODEL_CHANGED", message).remedy("start a new job")
            );
        }
        rows.data.extend_from_slice(&piece.data);
        rows.count += piece.count;
        Ok(())
    }

    /// All rows, and how many of them were known.
    pub fn finish(self) -> Result<(Rows, u64), Problem> {
        let none = || Problem::argument("request.targets", "the job has no targets");
        self.rows.map(|rows| (rows, self.cached)).ok_or_else(none)
    }
}
