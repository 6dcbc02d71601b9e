//! Columns that are added to a graph that is there: new nodes, rows of nodes, new edges, as one
//! commit.
//!
//! All columns are in memory before the turn of the commit comes, so that a slow sender holds
//! nobody up; the budget of the graph bounds them.

use ng_import::{ArrowBatch, ArrowError, ArrowField};
use ng_rpc::{Code, Problem, problem_of, v1};
use ng_store::{Begun, Catalog, EdgeData, Owner, TensorMeta, TensorRef, Transaction, UpdateError};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, Reservation};

use super::columns::{Columns, EdgeColumns, Source, of_edges, of_nodes, places};
use super::{note_of, repeated};
use crate::graph::change::key_too_old;
use crate::graph::rows::How;
use crate::graph::{Graph, names, read};

/// Bytes of a step beside its ids and rows: of empty batches many come, too.
const STEP_BYTES: u64 = 512;
const ID_BYTES: u64 = 8;
/// Bytes of the data of an edge, and of what it is made of.
const DATA_BYTES: u64 = size_of::<EdgeData>() as u64 + 12;

/// Rows for a tensor.
struct Rows {
    tensor: TensorRef,
    how: How,
    bytes: Vec<u8>,
}

/// What a batch of columns does.
enum What {
    AddNodes(usize, NodeTypeId, u64),
    SetRows(Vec<u64>),
    AddEdges(EdgeTypeId, Vec<u64>, Vec<u64>, Vec<EdgeData>),
}

/// A batch of columns, and which one it is.
struct Step<'a> {
    of: &'a Source,
    number: u64,
    what: What,
    rows: Vec<Rows>,
}

impl Graph {
    /// Adds columns as one commit. With a key, a stream that was applied is not applied again.
    ///
    /// # Errors
    /// The graph is read only, a column does not fit it, or memory does not hold all of them.
    pub fn add_columns(
        &self,
        head: &v1::UpdateGraphHead,
        mut columns: Columns<'_>,
    ) -> Result<v1::UpdateGraphResponse, Problem> {
        let nodes: Vec<Source> = (0..head.node_types.len()).map(|at| of_nodes(head, at)).collect();
        let edges: Vec<Source> = (0..head.edge_types.len()).map(|at| of_edges(head, at)).collect();
        let snapshot = self.store.snapshot();
        let catalog = snapshot.catalog();
        let (mut steps, mut held) = (Vec::new(), Vec::new());
        let mut hold = |bytes: u64| -> Result<(), Problem> {
            held.push(read::reserve(&snapshot, bytes.saturating_add(STEP_BYTES))?);
            Ok(())
        };
        for (at, of) in nodes.iter().enumerate() {
            let given = (at, &head.node_types[at]);
            node_steps(catalog, (of, given), &mut columns, &mut hold, &mut steps)?;
        }
        for (of, given) in edges.iter().zip(&head.edge_types) {
            edge_steps(catalog, (of, given), &mut columns, &mut hold, &mut steps)?;
        }
        let hash = columns.finish()?;
        self.commit_columns(head, &steps, &hash, held)
    }

