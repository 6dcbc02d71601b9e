//! Numbers that stores, models and the process know themselves: read when metrics are asked for.

use std::time::UNIX_EPOCH;

use crate::state::State;

/// Brings metrics up to date with what stores, models and the process know.
pub fn refresh(state: &State) {
    let metrics = &state.metrics;
    for graph in state.catalogue.graphs() {
        let (name, stats) = (graph.name.as_str(), graph.store.stats());
        let of_graph = [("graph", name)];
        let total = |metric, value| metrics.counter(metric, &of_graph).absolute(value);
        let now = |metric, value: f64| metrics.gauge(metric, &of_graph).set(value);
        total("neargraph_reads_total", stats.reads);
        total("neargraph_read_bytes_total", stats.read_bytes);
        total("neargraph_useful_bytes_total", stats.useful_bytes);
        let missed = stats.rows_served.saturating_sub(stats.rows_cached);
        for (source, rows) in [("memory", stats.rows_cached), ("device", missed)] {
            let labels = [("graph", name), ("source", source)];
            metrics.counter("neargraph_rows_total", &labels).absolute(rows);
        }
        let busy = metrics.gauge("neargraph_device_busy_seconds", &of_graph);
        busy.set(stats.device_busy_us as f64 / 1e6);
        now("neargraph_device_depth", stats.mean_queue_depth);
        now("neargraph_memory_budget_bytes", graph.store.budget().limit_bytes() as f64);
        now("neargraph_snapshot_commit", graph.store.snapshot().lsn() as f64);
        for share in &stats.memory {
            if let Some(held) = share.held_bytes {
                let labels = [("graph", name), ("user", share.user.name())];
                metrics.gauge("neargraph_memory_bytes", &labels).set(held as f64);
            }
        }
        now("neargraph_pinned_snapshots", graph.pinned() as f64);
        // While a log is recovered or a long commit is made, the last numbers stand.
        if let Some(updates) = graph.store.try_update_stats() {
            total("neargraph_commits_total", updates.commits);
            now("neargraph_wal_bytes", updates.log_bytes as f64);
        }
    }
    for model in state.catalogue.models() {
        let title = model.title();
        let labels = [("graph", model.graph.name.as_str()), ("model", title.as_str())];
        metrics.gauge("neargraph_model_ready", &labels).set(model.engine.ready());
    }
    scheduled(state);
    let process = ng_io::process_use();
    let now = |metric, value: u64| metrics.gauge(metric, &[]).set(value as f64);
    now("process_resident_memory_bytes", process.resident_bytes);
    now("process_open_fds", process.open_fds);
    now("process_threads", process.threads);
    let start = std::time::SystemTime::now() - state.started.elapsed();
    let since = start.duration_since(UNIX_EPOCH).unwrap_or_default();
    metrics.gauge("process_start_time_seconds", &[]).set(since.as_secs_f64());
    metrics.gauge("neargraph_connections", &[]).set(state.connections() as f64);
    let (requests, answers) = state.guard.held_bytes();
    for (kind, bytes) in [("requests", requests), ("answers", answers)] {
        metrics.gauge("neargraph_held_bytes", &[("kind", kind)]).set(bytes as f64);
    }
}

/// What the scheduler has done, jobs and streams, and the answers that are kept.
fn scheduled(state: &State) {
    let (metrics, done) = (&state.metrics, state.scheduler.stats());
    metrics.gauge("neargraph_queue_requests", &[]).set(done.waiting as f64);
    metrics.counter("neargraph_groups_total", &[]).absolute(done.groups);
    let busy = state.scheduler.busy();
    for (of, lanes) in [("busy", busy), ("idle", state.config.lanes.saturating_sub(busy))] {
        metrics.gauge("neargraph_lanes", &[("state", of)]).set(lanes as f64);
    }
    for (of, jobs) in state.jobs.by_state() {
        metrics.gauge("neargraph_jobs", &[("state", of)]).set(jobs as f64);
    }
    metrics.gauge("neargraph_sample_streams", &[]).set(state.sampling.streams() as f64);
    let sources =
        [("computed", done.computed), ("duplicate", done.duplicates), ("cache", done.cached)];
    for (source, rows) in sources {
        metrics.counter("neargraph_answers_total", &[("source", source)]).absolute(rows);
    }
    if let Some(kept) = state.answers.as_ref().map(|answers| answers.stats()) {
        metrics.gauge("neargraph_cache_bytes", &[]).set(kept.bytes as f64);
        let total = |kind, count| {
            let counter = metrics.counter("neargraph_cache_invalidations_total", &[("kind", kind)]);
            counter.absolute(count);
        };
        total("nodes", kept.ended);
        total("all", kept.invalidations_of_all);
    }
}
