#!/usr/bin/env bash
# Checks all crates with cargo-deny: licences, duplicates and sources, and advisories where their
# database can be had. Prints the figure of promise X1. The rules are in deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
deny=target/tools/bin/cargo-deny

if [ "$($deny --version 2>/dev/null)" != "cargo-deny $version" ]; then
    echo "deny: building cargo-deny $version into target/tools (some minutes, once)" >&2
    cargo install cargo-deny --version $version --locked --quiet --root target/tools
fi
checks=(bans licenses sources)
if said=$($deny fetch db 2>&1); then
    checks+=(advisories)
else
    echo "deny: ADVISORIES WERE NOT CHECKED, their database cannot be fetched from here:" >&2
    tail -n1 <<<"$said" >&2
fi
failed=0
for check in "${checks[@]}"; do
    $deny --locked check "$check" || failed=$((failed + 1))
done
printf 'figure: {"id": "X1", "what": "cargo-deny %s", "tried": %d, "failed": %d, "seed": 0}\n' \
    "${checks[*]}" ${#checks[@]} $failed
[ $failed = 0 ]
