"""`neargraph serve FOLDER` and `neargraph bench-server`: the commands of the compiled core.

Their options are those of the programs without Python, `neargraph-server` and
`neargraph-bench-server`, which print their help by themselves.
"""

import signal

import typer


def serve(context: typer.Context) -> None:
    """Serve the graphs in a folder over gRPC and HTTP."""
    from neargraph import _core
    from neargraph.plugins import probe_command

    # The core handles Ctrl-C itself. Python's handler would end the process with 130 afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise typer.Exit(_core.run_server(["neargraph serve", *context.args], probe_command()))


def bench_server(context: typer.Context) -> None:
    """Send requests to a server and measure its request rate and latencies."""
    from neargraph import _core

    # The core does not look at Python's handlers: Ctrl-C ends it as it ends any program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise typer.Exit(_core.run_load(["neargraph bench-server", *context.args]))
