//! Which rows each value has, and how far from the seeds the nodes may be whose rows it needs.
//!
//! What lives here: domains, levels and cuts of a graph, found from types and operations alone.
//! What must not: batches, kernels, plans. The invariant: of a graph that is analysed, each
//! operation treats rows one by one, unless it gathers or reduces them along edges or is listed as
//! a barrier. So a value may be computed for some rows alone.
//!
//! Levels count hops. Inputs have level 0, and an operation on rows has the largest level of what
//! it takes. Rows that edges gather from their sources have half a level more, and what edges
//! reduce is rounded up: a node of level `l` depends on nodes up to `l` hops away.

mod edges;
mod elements;
mod error;
mod facts;
mod layout;
mod rules;
mod spaces;

pub use error::LevelsError;
pub use facts::{Barrier, Cut, Domain, Fact, Level, MadeOf, Pointer, Rows};
pub use spaces::{End, Loops, Space, SpaceId};

use super::dim::Dim;
use super::graph::{Dfg, Source, TensorType, Value};
use rules::Analysis;
use spaces::Spaces;

/// Domains, levels and cuts of a graph.
///
/// ```
/// use ng_infer::dfg::levels::{Domain, Level};
/// use ng_infer::dfg::{Dfg, Dim, TensorType};
/// use ng_types::Dtype;
/// let dfg = Dfg::from_text(
///     r#"1: "SpMM_Mean"
///          in={"edge_index", "x"}
///          out={"1_0"}"#,
/// )?;
/// let typed = |dtype, shape: [Dim; 2]| TensorType { dtype, shape: shape.into() };
/// let levels = dfg.levels(&[
///     ("x", typed(Dtype::F32, [Dim::symbol("nodes"), Dim::from(8)])),
///     ("edge_index", typed(Dtype::I64, [Dim::from(2), Dim::symbol("edges")])),
/// ])?;
/// let out = dfg.outputs()[0].1;
/// assert_eq!(levels.fact(out).level, Level::hops(1));
/// assert_eq!(levels.cuts()[0].table, dfg.value("x").expect("an input"));
/// # Ok::<(), ng_infer::dfg::levels::LevelsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Levels {
    facts: Vec<Fact>,
    types: Vec<TensorType>,
    spaces: Spaces,
    cuts: Vec<Cut>,
    barriers: Vec<Barrier>,
}

impl Levels {
    /// What is known of a value.
    pub fn fact(&self, value: Value) -> &Fact {
        &self.facts[value.0]
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> &TensorType {
        &self.types[value.0]
    }

    /// A set of rows.
    pub fn space(&self, id: SpaceId) -> &Space {
        &self.spaces.all[id.0]
    }

    /// All sets of rows.
    pub fn spaces(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.all.iter().enumerate().map(|(at, space)| (SpaceId(at), space))
    }

    /// Whose rows there are so many of, and how many for each member; `None` for a number, and for
    /// what no input has.
    pub fn rows_of_length(&self, length: &Dim) -> Option<(SpaceId, usize)> {
        self.spaces.of_multiple(length)
    }

    /// The gathers by source, in the order of the nodes.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Operations that need all rows at once.
    pub fn barriers(&self) -> &[Barrier] {
        &self.barriers
    }

    /// The largest level of an output: how many hops the graph needs.
    pub fn depth(&self, dfg: &Dfg) -> u32 {
        let levels = dfg.outputs().iter().map(|(_, value)| self.fact(*value).level.ceil());
        levels.max().unwrap_or(0)
    }
}

impl Dfg {
    /// Finds domains, levels and cuts; `given` are the types of inputs that have none.
    ///
    /// # Errors
    ///
    /// Types do not fit, or an operation treats rows in a way that cannot be followed: it is named.
    pub fn levels(&self, given: &[(&str, TensorType)]) -> Result<Levels, LevelsError> {
        let types = self.check(given)?;
        let mut analysis = Analysis::new(self, &types);
        for value in self.values() {
            let fact = match self.source(value) {
                Source::Input { .. } => analysis.input(value)?,
                Source::Weight(_) => Fact::new(Domain::Constant, MadeOf::Weights),
                Source::Node { node, output: 0 } => {
                    analysis.node(*node)?;
                    continue;
                }
                Source::Node { .. } => continue,
            };
            analysis.set(value, fact);
        }
        let Analysis { facts, spaces, cuts, barriers, .. } = analysis;
        let all = facts.into_iter().map(|fact| fact.unwrap_or(Fact::CONSTANT)).collect();
        Ok(Levels { facts: all, types, spaces, cuts, barriers })
    }
}
