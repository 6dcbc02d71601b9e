#!/usr/bin/env bash
# The reliability tests at their long figures, about two hours on two cores. Prints a line for each
# test with what it tried and how long it took; the rest goes to .bench/long/.
set -euo pipefail
cd "$(dirname "$0")/.."
logs=.bench/long
mkdir -p $logs
export NEARGRAPH_CRASH_IMAGES=1000000 NEARGRAPH_MODEL_OPERATIONS=20000000 NEARGRAPH_KILLS=2000 \
    NEARGRAPH_FUZZ_EXECUTIONS=10000000 NEARGRAPH_ISOLATION_SECONDS=120 \
    NEARGRAPH_OPENS=10000 NEARGRAPH_WRITES=10000 CUTS=300 NEARGRAPH_SHM_FRAMES=20000000 \
    NEARGRAPH_SHM_ATTACKS=5000 NEARGRAPH_ALL_PLUGINS=1

one() { # name, command ...
    local name=$1 start=$SECONDS
    shift
    local outcome=ok
    "$@" >"$logs/$name.log" 2>&1 || outcome=FAILED
    printf '%s: %s, %d s\n' "$name" "$outcome" $((SECONDS - start))
    grep -ho 'figure: .*' "$logs/$name.log" || true
    [ $outcome = ok ]
}
suite() { # test files of ng-store, one after the other
    local test
    for test in "$@"; do
        one "$test" cargo test --locked --profile long -p ng-store --test "$test" \
            -- --nocapture --test-threads 1 || return
    done
}

git rev-parse HEAD
cargo test --locked --profile long -p ng-store --no-run 2>"$logs/build.log"
failed=0
(one power_cut python3 tools/power_cut.py && suite crash) &
one deny tools/deny.sh || failed=1
one sdist .venv/bin/python tools/sdist.py --build || failed=1
(suite model fuzz_corpus killed isolation beside_maintenance faults damage) || failed=1
wait $! || failed=1
one rings cargo test --locked --profile long -p ng-io --test shm_fuzz --test shm_rings \
    --test shm_hostile -- --nocapture --test-threads 1 || failed=1
one decoders cargo test --locked --profile long -p ng-server --test decoders \
    -- --nocapture || failed=1
one traces cargo test --locked --profile long -p ng-server --features otel --test traces || failed=1
one served_plugins cargo test --locked --profile long -p ng-server --test devices || failed=1
one infer_killed env NEARGRAPH_INFER_KILLS=20 .venv/bin/python -m pytest -q -s \
    python/tests/test_layerwise.py -k killed || failed=1
cargo build --locked --release -p ng-server -p ng-client 2>>"$logs/build.log"
one hostile_clients .venv/bin/python -m attacks.serving || failed=1
one disk_errors .venv/bin/python -m attacks.disk || failed=1
one server_killed .venv/bin/python -m attacks.killed --kills 20 || failed=1
one peer_environment .venv/bin/python -m benchmarks.venvs pyg || failed=1
one saint_beside_pyg .bench/venvs/pyg/bin/python -m pytest -s python/tests/test_saint.py \
    -k pygs_own || failed=1
if [ -n "${NEARGRAPH_DATA:-}" ]; then
    one export_matrix .venv/bin/python -m benchmarks.export_matrix || failed=1
    one tasks .venv/bin/python -m benchmarks.tasks || failed=1
    # Hours at the first run; results stay in .bench/accuracy, and only what is missing is run.
    one accuracy .venv/bin/python -m benchmarks.accuracy || failed=1
fi
exit $failed
