//! `reorganize`: another order of rows, from Python.

use std::path::Path;

use ng_sample::{
    BATCHES_TOGETHER, Batches, By, Fanouts, PageCounts, Reorganization, ReorganizeReport,
};
use ng_store::OpenOptions;
use ng_types::NodeTypeId;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arrays::Ids;
use crate::errors;
use crate::progress::{go_on, reporting};
use crate::store::{self, backend_choice};

/// Rewrites a store with its rows in a new order. Returns the report as JSON. `by` is `heat`,
/// `locality` or `visits`. For `visits`, the argument `visits` holds the visited nodes.
#[pyfunction]
#[pyo3(signature = (
    path, by, node_type, fanouts, batch_size, seeds=None, visits=None, batches=32, dry_run=false,
    memory=None, backend="auto", progress=None, busy_timeout=5.0
))]
#[allow(clippy::too_many_arguments)]
pub fn reorganize(
    py: Python<'_>,
    path: String,
    by: &str,
    node_type: u16,
    fanouts: Vec<Vec<i64>>,
    batch_size: usize,
    seeds: Option<Ids>,
    visits: Option<Ids>,
    batches: u64,
    dry_run: bool,
    memory: Option<u64>,
    backend: &str,
    progress: Option<Py<PyAny>>,
    busy_timeout: f64,
) -> PyResult<String> {
    let by = match (by, visits) {
        ("heat", None) => By::Heat,
        ("locality", None) => By::Locality,
        ("visits", Some(visits)) => By::Visits(visits.0),
        _ => {
            let message = format!(
                "{by:?} is not a valid order: expected \"heat\" or \"locality\", or node ids as \
                 visits="
            );
            return Err(errors::named("UnsupportedArgument", message));
        }
    };
    let fanouts = Fanouts::new(fanouts).map_err(errors::raised)?;
    let seeds = seeds.map(|seeds| seeds.0);
    let of = Batches { node_type: NodeTypeId(node_type), seeds, batch_size, fanouts };
    let wanted = Reorganization { by, batches: of, counted_batches: batches, dry_run };
    let (backend, busy_timeout) = (backend_choice(backend)?, store::busy_timeout(busy_timeout)?);
    let options = OpenOptions { memory, backend, busy_timeout, go_on, ..OpenOptions::default() };
    let report = reporting(py, progress, errors::raised, |callback| {
        let mut report = |phase: &str, done, total| callback.call((phase, done, total));
        ng_sample::reorganize(Path::new(&path), &options, &wanted, &mut report)
    })?;
    Ok(describe(&report).to_string())
}

fn describe(report: &ReorganizeReport) -> Value {
    let pages = |counts: &PageCounts| {
        json!({
            "node_type": counts.node_type.0,
            "tensor": counts.tensor,
            "batches": counts.batches,
            "rows_per_batch": counts.rows,
            "pages_before": counts.pages[0],
            "pages_after": counts.pages[1],
            "pages_together_before": counts.pages_together[0],
            "pages_together_after": counts.pages_together[1],
        })
    };
    json!({
        "pages": report.pages.iter().map(pages).collect::<Vec<_>>(),
        "batches_together": BATCHES_TOGETHER,
        "space_bytes": report.space_bytes,
        "written": report.written,
    })
}
