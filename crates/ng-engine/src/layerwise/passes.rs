//! Splits a model into passes over all nodes of a type. A pass computes tables: a row for each node
//! of values that later passes gather from, or that are outputs.
//!
//! What must not live here: stores, memory, running. The invariants: a pass reads tables of earlier
//! passes alone; inside of a pass, scans come in an order in which each has what it needs of those
//! before it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ng_infer::dfg::levels::{Domain, End, Level, Levels, Rows, SpaceId};
use ng_infer::dfg::{Dfg, Moves, Node, Op, Reduction, Source, Value};
use ng_types::Dtype;

use super::error::LayerwiseError;
use super::part::{Part, PartMaker, refused, scaled};

/// A model that is computed pass by pass.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    pub graph: Dfg,
    pub levels: Levels,
    pub passes: Vec<Pass>,
}

/// One pass over the nodes of a type.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// Whose rows it computes.
    pub nodes: SpaceId,
    /// What it computes, table by table.
    pub targets: Vec<Value>,
    pub reductions: Vec<Reduced>,
    pub scans: Vec<Scan>,
    /// From rows at hand and reductions to the targets.
    pub finish: Part,
}

/// Messages that are reduced to the destinations of edges.
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    /// What accumulators come to: the reduction, or that and what is added to it.
    pub value: Value,
    /// Where what is added is among the outputs of the scan's part for it.
    pub added: Option<usize>,
    pub how: How,
    /// What nodes without a loop have, where loops are wanted.
    pub fill: Part,
    /// Places of each node, such as one for each kind of edges.
    pub places: usize,
    /// Lengths of a row's dimensions.
    pub dims: Vec<usize>,
    pub message: Message,
    /// Where the messages' places are among the outputs of the scan's part, if there are several.
    pub index: Option<usize>,
}

/// How messages become one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Reduce(Reduction),
    /// The last one along an edge from the node to itself.
    LastLoop,
}

impl Reduced {
    /// Whether its messages are rows as they are, with one place for each node.
    pub fn is_plain(&self) -> bool {
        matches!(self.message, Message::Row { factor: None, .. }) && self.index.is_none()
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.dims.iter().product()
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A row of a table, times a factor for each of its heads, if there is one: an output of the
    /// scan's part.
    Row { table: Value, factor: Option<usize> },
    /// An output of the scan's part.
    Computed(usize),
}

/// One reading of tables from front to back, in which edges are reduced along.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub edges: SpaceId,
    /// The tables and inputs that are read.
    pub reads: Vec<Value>,
    /// What is gathered from but not read: computed of what was read, chunk by chunk.
    pub views: Vec<Value>,
    pub view: Part,
    /// Values of destinations that messages take.
    pub beside: Vec<Value>,
    /// What computes them.
    pub before: Part,
    /// What is computed edge by edge.
    pub messages: Part,
    /// What destinations add to their reductions: made of rows that are read in the scan, when they
    /// come by.
    pub added: Part,
    /// Places in the pass's reductions.
    pub reductions: Vec<usize>,
}

impl Passes {
    /// Splits a model. With [`Moves::NoWider`], what is gathered is computed from rows that are no
    /// wider each time they are read, and is not stored.
    pub fn new(model: &Dfg, moves: Moves) -> Result<Self, LayerwiseError> {
        let graph = model.lowered(moves)?;
        let levels = graph.levels(&[])?;
        let mut planner = Planner::new(&graph, &levels, moves)?;
        planner.store_cuts()?;
        planner.store_what_crosses()?;
        let mut groups: BTreeMap<(u32, SpaceId), Vec<Value>> = BTreeMap::new();
        for value in &planner.stored {
            let Domain::Rows(rows) = levels.fact(*value).domain else { continue };
            groups.entry((planner.stage(*value), rows.space)).or_default().push(*value);
        }
        let passes = groups
            .into_iter()
            .map(|((stage, nodes), targets)| planner.pass(stage, nodes, targets))
            .collect::<Result<Vec<Pass>, _>>()?;
        Ok(Self { graph, levels, passes })
    }
}