    fn commit_columns(
        &self,
        head: &v1::UpdateGraphHead,
        steps: &[Step<'_>],
        hash: &[u8; 32],
        _held: Vec<Reservation>,
    ) -> Result<v1::UpdateGraphResponse, Problem> {
        self.check_there()?;
        let failed = |error: UpdateError| self.refused(&error);
        let key = head.idempotency_key.as_slice();
        let mut tx = match key {
            [] => self.store.write().map_err(failed)?,
            _ => match self.store.write_keyed(key, head.key_since_commit).map_err(failed)? {
                Begun::New(tx) => *tx,
                Begun::Known(known) => return repeated(&known, hash),
                Begun::Forgotten(to) => return Err(key_too_old(to)),
            },
        };
        let first_nodes = first_nodes(&mut tx, head)?;
        let mut answer = v1::UpdateGraphResponse { first_nodes, ..Default::default() };
        let mut added = vec![0; head.node_types.len()];
        for step in steps {
            let done = step.run(&mut tx, &mut added, &mut answer);
            done.map_err(|problem| {
                let message = format!("batch {}: {}", step.number, problem.message);
                step.of.told(Problem { message, ..problem })
            })?;
        }
        if !key.is_empty() {
            let kept = tx.keep(key, &note_of(hash, &answer));
            kept.map_err(|e| problem_of(&e).at("head.idempotency_key"))?;
        }
        let commit = tx.commit().map_err(failed)?;
        self.note_commit(commit.lsn);
        let (commit, fingerprint) = (commit.lsn, commit.fingerprint);
        answer.snapshot = Some(v1::Snapshot { commit, fingerprint });
        Ok(answer)
    }
}

/// Where new nodes begin, by the node types of the head. A type may stand there twice.
fn first_nodes(tx: &mut Transaction, head: &v1::UpdateGraphHead) -> Result<Vec<u64>, Problem> {
    let catalog = tx.catalog().map_err(|e| problem_of(&e))?;
    let first = |(at, given): (usize, &v1::NewNodeType)| {
        let of = of_nodes(head, at);
        let id = names::node_type(catalog, &given.name, &of.field)?;
        let count = catalog.node_types.get(usize::from(id.0)).map_or(0, |meta| meta.num_nodes);
        if given.num_nodes == 0 || given.num_nodes == count {
            return Ok(count);
        }
        let expected = given.num_nodes;
        let message = format!("{} has {count} ids, but the head expects {expected}", of.name);
        Err(Problem::new(Code::Aborted, "GRAPH_CHANGED", message)
            .at(&format!("{}.num_nodes", of.field))
            .remedy("recompute the ids of new nodes and edges, and send the stream again"))
    };
    head.node_types.iter().enumerate().map(first).collect()
}

/// Takes what is kept of a transaction from the budget, before it is kept.
type Hold<'a> = dyn FnMut(u64) -> Result<(), Problem> + 'a;

/// Reads the stream of a node type.
fn node_steps<'a>(
    catalog: &Catalog,
    (of, (at, given)): (&'a Source, (usize, &v1::NewNodeType)),
    columns: &mut Columns<'_>,
    hold: &mut Hold<'_>,
    steps: &mut Vec<Step<'a>>,
) -> Result<(), Problem> {
    let id = names::node_type(catalog, &given.name, &of.field)?;
    if given.tensors.is_empty() {
        let remedy = "list tensors; to add nodes without rows, use transactions";
        return Err(of.wrong("the head lists no tensors").remedy(remedy));
    }
    let fields = columns.schema(of)?;
    let ids = fields.iter().position(|field| field.name == "id");
    let mut wanted: Vec<&str> = given.tensors.iter().map(String::as_str).collect();
    let is_tensor = wanted.contains(&"id");
    let ids = ids.filter(|_| !is_tensor);
    wanted.extend(ids.map(|_| "id"));
    let mut found = places(of, &fields, &wanted)?;
    found.truncate(given.tensors.len());
    let mut tensors = Vec::with_capacity(found.len());
    for (name, place) in given.tensors.iter().zip(&found) {
        let (tensor, meta) = names::tensor(catalog, id, name, &of.field)?;
        tensors.push((*place, tensor, how(of, meta, &fields[*place])?));
    }
    while let Some(batch) = columns.batch(of)? {
        hold(kept_bytes(&batch, &tensors, ID_BYTES))?;
        let what = match ids {
            None => What::AddNodes(at, id, batch.rows),
            Some(place) => What::SetRows(all_ids(of, &batch, place)?),
        };
        let rows = rows_of(&batch, &tensors);
        steps.push(Step { of, number: batch.number, what, rows });
    }
    Ok(())
}

/// Reads the stream of an edge type.
fn edge_steps<'a>(
    catalog: &Catalog,
    (of, given): (&'a Source, &v1::NewEdgeType),
    columns: &mut Columns<'_>,
    hold: &mut Hold<'_>,
    steps: &mut Vec<Step<'a>>,
) -> Result<(), Problem> {
    let id = names::edge_type(catalog, &given.name, &of.field)?;
    let meta = &catalog.edge_types[usize::from(id.0)];
    let fields = columns.schema(of)?;
    let found = EdgeColumns::new(of, &fields)?;
    for (name, has, column) in [
        ("time", meta.has_time, found.time),
        ("weight", meta.has_weight, found.weight),
        ("edge_id", false, found.edge_id),
    ] {
        let what = match (has, column) {
            (true, None) => format!("column {name:?} of the edge type is missing"),
            (false, Some(_)) => format!("the edge type has no column {name:?}"),
            _ => continue,
        };
        return Err(of.wrong(&what).remedy("send exactly the columns of the edge type"));
    }
    let mut tensors = Vec::with_capacity(found.others.len());
    for place in &found.others {
        let field = &fields[*place];
        let tensor =
            catalog.find_tensor(Owner::Edge(id), &field.name).filter(|_| meta.has_edge_ids);
        let named = tensor.and_then(|tensor| Some((tensor, catalog.tensor(tensor)?)));
        let (tensor, meta) = named.ok_or_else(|| {
            let names: Vec<&str> = meta.tensors.iter().map(|meta| meta.name.as_str()).collect();
            of.wrong(&format!("the edge type has no tensor {:?}", field.name))
                .remedy(format!("its tensors are {names:?}"))
        })?;
        tensors.push((*place, tensor, how(of, meta, field)?));
    }
    let has_data = found.time.is_some() || found.weight.is_some();
    let data_bytes = if has_data { DATA_BYTES } else { 0 };
    while let Some(batch) = columns.batch(of)? {
        hold(kept_bytes(&batch, &tensors, 3 * ID_BYTES + data_bytes))?;
        let refused = |error: ArrowError| of.refused(&error);
        let sources = all_ids(of, &batch, found.source)?;
        let destinations = all_ids(of, &batch, found.destination)?;
        let times = found.time.map(|at| batch.times(at)).transpose().map_err(refused)?;
        let weights = found.weight.map(|at| batch.weights(at)).transpose().map_err(refused)?;
        let data = |at: usize| EdgeData {
            time: times.as_ref().map_or(0, |times| times[at]),
            weight: weights.as_ref().map_or(0.0, |weights| weights[at]),
        };
        let data = if has_data { (0..sources.len()).map(data).collect() } else { Vec::new() };
        let what = What::AddEdges(id, sources, destinations, data);
        let rows = rows_of(&batch, &tensors);
        steps.push(Step { of, number: batch.number, what, rows });
    }
    Ok(())
}

/// How the rows of a column get into a tensor.
fn how(of: &Source, meta: &TensorMeta, field: &ArrowField) -> Result<How, Problem> {
    let name = &field.name;
    if field.shape != meta.shape {
        let (found, wanted) = (&field.shape, &meta.shape);
        let what = format!("column {name:?} has rows of shape {found:?}, expected {wanted:?}");
        return Err(of.wrong(&what).remedy("send fixed-size lists with the shape of the tensor"));
    }
    match field.elements.dtype() {
        Some(Dtype::F32) if meta.dtype != Dtype::F32 => Ok(How::Encoded),
        Some(same) if same == meta.dtype && !meta.is_scaled() => Ok(How::AsStored),
        _ => {
            let (found, stored) = (field.elements.name(), meta.dtype);
            let (scales, remedy) = match meta.is_scaled() {
                true => (" with scales", "cast the column to float32"),
                false => ("", "cast the column to float32, or to the dtype of the tensor"),
            };
            let what = format!(
                "column {name:?} has dtype {found}, but the tensor has dtype {stored}{scales}"
            );
            Err(of.wrong(&what).remedy(remedy))
        }
    }
}

/// Bytes of what is kept of a batch, of which a row has `beside` in ids and data.
fn kept_bytes(batch: &ArrowBatch, tensors: &[(usize, TensorRef, How)], beside: u64) -> u64 {
    let of_row = |(place, ..): &(usize, TensorRef, How)| {
        let field = batch.fields().get(*place);
        let bytes = field.map_or(0, |field| {
            let each = field.elements.dtype().map_or(0, Dtype::size_bytes);
            field.columns().saturating_mul(each as u64)
        });
        bytes.saturating_mul(batch.rows)
    };
    let rows = tensors.iter().map(of_row).fold(0_u64, u64::saturating_add);
    rows.saturating_add(batch.rows.saturating_mul(beside))
}

fn rows_of(batch: &ArrowBatch, tensors: &[(usize, TensorRef, How)]) -> Vec<Rows> {
    let rows = tensors.iter().map(|(place, tensor, how)| {
        let bytes = batch.bytes(*place).into_owned();
        Rows { tensor: *tensor, how: *how, bytes }
    });
    rows.collect()
}

/// Ids of a column; negative ones become huge, and no node has them.
fn all_ids(of: &Source, batch: &ArrowBatch, column: usize) -> Result<Vec<u64>, Problem> {
    Ok(batch.ids(column).map_err(|error| of.refused(&error))?.into_u64())
}

impl Step<'_> {
    /// Does it in an open transaction. `added` are the nodes so far, by node type of the head.
    fn run(
        &self,
        tx: &mut Transaction,
        added: &mut [u64],
        answer: &mut v1::UpdateGraphResponse,
    ) -> Result<(), Problem> {
        let failed = |error: UpdateError| problem_of(&error);
        let new;
        let ids: &[u64] = match &self.what {
            What::AddNodes(at, node_type, count) => {
                new = add_nodes(tx, *node_type, *count)?;
                let first = &mut answer.first_nodes[*at];
                *first =
                    if added[*at] == 0 { new.first().copied().unwrap_or(*first) } else { *first };
                if new.first().is_some_and(|id| *id != *first + added[*at]) {
                    return Err(reused());
                }
                added[*at] += count;
                answer.num_nodes += count;
                &new
            }
            What::SetRows(ids) => {
                answer.num_rows += ids.len() as u64;
                ids
            }
            What::AddEdges(edge_type, sources, destinations, data) => {
                let ids = tx.add_edges(*edge_type, sources, destinations, data);
                new = ids.map_err(failed)?;
                answer.num_edges += sources.len() as u64;
                &new
            }
        };
        for Rows { tensor, how, bytes } in &self.rows {
            let encoded;
            let bytes = match how {
                How::AsStored => bytes,
                How::Encoded => {
                    encoded = tx.encode_rows(*tensor, bytes).map_err(failed)?;
                    &encoded
                }
            };
            tx.set_rows(*tensor, ids, bytes).map_err(failed)?;
        }
        Ok(())
    }
}

/// Adds nodes whose ids follow each other.
fn add_nodes(tx: &mut Transaction, node_type: NodeTypeId, count: u64) -> Result<Vec<u64>, Problem> {
    let mut ids: Vec<u64> = Vec::new();
    for _ in 0..count {
        let id = tx.add_node(node_type).map_err(|error| problem_of(&error))?;
        if ids.last().is_some_and(|last| *last + 1 != id) {
            return Err(reused());
        }
        ids.push(id);
    }
    Ok(ids)
}

fn reused() -> Problem {
    let message = "the graph reuses ids of deleted nodes, so new ids are not consecutive";
    Problem::new(Code::FailedPrecondition, "IDS_REUSED", message)
        .remedy("add nodes with transactions, whose answers contain the id of each node")
}
