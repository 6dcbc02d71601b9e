//! The sampling methods, and the one table of what each is supported with.
//!
//! Refusals, the Python face and the table in `docs/explanation/reading.md` all read it. What must
//! not live here: how a method chooses.

use crate::SampleError;

/// How entries of a list are chosen where there are more than the fanout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each destination draws its own, as many as the fanout says.
    Uniform {
        /// An entry may be drawn more than once.
        replace: bool,
    },
    /// LABOR-0 (Balin and Catalyurek, 2023): an entry is taken if the number of its source is at
    /// most fanout / degree. Destinations share the numbers, so that they choose the same sources
    /// where they can, and a batch has fewer nodes; each takes as many as the fanout says on
    /// average.
    Labor {
        /// Streams in a row that share the numbers, at least 1: their batches have rows in common.
        dependent: u32,
    },
    /// Each destination draws its own in proportion to the weights of its entries (Efraimidis and
    /// Spirakis, 2006). Entries of weight 0 are never drawn.
    Weighted {
        /// An entry may be drawn more than once.
        replace: bool,
    },
    /// Nothing is drawn: of each list the entries are taken whose source is among the seeds, so
    /// that a batch has all edges between its seeds and no other node. For one hop of fanout -1.
    Induced,
}

/// The data of a list that a method needs to choose neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Its length.
    Degree,
    /// The sources of all its entries.
    Sources,
    /// The weights of all its entries.
    Weights,
}

/// The sources of lists, and the kinds of requests to a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Lists on pages, hop by hop.
    Pages,
    /// Lists in memory.
    Memory,
    /// Lists on pages without a barrier between hops; others are read hop by hop.
    Streaming,
    /// Sections of the direct layout.
    Sections,
    /// Records of compiled epochs.
    Compiled,
    /// Traces for simulated devices.
    Traces,
}

/// A row of the table: a method, its options and the sources that support it.
#[derive(Clone, Copy, Debug)]
pub struct MethodRow {
    /// The name for users.
    pub name: &'static str,
    /// What it has to see of a list.
    pub needs: Needs,
    /// The options of the method.
    pub options: &'static [&'static str],
    /// The sources that support it.
    pub sources: &'static [Source],
}

impl Source {
    /// All, in the order of the table.
    pub const ALL: [Self; 6] =
        [Self::Pages, Self::Memory, Self::Streaming, Self::Sections, Self::Compiled, Self::Traces];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Memory => "memory",
            Self::Streaming => "streaming",
            Self::Sections => "direct layout",
            Self::Compiled => "compiled epochs",
            Self::Traces => "traces",
        }
    }
}

impl Needs {
    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Degree => "degree",
            Self::Sources => "sources",
            Self::Weights => "weights",
        }
    }
}

/// The table of the methods that draw neighbours, in the order of [`Method`].
pub const METHODS: [MethodRow; 3] = [
    MethodRow {
        name: "uniform",
        needs: Needs::Degree,
        options: &["replace"],
        sources: &Source::ALL,
    },
    MethodRow {
        name: "labor",
        needs: Needs::Sources,
        options: &["dependent_batches"],
        sources: &[Source::Pages, Source::Memory, Source::Compiled],
    },
    MethodRow {
        name: "weighted",
        needs: Needs::Weights,
        options: &["replace"],
        sources: &[Source::Pages, Source::Memory, Source::Compiled],
    },
];

/// What is said of [`Method::Induced`]. It is not in the table: it draws no neighbours.
const INDUCED: MethodRow = MethodRow {
    name: "induced",
    needs: Needs::Sources,
    options: &[],
    sources: &[Source::Pages, Source::Memory, Source::Compiled],
};

impl Method {
    /// Its row of the table.
    pub fn row(self) -> &'static MethodRow {
        match self {
            Self::Uniform { .. } => &METHODS[0],
            Self::Labor { .. } => &METHODS[1],
            Self::Weighted { .. } => &METHODS[2],
            Self::Induced => &INDUCED,
        }
    }

    /// Refuses what it is not supported with.
    ///
    /// # Errors
    /// [`SampleError::Spec`].
    pub(crate) fn check(self, source: Source) -> Result<(), SampleError> {
        let MethodRow { name, needs, .. } = self.row();
        if self.works_with(source) {
            return Ok(());
        }
        let what = format!(
            "{name} sampling needs the {} of whole lists, which the {} cannot provide; sample \
             uniformly",
            needs.name(),
            source.name()
        );
        Err(SampleError::Spec(what))
    }

    /// Whether it is supported with `source`.
    pub fn works_with(self, source: Source) -> bool {
        self.row().sources.contains(&source)
    }
}
