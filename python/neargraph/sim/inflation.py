"""Estimates the size of a graph in the direct layout (DirectGraph; BeaconGNN, section IV.A and
Algorithm 1), compared with its lists and rows alone.

The graph is known by its counts: sections of a random sample of nodes are packed into pages. For
the size of a store in the direct layout, use ``neargraph compile --layout direct --dry-run``.
"""

from dataclasses import dataclass

import numpy as np

from neargraph.exceptions import NameNotFound, UnsupportedArgument

from .config import DATASETS, whole

# The header of a section has its kind, its length and its node. A primary section also has the
# number of neighbours, and the address of each secondary section. The publication gives no sizes.
HEADER_BYTES = 8
COUNT_BYTES = 4
ID_BYTES = 4
SIGMA_MAX = 4


@dataclass
class DirectSize:
    """Sizes of a graph.

    Attributes:
        raw_bytes: Size of its lists, with 4 bytes per neighbour, and its rows.
        direct_bytes: Size of all pages of the direct layout.
        sections_per_page: Mean over the pages with primary sections.
    """

    raw_bytes: float
    direct_bytes: float
    sections_per_page: float

    @property
    def inflation(self) -> float:
        """`direct_bytes` / `raw_bytes`."""
        return self.direct_bytes / self.raw_bytes


def direct_size(
    dataset: str,
    *,
    sigma: float = 1.0,
    sections_per_page: int | None = None,
    page_bytes: int = 4096,
    nodes: int = 100_000,
    seed: int = 0,
) -> DirectSize:
    """Estimates the size of one of `DATASETS` in the direct layout, from its degree model.

    Args:
        dataset: Name of the data set.
        sigma: Standard deviation of the logarithm of degrees. Their mean is the published one.
        sections_per_page: The most sections in a page. The 4 bits in an address can number 16.
            None means no limit.
        page_bytes: Size of a page.
        nodes: Number of nodes in the sample.
        seed: Random seed of the degrees.

    Raises:
        NameNotFound: The data set is unknown.
        UnsupportedArgument: A number is out of range.

    Example:
        >>> plain = direct_size("ppi", nodes=1000)
        >>> 1 < plain.inflation < direct_size("ppi", nodes=1000, sections_per_page=1).inflation
        True
    """
    if dataset not in DATASETS:
        raise NameNotFound(
            f"dataset={dataset!r} is not a known data set: expected one of {', '.join(DATASETS)}"
        )
    known = DATASETS[dataset]
    most = 1 << 24
    if sections_per_page is not None:
        most = whole("sections_per_page", sections_per_page, 1, most)
    if not 0 <= sigma <= SIGMA_MAX:
        raise UnsupportedArgument(
            f"sigma={sigma!r} is not valid: expected a number from 0 to {SIGMA_MAX}"
        )
    row = 2 * known["columns"]
    page = whole("page_bytes", page_bytes, row + 64, 1 << 24)
    count = whole("nodes", nodes, 1, 1 << 24)
    seed = whole("seed", seed, 0, 2**64 - 1)
    mean = known["edges"] / known["nodes"]
    drawn = np.random.default_rng(seed).normal(np.log(mean) - sigma**2 / 2, sigma, count)
    degrees = np.maximum(1, np.exp(drawn).round()).astype(np.int64)
    # The mean of a sample differs from that of the graph, so raw sizes are those of the sample.
    raw = float(degrees.sum()) * ID_BYTES + count * row
    primaries, whole_pages, tails = _sections(degrees, row, page)
    full_primaries = int(np.count_nonzero(primaries == page))
    primary_pages = _packed(primaries[primaries < page], page, most) + full_primaries
    pages = primary_pages + int(whole_pages.sum()) + _packed(tails[tails > 0], page, most)
    scale = known["nodes"] / count
    return DirectSize(raw * scale, float(pages * page) * scale, count / primary_pages)


def _sections(
    degrees: np.ndarray, row: int, page: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns for each node the bytes of its primary section, the pages that its secondary sections
    fill, and the bytes of the last one. Addresses that exceed a page are not counted."""
    each = (page - HEADER_BYTES) // ID_BYTES
    fixed = HEADER_BYTES + COUNT_BYTES + row
    more = np.zeros_like(degrees)
    while True:
        # An address of a secondary section has the size of a neighbour.
        beside = np.maximum(0, (page - fixed) // ID_BYTES - more)
        left = np.maximum(0, degrees - beside)
        wanted = -(-left // each)
        if np.array_equal(wanted, more):
            break
        more = wanted
    primaries = np.where(left > 0, page, fixed + ID_BYTES * degrees)
    tail = left % each
    return primaries, left // each, np.where(tail > 0, HEADER_BYTES + ID_BYTES * tail, 0)


def _packed(sizes: np.ndarray, page: int, most: int) -> int:
    """Returns the number of pages if each section goes to the fullest page with room for it."""
    pages = 0
    # At index b: the numbers of sections in the pages with b free bytes.
    open_pages: list[list[int]] = [[] for _ in range(page + 1)]
    has_open = np.zeros(page + 1, dtype=bool)
    for size in sizes.tolist():
        found = int(np.argmax(has_open[size:])) + size
        if has_open[found]:
            held = open_pages[found].pop()
            has_open[found] = bool(open_pages[found])
        else:
            found, held = page, 0
            pages += 1
        if held + 1 < most:
            open_pages[found - size].append(held + 1)
            has_open[found - size] = True
    return pages
