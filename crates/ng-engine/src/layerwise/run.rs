//! One run: pass after pass, block after block, scan after scan.

use std::collections::HashMap;
use std::ops::Range;

use ng_infer::dfg::levels::Loops;
use ng_infer::dfg::{Elements, Value};
use ng_infer::kernel::Context;
use ng_types::EdgeTypeId;
use rayon::prelude::*;

use super::accumulate::Accumulators;
use super::chunk::{Chunk, Chunks};
use super::error::LayerwiseError;
use super::lists::{Lists, ListsOf, Wanted};
use super::model::Model;
use super::part::{Given, Leaf, f32s};
use super::passes::{How, Pass, Reduced, Scan};
use super::piece::{Piece, Shared};
use super::plan::PassPlan;
use super::work::{PIECE_ROWS, Work};

/// Pieces of a block for each thread, so that none waits long for the slowest.
const PIECES_PER_THREAD: usize = 4;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The pass that goes on.
    pub pass: usize,
    /// How many there are.
    pub passes: usize,
    /// Rows of the pass that are complete, and parts of those of the block that goes on.
    pub rows: f64,
    /// Rows of the pass.
    pub num_rows: u64,
}

/// Hears how far a run is; `false` ends it.
pub type Hear<'a> = dyn FnMut(Progress) -> bool + 'a;

/// What a run computes with.
pub(super) struct Runner<'a> {
    pub model: &'a Model,
    pub plans: &'a [PassPlan],
    pub context: &'a Context,
}

/// What is known of a block so far.
#[derive(Default)]
pub(super) struct Known {
    /// Finished reductions.
    pub reduced: HashMap<Value, Accumulators>,
    /// Rows of destinations that messages take.
    pub beside: HashMap<Value, Elements>,
}

/// Lists that scans share.
type Kept = Option<((EdgeTypeId, Loops, Wanted), Lists)>;

