"""The pages of the documentation, and each as one test: `told` runs its blocks.

What must not live here: tests. Those of the pages are in `test_docs_*.py`, one file for each
folder, so that several run at the same time. Invariant: every page is in one of the `PAGES` lists.
"""

import subprocess
import sys
from pathlib import Path

from docs_page import ROOT, blocks_of, problems_of

STORY = Path(__file__).with_name("docs_story.py")
SECONDS_MAX = 500
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
_FOLDERS = ("docs/how-to/", "docs/reference/", "docs/tutorials/")
HOW_TO, REFERENCE, TUTORIALS = (
    [page for page in PAGES if page.startswith(folder)] for folder in _FOLDERS
)
OTHERS = [page for page in PAGES if not page.startswith(_FOLDERS)]


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
