"""The parent process: it owns the bound socket and the embedded server, and replaces workers that die or hang.

The embedded server is restarted too. Workers and server end with this process, even if it is killed (Linux). On
SIGTERM or SIGINT the service may first drain: it says that it is not ready, and still serves. Then the supervisor
closes the socket, lets the workers finish the requests they have accepted, and stops the server last.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import COMMAND, api_keys
from ..command_line import read_settings, unknown_variables
from ..settings import Settings, SettingsError, StoreUrl
from ..store import check_capabilities, check_url
from ..store.embedded import EmbeddedServer, EmbeddedStoreError
from ..telemetry import logs, tracing_config
from ..telemetry.multiprocess import STORE_RESTARTS, WORKER_RESTARTS, SharedMetrics
from ..tokens import read_token_keys
from .pool import LOOK_SECONDS, AddressError, Board, Watchdog, bind, is_loopback, refuse, show

STARTUP_FAILURE = 3
"""Exit code if a worker ends before any has served; uvicorn uses the same code."""
KILLED = 1
"""Exit code if a worker had to be killed at a stop."""

_FIRST_DELAY, _LONGEST_DELAY = 0.1, 10.0
"""Seconds; limits of the delay before a restart. The embedded server is polled every ``_FIRST_DELAY``."""
_STEADY_SECONDS = 10.0
"""A process that ran for at least so long is restarted after the first delay."""
_KILL_MARGIN = 6.0
"""Seconds that a worker gets beyond ``grace_seconds``: a stop needs up to two more, on a busy machine longer."""

_SAFE_PATH = () if __package__ == "service.server" else ("-P",)
"""Workers of the installed wheel import nothing from the current folder; its command doesn't either."""

_FEW_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
"""Numpy's BLAS, of which little is used, would start a thread for each core in each worker: 60 ms for one alone."""
_KEPT_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20)}
"""Bytes for glibc, which else gives each large array back, so that the kernel clears memory each time."""

logger = logging.getLogger(__name__)


class BackOff:
    """Delays before restarts of one process: doubled after each early death, at most ten seconds."""

    _delay = _FIRST_DELAY

    def after(self, lived: float) -> float:
        """Return the seconds to wait before a restart of a process that ran for ``lived`` seconds."""
        delay = _FIRST_DELAY if lived >= _STEADY_SECONDS else self._delay
        self._delay = min(2 * delay, _LONGEST_DELAY)
        return delay


