//! Changes of a request as one commit of a store.
//!
//! What must not live here: how a commit becomes durable. The invariant: all changes are in the
//! commit, or nothing has changed.

use ng_rpc::{Code, Problem, problem_of, v1};
use ng_store::{Begun, Catalog, EdgeData, TensorRef, Transaction, UpdateError};
use ng_types::{EdgeTypeId, NodeTypeId};
use v1::change::Change as Kind;
use v1::node_ref::Node;

use crate::graph::rows::How;
use crate::graph::{Graph, names, note, rows};

/// Changes in a transaction.
const CHANGES_MAX: usize = 1 << 20;
/// Bytes of a key.
const KEY_BYTES_MAX: usize = 64;

/// What a transaction has become.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The commit. Of one that is repeated, the content is not known any more.
    pub snapshot: v1::Snapshot,
    /// A result for each change.
    pub results: Vec<v1::ChangeResult>,
    /// It was applied before.
    pub repeated: bool,
}

/// Rows that are given for a tensor.
struct Rows<'a> {
    tensor: TensorRef,
    how: How,
    data: &'a [u8],
}

/// A change whose names are found.
enum Step<'a> {
    AddNode(NodeTypeId, Vec<Rows<'a>>),
    DeleteNode(NodeTypeId, u64),
    AddEdge(EdgeTypeId, Node, Node, EdgeData),
    DeleteEdge(EdgeTypeId, &'a v1::DeleteEdge),
    SetRows(Rows<'a>, Vec<Node>),
}

impl Graph {
    /// Commits changes in order. With a key that is not empty, a transaction that had it is not
    /// applied again, and neither is one that may have had it, if it was first sent after commit
    /// `since`.
    ///
    /// # Errors
    /// The graph is read only, a change cannot be made, or the store cannot be written.
    pub fn apply(
        &self,
        changes: &[v1::Change],
        (key, since): (&[u8], Option<u64>),
    ) -> Result<Applied, Problem> {
        check_sizes(changes, key)?;
        self.check_there()?;
        let snapshot = self.store.snapshot();
        let steps = steps(snapshot.catalog(), changes)?;
        drop(snapshot);
        let failed = |error: UpdateError| self.refused(&error);
        let mut tx = match key {
            [] => self.store.write().map_err(failed)?,
            _ => match self.store.write_keyed(key, since).map_err(failed)? {
                Begun::New(tx) => *tx,
                Begun::Known(known) => {
                    let results = note::decode(&known.note, changes)?;
                    let snapshot = v1::Snapshot { commit: known.lsn, fingerprint: 0 };
                    return Ok(Applied { snapshot, results, repeated: true });
                }
                Begun::Forgotten(to) => return Err(key_too_old(to)),
            },
        };
        let results = run(&mut tx, &steps)?;
        if !key.is_empty() {
            let note = note::encode(changes, &results);
            tx.keep(key, &note).map_err(|e| problem_of(&e).at("idempotency_key"))?;
        }
        let commit = tx.commit().map_err(failed)?;
        self.note_commit(commit.lsn);
        let (commit, fingerprint) = (commit.lsn, commit.fingerprint);
        let snapshot = v1::Snapshot { commit, fingerprint };
        Ok(Applied { snapshot, results, repeated: false })
    }

    /// An error if what is written now would be lost.
    pub(super) fn check_there(&self) -> Result<(), Problem> {
        if self.store.is_current() {
            return Ok(());
        }
        let message = format!(
            "the folder of graph {:?} was removed or replaced while the graph was served, so \
             changes are rejected",
            self.name
        );
        Err(Problem::new(Code::FailedPrecondition, "GRAPH_REPLACED", message)
            .at("graph")
            .remedy("unregister the graph and register the new folder, or restart the server"))
    }

    /// Why a graph takes no changes.
    pub(super) fn refused(&self, error: &UpdateError) -> Problem {
        let problem = problem_of(error);
        match self.store.read_only_because() {
            Some(cause) => {
                let message = format!("graph {:?} is read only ({cause})", self.name);
                Problem { message, code: Code::FailedPrecondition, ..problem }
            }
            None => problem,
        }
    }
}

/// Why a transaction is neither applied nor repeated.
pub(super) fn key_too_old(to: u64) -> Problem {
    let message = format!(
        "the graph has no idempotency keys of commits up to {to}, so it is unknown whether this \
         transaction was applied"
    );
    Problem::new(Code::FailedPrecondition, "KEY_TOO_OLD", message).at("key_since_commit").remedy(
        "check whether its changes are in the graph; if not, send it again with a new key and \
         the newest commit as key_since_commit",
    )
}

fn check_sizes(changes: &[v1::Change], key: &[u8]) -> Result<(), Problem> {
    if changes.is_empty() || changes.len() > CHANGES_MAX {
        let message = format!("the transaction has {} changes", changes.len());
        return Err(Problem::argument("changes", message)
            .remedy(format!("give 1 to {CHANGES_MAX} in one transaction")));
    }
    check_key(key)
}

/// An error if a key is too long.
pub(super) fn check_key(key: &[u8]) -> Result<(), Problem> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the idempotency key has {} bytes", key.len());
    Err(Problem::argument("idempotency_key", message)
        .remedy(format!("use 1 to {KEY_BYTES_MAX} bytes, such as a random UUID")))
}

/// Finds the names of all changes, before the turn of the transaction comes.
fn steps<'a>(catalog: &Catalog, changes: &'a [v1::Change]) -> Result<Vec<Step<'a>>, Problem> {
    let mut added = 0;
    let mut all = Vec::with_capacity(changes.len());
    for (at, change) in changes.iter().enumerate() {
        let step = change.change.as_ref().map(|kind| step(catalog, kind, added));
        let nothing = || {
            Err(Problem::argument("", format!("change {at} has no kind"))
                .remedy("set its kind, such as add_vertex or add_edge"))
        };
        all.push(step.unwrap_or_else(nothing).map_err(|problem| within(problem, at))?);
        added += u32::from(matches!(change.change, Some(Kind::AddVertex(_))));
    }
    Ok(all)
}

