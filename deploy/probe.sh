#!/bin/bash
# Asks the side port of this machine for a path and succeeds if the answer is 200: for images that
# have no HTTP client.   probe.sh /readyz [PORT]
set -eu
path=${1:-/readyz} port=${2:-${NEARGRAPH_SIDE_PORT:-7401}}
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' "$path" >&3
IFS= read -r -t 2 line <&3
[[ $line == "HTTP/1.1 200 "* ]]
