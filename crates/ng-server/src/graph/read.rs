//! Rows and neighbour lists of a snapshot, as messages. Their size is known before they are read.

use ng_rpc::{Code, Problem, problem_of, v1};
use ng_store::{
    EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, GATHER_BYTES_PER_ROW, Snapshot,
};

use crate::graph::rows::dtype_of;
use crate::graph::{Graph, named, names};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an entry of a list in an answer: neighbour, edge id, time, weight.
const ENTRY_BYTES: u64 = 28;

/// Holds the memory of an answer, or says that there is no room for it.
pub type Hold<'h> = &'h dyn Fn(u64) -> Result<(), Problem>;

impl Graph {
    /// Rows of nodes. The bytes of the answer are held before it is read.
    ///
    /// # Errors
    /// Names or ids that there are not, a snapshot that is not pinned, too large an answer.
    pub fn embed(
        &self,
        request: &v1::GetEmbedRequest,
        hold: Hold<'_>,
    ) -> Result<v1::GetEmbedResponse, Problem> {
        let snapshot = self.snapshot(request.at_snapshot)?;
        let catalog = snapshot.catalog();
        let missing = || Problem::argument("nodes", "the request has no nodes");
        let v1::Nodes { node_type, ids } = request.nodes.as_ref().ok_or_else(missing)?;
        let id = names::node_type(catalog, node_type, "nodes.node_type")?;
        let (tensor, meta) = names::tensor(catalog, id, &request.tensor, "tensor")?;
        let dtype = meta.read_dtype();
        let row = meta.num_columns().saturating_mul(dtype.size_bytes() as u64);
        let bytes = row.saturating_mul(ids.len() as u64);
        check_bytes(bytes, "nodes.ids")?;
        hold(bytes)?;
        let beside = (GATHER_BYTES_PER_ROW + meta.row_bytes()).saturating_mul(ids.len() as u64);
        let _held = reserve(&snapshot, bytes.saturating_add(beside))?;
        let decoder = snapshot.decoder(tensor, dtype).map_err(|e| problem_of(&e))?;
        let mut data = vec![0; bytes as usize];
        let read = snapshot.gather_decoded(tensor, &decoder, ids, &mut data);
        read.map_err(|e| problem_of(&e).at("nodes.ids"))?;
        let shape = std::iter::once(ids.len() as u64).chain(meta.shape.iter().copied()).collect();
        let rows = v1::Tensor { dtype: dtype_of(dtype).into(), shape, data: data.into() };
        Ok(v1::GetEmbedResponse { snapshot: Some(named(&snapshot)), rows: Some(rows) })
    }

    /// Neighbour lists of nodes, or their beginnings. The bytes of the answer are held before it is
    /// read.
    ///
    /// # Errors
    /// As [`Graph::embed`].
    pub fn neighbors(
        &self,
        request: &v1::GetNeighborsRequest,
        hold: Hold<'_>,
    ) -> Result<v1::GetNeighborsResponse, Problem> {
        let snapshot = self.snapshot(request.at_snapshot)?;
        let id = names::edge_type(snapshot.catalog(), &request.edge_type, "edge_type")?;
        let failed = |e| problem_of(&e).at("ids");
        let count = request.ids.len() as u64;
        let held = reserve(&snapshot, count * EXPAND_BYTES_PER_DESTINATION)?;
        let degrees = snapshot.degrees(id, &request.ids).map_err(failed)?;
        let limit = request.limit.unwrap_or(u64::MAX);
        let counts: Vec<u64> = degrees.iter().map(|degree| limit.min(*degree)).collect();
        let total = counts.iter().fold(0_u64, |all, count| all.saturating_add(*count));
        let bytes = total.saturating_mul(ENTRY_BYTES).saturating_add(16 * count);
        check_bytes(bytes, "ids").map_err(|problem| match request.limit {
            Some(_) => problem,
            None => problem
                .remedy("request fewer nodes at once, or fewer neighbours per node with limit="),
        })?;
        hold(bytes)?;
        let more = total.saturating_mul(EXPAND_BYTES_PER_ENTRY + ENTRY_BYTES);
        let _held = (held, reserve(&snapshot, more)?);
        let mut lists = Expansion::default();
        let mut first = |place: usize, degree: u64, positions: &mut Vec<u64>| {
            positions.extend(0..counts.get(place).map_or(0, |count| degree.min(*count)));
        };
        snapshot.expand(id, &request.ids, &mut first, &mut lists).map_err(failed)?;
        let Expansion { sources: neighbors, edge_ids, times, weights, .. } = lists;
        let snapshot = Some(named(&snapshot));
        Ok(v1::GetNeighborsResponse {
            snapshot,
            degrees,
            counts,
            neighbors,
            edge_ids,
            times,
            weights,
        })
    }
}

fn check_bytes(bytes: u64, field: &str) -> Result<(), Problem> {
    if bytes <= ANSWER_BYTES_MAX {
        return Ok(());
    }
    let message = format!("the answer has {bytes} bytes, and the limit is {ANSWER_BYTES_MAX}");
    let problem = Problem::new(Code::ResourceExhausted, "ANSWER_TOO_LARGE", message).at(field);
    Err(problem.remedy("request fewer nodes at once"))
}

pub(super) fn reserve(snapshot: &Snapshot, bytes: u64) -> Result<ng_types::Reservation, Problem> {
    snapshot.reserve(bytes).map_err(|error| {
        Problem::new(Code::ResourceExhausted, "OUT_OF_MEMORY", error.to_string())
            .remedy("request less at once, or give the server a larger memory budget")
            .retry_about(std::time::Duration::from_millis(50))
    })
}
