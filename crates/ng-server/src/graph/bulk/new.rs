//! A new graph of streamed columns: an import whose input comes over the network.

use std::path::Path;

use ng_import::{
    ArrowField, EdgeTypeSpec, ImportError, ImportOptions, Importer, MEMORY_BYTES_MIN, TensorId,
};
use ng_rpc::{Code, Problem, problem_of, v1};
use ng_store::Owner;
use ng_types::NodeTypeId;

use super::columns::{Columns, EdgeColumns, Source, of_edges, of_nodes, places};
use super::note_of;

/// How a graph is made.
pub struct Making<'a> {
    /// Where its store will be.
    pub path: &'a Path,
    /// Memory for it.
    pub memory: u64,
    /// Threads that sort.
    pub threads: usize,
}

/// Makes the store of a new graph. It is durable under its name on return; after an error or a
/// crash there is nothing of that name.
///
/// # Errors
/// The head or a column is wrong, the name is taken, the disk is full.
pub fn make(
    making: &Making<'_>,
    head: &v1::UpdateGraphHead,
    mut columns: Columns<'_>,
) -> Result<v1::UpdateGraphResponse, Problem> {
    let defaults = ImportOptions::default();
    let page_bytes = match head.page_bytes {
        0 => defaults.page_bytes,
        bytes => bytes as usize,
    };
    let memory = Some(making.memory.max(MEMORY_BYTES_MIN));
    let threads = Some(making.threads);
    let options = ImportOptions { memory, threads, page_bytes, ..defaults };
    let import = Importer::new(making.path, options).map_err(|e| told(&e, "head"))?;
    let mut new = New { import, head, nodes: Vec::new(), edges: 0 };
    new.declare()?;
    for at in 0..head.node_types.len() {
        new.rows(at, &mut columns)?;
    }
    for at in 0..head.edge_types.len() {
        new.edges(at, &mut columns)?;
    }
    let hash = columns.finish()?;
    let mut answer = v1::UpdateGraphResponse {
        num_nodes: head.node_types.iter().map(|one| one.num_nodes).sum(),
        num_edges: new.edges,
        first_nodes: vec![0; head.node_types.len()],
        ..v1::UpdateGraphResponse::default()
    };
    let mut import = new.import;
    if !head.idempotency_key.is_empty() {
        let kept = import.keep(&head.idempotency_key, &note_of(&hash, &answer));
        kept.map_err(|e| told(&e, "head.idempotency_key"))?;
    }
    let report = import.finish(&mut |_| true).map_err(|e| told(&e, "head"))?;
    answer.notes = report.notes.into_iter().map(|note| note.message).collect();
    Ok(answer)
}

/// A problem of an import. That others make a graph of this name, or have made it, is none of the
/// input.
fn told(error: &ImportError, field: &str) -> Problem {
    let problem = problem_of(error).at(field);
    match error {
        ImportError::Place(ng_io::StagingError::Busy { .. }) => Problem {
            code: Code::Aborted,
            reason: "GRAPH_BUSY".to_owned(),
            message: "another request is creating a graph of this name".to_owned(),
            ..problem
        }
        .remedy("wait until that request has ended, then repeat this request with another key"),
        ImportError::Place(ng_io::StagingError::Exists { .. }) => Problem {
            code: Code::AlreadyExists,
            reason: "GRAPH_EXISTS".to_owned(),
            message: "the served folder has an unserved store of this name".to_owned(),
            ..problem
        }
        .at("head.graph")
        .remedy("register it, or choose another name"),
        ImportError::Place(_)
        | ImportError::Line { .. }
        | ImportError::Row { .. }
        | ImportError::File { .. }
        | ImportError::Spec(_)
        | ImportError::DiskFull { .. }
        | ImportError::Io { .. }
        | ImportError::Store(_)
        | ImportError::RowCount { .. }
        | ImportError::Source(_)
        | ImportError::Scratch(_)
        | ImportError::Busy { .. }
        | ImportError::Locked(_)
        | ImportError::BudgetTooSmall { .. }
        | ImportError::Strict { .. }
        | ImportError::Cancelled
        | ImportError::Failed { .. } => problem,
    }
}

struct New<'a> {
    import: Importer,
    head: &'a v1::UpdateGraphHead,
    nodes: Vec<NodeTypeId>,
    edges: u64,
}

