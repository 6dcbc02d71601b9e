//! `Shape` and `Links`: what a batch has beside neighbourhoods of nodes.

use std::sync::Arc;

use ng_sample::{
    Budgets, EdgeSet, HeldOut, LinkSpec, Negatives, RootsOf, Temporal, TimesOf, Visits, Walks,
};
use ng_store::TensorRef;
use ng_types::EdgeTypeId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::detached;
use crate::snapshot::{self, Snapshot};

/// The structure of batches beyond the nodes of their hops; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
#[derive(Clone)]
pub struct Shape {
    pub inner: ng_sample::Shape,
}

#[pymethods]
impl Shape {
    #[new]
    #[pyo3(signature = (
        snapshot, *, disjoint=false, times=None, node_times=None, both_ways=None, induced=None,
        spread=None
    ))]
    fn new(
        snapshot: &Snapshot,
        disjoint: bool,
        times: Option<&str>,
        node_times: Option<Vec<Option<String>>>,
        both_ways: Option<Vec<Option<u16>>>,
        induced: Option<Vec<bool>>,
        spread: Option<&Spread>,
    ) -> PyResult<Self> {
        let edges = match (both_ways, induced) {
            (None, None) => EdgeSet::Drawn,
            (Some(others), None) => {
                EdgeSet::BothWays(others.into_iter().map(|id| id.map(EdgeTypeId)).collect())
            }
            (None, Some(marked)) => EdgeSet::Induced(marked),
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("both_ways= and induced= cannot be combined"));
            }
        };
        let time = times.map(|strategy| temporal(snapshot, strategy, node_times)).transpose()?;
        let spread = spread.map(|spread| spread.inner.clone()).unwrap_or_default();
        Ok(Self { inner: ng_sample::Shape { spread, is_disjoint: disjoint, time, edges } })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.inner)
    }
}

fn temporal(
    snapshot: &Snapshot,
    strategy: &str,
    node_times: Option<Vec<Option<String>>>,
) -> PyResult<Temporal> {
    let takes_last = match strategy {
        "uniform" => false,
        "last" => true,
        other => {
            let what = format!(
                "{other:?} is not a valid temporal strategy: expected \"uniform\" or \"last\""
            );
            return Err(PyValueError::new_err(what));
        }
    };
    let Some(names) = node_times else {
        return Ok(Temporal { times: TimesOf::Edges, takes_last });
    };
    let tensor = |(id, name): (u16, Option<String>)| -> PyResult<Option<TensorRef>> {
        name.map(|name| snapshot::tensor(&snapshot.inner, "node", id, &name)).transpose()
    };
    let tensors = (0..).zip(names).map(tensor).collect::<PyResult<_>>()?;
    Ok(Temporal { times: TimesOf::Nodes(tensors), takes_last })
}

/// How batches are expanded without hops; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
#[derive(Clone)]
pub struct Spread {
    pub inner: ng_sample::Spread,
}

#[pymethods]
impl Spread {
    #[staticmethod]
    fn walks(path: Vec<u16>, length: u32, bias: Option<(f64, f64)>) -> Self {
        let walks = Walks { path: edge_types(path), length, bias };
        Self { inner: ng_sample::Spread::Walks(walks) }
    }

    #[staticmethod]
    fn visits(
        path: Vec<u16>,
        walks: u32,
        length: u32,
        restart: f64,
        neighbors: Vec<u32>,
        held_out: Option<(u64, f64, bool)>,
    ) -> Self {
        let rule = |(seed, percent, is_symmetric)| HeldOut { seed, percent, is_symmetric };
        let held_out = held_out.map(rule);
        let visits = Visits { path: edge_types(path), walks, length, restart, neighbors, held_out };
        Self { inner: ng_sample::Spread::Visits(visits) }
    }

    #[staticmethod]
    fn budgets(nodes: Vec<Vec<u32>>, edge_types: Vec<bool>) -> Self {
        Self { inner: ng_sample::Spread::Budgets(Budgets { nodes, edge_types }) }
    }
}

fn edge_types(path: Vec<u16>) -> Vec<EdgeTypeId> {
    path.into_iter().map(EdgeTypeId).collect()
}

/// Seeds that are drawn for each batch; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
#[derive(Clone)]
pub struct Roots {
    pub inner: ng_sample::Roots,
}

#[pymethods]
impl Roots {
    #[new]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        how: &str,
        count: u64,
        edge_type: u16,
    ) -> PyResult<Self> {
        let how = match how {
            "nodes" => RootsOf::Nodes,
            "degrees" => RootsOf::Degrees,
            "edges" => RootsOf::Edges,
            other => {
                return Err(PyValueError::new_err(format!(
                    "{other:?} is not a valid way to draw seeds: expected \"nodes\", \"degrees\" \
                     or \"edges\""
                )));
            }
        };
        let snapshot = Arc::clone(&snapshot.inner);
        let made =
            detached(py, || ng_sample::Roots::new(&snapshot, how, count, EdgeTypeId(edge_type)))?;
        Ok(Self { inner: made })
    }
}

/// The links that batches are made around; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
#[derive(Clone)]
pub struct Links {
    pub inner: LinkSpec,
}

#[pymethods]
impl Links {
    #[new]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        edge_type: u16,
        negatives: Option<(String, f64)>,
        by_number: bool,
    ) -> PyResult<Self> {
        let negatives = match negatives.as_ref().map(|(mode, amount)| (mode.as_str(), *amount)) {
            None => Negatives::None,
            Some(("binary", amount)) => Negatives::Binary(amount),
            Some(("triplet", amount)) if amount.fract() == 0.0 && amount < f64::from(u32::MAX) => {
                Negatives::Triplet(amount as u32)
            }
            Some((mode, amount)) => {
                return Err(PyValueError::new_err(format!(
                    "negative sampling with mode {mode:?} and amount {amount} is not valid: \
                     expected mode \"binary\", or mode \"triplet\" with a whole number as amount"
                )));
            }
        };
        let snapshot = Arc::clone(&snapshot.inner);
        let made =
            detached(py, || LinkSpec::new(&snapshot, EdgeTypeId(edge_type), negatives, by_number))?;
        Ok(Self { inner: made })
    }

    /// The number of edges; None unless links are given by number.
    #[getter]
    fn num_edges(&self) -> Option<u64> {
        self.inner.places.as_ref().map(|places| places.num_edges())
    }
}
