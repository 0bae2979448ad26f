#!/bin/sh
# Replace the containers of the service behind nginx by new ones, without an outage: as many new ones are started beside
# the old, nginx learns their addresses, then the old ones are stopped one after the other.
# Run it beside docker-compose.yml, with the variables the containers were started with (SERVICE_PORT=0 among them).
set -eu

compose() { docker compose --profile nginx "$@"; }
nginx() { compose exec -T nginx "$@"; }

# Let nginx learn the addresses anew. Each worker of before keeps connections alive until it knows, and ends them then.
reload() {
    master=$(nginx cat /tmp/nginx.pid)
    workers=$(nginx cat "/proc/$master/task/$master/children")
    nginx nginx -s reload
    for worker in $workers; do
        while [ "$(nginx cat "/proc/$worker/cmdline" 2>&1 | tr -d '\0')" = "nginx: worker process" ]; do sleep 0.2; done
    done
}

# A reload ends the connections that nginx keeps alive, so until the end each answer is the last of its connection.
trap 'exit 1' INT TERM
trap 'nginx rm -f /tmp/nginx-closing' EXIT
nginx touch /tmp/nginx-closing
old=$(compose ps -q service)
[ -n "$old" ] || { echo "no container of the service runs here" >&2; exit 1; }
count=$(echo "$old" | wc -l)
# The commit, if the files are its files; else the build is told apart by a digest of them.
[ -n "$(git status --porcelain -- service 2>&1)" ] || REVISION=${REVISION:-$(git rev-parse HEAD)}
REVISION=${REVISION:-} compose build service
compose up -d --no-deps --no-recreate --scale service=$((2 * count)) --wait service || {
    echo "the new containers don't get healthy: they are removed, and the old ones go on" >&2
    for container in $(compose ps -aq service); do
        case $old in *"$container"*) ;; *) docker rm -f "$container" >/dev/null ;; esac
    done
    exit 1
}
reload
for container in $old; do
    # It drains, finishes what it has accepted, and ends; nginx goes on to the others meanwhile.
    docker stop -t 60 "$container" >/dev/null
    docker rm "$container" >/dev/null
    reload
done
compose ps service