class Supervisor:
    """Runs the processes of one service.

    Parameters
    ----------
    settings : of the service, as workers get them
    listener : bound, and shared by all workers
    server : the embedded server, already started; None for other stores
    serving : is called when the first worker serves
    """

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        server: EmbeddedServer | None,
        serving: Callable[[], None],
    ) -> None:
        self._settings, self._listener, self._server, self._on_serving = settings, listener, server, serving
        self._workers: dict[int, Process] = {}
        """The running workers by their places, from 0."""
        self._board = Board.create(settings.workers)
        self._shared = SharedMetrics(settings.workers)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._served = False
        self._exit_code = 0

    async def run(self) -> int:
        """Serve until SIGTERM, SIGINT, a hang-up or a failed start, and return the exit code of the process."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_task(self._stopping.wait())
        stays = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # As under nohup.
        for number in (signal.SIGTERM, signal.SIGINT, *(() if stays else (signal.SIGHUP,))):
            loop.add_signal_handler(number, self._stop, number)
        if self._settings.api_keys_file is not None or self._settings.token_keys_file is not None:
            loop.add_signal_handler(signal.SIGHUP, self._read_keys_again)
        keepers = [asyncio.create_task(self._keep_worker(number)) for number in range(self._settings.workers)]
        watchers = [asyncio.create_task(self._watch_workers())]
        if self._server is not None:
            watchers.append(asyncio.create_task(self._keep_server(self._server)))
        await _first(self._stopped, *keepers, *watchers)
        self._stopping.set()
        self._listener.close()
        try:
            await self._end_workers(keepers)
        finally:
            if self._server is not None:
                self._server.stop()
            await asyncio.gather(*watchers)
            self._shared.remove()
        logger.info("stopped")
        return self._exit_code

    def _stop(self, number: signal.Signals) -> None:
        """Drain at the first signal, where that is wanted, stop at the next, and kill at the one after that."""
        drain = self._settings.drain_seconds
        if self._stopping.is_set():
            logger.info("received %s, killing", number.name)
            self._hurry.set()
        elif drain and not self._board.is_draining():
            logger.info("received %s, not ready from now on, stopping in %g s", number.name, drain)
            self._board.drain()
            asyncio.get_running_loop().call_later(drain, self._stopping.set)
        else:
            logger.info("received %s, stopping", number.name)
            self._stopping.set()

    def _read_keys_again(self) -> None:
        """Tell the workers that serve; the signal would end one that starts, which reads the file anyway."""
        for number in self._board.serving():
            _send(self._workers[number], signal.SIGHUP)

    async def _end_workers(self, keepers: list[asyncio.Task[None]]) -> None:
        for worker in self._workers.values():
            _send(worker, signal.SIGTERM)
        ended = asyncio.gather(*keepers)
        hurry = asyncio.create_task(self._hurry.wait())
        await _first(ended, hurry, timeout=self._settings.grace_seconds + _KILL_MARGIN)
        hurry.cancel()
        for worker in self._workers.values():
            logger.error("worker %d did not end in time: killed", worker.pid)
            self._exit_code = KILLED
            _send(worker, signal.SIGKILL)
        await ended

    async def _keep_worker(self, number: int) -> None:
        back_off, clock = BackOff(), asyncio.get_running_loop().time
        while not self._stopping.is_set():
            started = clock()
            code = await self._run_worker(number)
            if self._stopping.is_set():
                return
            if not self._served:
                logger.error("a worker ended with %s before it could serve: giving up", code)
                self._exit_code = STARTUP_FAILURE
                self._stopping.set()
                return
            delay = back_off.after(clock() - started)
            logger.error("a worker ended with %s: starting another in %.1f s", code, delay)
            await _first(self._stopped, timeout=delay)
            self._shared.count(*WORKER_RESTARTS)

    async def _run_worker(self, number: int) -> int:
        inherited = (self._listener.fileno(), self._board.descriptor)
        arguments = (*_SAFE_PATH, "-m", f"{__package__}.worker_child", *map(str, (*inherited, os.getpid(), number)))
        command, files = (sys.executable, *arguments), (*inherited, *self._shared.files.values())
        environment = _FEW_THREADS | _KEPT_MEMORY | self._shared.environment(os.environ)
        worker = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, pass_fds=files, start_new_session=True, env=environment
        )
        self._workers[number] = worker
        try:
            if self._stopping.is_set():
                _send(worker, signal.SIGTERM)
            assert worker.stdin is not None and worker.stdout is not None  # noqa: S101, PT018 - both are pipes
            worker.stdin.write(self._settings.to_json().encode())
            worker.stdin.close()
            if await worker.stdout.read(1):
                if not self._served:
                    self._served = True
                    self._on_serving()
                logger.info("worker %d serves", worker.pid)
            return await worker.wait()
        finally:
            del self._workers[number]
            self._board.forget(number)
            if not self._board.serving() and not self._stopping.is_set():
                refuse(self._listener)
            self._shared.forget_worker(number)

    async def _watch_workers(self) -> None:
        """Kill a worker whose event loop stands still; it is replaced like any that died."""
        watchdog = Watchdog(self._board, self._settings.worker_timeout_seconds)
        while not self._stopping.is_set():
            running = {number: worker.pid for number, worker in self._workers.items()}
            if (number := watchdog.stuck(running)) is not None:
                logger.error("worker %d does not answer: killed", running[number])
                _send(self._workers[number], signal.SIGKILL)
            self._shared.mend()
            await _first(self._stopped, timeout=LOOK_SECONDS)

    async def _keep_server(self, server: EmbeddedServer) -> None:
        back_off, clock = BackOff(), asyncio.get_running_loop().time
        started = clock()
        while not self._stopping.is_set():
            if (code := server.poll()) is not None:
                logger.error("the embedded store ended with %d: starting it again", code)
                lived = clock() - started
                while not self._stopping.is_set():
                    await _first(self._stopped, timeout=back_off.after(lived))
                    try:
                        server.start()
                    except EmbeddedStoreError as error:
                        logger.error("%s", error)
                        lived = 0.0
                    else:
                        self._shared.count(*STORE_RESTARTS)
                        break
                started = clock()
            await _first(self._stopped, timeout=_FIRST_DELAY)


def _send(worker: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        worker.send_signal(number)


async def _first(*futures: asyncio.Future[Any], timeout: float | None = None) -> None:  # noqa: ASYNC109 - as asyncio.wait
    await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


# -- The command line: check the settings, bind, start the embedded store if it is chosen, and run the supervisor.

CANNOT_START = 1
"""Exit code if the address or the data folder can't be used."""
BAD_SETTINGS = 2
"""Exit code for invalid settings, as for unknown flags."""

NO_KEYS = (
    "NO API KEYS, and %s is no loopback address: whoever reaches it can read, change and delete every session. "
    "Set BANDIT_API_KEYS_FILE, or keep others out by a firewall or proxy."
)


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
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard and (sys.platform != "darwin" or hard != resource.RLIM_INFINITY):  # For workers, too.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
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
