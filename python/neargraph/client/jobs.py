"""Jobs, which a server computes when it has capacity."""

import time
from typing import Any

from numpy.typing import NDArray

from neargraph.client import results
from neargraph.client.asking import watch
from neargraph.client.calls import field_of
from neargraph.client.modes import Opening, Request, Steps, method, stream
from neargraph.client.results import Answer, JobState, job_state
from neargraph.exceptions import request_failed

# Waiting for a job uses calls of this length, so that none exceeds the timeout of the client.
WAIT_SECONDS = 5.0


def _result(job: str, wait_seconds: float) -> Steps[tuple[JobState, Answer | None]]:
    wait_ms = int(1000 * wait_seconds)
    state, found = yield Request("result", (job, wait_ms))
    return job_state(state), None if found is None else results.answer(found)


class JobMethods:
    """Methods of a job on the server.

    Attributes:
        id: The id, by which `job` of any client finds the job. It outlives this client.
    """

    def __init__(self, client: Any, job: str) -> None:
        self._client = client
        self.id = job

    @method
    def progress(self) -> Steps[JobState]:
        """Returns the state of the job.

        Raises:
            NotFound: The job does not exist, or the server has removed it.
        """
        return (yield from _result(self.id, 0.0))[0]

    @stream
    def watch(self) -> Opening[JobState]:
        """Streams the state of the job each time it changes, until the job has ended."""
        return watch(self.id)

    @method
    def answer(self, timeout: float | None = None) -> Steps[Answer]:
        """Waits until the job has ended, and returns its rows with snapshot and model.

        Args:
            timeout: Maximum time in seconds. None: no limit.

        Raises:
            TimeoutError: The job has not ended in time. It continues on the server.
            RequestFailed: The job failed or was cancelled.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SECONDS if end is None else min(WAIT_SECONDS, end - time.monotonic())
            state, found = yield from _result(self.id, max(left, 0.0))
            if found is not None:
                return found
            if state.has_ended:
                ended = f"job {self.id} has ended with the state {state.state!r}"
                raise request_failed(
                    "Aborted", f"JOB_{state.state.upper()}", state.problem or ended
                )
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.id} has not ended within {timeout} s")

    result = answer.then(
        lambda answer: answer.rows,
        """Waits until the job has ended, and returns its rows [n, ...].

        Args:
            timeout: Maximum time in seconds. None: no limit.

        Raises:
            TimeoutError: The job has not ended in time. It continues on the server.
            RequestFailed: The job failed or was cancelled.

        Example:
            >>> client.analyze("sage", range(1_000_000)).result(timeout=600)  # doctest: +SKIP
        """,
        NDArray[Any],
    )

    @method
    def cancel(self) -> Steps[JobState]:
        """Cancels the job and returns its state."""
        return job_state((yield from field_of("CancelAnalysis", "job", job=self.id)))
