//! The numbers of one server.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

/// Upper ends of the classes of times, in seconds.
const SECONDS: [f64; 18] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 5.0, 10.0, 60.0,
];
/// Upper ends of the classes of sizes of groups.
const REQUESTS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Why requests and connections are refused.
const REASONS: [&str; 12] = [
    "queue",
    "bytes",
    "deadline",
    "quota",
    "calls",
    "streams",
    "token",
    "request_bytes",
    "unread",
    "connections",
    "tls",
    "accept",
];

/// What each metric is: its name, its kind (`c`ounter, `g`auge, `h`istogram), and what it counts.
pub const METRICS: &[(&str, char, &str)] = &[
    ("neargraph_requests_total", 'c', "Requests that have ended, by method and code"),
    ("neargraph_request_seconds", 'h', "Time from the start of a request to the end of its answer"),
    ("neargraph_requests_in_flight", 'g', "Requests that have started and not ended"),
    ("neargraph_stage_seconds", 'h', "Time that inference requests spend in each stage"),
    ("neargraph_queue_requests", 'g', "Inference requests that wait for a lane"),
    (
        "neargraph_lanes",
        'g',
        "Lanes (threads that compute groups of requests), by state: busy or idle",
    ),
    ("neargraph_group_requests", 'h', "Size of the group in which a request was computed"),
    (
        "neargraph_admitted_requests",
        'g',
        "Inference requests that are admitted and not yet computed",
    ),
    ("neargraph_admitted_bytes", 'g', "Bytes that admitted requests are expected to read"),
    (
        "neargraph_foreseen_bytes_total",
        'c',
        "Bytes that admitted requests were expected to read, in total",
    ),
    ("neargraph_groups_total", 'c', "Groups of requests that were computed"),
    ("neargraph_answers_total", 'c', "Rows in answers, by source"),
    ("neargraph_cache_bytes", 'g', "Bytes of cached answers"),
    (
        "neargraph_cache_invalidations_total",
        'c',
        "Invalidations by commits: of single cached answers (nodes), of whole models (all)",
    ),
    ("neargraph_reads_total", 'c', "Reads from the device"),
    ("neargraph_read_bytes_total", 'c', "Bytes read from the device"),
    ("neargraph_useful_bytes_total", 'c', "Bytes read from the device that were used"),
    ("neargraph_rows_total", 'c', "Requested rows of tensors, by source"),
    ("neargraph_device_depth", 'g', "Reads in flight, averaged over completed reads"),
    ("neargraph_device_busy_seconds", 'g', "Time with at least one read in flight"),
    ("neargraph_memory_bytes", 'g', "Bytes of the memory budget in use, by part of the store"),
    ("neargraph_memory_budget_bytes", 'g', "The memory budget of a graph"),
    (
        "neargraph_wal_bytes",
        'g',
        "Bytes written to the write-ahead log since this server became the writer",
    ),
    ("neargraph_commits_total", 'c', "Commits that were made durable"),
    ("neargraph_snapshot_commit", 'g', "Number of the newest commit"),
    ("neargraph_pinned_snapshots", 'g', "Snapshots that are pinned"),
    ("neargraph_jobs", 'g', "Jobs, by state"),
    ("neargraph_sample_streams", 'g', "Streams of mini-batches in progress"),
    ("neargraph_shed_total", 'c', "Rejected requests and connections, by reason"),
    ("neargraph_held_bytes", 'g', "Bytes of large requests in flight and of unread answers"),
    ("neargraph_connections", 'g', "Connections that are open"),
    ("neargraph_model_ready", 'g', "Share of a model's data that is loaded, from 0 to 1"),
    ("neargraph_draining", 'g', "1 while the server shuts down"),
    ("neargraph_reloads_total", 'c', "Reloads of the configuration, by outcome"),
    ("process_resident_memory_bytes", 'g', "Resident memory of the process"),
    ("process_open_fds", 'g', "Open file descriptors of the process"),
    ("process_threads", 'g', "Threads of the process"),
    ("process_start_time_seconds", 'g', "When the server started, in seconds since 1970"),
];

