"""A process that owns an embedded server until it is killed: ``python -m tests.support.owner FOLDER``."""

import sys
import time
from pathlib import Path

from service.store.embedded import EmbeddedServer


def main() -> None:
    server = EmbeddedServer(Path(sys.argv[1]))
    server.start()
    sys.stdout.write(f"{server.url} {server._process.pid}\n")
    sys.stdout.flush()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
