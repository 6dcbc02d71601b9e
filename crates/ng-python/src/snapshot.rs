//! `Snapshot`: one version of a store, and all reads.

use std::sync::Arc;

use ng_sample::Buffer;
use ng_simd::RowDecoder;
use ng_store::{Expansion, Owner, ReadError, TensorMeta, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, Reservation};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{self, Ids};
use crate::errors::{self, detached};

/// One version of a store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Snapshot {
    pub inner: Arc<ng_store::Snapshot>,
}

type Neighbors<'py> =
    (Ids, Ids, Option<Ids>, Option<Bound<'py, PyArray1<i64>>>, Option<Bound<'py, PyArray1<f32>>>);

type SparseRows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyAny>, Bound<'py, PyAny>);

#[pymethods]
impl Snapshot {
    #[getter]
    fn checkpoint_id(&self) -> u64 {
        self.inner.checkpoint_id().0
    }

    #[getter]
    fn lsn(&self) -> u64 {
        self.inner.lsn()
    }

    #[getter]
    fn checkpoint_lsn(&self) -> u64 {
        self.inner.checkpoint_lsn()
    }

    /// The number of tensors of all types.
    #[getter]
    fn num_tensors(&self) -> usize {
        self.inner.catalog().tensor_refs().count()
    }

    #[getter]
    fn fingerprint(&self) -> String {
        format!("{:016x}", self.inner.fingerprint())
    }

    /// Releases the memory that loaders keep between batches. Returns whether any was kept.
    fn make_room(&self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.tenants().make_room(None))
    }

    fn catalog(&self) -> String {
        crate::catalog::describe(&self.inner).to_string()
    }

    fn dead_nodes(&self, py: Python<'_>, node_type: u16) -> PyResult<Ids> {
        detached(py, || self.inner.dead_nodes(NodeTypeId(node_type))).map(Ids)
    }

    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        edge_type: u16,
        ids: Ids,
    ) -> PyResult<Neighbors<'py>> {
        let snapshot = &self.inner;
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type));
        let (edge_ids, times, weights) =
            meta.map_or((false, false, false), |m| (m.has_edge_ids, m.has_time, m.has_weight));
        let mut out = Expansion::default();
        detached(py, || snapshot.neighbors(EdgeTypeId(edge_type), &ids.0, &mut out))?;
        let offsets = out.offsets.into_iter().map(|offset| offset as u64).collect();
        Ok((
            Ids(offsets),
            Ids(out.sources),
            edge_ids.then_some(Ids(out.edge_ids)),
            times.then(|| arrays::owned(py, out.times, None)).transpose()?,
            weights.then(|| arrays::owned(py, out.weights, None)).transpose()?,
        ))
    }

    fn degrees(&self, py: Python<'_>, edge_type: u16, ids: Ids) -> PyResult<Ids> {
        detached(py, || self.inner.degrees(EdgeTypeId(edge_type), &ids.0)).map(Ids)
    }

    /// Returns rows as `dtype`. None means the catalog's `read_dtype`.
    #[pyo3(signature = (kind, type_id, name, ids, dtype=None))]
    fn rows<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
        ids: Ids,
        dtype: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (snapshot, Ids(ids)) = (&self.inner, ids);
        let tensor = tensor(snapshot, kind, type_id, name)?;
        let meta = meta(snapshot, tensor)?;
        let decoder = decoder(py, snapshot, tensor, dtype)?;
        let len = ids.len() as u64 * decoder.out_bytes() as u64;
        let held = detached(py, || reserve(snapshot, len))?;
        let mut bytes = region(len)?;
        detached(py, || snapshot.gather_decoded(tensor, &decoder, &ids, bytes.as_mut_slice()))?;
        arrays::owned_rows(py, bytes, Some(Arc::new(held)), decoder.wanted(), &meta.shape)
    }

    /// Returns rows without zeros: (indptr, columns, values).
    fn sparse_rows<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
        ids: Ids,
    ) -> PyResult<SparseRows<'py>> {
        let snapshot = &self.inner;
        let tensor = tensor(snapshot, kind, type_id, name)?;
        let spans = detached(py, || snapshot.sparse_spans(tensor, &ids.0))?;
        let entries = spans.num_entries() as u64;
        let held = detached(py, || reserve(snapshot, entries * 12))?;
        let (mut columns, mut values) = (region(entries * 8)?, region(entries * 4)?);
        detached(py, || {
            snapshot.gather_sparse(&spans, columns.as_mut_slice(), values.as_mut_slice())
        })?;
        let held = Some(Arc::new(held));
        let indptr = spans.indptr().iter().map(|start| *start as i64).collect();
        Ok((
            arrays::owned(py, indptr, None)?,
            arrays::owned_rows(py, columns, held.clone(), Dtype::I64, &[])?,
            arrays::owned_rows(py, values, held, Dtype::F32, &[])?,
        ))
    }

    /// Returns a whole tensor. Its memory does not count against the budget.
    #[pyo3(signature = (kind, type_id, name, dtype=None))]
    fn column<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
        dtype: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let snapshot = &self.inner;
        let tensor = tensor(snapshot, kind, type_id, name)?;
        let meta = meta(snapshot, tensor)?;
        let decoder = decoder(py, snapshot, tensor, dtype)?;
        let row_bytes = decoder.out_bytes();
        let mut bytes = region(meta.num_rows * row_bytes as u64)?;
        detached(py, || {
            let out = bytes.as_mut_slice();
            // Rows are read in the order of the file, whatever that is.
            let nodes = match tensor.owner {
                Owner::Node(node_type) => snapshot.load_nodes_of_rows(node_type)?,
                Owner::Edge(_) => None,
            };
            snapshot.scan_tensor::<ReadError>(tensor, &mut |first, rows| {
                let count = rows.len() / decoder.stored_bytes();
                let Some(nodes) = &nodes else {
                    let out = &mut out[first as usize * row_bytes..][..count * row_bytes];
                    decoder.decode_rows(rows, out);
                    return Ok(());
                };
                for (row, bytes) in (first..).zip(rows.chunks_exact(decoder.stored_bytes())) {
                    let at = nodes.row(row) as usize * row_bytes;
                    decoder.decode(bytes, &mut out[at..at + row_bytes]);
                }
                Ok(())
            })
        })?;
        arrays::owned_rows(py, bytes, None, decoder.wanted(), &meta.shape)
    }

    /// Returns the nodes whose row is `value`, in ascending order; None unless rows have one byte
    /// and are in the order of node ids. Reads the file once.
    fn nodes_with<'py>(
        &self,
        py: Python<'py>,
        node_type: u16,
        name: &str,
        value: u8,
    ) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        let snapshot = &self.inner;
        let tensor = tensor(snapshot, "node", node_type, name)?;
        let meta = meta(snapshot, tensor)?;
        let owner = snapshot.catalog().node_types.get(usize::from(node_type));
        if meta.row_bytes() != 1 || owner.is_none_or(ng_store::NodeTypeMeta::has_order) {
            return Ok(None);
        }
        let mut ids = Vec::new();
        detached(py, || {
            snapshot.scan_tensor::<ReadError>(tensor, &mut |first, rows| {
                let found = (first as i64..).zip(rows).filter(|(_, row)| **row == value);
                ids.extend(found.map(|(id, _)| id));
                Ok(())
            })
        })?;
        arrays::owned(py, ids, None).map(Some)
    }

    fn lookup<'py>(
        &self,
        py: Python<'py>,
        node_type: u16,
        keys: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let lent: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = detached(py, || self.inner.lookup_strings(NodeTypeId(node_type), &lent))?;
        arrays::owned(py, found.into_iter().map(|id| id.map_or(-1, |id| id as i64)).collect(), None)
    }

    fn names(&self, py: Python<'_>, node_type: u16, ids: Ids) -> PyResult<Vec<String>> {
        detached(py, || self.inner.names(NodeTypeId(node_type), &ids.0))
    }
}

