"""The command line: check the settings, bind, start the embedded store if it is chosen, and run the supervisor."""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial

from .. import COMMAND, api_keys
from ..command_line import read_settings, unknown_variables
from ..settings import SettingsError, StoreUrl
from ..store import check_capabilities, check_url
from ..store.embedded import EmbeddedServer
from ..store.embedded_programs import EmbeddedStoreError
from ..telemetry import logs, tracing_config
from ..tokens import read_token_keys
from .connection_limits import raise_file_limit
from .pool import AddressError, bind, is_loopback, show
from .supervisor import Supervisor

CANNOT_START = 1
"""Exit code if the address or the data folder can't be used."""
BAD_SETTINGS = 2
"""Exit code for invalid settings, as for unknown flags."""

NO_KEYS = (
    "NO API KEYS, and %s is no loopback address: whoever reaches it can read, change and delete every session. "
    "Set BANDIT_API_KEYS_FILE, or keep others out by a firewall or proxy."
)

logger = logging.getLogger(__name__.partition(".")[0])


def main(arguments: Sequence[str]) -> int:
    """Run the service until it is stopped.

    Parameters
    ----------
    arguments : the flags of the command line, without the program's name

    Returns
    -------
    The exit code of the process.
    """
    try:
        settings = read_settings(arguments)
        keys = api_keys.read_keys(settings)
        if settings.token_keys_file is not None:
            read_token_keys(settings.token_keys_file)
    except SettingsError as error:
        return _refuse(error, BAD_SETTINGS)
    logs.configure(settings.log_level)
    if unknown := unknown_variables(os.environ):
        logger.warning("not settings of this service: %s", ", ".join(unknown))
    if tracing_config.is_requested(os.environ) and (reason := tracing_config.why_not(os.environ)):
        logger.warning("no traces: %s", reason)
    try:
        url = settings.store_url.get_secret_value()
        check_capabilities(url, workers=settings.workers, min_replicas=settings.min_replicas)
        listener = bind(settings.host, settings.port)
        server = None
        if settings.store_url.scheme == "embedded":
            server = EmbeddedServer(settings.data_dir, fsync=settings.appendfsync)
            server.start()
        else:
            check_url(url)
    except (AddressError, EmbeddedStoreError) as error:
        return _refuse(error, CANNOT_START)
    except ValueError as error:
        return _refuse(f"--store-url (BANDIT_STORE_URL): {error}", BAD_SETTINGS)
    raise_file_limit()
    address = show(settings.host, listener.getsockname()[1])
    if not keys and not is_loopback(settings.host):
        logger.warning(NO_KEYS, settings.host)
    folder = f" in {settings.data_dir.resolve()}" if server is not None else ""
    serving = partial(logger.info, "listening on http://%s, store %s%s", address, settings.store_url, folder)
    settings = api_keys.hashed(settings, keys)
    os.environ.pop("BANDIT_API_KEYS", None)
    if server is not None:
        settings = settings.model_copy(update={"store_url": StoreUrl(server.url)})
    return asyncio.run(Supervisor(settings, listener, server, serving).run())


def _refuse(error: Exception | str, code: int) -> int:
    sys.stderr.write(f"{COMMAND}: {error}\n")
    return code