/// A problem of one change.
fn within(problem: Problem, at: usize) -> Problem {
    let field = match problem.field.as_str() {
        "" => format!("changes[{at}]"),
        field => format!("changes[{at}].{field}"),
    };
    problem.at(&field)
}

fn step<'a>(catalog: &Catalog, kind: &'a Kind, added: u32) -> Result<Step<'a>, Problem> {
    let node = |given: &Option<v1::NodeRef>, field: &str| {
        let node = given.as_ref().and_then(|given| given.node);
        match node.ok_or_else(|| Problem::argument(field, format!("{field} names no node")))? {
            Node::Added(number) if number >= added => {
                let message = format!(
                    "added node {number} does not exist; {added} nodes are added before this change"
                );
                Err(Problem::argument(field, message))
            }
            node => Ok(node),
        }
    };
    Ok(match kind {
        Kind::AddVertex(v1::AddVertex { node_type, rows: given }) => {
            let id = names::node_type(catalog, node_type, "add_vertex.node_type")?;
            let rows = given.iter().map(|(name, given)| {
                let field = format!("add_vertex.rows[{name:?}]");
                rows_for(catalog, id, (name, given, 1), &field)
            });
            Step::AddNode(id, rows.collect::<Result<_, _>>()?)
        }
        Kind::DeleteVertex(v1::DeleteVertex { node_type, id }) => {
            Step::DeleteNode(names::node_type(catalog, node_type, "delete_vertex.node_type")?, *id)
        }
        Kind::AddEdge(v1::AddEdge { edge_type, source, destination, time, weight }) => {
            let id = names::edge_type(catalog, edge_type, "add_edge.edge_type")?;
            let source = node(source, "add_edge.source")?;
            let destination = node(destination, "add_edge.destination")?;
            let meta = &catalog.edge_types[usize::from(id.0)];
            for (has, given, column) in [
                (meta.has_time, time.is_some(), "time"),
                (meta.has_weight, weight.is_some(), "weight"),
            ] {
                if given && !has {
                    let message = format!("edges of type {:?} have no {column}", meta.relation);
                    return Err(Problem::argument(&format!("add_edge.{column}"), message)
                        .remedy(format!("leave out {column}")));
                }
            }
            let (time, weight) = (time.unwrap_or_default(), weight.unwrap_or_default());
            Step::AddEdge(id, source, destination, EdgeData { time, weight })
        }
        Kind::DeleteEdge(edge) => {
            let id = names::edge_type(catalog, &edge.edge_type, "delete_edge.edge_type")?;
            Step::DeleteEdge(id, edge)
        }
        Kind::UpdateEmbed(v1::UpdateEmbed { node_type, tensor, nodes, rows }) => {
            let id = names::node_type(catalog, node_type, "update_embed.node_type")?;
            let missing = || Problem::argument("update_embed.rows", "the change has no rows");
            let rows = rows.as_ref().ok_or_else(missing)?;
            let field = "update_embed.rows";
            let rows = rows_for(catalog, id, (tensor, rows, nodes.len()), field)?;
            let each = |given: &v1::NodeRef| node(&Some(*given), "update_embed.nodes");
            Step::SetRows(rows, nodes.iter().map(each).collect::<Result<_, _>>()?)
        }
    })
}

