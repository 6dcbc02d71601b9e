//! Inference over all nodes of a store, layer by layer, in bounded memory.
//!
//! A model is split where edges gather rows from their sources: these values become tables with a
//! row for each node, written to a folder. A pass computes the next tables, block by block of
//! destinations. In a block, rows of sources come by in the order of the files and are added to
//! accumulators, so a block reads each table once, from front to back.
//!
//! What must not live here: what operations mean, formats of stores. The invariants: memory is that
//! of the plan, whatever the graph; results are the same, byte for byte, for any number of threads
//! and after any number of interruptions.

mod accumulate;
mod added;
mod chunk;
mod compute;
mod error;
mod lists;
mod model;
mod part;
mod passes;
mod piece;
mod plan;
mod rows;
mod run;
mod work;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ng_infer::dfg::Moves;
use ng_infer::kernel::Context;
use ng_io::IoCounts;
use ng_store::{ReadError, Snapshot};

pub use error::LayerwiseError;
pub use plan::{LayerwiseOptions, LayerwisePlan, PassPlan};
pub use run::{Hear, Progress};
pub use work::Begun;

use crate::ModelFile;
use model::Model;
use plan::bytes_of_a_block;
use run::Runner;
use work::Work;

/// How much less has to be read for products to be computed again in each block.
const LESS: f64 = 1.05;

/// A model that is computed for all nodes of a snapshot.
pub struct Layerwise {
    model: Model,
    plan: LayerwisePlan,
    context: Context,
}

/// A run that came to its end.
pub struct Inferred {
    work: Work,
    outputs: Vec<InferredOutput>,
    /// How it began.
    pub begun: Begun,
}

/// A value of the model for all nodes of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferredOutput {
    /// Its name.
    pub name: String,
    /// The type of the nodes.
    pub node_type: String,
    /// Lengths of a row's dimensions.
    pub dims: Vec<usize>,
    /// How many nodes there are.
    pub num_rows: u64,
    table: String,
}

impl Layerwise {
    /// Splits a model and plans the run.
    ///
    /// # Errors
    /// [`LayerwiseError::Model`] and [`LayerwiseError::Levels`] for operations that cannot be
    /// computed for blocks of nodes, [`LayerwiseError::Engine`] for inputs that the store does not
    /// have, [`LayerwiseError::TooSmall`].
    pub fn new(
        snapshot: Arc<Snapshot>,
        model: &ModelFile,
        options: &LayerwiseOptions,
    ) -> Result<Self, LayerwiseError> {
        let (mut model, plan) = Self::split(snapshot, model, options)?;
        model.prepare(&options.devices)?;
        Ok(Self { model, plan, context: Context::new(options.threads) })
    }

    /// The split that reads less: where products are stored and their rows read again by nodes
    /// themselves, or where they are computed each time that what they are made of comes by.
    fn split(
        snapshot: Arc<Snapshot>,
        file: &ModelFile,
        options: &LayerwiseOptions,
    ) -> Result<(Model, LayerwisePlan), LayerwiseError> {
        let mut degrees = HashMap::new();
        let mut with = |moves| Model::new(Arc::clone(&snapshot), file, moves, &mut degrees);
        let mut model = with(Moves::Narrower)?;
        match with(Moves::NoWider) {
            // Of one block each: the choice does not depend on memory, so results do not either.
            Ok(computed) if bytes_of_a_block(&computed) * LESS < bytes_of_a_block(&model) => {
                model = computed;
            }
            Ok(_) | Err(LayerwiseError::Model { .. } | LayerwiseError::Levels(_)) => {}
            Err(error) => return Err(error),
        }
        let plan = LayerwisePlan::new(&model, options)?;
        Ok((model, plan))
    }

    /// Returns the bytes that a run will read, write and hold.
    pub fn plan(&self) -> &LayerwisePlan {
        &self.plan
    }

    /// Returns the outputs of a run.
    pub fn outputs(&self) -> Vec<InferredOutput> {
        let passes = &self.model.passes;
        let mut outputs = Vec::new();
        for (name, value) in passes.graph.outputs() {
            for (at, pass) in passes.passes.iter().enumerate() {
                if let Some(place) = pass.targets.iter().position(|target| target == value) {
                    outputs.push(InferredOutput {
                        name: name.clone(),
                        node_type: self.plan.passes[at].node_type.clone(),
                        dims: passes.row_dims(*value),
                        num_rows: self.plan.passes[at].num_nodes,
                        table: Model::table(at, place),
                    });
                }
            }
        }
        outputs
    }

    /// Tells this model on this snapshot from others.
    pub fn key(&self) -> String {
        self.model.key()
    }

    /// Computes all outputs, with tables in `folder`, which is there. It goes on where an earlier
    /// run of the same model on the same snapshot ended, unless it `is_fresh`.
    ///
    /// # Errors
    /// [`LayerwiseError::Stopped`] if `hear` says so; those of reading and writing. What is done
    /// stays in the folder.
    pub fn run(
        &self,
        folder: &Path,
        is_fresh: bool,
        hear: &mut Hear<'_>,
    ) -> Result<Inferred, LayerwiseError> {
        let most = self.plan.passes.iter().map(|pass| pass.memory_bytes).max().unwrap_or(0);
        let _held = self.model.snapshot.reserve(most).map_err(ReadError::from)?;
        let (mut work, begun) = Work::open(folder, &self.model.key(), is_fresh)?;
        let runner =
            Runner { model: &self.model, plans: &self.plan.passes, context: &self.context };
        runner.run(&mut work, hear)?;
        Ok(Inferred { work, outputs: self.outputs(), begun })
    }
}

impl Inferred {
    /// Returns the computed outputs.
    pub fn outputs(&self) -> &[InferredOutput] {
        &self.outputs
    }

    /// Rows of an output, one after the other.
    ///
    /// # Errors
    /// [`LayerwiseError::Damaged`], [`LayerwiseError::ReadTable`].
    pub fn rows(
        &self,
        output: &InferredOutput,
        rows: std::ops::Range<u64>,
    ) -> Result<Vec<f32>, LayerwiseError> {
        match self.work.table(&output.table) {
            Some(table) => self.work.read_rows(&table, rows),
            None => Ok(Vec::new()),
        }
    }

    /// Removes the files of the run from its folder, once its outputs are in place. If it is
    /// interrupted, the next run starts from the beginning.
    ///
    /// # Errors
    /// [`LayerwiseError::Folder`].
    pub fn clear(&self) -> Result<(), LayerwiseError> {
        self.work.clear()
    }

    /// Returns the counters of reads of tables in the folder. The store counts its own reads.
    pub fn read_counts(&self) -> IoCounts {
        self.work.read_counts()
    }
}
