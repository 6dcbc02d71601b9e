"""What is served: graphs, models, names and versions, and copies of graphs."""

import json
import os
from collections.abc import Sequence
from typing import Any

from neargraph.client.asking import files_of
from neargraph.client.calls import call, field_of
from neargraph.client.modes import Opening, Request, Steps, method, stream
from neargraph.client.results import BackupState, Snapshot
from neargraph.exceptions import UnsupportedArgument

_NARROW = {None: 0, "f16": 1, "bf16": 2, "int8": 3}


class Registering:
    """Methods that change what is served."""

    @method
    def register_graph(
        self, graph: str, path: str = "", *, narrow: str | None = None, reorganize: bool = False
    ) -> Steps[dict[str, Any]]:
        """Serves a store of the server's folder.

        Args:
            graph: The name that it gets.
            path: Relative to the served folder; "NAME.ng" if empty.
            narrow: Rewrites rows on the way in: "f16", "bf16" or "int8".
            reorganize: Puts rows that are read together next to each other.

        Returns:
            The graph as `graphs` lists it.

        Raises:
            NotFound: There is no such store in the folder.
        """
        if narrow not in _NARROW:
            raise UnsupportedArgument(f"narrow is {narrow!r}; use 'f16', 'bf16' or 'int8'")
        rest = {"narrow": _NARROW[narrow], "reorganize": reorganize}
        return (yield from field_of("GraphRegister", "graph", graph=graph, path=path, **rest))

    @method
    def unregister_graph(self, graph: str) -> Steps[None]:
        """Serves a graph no longer. Its files stay."""
        yield from call("GraphUnregister", graph=graph)

    @method
    def register_model(
        self,
        model: str,
        files: str | os.PathLike[str] | None = None,
        *,
        path: str | None = None,
        graph: str = "",
        prepare: str = "",
        fanouts: Sequence[int] | None = None,
        output: str = "",
        devices: Sequence[str] = (),
    ) -> Steps[dict[str, Any]]:
        """Serves a model on a graph. A name that there is already gets a new version.

        Args:
            model: The name that it gets.
            files: A model file of this machine, which is sent.
            path: A model file of the server's folder, relative to it, in place of `files`.
            graph: The only graph of the server if empty.
            prepare: What is brought into memory: "metadata" (default), "hot" or "all".
            fanouts: Neighbours by hop in place of those of the file.
            output: The output that answers, where the model has several.
            devices: What computes, the preferred one first.

        Returns:
            The version as `models` lists it.

        Raises:
            InvalidRequest: The model does not fit the graph, or is damaged; `field` names what.

        Example:
            >>> client.register_model("sage", "sage.ngm")["version"]  # doctest: +SKIP
            1
        """
        if (files is None) == (path is None):
            raise UnsupportedArgument(
                "give the folder of a model file, or path= of one in the server's folder"
            )
        message: dict[str, Any] = {"model": model, "graph": graph, "prepare": prepare}
        message |= {"fanouts": list(fanouts or []), "output": output, "devices": list(devices)}
        content = None
        if files is None:
            message["source"] = {"Path": path}
        else:
            content = files_of(files)
        made = yield Request("register_model", (json.dumps(message), content))
        return dict(json.loads(made)["model"])

    @method
    def unregister_model(self, model: str, *, graph: str = "") -> Steps[None]:
        """Serves a model no longer: "name", or one version, "name@3"."""
        yield from call("ModelUnregister", model=model, graph=graph)

    @method
    def set_alias(self, alias: str, model: str, *, graph: str = "") -> Steps[None]:
        """Lets a name stand for a version, "sage@3"; an empty one removes the name."""
        yield from call("SetAlias", alias=alias, model=model, graph=graph)

    @method
    def pin_snapshot(self, *, graph: str = "", seconds: int = 0) -> Steps[Snapshot]:
        """Keeps the newest commit readable while newer ones come.

        Args:
            graph: The only graph of the server if empty.
            seconds: How long; 0 is the server's default.

        Returns:
            The snapshot; its `commit` is what `at_snapshot` takes.
        """
        made = yield from field_of("PinSnapshot", "snapshot", graph=graph, seconds=seconds)
        return Snapshot(**made)

    @method
    def unpin_snapshot(self, commit: int, *, graph: str = "") -> Steps[None]:
        """Keeps a commit readable no longer."""
        yield from call("UnpinSnapshot", graph=graph, commit=commit)

    @stream
    def backup(self, target: str, *, graph: str = "", base: str = "") -> Opening[BackupState]:
        """Copies a graph while it is served, and tells how far the copy is.

        Args:
            target: A new folder in the server's folder for backups.
            graph: The only graph of the server if empty.
            base: A backup there: only pages that are newer are copied, and it has to stay.

        Raises:
            RequestFailed: The folder is there already, or the disk is full.
            NotPermitted: The token is not one of an administrator.

        Example:
            >>> *_, last = client.backup("monday")  # doctest: +SKIP
            >>> last.done, last.commit
            (True, 12)
        """
        message = json.dumps({"graph": graph, "target": target, "base": base})
        return Opening(Request("backup", (message,)), lambda facts: BackupState(**facts))
