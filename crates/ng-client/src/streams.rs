//! Streams of answers, and uploads of graphs in pieces.
//!
//! Each stream has a connection of its own. The invariants: dropping a stream ends its call; a
//! graph whose upload is not complete is not created.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ng_rpc::{Message, Status, Streaming, call, v1};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_stream::Stream as Messages;
use v1::update_graph_request::Part;

use crate::calls::{AsyncClient, within};

/// Pieces of a graph that wait for the connection.
const PIECES: usize = 2;

/// The messages of a stream. Dropping it ends the call.
#[derive(Debug)]
pub struct Stream<T> {
    messages: Streaming<T>,
    timeout: Option<Duration>,
}

impl<T> Stream<T> {
    /// The next message, or `None` after the last one. Dropping the future loses no message.
    ///
    /// # Errors
    /// The status of the server, or `DeadlineExceeded`.
    pub async fn next(&mut self) -> Result<Option<T>, Status> {
        within(self.timeout, self.messages.message()).await
    }
}

impl AsyncClient {
    /// The progress of a job until it has ended. A queued job sends no messages, so messages have
    /// no timeout.
    ///
    /// # Errors
    /// As [`AsyncClient::run`].
    pub async fn watch_analysis(
        &self,
        message: v1::WatchAnalysisRequest,
    ) -> Result<Stream<v1::WatchAnalysisResponse>, Status> {
        self.stream("/neargraph.v1.InferenceService/WatchAnalysis", message, None).await
    }

    /// The mini-batches of an epoch.
    ///
    /// # Errors
    /// As [`AsyncClient::run`].
    pub async fn sample(
        &self,
        message: v1::SampleRequest,
    ) -> Result<Stream<v1::SampleResponse>, Status> {
        self.stream("/neargraph.v1.SamplingService/Sample", message, self.timeout()).await
    }

    /// Backs up a graph while it is served, and returns its progress. It is never retried.
    ///
    /// # Errors
    /// As [`AsyncClient::run`].
    pub async fn backup(
        &self,
        message: v1::BackupRequest,
    ) -> Result<Stream<v1::BackupResponse>, Status> {
        let channel = self.channel_of_a_stream()?;
        let path = "/neargraph.v1.ServerService/Backup";
        let opened = call::stream(&channel, path, self.request(message));
        // Other copies may have to end before, and this one may have its last page written long
        // before it is on the disk.
        Ok(Stream { messages: within(self.timeout(), opened).await?, timeout: None })
    }

    /// One message there, a stream back; `timeout` is that of each message.
    async fn stream<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        timeout: Option<Duration>,
    ) -> Result<Stream<A>, Status>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let channel = &self.channel_of_a_stream()?;
        let opened = |left| {
            let request = self.request(message.clone());
            async move { within(left, call::stream(channel, path, request)).await }
        };
        Ok(Stream { messages: self.tried(opened).await?, timeout })
    }

    /// Creates or extends a graph from columns, which are sent in pieces. It has no timeout.
    ///
    /// # Errors
    /// The server cannot be reached. It rejects a head only after the first piece is sent.
    pub fn update_graph(&self, head: v1::UpdateGraphHead) -> Result<Upload, Status> {
        let channel = self.channel_of_a_stream()?;
        let (pieces, sent) = mpsc::channel(PIECES);
        let parts = Parts { head: Some(head), sent, is_over: false };
        let path = "/neargraph.v1.GraphStoreService/UpdateGraph";
        let request = self.request(parts);
        // A call that is cancelled looks to servers as if its last message had come. So it goes on
        // when the upload is dropped, until the server has refused what is missing.
        let answer = tokio::spawn(async move { call::upload(&channel, path, request).await });
        Ok(Upload { pieces, answer, early: None })
    }
}

type Answered = Result<v1::UpdateGraphResponse, Status>;

/// A graph that is sent in pieces. Dropping it before it is finished cancels the upload.
#[derive(Debug)]
pub struct Upload {
    pieces: mpsc::Sender<Piece>,
    answer: JoinHandle<Answered>,
    /// What the server said before it was asked to finish.
    early: Option<Answered>,
}

impl Upload {
    /// Sends a piece of the columns when there is room for it. If the future is dropped, the piece
    /// is sent completely or not at all.
    ///
    /// # Errors
    /// The server has rejected the graph.
    pub async fn send(&mut self, arrow: Vec<u8>) -> Result<(), Status> {
        if self.put(Piece::Arrow(arrow)).await {
            return Ok(());
        }
        match &self.early {
            Some(Err(status)) => Err(status.clone()),
            _ => Err(Status::internal("the server answered before it had the whole graph")),
        }
    }

    /// Ends the upload, and waits until the graph is committed.
    ///
    /// # Errors
    /// The server has rejected the graph.
    pub async fn finish(mut self) -> Result<v1::UpdateGraphResponse, Status> {
        self.put(Piece::End).await;
        match self.early {
            Some(early) => early,
            None => answered(&mut self.answer).await,
        }
    }

    /// Whether a piece was taken; if not, the answer is there.
    async fn put(&mut self, piece: Piece) -> bool {
        if self.early.is_some() {
            return false;
        }
        let taken = tokio::select! {
            biased;
            early = answered(&mut self.answer) => {
                self.early = Some(early);
                return false;
            }
            taken = self.pieces.send(piece) => taken.is_ok(),
        };
        if !taken {
            // The connection has dropped the call, and its answer says why.
            self.early = Some(answered(&mut self.answer).await);
        }
        taken
    }
}

async fn answered(call: &mut JoinHandle<Answered>) -> Answered {
    let ended = |error: JoinError| Status::internal(format!("the call was ended: {error}"));
    call.await.map_err(ended)?
}

enum Piece {
    Arrow(Vec<u8>),
    End,
}

/// The messages of an upload. Where it is dropped before it is finished, the last one is empty,
/// which no server takes: half of a graph must not look like a whole one.
struct Parts {
    head: Option<v1::UpdateGraphHead>,
    sent: mpsc::Receiver<Piece>,
    is_over: bool,
}

impl Messages for Parts {
    type Item = v1::UpdateGraphRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = |part| Poll::Ready(Some(v1::UpdateGraphRequest { part }));
        if let Some(head) = self.head.take() {
            return message(Some(Part::Head(head)));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        match ready!(self.sent.poll_recv(cx)) {
            Some(Piece::Arrow(arrow)) => message(Some(Part::Arrow(arrow))),
            Some(Piece::End) => {
                self.is_over = true;
                Poll::Ready(None)
            }
            None => {
                self.is_over = true;
                message(None)
            }
        }
    }
}
