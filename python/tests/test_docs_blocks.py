"""Each block of code in README.md and docs/ does what its page says, page by page.

The rules of blocks are in `docs_page.py`, how they run in `docs_story.py`. Invariant: a page is a
story that a newcomer can paste from top to bottom. Pages of the three large folders have test
files of their own.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from docs_page import REASONS, ROOT, blocks_of, is_as_told
from docs_pages import OTHERS, PAGES, told


@pytest.mark.parametrize("page", OTHERS)
def test_the_blocks_of_a_page_run_from_top_to_bottom(page, tmp_path):
    problem = told(page, tmp_path)
    assert problem is None, problem


def test_blocks_that_are_not_run_have_a_reason_and_are_few():
    # The release procedure is for maintainers, whose CI runs most of its commands.
    pages = {page: blocks_of((ROOT / page).read_text()) for page in PAGES if "release" not in page}
    blocks = [(page, block) for page, found in pages.items() for block in found]
    not_run = [(page, block) for page, block in blocks if "no-run" in block.words]
    for page, block in not_run:
        print(f"not run: {page}:{block.line}: {REASONS[block.reason]}")
    print("not run:", dict(Counter(block.reason for _, block in not_run)), "of", len(blocks))
    assert len(not_run) <= len(blocks) // 20


@pytest.fixture
def tell(tmp_path):
    """What is wrong with the text of a page."""

    def told_of(text: str) -> str:
        page = tmp_path / "page.md"
        page.write_text(text)
        return told(str(page), tmp_path / f"story-{len(list(tmp_path.iterdir()))}") or ""

    return told_of


BROKEN = {
    "an error of python": ("```python\nx = 1\n```\n\n```python\nprint(x + y)\n```\n", "page.md:6"),
    "a command that fails": ("```sh\necho a\nfalse\necho b\n```\n", "ends with 1"),
    "another exit code": ("```sh exit=2\nexit_with() { return $1; }; exit_with 3\n```\n", "with 3"),
    "another output": ("```console output\n$ echo one\ntwo\n```\n", "what comes is\none"),
    "another print": ("```python\nprint(2)\n```\n\n```text output\n3\n```\n", "page says\n3"),
    "nothing raised": ("```python raises=KeyError\n{}.get(1)\n```\n", "nothing raises KeyError"),
    "something else raised": ("```python raises=KeyError\n1 / 0\n```\n", "ZeroDivisionError"),
    "a fence without a language": ("```\nls\n```\n", "line 2: a fence in ''"),
    "a prompt in sh": ("```sh\n$ ls\n```\n", "leave the prompt out"),
    "a console without a prompt": ("```console\nls\n```\n", "without a prompt"),
    "no reason": ("```sh no-run\nls\n```\n", "no-run without a reason"),
    "an unknown reason": ("```sh no-run lazy\nls\n```\n", "no-run without a reason"),
    "an unknown word": ("```python slowly\n```\n", "unknown words slowly"),
    "an unknown setting": ("```python end=3\n```\n", "unknown setting end="),
    "a body without an end": ("```python\nif 1:\n    a = 1\nb = 2\n```\n", "stops at line 3"),
    "an empty line in a body": (
        "```python\ndef f():\n    a = 1\n\n    return a\n```\n",
        "stops at line 4",
    ),
    "indented code": ("Type\n\n    ls\n", "line 3: code by indentation"),
    "a long setup": (f"<!-- setup python\n{'a = 1' + chr(10)}{chr(10) * 30}-->\n", "setup of more"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_block_that_does_something_else_is_named(name, tell):
    text, problem = BROKEN[name]
    assert problem in tell(text)


STORY_OF_ALL = """
<!-- setup python
given = 20
-->

```python
with open("a.txt", "w") as file:
    file.write(str(given + 1))
```

```console output
$ cat a.txt
21
$ mkdir below && cd below && export WORD=every
$ echo "${WORD}thing" and \\
> more
every... and more
```

```toml file=settings.toml
address = "127.0.0.1:7400"
```

```python
from pathlib import Path

print(Path.cwd().name, Path("settings.toml").read_text())
```

```text output
below address = "127.0.0.1:7400"
```

```sh no-run gpu
false
```

```sh exit=3
(exit 3)
```

```python raises=LookupError
{}[1]
```

1. A list

    - that goes on

```sh
sleep 1000 &
neargraph --version
```
"""


def test_blocks_share_names_folder_variables_and_files(tell):
    assert tell(STORY_OF_ALL) == ""


def test_a_story_ends_what_it_started(tell):
    mark = f"{os.getpid()}31415"
    text = f"```sh\nsleep {mark} &\n(sleep {mark}; true) &\nnohup sleep {mark} &\n```\n"
    assert tell(text) == ""
    assert "ends with 1" in tell(f"{text}\n```sh\nfalse\n```\n")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if line == f"sleep\0{mark}\0".encode()]


def test_a_server_listens_on_a_free_port_where_the_page_names_the_usual_one(tell):
    text = (
        "```sh\nmkdir graphs\nneargraph serve graphs --memory 64MB &\n```\n"
        '```python\nimport neargraph as ng\nwith ng.Client("127.0.0.1:7400") as client:\n'
        "    print(sorted(client.server_info())[:1])\n```\n"
    )
    assert tell(text) == ""


def test_dots_in_an_output_stand_for_anything():
    assert is_as_told("took 3.5 s\nlast\n\n", "took ... s\nlast\n")
    assert is_as_told("a\nb\nc\n", "a\n...\nc\n")
    assert not is_as_told("took 3.5 s\nmore\n", "took ... s\n")