/// Finds a tensor by kind, type id and name.
pub fn tensor(
    snapshot: &ng_store::Snapshot,
    kind: &str,
    type_id: u16,
    name: &str,
) -> PyResult<TensorRef> {
    let owner = owner(kind, type_id)?;
    snapshot.catalog().find_tensor(owner, name).ok_or_else(|| {
        let message =
            format!("{kind} tensor {name:?} of {kind} type {type_id} does not exist in the store");
        errors::named("NameNotFound", message)
    })
}

fn decoder(
    py: Python<'_>,
    snapshot: &ng_store::Snapshot,
    tensor: TensorRef,
    dtype: Option<&str>,
) -> PyResult<RowDecoder> {
    let wanted = arrays::dtype(dtype)?.unwrap_or(meta(snapshot, tensor)?.read_dtype());
    detached(py, || snapshot.decoder(tensor, wanted))
}

/// Memory for what is read. What loaders keep between batches goes first; others are waited for.
fn reserve(snapshot: &ng_store::Snapshot, bytes: u64) -> Result<Reservation, ReadError> {
    if let Ok(held) = snapshot.reserve(bytes) {
        return Ok(held);
    }
    snapshot.tenants().make_room(None);
    snapshot.reserve_batch(bytes)
}

fn region(len: u64) -> PyResult<Buffer> {
    Buffer::new(len as usize).map_err(|error| {
        let message =
            format!("the system cannot allocate {len} bytes of memory for the rows: {error}");
        errors::named("IoFailed", message)
    })
}

/// What the catalog says of a tensor.
pub fn meta(snapshot: &ng_store::Snapshot, tensor: TensorRef) -> PyResult<&TensorMeta> {
    let found = snapshot.catalog().tensor(tensor);
    found.ok_or_else(|| {
        errors::named("NameNotFound", format!("tensor {tensor:?} does not exist in the store"))
    })
}

/// Parses `"node"` or `"edge"` with a type id.
pub fn owner(kind: &str, type_id: u16) -> PyResult<Owner> {
    match kind {
        "node" => Ok(Owner::Node(NodeTypeId(type_id))),
        "edge" => Ok(Owner::Edge(EdgeTypeId(type_id))),
        other => {
            Err(PyValueError::new_err(format!("kind must be 'node' or 'edge', got {other:?}")))
        }
    }
}
