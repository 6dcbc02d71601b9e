"""The table of commands: group, sentence and examples of each, and the module that it lives in.

The list of commands and completion come from this table alone, so neither imports a command. What
must not live here: options. The invariant: the sentence is the first one of the command's help, and
every example is a valid command line (tests run them).
"""

from dataclasses import dataclass

MAKE = "Create and convert stores"
LOOK = "Inspect stores"
CHANGE = "Change and maintain stores"
TRAIN = "Train"
MODELS = "Use trained models"
SERVE = "Serve"
MACHINE = "Measure and simulate"

GROUPS = (MAKE, LOOK, CHANGE, TRAIN, MODELS, SERVE, MACHINE)
"""The headings of the list of commands, in order."""


@dataclass(frozen=True)
class Entry:
    """One command; ``source`` is MODULE or MODULE:FUNCTION in this package."""

    name: str
    group: str
    summary: str
    examples: tuple[str, ...]
    source: str = ""
    passes_on: bool = False
    """Whether the options are those of a program of the compiled core."""

    @property
    def place(self) -> tuple[str, str]:
        """The module and the name in it."""
        module, _, function = (self.source or self.name).partition(":")
        return module, function or module


COMMANDS = (
    Entry(
        "import",
        MAKE,
        "Import an edge list, tables, arrays or a benchmark data set into a new store.",
        (
            "neargraph import edges.csv --out G.ng --memory 256MB",
            "neargraph import edges.csv --out G2.ng --undirected --split-sizes 60,20,20 --dry-run",
        ),
        "import_",
    ),
    Entry(
        "export",
        MAKE,
        "Export a store to GraphBolt, Parquet, PyG or NumPy.",
        (
            "neargraph export G.ng tables --format parquet",
            "neargraph export G.ng graph.pt --format pyg",
        ),
    ),
    Entry(
        "expand",
        MAKE,
        "Write a larger graph: the Kronecker product of a store and a small graph.",
        ("neargraph expand G.ng big.ng --factor 8 --memory 1GB",),
    ),
    Entry(
        "split",
        MAKE,
        "Split the nodes of one type into train, val and test.",
        (
            "neargraph split G.ng --sizes 60,20,20 --seed 0",
            "neargraph split G.ng --sizes 60,20,20 --stratify --overwrite",
        ),
    ),
    Entry(
        "info",
        LOOK,
        "Show the size of a store and its node and edge types, with counts and tensors.",
        ("neargraph info G.ng", "neargraph info G.ng --json"),
    ),
    Entry(
        "head",
        LOOK,
        "Show the first nodes and edges of a store with their tensors.",
        ("neargraph head G.ng", "neargraph head G.ng --type node -n 3"),
    ),
    Entry(
        "neighbors",
        LOOK,
        "List the neighbours of a node, with edge ids, times and weights.",
        ("neargraph neighbors G.ng 17", "neargraph neighbors G.ng 17 --out --limit 5"),
    ),
    Entry(
        "stats",
        LOOK,
        "Compute statistics of a store: degrees, labels, splits and value ranges.",
        ("neargraph stats G.ng --memory 256MB",),
    ),
    Entry(
        "verify",
        LOOK,
        "Check every block and every data structure of a store or a backup.",
        ("neargraph verify G.ng",),
    ),
    Entry(
        "scrub",
        LOOK,
        "Check every page of a store against its checksum while the store is in use.",
        ("neargraph scrub G.ng --max-rate 200MB",),
    ),
    Entry(
        "update",
        CHANGE,
        "Apply a file of added, changed and deleted nodes and edges to a store.",
        ("neargraph update G.ng --from events.csv",),
    ),
    Entry(
        "checkpoint",
        CHANGE,
        "Write the commits from the log of a store into its main files.",
        ("neargraph checkpoint G.ng",),
    ),
    Entry(
        "compact",
        CHANGE,
        "Rewrite a store without unused space, with each neighbour list in one piece.",
        ("neargraph compact G.ng",),
    ),
    Entry(
        "reorganize",
        CHANGE,
        "Reorder features on disk so that batches read fewer pages.",
        ("neargraph reorganize G.ng --by heat --dry-run",),
    ),
    Entry(
        "backup",
        CHANGE,
        "Back up a store while it is in use.",
        (
            "neargraph backup G.ng monday",
            "neargraph backup G.ng tuesday --base monday",
        ),
    ),
    Entry(
        "restore",
        CHANGE,
        "Restore a store from a backup.",
        ("neargraph restore monday restored.ng",),
        "backup:restore",
    ),
    Entry(
        "train",
        TRAIN,
        "Train and test a model on a store.",
        (
            "neargraph train G.ng --model sage --fanouts 15,10 --epochs 3 --out runs/1",
            "neargraph train --resume runs/1 --epochs 5",
        ),
    ),
    Entry(
        "evaluate",
        TRAIN,
        "Evaluate the model of a training run on training, validation or test data.",
        ("neargraph evaluate runs/1 --split test",),
    ),
    Entry(
        "compile",
        TRAIN,
        "Sample epochs once and save them to files that loaders replay.",
        ("neargraph compile G.ng --epochs 4 --memory 2GB --dry-run",),
        "compile:compile_",
    ),
    Entry(
        "profile",
        TRAIN,
        "Measure the time of training for each back end and each stage.",
        ("neargraph profile train G.ng --models sage --repeats 1",),
    ),
    Entry(
        "model",
        MODELS,
        "Show the inputs, weights and operators of a model file.",
        ("neargraph model sage.ngm", "neargraph model sage.ngm --draw sage.svg"),
    ),
    Entry(
        "predict",
        MODELS,
        "Classify nodes of a store with a trained model.",
        (
            "neargraph predict G.ng sage.ngm --nodes 17,4",
            "neargraph predict G.ng sage.ngm --nodes test --out test.npy",
        ),
    ),
    Entry(
        "infer",
        MODELS,
        "Compute the output of a model for all nodes, layer by layer.",
        ("neargraph infer G.ng sage.ngm --out embedding",),
    ),
    Entry(
        "topk",
        MODELS,
        "Find the nodes whose embeddings are most similar to those of query nodes.",
        ("neargraph topk G.ng --tensor embedding --ids 17,4",),
    ),
    Entry(
        "quantise",
        MODELS,
        "Convert the weights of a model file to fewer bits.",
        ("neargraph quantise sage.ngm small.ngm --to int8",),
    ),
    Entry(
        "serve",
        SERVE,
        "Serve the graphs in a folder over gRPC and HTTP.",
        ("neargraph serve FOLDER",),
        passes_on=True,
    ),
    Entry(
        "register",
        SERVE,
        "Register a model file with a server.",
        ("neargraph register sage sage.ngm --address 127.0.0.1:7400",),
    ),
    Entry(
        "query",
        SERVE,
        "Ask a server for the output of a model.",
        ("neargraph query --model sage --nodes 17,4",),
    ),
    Entry(
        "top",
        SERVE,
        "Show the requests, latencies, caches and disk reads of a server.",
        ("neargraph top --count 1",),
    ),
    Entry(
        "bench-server",
        SERVE,
        "Send requests to a server and measure its request rate and latencies.",
        ("neargraph bench-server --help",),
        "serve:bench_server",
        passes_on=True,
    ),
    Entry(
        "simulate",
        MACHINE,
        "Simulate graph sampling on computational SSDs.",
        (
            "neargraph simulate G.ng --batches 2",
            "neargraph simulate G.ng --host . --out report",
        ),
    ),
    Entry(
        "doctor",
        MACHINE,
        "Check the disk, packages and GPUs of this machine, and suggest changes.",
        ("neargraph doctor", "neargraph doctor G.ng --disk"),
    ),
)
"""All commands, in the order of the list."""