/// The node that gives a value.
pub(super) fn maker(graph: &Dfg, value: Value) -> Option<(&Node, usize)> {
    match graph.source(value) {
        Source::Node { node, output } => Some((&graph.nodes()[*node], *output)),
        _ => None,
    }
}

pub(super) struct Planner<'a> {
    pub graph: &'a Dfg,
    pub levels: &'a Levels,
    /// By value, how many tables must have been computed before it, one after the other.
    stages: HashMap<Value, u32>,
    pub needed: HashSet<Value>,
    pub stored: BTreeSet<Value>,
    moves: Moves,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Dfg, levels: &'a Levels, moves: Moves) -> Result<Self, LayerwiseError> {
        let mut this = Self {
            graph,
            levels,
            moves,
            stages: HashMap::new(),
            needed: HashSet::new(),
            stored: BTreeSet::new(),
        };
        let mut wanted: Vec<Value> = graph.outputs().iter().map(|(_, value)| *value).collect();
        while let Some(value) = wanted.pop() {
            if this.needed.insert(value)
                && let Some((node, _)) = maker(graph, value)
            {
                wanted.extend(&node.inputs);
            }
        }
        this.refuse_barriers()?;
        this.refuse_outputs()?;
        this.find_stages();
        Ok(this)
    }

    fn refuse_barriers(&self) -> Result<(), LayerwiseError> {
        for barrier in self.levels.barriers() {
            let value = self.graph.nodes()[barrier.node].outputs[0];
            if self.needed.contains(&value) {
                let problem = "it reduces over all nodes, so it needs all rows at once";
                return Err(refused(self.graph, value, problem));
            }
        }
        Ok(())
    }

    fn refuse_outputs(&self) -> Result<(), LayerwiseError> {
        for (_, value) in self.graph.outputs() {
            if self.rows_of_nodes(*value).is_none_or(|rows| !rows.is_plain()) {
                let problem = "the output does not have one row per node; export the model \
                               without decoder or pooling";
                return Err(refused(self.graph, *value, problem));
            }
            if self.levels.type_of(*value).dtype != Dtype::F32 {
                return Err(refused(self.graph, *value, "the output is not f32"));
            }
        }
        Ok(())
    }

    pub fn rows_of_nodes(&self, value: Value) -> Option<Rows> {
        use ng_infer::dfg::levels::Space;
        match self.levels.fact(value).domain {
            Domain::Rows(rows) => {
                matches!(self.levels.space(rows.space), Space::Nodes { .. }).then_some(rows)
            }
            _ => None,
        }
    }

    fn find_stages(&mut self) {
        let at_source: HashSet<usize> = self.levels.cuts().iter().map(|cut| cut.node).collect();
        for (at, node) in self.graph.nodes().iter().enumerate() {
            let stage = node.inputs.iter().map(|value| self.stage(*value)).max().unwrap_or(0);
            let stage = if at_source.contains(&at) { stage + 1 } else { stage };
            self.stages.extend(node.outputs.iter().map(|value| (*value, stage)));
        }
    }

    fn stage(&self, value: Value) -> u32 {
        self.stages.get(&value).copied().unwrap_or(0)
    }

    fn is_input(&self, value: Value) -> bool {
        matches!(self.graph.source(value), Source::Input { .. })
    }

    /// Whether a node value is what edges are reduced to.
    pub fn is_reduction(&self, value: Value) -> bool {
        maker(self.graph, value)
            .is_some_and(|(node, _)| matches!(node.op, Op::Scatter(_) | Op::SelfLoopAttr))
    }

    pub fn is_constant(&self, value: Value) -> bool {
        !matches!(self.levels.fact(value).domain, Domain::Rows(_) | Domain::Edges(_))
    }

    /// What is stored in place of a value that has the same elements in another shape.
    fn base(&self, value: Value) -> Value {
        let mut base = value;
        while let Some((node, _)) = maker(self.graph, base)
            && (matches!(node.op, Op::Reshape { .. } | Op::Squeeze | Op::Unsqueeze | Op::Identity)
                || (self.moves == Moves::NoWider && self.is_product(node)))
            && self.rows_of_nodes(node.inputs[0]).is_some_and(|rows| rows.is_plain())
        {
            base = node.inputs[0];
        }
        base
    }

    /// Whether a node multiplies rows of nodes with a matrix, which gives rows that are as wide or
    /// wider.
    fn is_product(&self, node: &Node) -> bool {
        let width = |value: Value| {
            let shape = self.levels.type_of(value).shape.iter().skip(1);
            shape.map(|dim| dim.number()).product::<Option<i64>>()
        };
        let is_linear = matches!(node.op, Op::MatMul | Op::Gemm { trans_a: false, .. });
        let is_alone = node.inputs[1..].iter().all(|value| self.is_constant(*value));
        is_linear && is_alone && width(node.inputs[0]) <= width(node.outputs[0])
    }

    /// Tables that edges gather from, and outputs.
    fn store_cuts(&mut self) -> Result<(), LayerwiseError> {
        for cut in self.levels.cuts() {
            let node = &self.graph.nodes()[cut.node];
            if !self.needed.contains(&node.outputs[0]) || self.recomputes(cut.table) {
                continue;
            }
            let base = self.base(cut.table);
            self.store(base)?;
        }
        for (_, value) in self.graph.outputs() {
            self.store(*value)?;
        }
        Ok(())
    }

    /// Whether a table is as good as what it is made of: nothing but elements of an input in
    /// another order.
    fn recomputes(&self, value: Value) -> bool {
        match maker(self.graph, value) {
            None => true,
            Some((node, _)) => {
                matches!(
                    node.op,
                    Op::Reshape { .. }
                        | Op::Squeeze
                        | Op::Unsqueeze
                        | Op::Identity
                        | Op::Tile
                        | Op::Expand
                ) && self.rows_of_nodes(node.inputs[0]).is_some()
                    && self.recomputes(node.inputs[0])
            }
        }
    }

    fn store(&mut self, value: Value) -> Result<bool, LayerwiseError> {
        let is_output = self.graph.outputs().iter().any(|(_, output)| *output == value);
        if self.is_input(value) && !is_output {
            return Ok(false);
        }
        let rows = self.rows_of_nodes(value).filter(|rows| rows.axis == 0 && rows.outer == 1);
        if rows.is_none() {
            return Err(refused(self.graph, value, "its rows do not lie along the first axis"));
        }
        if self.levels.type_of(value).dtype != Dtype::F32 {
            return Err(refused(
                self.graph,
                value,
                "its rows are not f32, and layer-wise inference stores only f32 rows",
            ));
        }
        Ok(self.stored.insert(value))
    }

    /// Stores what a pass needs of reductions that earlier passes make.
    fn store_what_crosses(&mut self) -> Result<(), LayerwiseError> {
        let last = self.stored.iter().map(|value| self.stage(*value)).max().unwrap_or(0);
        for stage in (0..=last).rev() {
            let targets: Vec<Value> =
                self.stored.iter().copied().filter(|v| self.stage(*v) == stage).collect();
            let mut seen = HashSet::new();
            for target in targets {
                self.cross(stage, target, true, &mut seen)?;
            }
        }
        Ok(())
    }

    fn cross(
        &mut self,
        stage: u32,
        value: Value,
        is_target: bool,
        seen: &mut HashSet<Value>,
    ) -> Result<(), LayerwiseError> {
        if self.is_constant(value) || !seen.insert(value) {
            return Ok(());
        }
        let Some((node, _)) = maker(self.graph, value) else { return Ok(()) };
        let is_node = self.rows_of_nodes(value).is_some();
        if is_node && !is_target && self.stage(value) < stage {
            if self.stored.contains(&value) || self.is_recomputable(value) {
                return Ok(());
            }
            self.store(value)?;
            return Ok(());
        }
        let inputs = node.inputs.clone();
        if !is_node
            && let Op::Gather { .. } | Op::GatherNd = node.op
            && let Some(pointer) = self.levels.fact(inputs[1]).pointer
            && self.rows_of_nodes(inputs[0]).is_some()
        {
            // What is gathered by source is stored already, and has a stage before this one.
            return match pointer.end {
                End::Source => Ok(()),
                End::Destination => self.cross(stage, inputs[0], false, seen),
            };
        }
        inputs.into_iter().try_for_each(|input| self.cross(stage, input, false, seen))
    }

    /// Whether a node value can be computed from what is stored, without reducing anything again.
    fn is_recomputable(&self, value: Value) -> bool {
        if self.is_constant(value) || self.is_input(value) || self.stored.contains(&value) {
            return true;
        }
        !self.is_reduction(value)
            && maker(self.graph, value)
                .is_some_and(|(node, _)| node.inputs.iter().all(|v| self.is_recomputable(*v)))
    }

    fn pass(
        &self,
        stage: u32,
        nodes: SpaceId,
        targets: Vec<Value>,
    ) -> Result<Pass, LayerwiseError> {
        let mut found = Vec::new();
        let mut depths = HashMap::new();
        for target in &targets {
            self.find_reductions(stage, *target, true, &mut depths, &mut found)?;
        }
        let mut pass = Pass {
            nodes,
            reductions: Vec::new(),
            scans: Vec::new(),
            finish: Part::default(),
            targets,
        };
        let mut groups: BTreeMap<(usize, SpaceId), Vec<Value>> = BTreeMap::new();
        for value in found {
            let edges = self.edges_of(value)?;
            groups.entry((depths[&value], edges)).or_default().push(value);
        }
        for ((_, edges), values) in groups {
            self.scan(stage, edges, &values, &mut pass)?;
        }
        let sums: HashSet<Value> = pass.reductions.iter().map(|reduced| reduced.value).collect();
        pass.finish = self.row_part(stage, &pass.targets, &sums)?;
        Ok(pass)
    }

    /// Finds the reductions that this pass makes for a value, and how many scans each needs.
    fn find_reductions(
        &self,
        stage: u32,
        value: Value,
        is_target: bool,
        depths: &mut HashMap<Value, usize>,
        found: &mut Vec<Value>,
    ) -> Result<usize, LayerwiseError> {
        if let Some(depth) = depths.get(&value) {
            return Ok(*depth);
        }
        if self.is_constant(value) || (!is_target && self.is_there(stage, value)) {
            return Ok(0);
        }
        let Some((node, _)) = maker(self.graph, value) else { return Ok(0) };
        let mut depth = 0;
        let gathers = matches!(node.op, Op::Gather { .. } | Op::GatherNd);
        let pointer = node.inputs.get(1).and_then(|index| self.levels.fact(*index).pointer);
        match pointer.filter(|_| gathers && self.rows_of_nodes(node.inputs[0]).is_some()) {
            Some(pointer) if pointer.end == End::Source => {}
            Some(_) => {
                depth = self.find_reductions(stage, node.inputs[0], false, depths, found)?;
            }
            None => {
                for input in &node.inputs {
                    let of_input = self.find_reductions(stage, *input, false, depths, found)?;
                    depth = depth.max(of_input);
                }
            }
        }
        if self.is_reduction(value) {
            depth += 1;
            found.push(value);
        }
        depths.insert(value, depth);
        Ok(depth)
    }

    /// Whether the rows of a value are read in a pass, and not computed.
    pub fn is_there(&self, stage: u32, value: Value) -> bool {
        self.rows_of_nodes(value).is_some()
            && (self.is_input(value) || (self.stored.contains(&value) && self.stage(value) < stage))
    }

    /// What computes values of nodes from rows that are read, and from reductions.
    fn row_part(
        &self,
        stage: u32,
        values: &[Value],
        sums: &HashSet<Value>,
    ) -> Result<Part, LayerwiseError> {
        let is_there = |value: Value| {
            self.is_there(stage, value)
                || sums.contains(&value)
                || (self.rows_of_nodes(value).is_some() && self.is_reduction(value))
        };
        let mut maker = PartMaker::new(self.graph, self.levels, &is_there);
        values.iter().try_for_each(|value| maker.output(*value).map(drop))?;
        Ok(maker.finish())
    }

    fn edges_of(&self, reduction: Value) -> Result<SpaceId, LayerwiseError> {
        let Some((node, _)) = maker(self.graph, reduction) else {
            return Err(refused(self.graph, reduction, "it is not the result of a reduction"));
        };
        match self.levels.fact(node.inputs[0]).domain {
            Domain::Rows(rows) => Ok(rows.space),
            Domain::Edges(edges) if node.op == Op::SelfLoopAttr => Ok(edges),
            _ => Err(refused(self.graph, reduction, "it reduces rows that do not belong to edges")),
        }
    }

    fn scan(
        &self,
        stage: u32,
        edges: SpaceId,
        values: &[Value],
        pass: &mut Pass,
    ) -> Result<(), LayerwiseError> {
        let nothing = |value: Value| self.is_input_of_nodes(value);
        let mut messages = PartMaker::new(self.graph, self.levels, &nothing);
        let mut known: HashMap<Value, usize> = HashMap::new();
        let mut output = |value: Value| -> Result<usize, LayerwiseError> {
            if let Some(place) = known.get(&value) {
                return Ok(*place);
            }
            let place = messages.output(value)?;
            known.insert(value, place);
            Ok(place)
        };
        let (mut tables, mut places) = (BTreeSet::new(), Vec::new());
        let first = pass.reductions.len();
        for value in values {
            let reduced = self.reduced(*value, &mut output)?;
            if let Message::Row { table, .. } = reduced.message {
                tables.insert(table);
            }
            places.push(pass.reductions.len());
            pass.reductions.push(reduced);
        }
        let messages = messages.finish();
        let mut beside = BTreeSet::new();
        for (_, leaf) in &messages.leaves {
            match leaf {
                super::part::Leaf::AtSource(value) => drop(tables.insert(*value)),
                super::part::Leaf::AtDestination(value) => drop(beside.insert(*value)),
                super::part::Leaf::Own(value) => {
                    return Err(refused(
                        self.graph,
                        *value,
                        "rows of edges are computed from all of its rows at once",
                    ));
                }
                _ => {}
            }
        }
        let is_read = |value: &Value| self.is_input(*value) || self.stored.contains(value);
        let views: Vec<Value> = tables.iter().copied().filter(|value| !is_read(value)).collect();
        let view = self.view_part(&views)?;
        let mut reads: BTreeSet<Value> = tables.iter().copied().filter(is_read).collect();
        reads.extend(view.leaves.iter().filter_map(|(_, leaf)| match leaf {
            super::part::Leaf::Own(value) => Some(*value),
            _ => None,
        }));
        let beside: Vec<Value> = beside.into_iter().collect();
        let added = self.added_part(stage, &reads, &mut pass.reductions[first..])?;
        let sums = pass.reductions.iter().map(|reduced| reduced.value).collect();
        pass.scans.push(Scan {
            added,
            edges,
            reads: reads.into_iter().collect(),
            views,
            view,
            before: self.row_part(stage, &beside, &sums)?,
            beside,
            messages,
            reductions: places,
        });
        Ok(())
    }

    fn is_input_of_nodes(&self, value: Value) -> bool {
        self.is_input(value) && self.rows_of_nodes(value).is_some()
    }

    /// What computes values that are gathered from what is read.
    fn view_part(&self, views: &[Value]) -> Result<Part, LayerwiseError> {
        let is_there = |value: Value| self.is_input_of_nodes(value) || self.stored.contains(&value);
        let mut maker = PartMaker::new(self.graph, self.levels, &is_there);
        views.iter().try_for_each(|value| maker.output(*value).map(drop))?;
        Ok(maker.finish())
    }

    fn reduced(
        &self,
        value: Value,
        output: &mut dyn FnMut(Value) -> Result<usize, LayerwiseError>,
    ) -> Result<Reduced, LayerwiseError> {
        let wrong = |problem: &str| refused(self.graph, value, problem);
        let Some((node, _)) = maker(self.graph, value) else {
            return Err(wrong("it is not the result of an operation"));
        };
        let rows = self.rows_of_nodes(value);
        let rows = rows.ok_or_else(|| wrong("the rows of its result do not belong to nodes"))?;
        let shape = &self.levels.type_of(value).shape[1..];
        let dims = shape.iter().map(|dim| dim.number().and_then(|n| usize::try_from(n).ok()));
        let dims = dims.collect::<Option<Vec<usize>>>();
        let dims = dims.ok_or_else(|| wrong("its rows have an unknown length"))?;
        let how = match node.op {
            Op::Scatter(how) => How::Reduce(how),
            Op::SelfLoopAttr => {
                let message = Message::Computed(output(node.inputs[1])?);
                let (how, fill) = (How::LastLoop, self.fill_part(node.inputs[2])?);
                return Ok(Reduced {
                    value,
                    added: None,
                    how,
                    fill,
                    places: 1,
                    dims,
                    message,
                    index: None,
                });
            }
            _ => return Err(wrong("it is not a reduction")),
        };
        let message = match scaled(self.graph, self.levels, node.inputs[0]) {
            Some(found) => {
                let factor = found.factor.map(&mut *output).transpose()?;
                Message::Row { table: found.table, factor }
            }
            None => Message::Computed(output(node.inputs[0])?),
        };
        let index = (rows.inner > 1).then(|| output(node.inputs[1])).transpose()?;
        let fill = Part::default();
        Ok(Reduced { value, added: None, how, fill, places: rows.inner, dims, message, index })
    }

    /// What computes the rows of nodes without a loop.
    fn fill_part(&self, value: Value) -> Result<Part, LayerwiseError> {
        let mut maker = PartMaker::new(self.graph, self.levels, &|_| false);
        maker.output(value)?;
        let part = maker.finish();
        match part.leaves.iter().all(|(_, leaf)| matches!(leaf, super::part::Leaf::Lengths(_))) {
            true => Ok(part),
            false => Err(refused(
                self.graph,
                value,
                "the rows of added self-loops are computed from other rows",
            )),
        }
    }
}

impl Passes {
    /// The name of a value.
    pub fn name(&self, value: Value) -> &str {
        self.graph.name(value)
    }

    /// Lengths of the dimensions of a row, with the places of each node in one.
    pub fn row_dims(&self, value: Value) -> Vec<usize> {
        let shape = &self.levels.type_of(value).shape;
        let places = match self.levels.fact(value).domain {
            Domain::Rows(rows) if rows.inner > 1 => Some(rows.inner),
            _ => None,
        };
        let dims = shape.iter().skip(1).filter_map(|dim| dim.number());
        places.into_iter().chain(dims.map(|n| n as usize)).collect()
    }

    /// How many hops the model needs.
    pub fn depth(&self) -> u32 {
        let levels = self.graph.outputs().iter().map(|(_, value)| self.levels.fact(*value).level);
        levels.max().unwrap_or(Level::default()).ceil()
    }
}
