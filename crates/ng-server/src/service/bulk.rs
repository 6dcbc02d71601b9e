//! `UpdateGraph`: pieces from the network, to a thread that takes them in.

use std::sync::Arc;
use std::time::Duration;

use ng_rpc::v1::update_graph_request::Part;
use ng_rpc::{Code, Problem, Request, Status, Streaming, problem_told, v1};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::deadline_of;
use crate::graph::bulk::{Columns, check_head};
use crate::guard::shutting_down;
use crate::state::State;

/// Pieces that wait for the thread.
const WAITING: usize = 1;
/// How long a sender may take for a message once the server is about to end.
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// A piece; nothing says that all have come.
type Piece = Result<Option<Vec<u8>>, Problem>;

/// Takes in a stream. It is read once there is room to work on it, and as fast as that goes.
pub(super) async fn update(
    state: &Arc<State>,
    request: Request<Streaming<v1::UpdateGraphRequest>>,
) -> Result<v1::UpdateGraphResponse, Status> {
    let deadline = deadline_of(&request);
    state.catalogue.check_writable()?;
    let mut parts = request.into_inner();
    let first = parts.message().await?.and_then(|message| message.part);
    let Some(Part::Head(head)) = first else {
        let problem = Problem::argument("head", "the first message has no head");
        return Err(problem.remedy("send the head first, then the columns").into());
    };
    check_head(&head)?;
    let (give, mut take) = mpsc::channel::<Piece>(WAITING);
    let all = Arc::clone(state);
    let (begin, begun) = oneshot::channel();
    let work = state.work.bulk(deadline, move || {
        let _gone = begin.send(());
        let mut next = move || take.blocking_recv().unwrap_or_else(|| Err(gone()));
        let columns = Columns::new(&head, &mut next);
        all.catalogue.update_graph(&head, columns)
    });
    let pieces = async {
        if begun.await.is_ok() {
            feed(state, &mut parts, give).await;
        }
    };
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return Ok(done?),
        () = pieces => {}
    }
    Ok(work.await?)
}

/// Hands pieces on until there are no more, or nobody takes them.
async fn feed(
    state: &State,
    parts: &mut Streaming<v1::UpdateGraphRequest>,
    give: mpsc::Sender<Piece>,
) {
    loop {
        let (piece, is_last) = match next(state, parts).await {
            Ok(None) => (Ok(None), true),
            Err(problem) => (Err(problem), true),
            Ok(Some(message)) => match message.part {
                Some(Part::Arrow(piece)) => (Ok(Some(piece)), false),
                Some(Part::Head(_)) => (
                    Err(Problem::argument(
                        "head",
                        "the stream has a head in more than its first message",
                    )),
                    true,
                ),
                None => (Err(Problem::argument("arrow", "a message of the stream is empty")), true),
            },
        };
        if give.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// The next message. One that does not come holds up the end of the server for a moment only.
async fn next(
    state: &State,
    parts: &mut Streaming<v1::UpdateGraphRequest>,
) -> Result<Option<v1::UpdateGraphRequest>, Problem> {
    let ending = async {
        state.guard.drained().await;
        sleep(LAST_PAUSE).await;
    };
    tokio::select! {
        biased;
        message = parts.message() => message.map_err(|status| problem_told(&status)),
        () = ending => Err(shutting_down()),
    }
}

/// The sender went away before all pieces had come.
fn gone() -> Problem {
    let message = "the connection ended before all columns arrived; nothing was changed";
    Problem::new(Code::Cancelled, "STOPPED", message)
}
