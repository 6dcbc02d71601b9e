"""How large a graph that is known by its counts is in the direct layout (DirectGraph; BeaconGNN,
section IV.A and Algorithm 1), beside its lists and rows alone.

Sections of a drawn sample of nodes are packed into pages; nothing here reads a store. What a file
of the direct layout really takes is said by ``neargraph compile --layout direct --dry-run``.
"""

from dataclasses import dataclass

import numpy as np

from neargraph.exceptions import NameNotFound, UnsupportedArgument

from .config import DATASETS, whole

# Of each section: what it is, how long, of which node. A primary one counts its neighbours, too,
# and has the address of each secondary one. The publication names these without their sizes.
HEADER_BYTES = 8
COUNT_BYTES = 4
ID_BYTES = 4
SIGMA_MAX = 4


@dataclass
class DirectSize:
    """Sizes of a graph.

    Attributes:
        raw_bytes: Its lists, 4 bytes a neighbour, and its rows.
        direct_bytes: All pages of the direct layout.
        sections_per_page: On average over the pages with primary sections.
    """

    raw_bytes: float
    direct_bytes: float
    sections_per_page: float

    @property
    def inflation(self) -> float:
        """The pages over lists and rows."""
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
    """The size of one of `DATASETS` in the direct layout, from its degree model.

    Args:
        dataset: A name.
        sigma: Standard deviation of the logarithm of degrees, whose mean is the published one.
        sections_per_page: The most sections that share a page. 4 bits of an address can tell
            16 apart. None is no limit.
        page_bytes: Of a page.
        nodes: So many are drawn and packed.
        seed: Of the degrees.

    Raises:
        NameNotFound: There is no such data set.
        UnsupportedArgument: A number out of its range.

    Example:
        >>> plain = direct_size("ppi", nodes=1000)
        >>> 1 < plain.inflation < direct_size("ppi", nodes=1000, sections_per_page=1).inflation
        True
    """
    if dataset not in DATASETS:
        raise NameNotFound(f"no data set {dataset!r}; there are {', '.join(DATASETS)}")
    known = DATASETS[dataset]
    most = 1 << 24
    if sections_per_page is not None:
        most = whole("sections_per_page", sections_per_page, 1, most)
    if not 0 <= sigma <= SIGMA_MAX:
        raise UnsupportedArgument(f"sigma is {sigma!r}; use 0 to {SIGMA_MAX}")
    row = 2 * known["columns"]
    page = whole("page_bytes", page_bytes, row + 64, 1 << 24)
    count = whole("nodes", nodes, 1, 1 << 24)
    seed = whole("seed", seed, 0, 2**64 - 1)
    mean = known["edges"] / known["nodes"]
    drawn = np.random.default_rng(seed).normal(np.log(mean) - sigma**2 / 2, sigma, count)
    degrees = np.maximum(1, np.exp(drawn).round()).astype(np.int64)
    # A sample has a mean of its own; raw sizes are those of the same nodes.
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
    """Of each node: bytes of its primary section, pages that its secondary ones fill, and bytes of
    its last secondary section. Addresses that fill more than a page are left out."""
    each = (page - HEADER_BYTES) // ID_BYTES
    fixed = HEADER_BYTES + COUNT_BYTES + row
    more = np.zeros_like(degrees)
    while True:
        # An address of a secondary section takes the room of a neighbour.
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
    """Pages for sections: each goes to the fullest page that still has room for it."""
    pages = 0
    # At index b: the sections of each page that has b bytes left.
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