impl New<'_> {
    fn declare(&mut self) -> Result<(), Problem> {
        for (at, node_type) in self.head.node_types.iter().enumerate() {
            let (name, count) = (&node_type.name, node_type.num_nodes);
            let of = of_nodes(self.head, at);
            if name.is_empty() || name.contains(',') {
                return Err(of.wrong("the name of a type must not be empty or contain commas"));
            }
            let declared = self.import.node_type(name, Some(count), false);
            self.nodes.push(declared.map_err(|e| told(&e, &of.field))?);
        }
        Ok(())
    }

    /// The rows of a node type.
    fn rows(&mut self, at: usize, columns: &mut Columns<'_>) -> Result<(), Problem> {
        let given = &self.head.node_types[at];
        if given.tensors.is_empty() {
            return Ok(());
        }
        let of = of_nodes(self.head, at);
        let fields = columns.schema(&of)?;
        let names: Vec<&str> = given.tensors.iter().map(String::as_str).collect();
        let found = places(&of, &fields, &names)?;
        let owner = Owner::Node(self.nodes[at]);
        let tensors = self.tensors(&of, owner, found.iter().map(|place| &fields[*place]))?;
        let mut rows = 0;
        while let Some(batch) = columns.batch(&of)? {
            rows += batch.rows;
            if rows > given.num_nodes {
                break;
            }
            for (tensor, place) in tensors.iter().zip(&found) {
                let pushed = self.import.push_rows(*tensor, &batch.bytes(*place));
                pushed.map_err(|e| at_batch(&of, batch.number, problem_of(&e)))?;
            }
        }
        if rows == given.num_nodes {
            return Ok(());
        }
        let nodes = given.num_nodes;
        let what = match rows > nodes {
            true => format!("its stream has more than {nodes} rows for {nodes} nodes"),
            false => format!("its stream has {rows} rows for {nodes} nodes"),
        };
        Err(of.wrong(&what).remedy("send a row for each node, in the order of ids"))
    }

    /// Begins tensors of these columns.
    fn tensors<'f>(
        &mut self,
        of: &Source,
        owner: Owner,
        fields: impl Iterator<Item = &'f ArrowField>,
    ) -> Result<Vec<TensorId>, Problem> {
        fields
            .map(|field| {
                let dtype = field.elements.dtype().ok_or_else(|| {
                    let (column, found) = (field.name.clone(), field.elements.name());
                    of.refused(&ng_import::ArrowError::Type { column, found })
                })?;
                let begun = self.import.begin_tensor(owner, &field.name, dtype, &field.shape, None);
                begun.map_err(|e| of.told(problem_of(&e)))
            })
            .collect()
    }

    fn edges(&mut self, at: usize, columns: &mut Columns<'_>) -> Result<(), Problem> {
        let given = &self.head.edge_types[at];
        let of = of_edges(self.head, at);
        let fields = columns.schema(&of)?;
        let found = EdgeColumns::new(&of, &fields)?;
        let [source, relation, destination] = self.ends(&of, &given.name)?;
        if found.edge_id.is_some() && !given.edge_ids {
            return Err(of
                .wrong("its stream has a column \"edge_id\", but edge_ids is not set")
                .remedy("set edge_ids=true, or leave out the column"));
        }
        if let Some(odd) = found.others.first().filter(|_| found.edge_id.is_some()) {
            let what =
                format!("column {:?} cannot be stored beside \"edge_id\"", fields[*odd].name);
            return Err(of
                .wrong(&what)
                .remedy("leave out column \"edge_id\"; row numbers then become edge ids"));
        }
        let spec = EdgeTypeSpec {
            source,
            relation,
            destination,
            undirected: given.undirected,
            reverse: given.reverse,
            edge_ids: given.edge_ids,
            time: found.time.is_some(),
            weight: found.weight.is_some(),
            ..EdgeTypeSpec::default()
        };
        let edge_type = self.import.edge_type(spec).map_err(|e| of.told(problem_of(&e)))?;
        let others = found.others.iter().map(|place| &fields[*place]);
        let tensors = self.tensors(&of, Owner::Edge(edge_type), others)?;
        while let Some(batch) = columns.batch(&of)? {
            let refused = |e| at_batch(&of, batch.number, of.refused(&e));
            let sources = batch.ids(found.source).map_err(refused)?;
            let destinations = batch.ids(found.destination).map_err(refused)?;
            let edge_ids = found.edge_id.map(|at| batch.ids(at)).transpose().map_err(refused)?;
            let times = found.time.map(|at| batch.times(at)).transpose().map_err(refused)?;
            let weights = found.weight.map(|at| batch.weights(at)).transpose().map_err(refused)?;
            let pushed = self.import.push_edges(
                edge_type,
                sources.slice(),
                destinations.slice(),
                edge_ids.as_ref().map(|ids| ids.slice()),
                times.as_deref(),
                weights.as_deref(),
            );
            pushed.map_err(|e| at_batch(&of, batch.number, problem_of(&e)))?;
            for (tensor, place) in tensors.iter().zip(&found.others) {
                let pushed = self.import.push_rows(*tensor, &batch.bytes(*place));
                pushed.map_err(|e| at_batch(&of, batch.number, problem_of(&e)))?;
            }
            self.edges += batch.rows;
        }
        Ok(())
    }

    /// Source, relation and destination of a name.
    fn ends(&self, of: &Source, name: &str) -> Result<[String; 3], Problem> {
        let parts: Vec<&str> = name.split(',').collect();
        match (parts.as_slice(), self.head.node_types.as_slice()) {
            ([source, relation, destination], _) => {
                Ok([source, relation, destination].map(|part| (*part).to_owned()))
            }
            ([relation], [only]) => {
                Ok([only.name.clone(), (*relation).to_owned(), only.name.clone()])
            }
            _ => Err(of
                .wrong("the name does not contain the two node types")
                .remedy("use the form source,relation,destination")),
        }
    }
}

/// A problem of a batch.
fn at_batch(of: &Source, number: u64, problem: Problem) -> Problem {
    let message = format!("batch {number}: {}", problem.message);
    of.told(Problem { message, ..problem })
}