/// The numbers of one server. They are counted by its handles alone: the macros of the crate
/// `metrics` count nowhere.
#[derive(Clone)]
pub struct Metrics {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

const SHED: &str = "neargraph_shed_total";
const HERE: Metadata<'static> = Metadata::new("neargraph", Level::INFO, None);

impl Metrics {
    /// No numbers yet.
    pub fn new() -> Self {
        let classes = |builder: PrometheusBuilder, name: &str, ends: &[f64]| {
            let full = Matcher::Full(name.to_owned());
            // It fails for no classes alone.
            builder.set_buckets_for_metric(full, ends).unwrap_or_default()
        };
        let mut builder = PrometheusBuilder::new();
        for (name, kind, _) in METRICS.iter().filter(|(_, kind, _)| *kind == 'h') {
            debug_assert_eq!(*kind, 'h');
            let ends: &[f64] = if name.ends_with("_seconds") { &SECONDS } else { &REQUESTS };
            builder = classes(builder, name, ends);
        }
        let recorder = builder.build_recorder();
        for (name, kind, what) in METRICS {
            let (name, what) = ((*name).into(), (*what).into());
            match kind {
                'c' => recorder.describe_counter(name, None::<Unit>, what),
                'g' => recorder.describe_gauge(name, None::<Unit>, what),
                _ => recorder.describe_histogram(name, None::<Unit>, what),
            }
        }
        let this = Self { handle: recorder.handle(), recorder: Arc::new(recorder) };
        // What has not happened is 0, and not unknown.
        for reason in REASONS {
            this.counter(SHED, &[("reason", reason)]).absolute(0);
        }
        this
    }

    /// A number that only grows.
    pub fn counter(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
        self.recorder.register_counter(&key(name, labels), &HERE)
    }

    /// A number that goes up and down.
    pub fn gauge(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
        self.recorder.register_gauge(&key(name, labels), &HERE)
    }

    /// Numbers by class.
    pub fn histogram(&self, name: &'static str, labels: &[(&'static str, &str)]) -> Histogram {
        self.recorder.register_histogram(&key(name, labels), &HERE)
    }

    /// A request or a connection that was refused.
    pub fn shed(&self, reason: &str) {
        self.counter(SHED, &[("reason", reason)]).increment(1);
    }

    /// The time of a stage of a request for answers: `queue`, `sample`, `gather`, `run`, `encode`.
    pub fn stage(&self, stage: &str, time: std::time::Duration) {
        let seconds = self.histogram("neargraph_stage_seconds", &[("stage", stage)]);
        seconds.record(time.as_secs_f64());
    }

    /// All numbers in the text format of Prometheus.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Puts observations into their classes, so that they do not pile up while nobody scrapes.
    pub fn tidy_up(&self) {
        self.handle.run_upkeep();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels = labels.iter().map(|(key, value)| Label::new(*key, (*value).to_owned()));
    Key::from_parts(name, labels.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_do_not_mix_their_numbers() {
        let (one, two) = (Metrics::new(), Metrics::new());
        one.shed("full");
        let other = two.clone();
        std::thread::spawn(move || {
            other.shed("late");
            other.shed("late");
            other.histogram("neargraph_group_requests", &[]).record(3.0);
        })
        .join()
        .expect("thread");
        assert!(one.render().contains("neargraph_shed_total{reason=\"full\"} 1"));
        assert!(!one.render().contains("late"));
        let text = two.render();
        assert!(text.contains("neargraph_shed_total{reason=\"late\"} 2") && !text.contains("full"));
        assert!(text.contains("neargraph_group_requests_bucket{le=\"4\"} 1"), "{text}");
        assert!(text.contains("# HELP neargraph_shed_total Rejected requests"), "{text}");
    }
}
