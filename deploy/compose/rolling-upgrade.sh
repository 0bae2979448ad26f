#!/bin/sh
# Replace the containers of the service behind nginx by new ones, without an outage: as many new ones are started beside
# the old, nginx learns their addresses, then the old ones are stopped one after the other.
# Run it beside docker-compose.yml, with the variables the containers were started with (SERVICE_PORT=0 among them).
set -eu

compose() { docker compose --profile nginx "$@"; }

old=$(compose ps -q service)
count=$(echo "$old" | wc -l)
REVISION=${REVISION:-$(git rev-parse HEAD 2>/dev/null || true)} compose build service
compose up -d --no-deps --no-recreate --scale service=$((2 * count)) --wait service
compose exec -T nginx nginx -s reload
for container in $old; do
    # It drains, finishes what it has accepted, and ends; nginx goes on to the others meanwhile.
    docker stop -t 60 "$container" >/dev/null
    docker rm "$container" >/dev/null
    compose exec -T nginx nginx -s reload
done
compose ps service
