//! Traces of requests for a collector of OpenTelemetry, in builds with the feature `otel`.
//!
//! A request is told when it has ended: a span for it, and one for each of its stages. What must
//! not live here: what is measured. The invariant: a request never waits for a collector.

#[cfg(feature = "otel")]
mod otlp;

use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue};

use super::Stages;

/// A collector that cannot be told anything.
#[derive(Debug, thiserror::Error)]
#[error("traces={endpoint:?} is not a valid address of a trace collector: {message}")]
pub struct BadCollector {
    /// Where it was said to be.
    pub endpoint: String,
    /// What is wrong.
    pub message: String,
}

/// A request that has ended.
pub struct Told<'a> {
    /// What log and answer call it.
    pub id: &'a str,
    /// Its method, as metrics are labelled.
    pub method: &'static str,
    /// How it ended.
    pub code: &'static str,
    /// Who asked.
    pub token: &'a str,
    /// When it came.
    pub start: Instant,
    /// Its stages, if it was one for answers.
    pub stages: Option<&'a Stages>,
    /// When the service had its answer.
    pub answered: Option<Instant>,
    /// When that had gone out.
    pub end: Instant,
}

/// Tells a collector of requests, if there is one.
#[derive(Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otel")]
    exporter: Option<std::sync::Arc<otlp::Exporter>>,
}

impl Traces {
    /// Whether this build can tell a collector.
    pub const ARE_BUILT: bool = cfg!(feature = "otel");

    /// Tells a collector such as `http://127.0.0.1:4317`. Has to be called within the runtime that
    /// sends.
    ///
    /// # Errors
    /// It is not the address of one.
    #[cfg(feature = "otel")]
    pub fn start(endpoint: Option<&str>) -> Result<Self, BadCollector> {
        let exporter = endpoint.map(otlp::Exporter::new).transpose()?;
        Ok(Self { exporter: exporter.map(std::sync::Arc::new) })
    }

    /// Tells nobody: this build has no traces, and settings that name a collector are refused.
    ///
    /// # Errors
    /// None.
    #[cfg(not(feature = "otel"))]
    pub fn start(_: Option<&str>) -> Result<Self, BadCollector> {
        Ok(Self::default())
    }

    /// Which span of its caller a request is a part of, if that is told and wanted.
    pub fn parent_of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        #[cfg(feature = "otel")]
        let is_told = self.exporter.is_some();
        #[cfg(not(feature = "otel"))]
        let is_told = false;
        headers.get("traceparent").filter(|_| is_told).cloned()
    }

    /// Tells of a request, at the latest some seconds later.
    pub fn tell(&self, told: &Told<'_>, parent: Option<&HeaderValue>) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = &self.exporter {
            exporter.tell(told, parent);
        }
        #[cfg(not(feature = "otel"))]
        let _unheard = (told, parent);
    }

    /// Tells what waits to be told.
    pub fn end(&self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = &self.exporter {
            exporter.end();
        }
    }
}