fn rows_for<'a>(
    catalog: &Catalog,
    of: NodeTypeId,
    (name, given, count): (&str, &'a v1::Tensor, usize),
    field: &str,
) -> Result<Rows<'a>, Problem> {
    let (tensor, meta) = names::tensor(catalog, of, name, field)?;
    let how = rows::check(given, meta, count, field)?;
    Ok(Rows { tensor, how, data: &given.data })
}

/// Makes the changes in an open transaction.
fn run(tx: &mut Transaction, steps: &[Step<'_>]) -> Result<Vec<v1::ChangeResult>, Problem> {
    let mut added = Vec::new();
    let mut results = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let result = one(tx, step, &mut added);
        results.push(result.map_err(|error| within(problem_of(&error), at))?);
    }
    Ok(results)
}

fn one(
    tx: &mut Transaction,
    step: &Step<'_>,
    added: &mut Vec<u64>,
) -> Result<v1::ChangeResult, UpdateError> {
    let mut result = v1::ChangeResult::default();
    let id_of = |added: &[u64], node: &Node| match node {
        Node::Id(id) => *id,
        // Numbers were checked.
        Node::Added(number) => added.get(*number as usize).copied().unwrap_or(u64::MAX),
    };
    match step {
        Step::AddNode(node_type, all) => {
            let id = tx.add_node(*node_type)?;
            for rows in all {
                set(tx, rows, &[id])?;
            }
            added.push(id);
            result.node = Some(id);
        }
        Step::DeleteNode(node_type, id) => tx.delete_node(*node_type, *id)?,
        Step::AddEdge(edge_type, source, destination, data) => {
            let (source, destination) = (id_of(added, source), id_of(added, destination));
            result.edge = tx.add_edge(*edge_type, source, destination, *data)?;
        }
        Step::DeleteEdge(edge_type, edge) => {
            let v1::DeleteEdge { source, destination, edge_id, .. } = edge;
            let deleted = tx.delete_edge(*edge_type, *source, *destination, *edge_id)?;
            result.deleted = Some(deleted);
        }
        Step::SetRows(rows, nodes) => {
            let ids: Vec<u64> = nodes.iter().map(|node| id_of(added, node)).collect();
            set(tx, rows, &ids)?;
        }
    }
    Ok(result)
}

fn set(tx: &mut Transaction, rows: &Rows<'_>, ids: &[u64]) -> Result<(), UpdateError> {
    match rows.how {
        How::AsStored => tx.set_rows(rows.tensor, ids, rows.data),
        How::Encoded => {
            let encoded = tx.encode_rows(rows.tensor, rows.data)?;
            tx.set_rows(rows.tensor, ids, &encoded)
        }
    }
}
