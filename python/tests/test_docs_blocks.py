"""Each block of code in README.md and docs/ does what its page says, page by page.

The rules of blocks are in `docs_page.py`, how they run in `docs_story.py`. Invariant: a page is a
story that a newcomer can paste from top to bottom; those of `NOT_YET` still are to become one, and
leave the list then.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from docs_page import REASONS, ROOT, blocks_of, is_as_told, problems_of

STORY = Path(__file__).with_name("docs_story.py")
SECONDS_MAX = 500
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
# Pages whose blocks do not run yet. Convert one, and remove it here.
NOT_YET = [
]


def told(page: str, folder: Path) -> str | None:
    """What is wrong with a page; None if its blocks run."""
    text = (ROOT / page).read_text()
    problems = problems_of(text)
    if problems:
        return "\n".join(problems)
    if not any(block.is_run for block in blocks_of(text)):
        return None
    command = [sys.executable, str(STORY), str(ROOT / page), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as story:
        try:
            said, _ = story.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            story.terminate()
            said, _ = story.communicate()
    return said.decode(errors="replace") if story.returncode else None


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NOT_YET])
def test_the_blocks_of_a_page_run_from_top_to_bottom(page, tmp_path):
    problem = told(page, tmp_path)
    assert problem is None, problem


@pytest.mark.parametrize("page", NOT_YET)
def test_a_page_that_runs_leaves_the_list_of_those_that_do_not(page, tmp_path):
    assert told(page, tmp_path) is not None, f"{page} runs; remove it from NOT_YET"


def test_the_list_of_pages_that_do_not_run_has_pages_alone():
    assert set(NOT_YET) <= set(PAGES)


def test_blocks_that_are_not_run_have_a_reason_and_are_few():
    # The release procedure is for maintainers, whose CI runs most of its commands.
    left_out = {*NOT_YET, "docs/how-to/release.md"}
    pages = {page: blocks_of((ROOT / page).read_text()) for page in PAGES if page not in left_out}
    blocks = [(page, block) for page, found in pages.items() for block in found]
    not_run = [(page, block) for page, block in blocks if "no-run" in block.words]
    for page, block in not_run:
        print(f"not run: {page}:{block.line}: {REASONS[block.reason]}")
    print("not run:", dict(Counter(block.reason for _, block in not_run)), "of", len(blocks))
    assert len(not_run) <= max(3, len(blocks) // 10)


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
