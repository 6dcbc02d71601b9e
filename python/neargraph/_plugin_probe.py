"""The process that tries one plug-in: `neargraph.plugins` starts it, with a limit in seconds.

It runs by its path, without the package and without site packages, and needs only the compiled
core beside it. The plug-in's bytes are the standard input, and what it did goes to the standard
output.
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path


def main() -> None:
    path = next(Path(__file__).parent.glob("_core*.so"))
    loader = ExtensionFileLoader("_core", str(path))
    spec = spec_from_loader("_core", loader)
    assert spec is not None
    core = module_from_spec(spec)
    loader.exec_module(core)
    core.run_plugin_probe(int(sys.argv[-1]))


if __name__ == "__main__":
    main()
