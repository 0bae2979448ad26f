#!/bin/sh
# Restart the replicas behind a proxy one after the other, so that clients notice at most a 503 that they retry.
# Install the new version first; then: deploy/systemd/rolling-upgrade.sh 8001 8002 8003
#
# RESTART  restarts the replica of a port, which is added to it ("systemctl restart bandit@8001")
# PAUSE    seconds after which the proxy uses a replica again that it has left out: fail_timeout in nginx.conf
# WAIT     seconds in which a replica must be ready; the upgrade ends there where it is not, with the others untouched
set -eu

[ $# -gt 0 ] || { echo "name the ports of the replicas: $0 8001 8002 8003" >&2; exit 2; }
restart=${RESTART:-systemctl restart bandit@}
pause=${PAUSE:-10}
wait=${WAIT:-60}

ready() {
    python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)' \
        "http://127.0.0.1:$1/readyz" 2>/dev/null
}

for port in "$@"; do
    ready "$port" || { echo "the replica on port $port is not ready: nothing more is restarted" >&2; exit 1; }
done
for port in "$@"; do
    echo "restarting the replica on port $port"
    $restart"$port"
    until ready "$port"; do
        wait=$((wait - 1))
        [ "$wait" -gt 0 ] || { echo "the replica on port $port does not get ready" >&2; exit 1; }
        sleep 1
    done
    wait=${WAIT:-60}
    sleep "$pause"
done
