"""Requests that change what is served: graphs, models, aliases, pins, and backups of graphs."""

import json
import os
from collections.abc import Sequence
from typing import Any, Literal, cast

from neargraph.client.asking import files_of
from neargraph.client.calls import call, field_of
from neargraph.client.modes import Opening, Request, Steps, method, stream
from neargraph.client.reports import ServedGraph, ServedModel
from neargraph.client.results import BackupState, Snapshot
from neargraph.exceptions import UnsupportedArgument

_NARROW = {None: 0, "f16": 1, "bf16": 2, "int8": 3}


class Registering:
    """Methods that change what is served."""

    @method
    def register_graph(
        self,
        graph: str,
        path: str = "",
        *,
        narrow: Literal["f16", "bf16", "int8"] | None = None,
        reorganize: bool = False,
    ) -> Steps[ServedGraph]:
        """Serves a store of the server's directory.

        Args:
            graph: Name of the graph.
            path: Path of the store, relative to the served directory. Default: "NAME.ng".
            narrow: Serve a copy whose rows of floats are stored as "f16", "bf16" or "int8". None:
                serve the store itself.
            reorganize: Whether to reorder the rows first, so that batches read fewer pages.

        Returns:
            The graph, as `graphs` lists it.

        Raises:
            NotFound: The directory has no such store.
        """
        if narrow not in _NARROW:
            raise UnsupportedArgument(
                f"narrow={narrow!r} is not valid: expected None, 'f16', 'bf16' or 'int8'"
            )
        rest = {"narrow": _NARROW[narrow], "reorganize": reorganize}
        made = yield from field_of("GraphRegister", "graph", graph=graph, path=path, **rest)
        return cast(ServedGraph, made)

    @method
    def unregister_graph(self, graph: str) -> Steps[None]:
        """Stops serving a graph. Its files stay."""
        yield from call("GraphUnregister", graph=graph)

    @method
    def register_model(
        self,
        model: str,
        files: str | os.PathLike[str] | None = None,
        *,
        path: str | None = None,
        graph: str = "",
        prepare: Literal["", "metadata", "hot", "all"] = "",
        fanouts: Sequence[int] | None = None,
        output: str = "",
        devices: Sequence[str] = (),
    ) -> Steps[ServedModel]:
        """Serves a model on a graph. If the name exists, the model becomes its next version.

        Give either `files` or `path`.

        Args:
            model: Name of the model.
            files: Path of a local model file, which is sent to the server.
            path: Path of a model file in the server's directory, relative to it.
            graph: Name of the graph. May be empty if the server has one graph.
            prepare: Data to load into memory: "metadata" (default), "hot" or "all", as in
                `neargraph.Engine`.
            fanouts: Neighbours per hop. None: those of the model file.
            output: Name of the output. May be empty if the model has one.
            devices: Names of the devices that compute, the preferred one first.

        Returns:
            The version, as `models` lists it.

        Raises:
            InvalidRequest: The model does not fit the graph, or is damaged; see `field`.

        Example:
            >>> client.register_model("sage", "sage.ngm")["version"]  # doctest: +SKIP
            1
        """
        if (files is None) == (path is None):
            raise UnsupportedArgument(
                "give either files= (a local model file) or path= (a model file in the server's "
                "directory)"
            )
        message: dict[str, Any] = {"model": model, "graph": graph, "prepare": prepare}
        message |= {"fanouts": list(fanouts or []), "output": output, "devices": list(devices)}
        content = None
        if files is None:
            message["source"] = {"Path": path}
        else:
            content = files_of(files)
        made = yield Request("register_model", (json.dumps(message), content))
        return cast(ServedModel, json.loads(made)["model"])

    @method
    def unregister_model(self, model: str, *, graph: str = "") -> Steps[None]:
        """Stops serving a model, "name", or one version of it, "name@3"."""
        yield from call("ModelUnregister", model=model, graph=graph)

    @method
    def set_alias(self, alias: str, model: str, *, graph: str = "") -> Steps[None]:
        """Makes a name an alias of a version, e.g. "sage@3". An empty version removes the alias."""
        yield from call("SetAlias", alias=alias, model=model, graph=graph)

    @method
    def pin_snapshot(self, *, graph: str = "", seconds: int = 0) -> Steps[Snapshot]:
        """Keeps the newest commit readable after later commits.

        Args:
            graph: Name of the graph. May be empty if the server has one graph.
            seconds: Duration of the pin in seconds. 0: the server's default.

        Returns:
            The snapshot. Its `commit` is a value for `at_snapshot`.
        """
        made = yield from field_of("PinSnapshot", "snapshot", graph=graph, seconds=seconds)
        return Snapshot(**made)

    @method
    def unpin_snapshot(self, commit: int, *, graph: str = "") -> Steps[None]:
        """Removes the pin of a commit."""
        yield from call("UnpinSnapshot", graph=graph, commit=commit)

    @stream
    def backup(self, target: str, *, graph: str = "", base: str = "") -> Opening[BackupState]:
        """Makes a backup of a graph while it is served, and streams the progress.

        Args:
            target: Name of a new directory in the server's directory for backups.
            graph: Name of the graph. May be empty if the server has one graph.
            base: Name of an earlier backup there. Only newer pages are copied, so the new backup
                needs the base. Empty: a complete backup.

        Raises:
            RequestFailed: The directory exists, or the disk is full.
            NotPermitted: The token does not have the right "admin".

        Example:
            >>> *_, last = client.backup("monday")  # doctest: +SKIP
            >>> last.done, last.commit
            (True, 12)
        """
        message = json.dumps({"graph": graph, "target": target, "base": base})
        return Opening(Request("backup", (message,)), lambda facts: BackupState(**facts))
