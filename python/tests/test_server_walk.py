"""The walk of docs/how-to/server.md: each block that a newcomer types works as it stands."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import neargraph as ng
from neargraph.cli.app import main

PAGE = Path(__file__).parents[2] / "docs/how-to/server.md"
ADDRESS = "127.0.0.1:7400"


def blocks() -> list[tuple[str, str]]:
    """(language, text) of each block of the walk."""
    walk = PAGE.read_text().split("## A walk", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```(\w*)\n(.*?)```", walk, re.DOTALL)


def test_the_walk_works_as_it_stands(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    server = None
    said: dict[str, str] = {}
    try:
        for language, text in blocks():
            if language == "python":
                address = ADDRESS if server is None else server.address
                exec(text.replace(ADDRESS, address), names)
                continue
            program, command, *arguments = shlex.split(text)
            assert program == "neargraph"
            if command == "serve":
                server = ng.serve(*arguments, listen="127.0.0.1:0", memory="64MB")
                continue
            if command == "top":
                arguments += ["--address", server.address, "--count", "1", "--every", "0.1"]
            elif command != "import":
                arguments += ["--address", server.address]
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main([command, *arguments])
            said[command], error = capfd.readouterr()
            assert ended.value.code == 0, (text, error)
    finally:
        if server is not None:
            server.close()
    assert set(said) == {"import", "register", "query", "top"}
    assert "mean@1" in said["query"]
    before, after = names["before"], names["after"]
    assert after.snapshot.commit > before.snapshot.commit
    assert not np.array_equal(before.rows, after.rows)
    assert names["state"].state == "done"
    assert names["rows"].shape == (1000, 4)
