//! Calls as futures, on the caller's runtime.

use std::sync::Arc;
use std::time::Duration;

use ng_rpc::connect::{Channel, SHM, Tls, channel_with};
use ng_rpc::ring::RingOptions;
use ng_rpc::tonic::metadata::AsciiMetadataValue;
use ng_rpc::{Code, Request, Status, call};
use prost::Message;
use tokio::time::{Instant, timeout};

use crate::again::tried;
use crate::settings::{ClientError, Settings};

/// The largest difference between client and server in the time at which a timeout ends.
const SLACK: Duration = Duration::from_millis(5);

/// A client whose calls are futures. Clones share one connection.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    channel: Channel,
    server: Arc<Server>,
    token: Option<AsciiMetadataValue>,
    timeout: Option<Duration>,
    retry: Duration,
}

/// How the server is reached.
#[derive(Debug)]
struct Server {
    address: String,
    tls: Option<Tls>,
}

impl Server {
    fn channel(&self) -> Result<Channel, ClientError> {
        Ok(channel_with(&self.address, self.tls.as_ref(), RingOptions::default())?)
    }
}

impl AsyncClient {
    /// Creates a client of a server, within a tokio runtime. It connects on first use.
    ///
    /// # Errors
    /// Every variant of [`ClientError`] but `System`.
    pub fn new(settings: &Settings) -> Result<Self, ClientError> {
        let bearer = settings.token.as_ref().map(|token| {
            let mut value: AsciiMetadataValue =
                format!("Bearer {token}").parse().map_err(|_| ClientError::Token)?;
            value.set_sensitive(true);
            Ok::<_, ClientError>(value)
        });
        let server = Server { address: settings.address.clone(), tls: settings.tls.clone() };
        Ok(Self {
            channel: server.channel()?,
            server: Arc::new(server),
            token: bearer.transpose()?,
            timeout: settings.timeout,
            retry: settings.retry,
        })
    }

    /// A client with the same connection and another timeout.
    pub fn with_timeout(&self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// A channel for one stream. What a caller has not read yet of a stream keeps room of its
    /// connection, so that other calls over the same one would wait for that caller. Streams of a
    /// ring have room of their own.
    pub(crate) fn channel_of_a_stream(&self) -> Result<Channel, Status> {
        if self.server.address.starts_with(SHM) {
            return Ok(self.channel.clone());
        }
        self.server.channel().map_err(|error| Status::internal(error.to_string()))
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }

    /// One message there, one back; tried again only if `harmless`.
    pub(crate) async fn unary<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        harmless: bool,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        if !harmless || self.retry.is_zero() {
            return self.once(path, message, self.timeout).await;
        }
        self.tried(|left| self.once(path, message.clone(), left)).await
    }

    /// What `attempt` gives within the time that it is told, again while that may help.
    pub(crate) async fn tried<T, F: Future<Output = Result<T, Status>>>(
        &self,
        attempt: impl Fn(Option<Duration>) -> F,
    ) -> Result<T, Status> {
        tried(self.retry, self.timeout, attempt).await
    }

    async fn once<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        left: Option<Duration>,
    ) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut request = self.request(message);
        if let Some(left) = left {
            set_timeout(&mut request, left);
        }
        within(left, call::unary(&self.channel, path, request)).await
    }
}

/// A timeout on the wire has at most 8 digits.
fn set_timeout<T>(request: &mut Request<T>, left: Duration) {
    const LONGEST: Duration = Duration::from_secs(99_999_999);
    request.set_timeout(left.min(LONGEST));
}

pub(crate) async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let Some(limit) = limit else { return work.await };
    let seconds = limit.as_secs_f64();
    let late = || Status::deadline_exceeded(format!("no answer arrived within {seconds:.3} s"));
    let end = Instant::now() + limit;
    match timeout(limit, work).await {
        // Both sides look at the same time; who is first says it in words of its own.
        Ok(Err(status)) if Instant::now() + SLACK >= end => {
            let is_transport = matches!(status.code(), Code::Cancelled | Code::Unavailable);
            Err(if is_transport { late() } else { status })
        }
        Ok(answer) => answer,
        Err(_) => Err(late()),
    }
}
