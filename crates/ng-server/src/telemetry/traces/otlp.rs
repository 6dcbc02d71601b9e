//! [`Exporter`]: requests as spans, and to a collector over OTLP.

use std::time::{Duration, Instant, SystemTime};

use axum::http::HeaderValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

use super::{BadCollector, Told};

/// What spans are told under where the environment names no other service.
const SERVICE: &str = "neargraph";
/// How long the end waits for the collector.
const GOODBYE: Duration = Duration::from_secs(2);

/// Tells a collector.
pub struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

struct Parent<'a>(&'a HeaderValue);

impl Extractor for Parent<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.to_str().ok().filter(|_| key == "traceparent")
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// A moment as the clock of the world has it.
struct Clock(Instant, SystemTime);

impl Clock {
    fn at(&self, when: Instant) -> SystemTime {
        let ago = self.0.saturating_duration_since(when);
        self.1.checked_sub(ago).unwrap_or(self.1)
    }
}

impl Exporter {
    /// Tells the collector at an address. Nothing is sent before a request has ended.
    pub fn new(endpoint: &str) -> Result<Self, BadCollector> {
        let bad = |error: &dyn std::fmt::Display| BadCollector {
            endpoint: endpoint.to_owned(),
            message: error.to_string(),
        };
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = exporter.map_err(|error| bad(&error))?;
        let service = std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| SERVICE.to_owned());
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource =
            Resource::builder().with_service_name(service).with_attribute(version).build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("ng-server");
        Ok(Self { provider, tracer })
    }

    /// Hands a request on to the thread that sends.
    pub fn tell(&self, told: &Told<'_>, parent: Option<&HeaderValue>) {
        let clock = Clock(Instant::now(), SystemTime::now());
        let context = match parent {
            None => Context::new(),
            Some(parent) => {
                TraceContextPropagator::new().extract_with_context(&Context::new(), &Parent(parent))
            }
        };
        let builder = self
            .tracer
            .span_builder(told.method)
            .with_kind(SpanKind::Server)
            .with_start_time(clock.at(told.start))
            .with_attributes([
                KeyValue::new("neargraph.request_id", told.id.to_owned()),
                KeyValue::new("neargraph.code", told.code),
                KeyValue::new("neargraph.token", told.token.to_owned()),
            ]);
        let mut span = self.tracer.build_with_context(builder, &context);
        if told.code != "OK" {
            span.set_status(Status::error(told.code));
        }
        let context = context.with_span(span);
        if context.span().is_recording() {
            self.stages(told, &clock, &context);
        }
        context.span().end_with_timestamp(clock.at(told.end));
    }

    /// The stages of a request for answers, those of the engine laid end to end.
    fn stages(&self, told: &Told<'_>, clock: &Clock, context: &Context) {
        let Some(stages) = told.stages else { return };
        let stage = |name: &'static str, start: Instant, end: Instant| {
            let builder = self.tracer.span_builder(name).with_start_time(clock.at(start));
            let mut span = self.tracer.build_with_context(builder, context);
            span.end_with_timestamp(clock.at(end));
        };
        let mut start = stages.asked;
        for (name, took) in stages.named() {
            stage(name, start, start + took);
            start += took;
        }
        if let Some(answered) = told.answered {
            stage("encode", answered, told.end);
        }
    }

    /// Sends what waits to be sent.
    pub fn end(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(GOODBYE) {
            tracing::warn!(%error, "the traces of the last requests were not sent");
        }
    }
}
