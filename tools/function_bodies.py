"""Writes the functions of model files to where the engine keeps them, from `functions.py`.

Run it after a change there: `.venv/bin/python tools/function_bodies.py`. A test compares both.
"""

from __future__ import annotations

from pathlib import Path

from neargraph.modelfile.functions import all_bodies

ROOT = Path(__file__).resolve().parent.parent
BODIES = ROOT / "crates" / "ng-infer" / "src" / "convert" / "to_onnx" / "functions.onnx"

if __name__ == "__main__":
    BODIES.write_bytes(all_bodies())
