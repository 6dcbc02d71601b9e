//! Copies of graphs that are served, told of as they are made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ng_rpc::{Code, Problem, Request, Response, Status, Stream, problem_of, v1};
use ng_store::{BackupReport, backup};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

use super::{Service, deadline_of};
use crate::graph::Graph;

/// How often a caller hears how far a copy is.
const PAUSE: Duration = Duration::from_millis(100);

/// What a caller hears.
type Told = Sender<Result<v1::BackupResponse, Status>>;

impl Service {
    /// Copies a graph into a new folder of the folder for backups. A caller that goes away ends it,
    /// and nothing is left of it.
    pub(super) async fn copy_graph(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Stream<v1::BackupResponse>>, Status> {
        let deadline = deadline_of(&request);
        let message = request.into_inner();
        let graph = self.0.catalogue.graph(&message.graph)?;
        let (target, base) = self.0.catalogue.backup_paths(&message)?;
        let (told, hears) = channel(4);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            let heard = told.clone();
            let copy = move || copy(&graph, target, base, &heard);
            let done = state.work.copy(deadline, copy).await;
            let _gone = told.send(done.map(last).map_err(Status::from)).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(hears))))
    }
}

fn copy(
    graph: &Graph,
    target: PathBuf,
    base: Option<PathBuf>,
    told: &Told,
) -> Result<BackupReport, Problem> {
    let mut heard = Instant::now();
    let mut progress = |pages_done: u64, pages: u64| {
        if heard.elapsed() < PAUSE {
            return !told.is_closed();
        }
        heard = Instant::now();
        let now = v1::BackupResponse { pages_done, pages, ..v1::BackupResponse::default() };
        told.blocking_send(Ok(now)).is_ok()
    };
    let made = backup(&graph.store, &target, base.as_deref(), &mut progress);
    made.map_err(|e| match problem_of(&e) {
        // A graph is not in the way of its own backup: a backup of that name is there.
        problem if target.exists() => Problem { code: Code::AlreadyExists, ..problem }.at("target"),
        problem => problem,
    })
}

fn last(report: BackupReport) -> v1::BackupResponse {
    v1::BackupResponse {
        pages_done: report.pages,
        pages: report.pages,
        pages_copied: report.pages_copied,
        bytes_copied: report.page_bytes_copied,
        done: true,
        commit: report.lsn,
    }
}
