#!/usr/bin/env bash
# Makes .venv-interop: the stock clients that the server is tested with, in the versions that
# install together. With newer ones of some, pip falls back to a tritonclient of years ago.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m venv --clear .venv-interop
.venv-interop/bin/python -m pip install --disable-pip-version-check --quiet \
    'tritonclient[grpc,http]==2.73.0' grpcio==1.85.1 grpcio-health-checking==1.81.1 \
    grpcio-reflection==1.81.1 protobuf==6.33.6
