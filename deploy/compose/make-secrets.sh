#!/bin/sh
# Make the secrets of secrets.yml: a password of Redis, its users, an API key of role admin, which is printed, and one
# of role reader, for the Prometheus of monitoring.yml.
# Nothing that exists is changed.
set -eu
folder=${SECRETS:-./secrets}
here=$(dirname "$0")

random() { python3 -c 'import secrets; print(secrets.token_urlsafe(32))'; }

mkdir -p "$folder"
[ ! -e "$folder/store_password" ] || { echo "$folder has secrets already" >&2; exit 1; }
password=$(random)
printf '%s\n' "$password" >"$folder/store_password"
# The users of docker-compose.yml, with this password.
python3 - "$here/../../docker-compose.yml" "$password" >"$folder/redis.acl" <<'PYTHON'
import re
import sys

text = open(sys.argv[1]).read()
command = re.search(r"--user default.*?(?=\n    \S)", text, re.S)[0]
for user in re.sub(r"\s+", " ", command).split("--user ")[1:]:
    print("user", re.sub(r'"\$.*"', ">" + sys.argv[2], user).strip())
PYTHON
key=$(random)
reader=$(random)
printf '%s\n' "$reader" >"$folder/metrics_key"
printf '[{"name": "ops", "role": "admin", "key": "%s"},\n {"name": "metrics", "role": "reader", "key": "%s"}]\n' \
    "$key" "$reader" >"$folder/api_keys.json"
# Docker shows files as they are, and the containers run as other users: keep others out by the folder.
chmod 755 "$folder"
chmod 644 "$folder"/*
echo "the API key of role admin: $key"