impl Runner<'_> {
    /// Computes what is not done yet.
    pub fn run(&self, work: &mut Work, hear: &mut Hear<'_>) -> Result<(), LayerwiseError> {
        let done = work.done();
        for at in 0..done.passes.min(self.plans.len()) {
            for (place, (_, width)) in self.plans[at].tables.iter().enumerate() {
                work.open_table(&Model::table(at, place), *width, self.plans[at].num_nodes)?;
            }
        }
        for at in done.passes..self.plans.len() {
            let from = if at == done.passes { done.rows } else { 0 };
            self.pass(work, at, from, hear)?;
        }
        Ok(())
    }

    fn pass(
        &self,
        work: &mut Work,
        at: usize,
        mut from: u64,
        hear: &mut Hear<'_>,
    ) -> Result<(), LayerwiseError> {
        let plan = &self.plans[at];
        for (place, (_, width)) in plan.tables.iter().enumerate() {
            work.begin_table(&Model::table(at, place), *width, plan.num_nodes)?;
        }
        let stopped = || LayerwiseError::Stopped { folder: work.folder().to_owned() };
        let stopped = stopped();
        let mut goes_on = true;
        while from < plan.num_nodes {
            let to = plan.num_nodes.min(from + plan.block_rows);
            let mut tell = |share: f64| {
                let rows = from as f64 + share * (to - from) as f64;
                let (passes, num_rows) = (self.plans.len(), plan.num_nodes);
                goes_on = goes_on && hear(Progress { pass: at, passes, rows, num_rows });
                goes_on
            };
            match self.block(work, at, from..to, &mut tell)? {
                Some(end) => from = end,
                None => return Err(stopped),
            }
            if from < plan.num_nodes {
                work.commit(at, from)?;
            }
        }
        work.commit(at + 1, 0)
    }

    /// Computes a block, or the first part of it; where it ends. `None` if it was stopped.
    fn block(
        &self,
        work: &Work,
        at: usize,
        mut rows: Range<u64>,
        tell: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<u64>, LayerwiseError> {
        let (pass, plan) = (&self.model.passes.passes[at], &self.plans[at]);
        'shorter: loop {
            let (mut known, mut kept) = (Known::default(), None);
            for (place, scan) in pass.scans.iter().enumerate() {
                let len = self.lists(scan, plan, &rows, &mut kept)?;
                if (len as u64) < rows.end - rows.start {
                    rows.end = rows.start + (len as u64 / PIECE_ROWS).max(1) * PIECE_ROWS;
                    if place > 0 {
                        continue 'shorter;
                    }
                }
                let Some((_, lists)) = &mut kept else { continue };
                lists.truncate((rows.end - rows.start) as usize);
                let share = |part: f64| (place as f64 + part) / (pass.scans.len() + 1) as f64;
                if !self.scan(work, pass, plan, scan, lists, &mut known, &mut |p| tell(share(p)))? {
                    return Ok(None);
                }
            }
            drop(kept);
            let share =
                |part: f64| (pass.scans.len() as f64 + part) / (pass.scans.len() + 1) as f64;
            let is_done = self.finish(work, at, rows.clone(), &known, &mut |p| tell(share(p)))?;
            return Ok(is_done.then_some(rows.end));
        }
    }

    /// Reads the lists of a scan, unless they are those of the one before; of how many rows.
    fn lists(
        &self,
        scan: &Scan,
        plan: &PassPlan,
        rows: &Range<u64>,
        kept: &mut Kept,
    ) -> Result<usize, LayerwiseError> {
        let Some((edge_type, loops, _)) = self.model.edges(scan) else { return Ok(0) };
        let key = (edge_type, loops, self.model.wanted(scan));
        if let Some((known, lists)) = kept
            && *known == key
        {
            return Ok(lists.len());
        }
        *kept = None;
        let of = ListsOf { snapshot: &self.model.snapshot, edge_type, loops, wanted: key.2 };
        let lists = Lists::read(&of, rows.clone(), plan.lists_bytes, self.context)?;
        let len = lists.len();
        *kept = Some((key, lists));
        Ok(len)
    }

    #[expect(clippy::too_many_arguments, reason = "what a scan knows comes from all sides")]
    fn scan(
        &self,
        work: &Work,
        pass: &Pass,
        plan: &PassPlan,
        scan: &Scan,
        lists: &Lists,
        known: &mut Known,
        tell: &mut dyn FnMut(f64) -> bool,
    ) -> Result<bool, LayerwiseError> {
        let rows = lists.first..lists.first + lists.len() as u64;
        self.beside(work, scan, &rows, known)?;
        let new = |place: &usize| Accumulators::new(&pass.reductions[*place], lists.len());
        let mut sums: Vec<Accumulators> = scan.reductions.iter().map(new).collect();
        let mut cursors = vec![0_u32; lists.len()];
        let shared = Shared {
            model: self.model,
            lists,
            scan,
            reductions: scan.reductions.iter().map(|at| &pass.reductions[*at]).collect(),
            beside: &known.beside,
        };
        let Some((_, _, num_sources)) = self.model.edges(scan) else { return Ok(true) };
        let mut add = |chunk: &mut Chunk| {
            self.views(scan, chunk)?;
            self.added(&shared, &rows, chunk)?;
            self.add(&shared, chunk, &mut sums, &mut cursors)?;
            Ok(tell(chunk.rows.end as f64 / num_sources.max(1) as f64))
        };
        let (model, chunk_rows) = (self.model, plan.chunk_rows);
        if !(Chunks { model, work, scan, num_sources, chunk_rows }).each(&mut add)? {
            return Ok(false);
        }
        for (place, mut sums) in scan.reductions.iter().zip(sums) {
            sums.finish();
            self.fill(&pass.reductions[*place], &mut sums, lists.len())?;
            known.reduced.insert(pass.reductions[*place].value, sums);
        }
        Ok(true)
    }

    /// Gives nodes without a loop what they have in place of one.
    fn fill(
        &self,
        reduced: &Reduced,
        sums: &mut Accumulators,
        count: usize,
    ) -> Result<(), LayerwiseError> {
        if reduced.how != How::LastLoop {
            return Ok(());
        }
        let leaves = reduced.fill.leaves.iter();
        let given = leaves.map(|(_, leaf)| match leaf {
            Leaf::Lengths(value) => Given::numbers(self.model.lengths(*value, count)),
            _ => Given::numbers(Vec::new()),
        });
        let given: Vec<Given<'_>> = given.collect();
        let rows = reduced.fill.run(&Context::default(), &given)?;
        sums.fill(f32s(&rows, 0));
        Ok(())
    }

    /// Adds the edges from a chunk of sources.
    fn add(
        &self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        sums: &mut [Accumulators],
        cursors: &mut [u32],
    ) -> Result<(), LayerwiseError> {
        let count = self.context.threads() * PIECES_PER_THREAD;
        let each = cursors.len().div_ceil(count).max(1);
        let lens: Vec<usize> = cursors.chunks(each).map(<[u32]>::len).collect();
        let mut parts: Vec<_> = sums.iter_mut().map(|sums| sums.split(&lens).into_iter()).collect();
        let mut pieces = Vec::with_capacity(lens.len());
        for (at, cursors) in cursors.chunks_mut(each).enumerate() {
            let sums = parts.iter_mut().filter_map(Iterator::next).collect();
            pieces.push(Piece { first: at * each, cursors, sums });
        }
        match self.context.pool() {
            None => pieces.iter_mut().try_for_each(|piece| piece.add(shared, chunk)),
            Some(pool) => pool
                .install(|| pieces.par_iter_mut().try_for_each(|piece| piece.add(shared, chunk))),
        }
    }
}
