"""What an operator can set: flags take precedence over variables (``BANDIT_*``), and these over defaults.

Workers get the settings from their parent process: what reads them (``command_line``) is imported by that alone.
"""

import ipaddress
import json
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Secret

from . import decoded

# -- What is wrong with settings, in words that never show a value.


class SettingsError(Exception):
    """A setting has a bad value; the text names the setting and never shows the value."""


def named(setting: str) -> str:
    """Return a setting by its flag and its variable, as errors name it."""
    return f"--{setting.replace('_', '-')} (BANDIT_{setting.upper()})"


# -- Types of settings, and what their values must be.


class StoreUrl(Secret[str]):
    """A store's URL that prints without user, password and options; ``get_secret_value()`` returns it in full."""

    def _display(self) -> str:
        return hide_password(self.get_secret_value())

    @property
    def scheme(self) -> str:
        """What stands before the colon, such as ``embedded``."""
        return self.get_secret_value().partition(":")[0]


class SecretText(Secret[str]):
    """A text that never prints."""

    def _display(self) -> str:
        return "***"


def hide_password(url: str) -> str:
    """Return a store URL as logs may show it.

    Of one with a stray ``@``, which may hide a password, that is the scheme alone.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return f"{url.partition(':')[0]}:{'***' if url.partition(':')[2] else ''}"
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest.removeprefix(authority)
    if "@" in behind:
        return f"{scheme}://***"
    path = re.split(r"[?#]", behind, maxsplit=1)[0]
    secret, _, hosts = authority.rpartition("@")
    return f"{scheme}://{'***@' if secret else ''}{hosts}{path}"


def has_scheme(url: StoreUrl) -> StoreUrl:
    """Check that a URL says which kind of store it is of."""
    if url.get_secret_value() != "embedded:" and "://" not in url.get_secret_value():
        raise ValueError("must be embedded:, memory:// or the URL of a Redis")
    return url


def hosts(text: str) -> str:
    """Check hosts without ports, separated by commas."""
    return _checked_list(text, r"[\w.-]+|[0-9a-f:.]*:[0-9a-f:.]*|\[[0-9a-f:.]+\]", "hosts without ports")


def origins(text: str) -> str:
    """Check origins of pages, separated by commas, as browsers write them: without the usual port."""
    return _checked_list(text, r"http(?!s.*:443$|:.*:80$)s?://[^/?#@,\s]+", "origins, such as https://shop.example")


def networks(text: str) -> str:
    """Check IP addresses and networks, separated by commas."""
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError("must be IP addresses and networks, separated by commas") from None
    return text


def _checked_list(text: str, pattern: str, what: str) -> str:
    known = re.compile(pattern, re.ASCII | re.IGNORECASE)
    if all(known.fullmatch(each.strip()) for each in text.split(",") if each.strip() not in {"", "*"}):
        return text
    raise ValueError(f"must be {what}, separated by commas")


Count = Annotated[int, Field(ge=1, le=2**53 - 1)]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


# -- The settings, with their bounds, defaults and descriptions.


class Settings(BaseModel):
    """The settings of one service, the same in all its processes; ``read_settings`` finds what was given."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    store_url: Annotated[StoreUrl, AfterValidator(has_scheme)] = StoreUrl("embedded:")
    """Where sessions are stored: `embedded:` (the service starts a server that stores them in the data folder),
    `memory://` (one process; lost when it ends), `redis://`, `unix://` (a Redis socket),
    `redis+sentinel://host:port,host:port/service/db` or `redis+cluster://host:port,host:port`; with TLS
    `rediss://`, `rediss+sentinel://` or `rediss+cluster://`, where `?ssl_ca_certs=FILE` names your certificate
    authority."""
    store_url_file: Path | None = None
    """File with the store's URL, instead of the URL itself, for a URL with a password."""
    store_password_file: Path | None = None
    """File with the password of the store's user; the URL then has none."""
    data_dir: Path = Path("bandit-data")
    """Folder of the embedded store."""
    appendfsync: Literal["always", "everysec"] = "always"
    """When the embedded store writes its log to disk: before each answer, or within two seconds."""
    key_prefix: str = Field("bandit", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Prefix of every key in the store."""
    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 chooses a free one."""
    root_path: str | None = Field(None, pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path prefix that a proxy in front removes, such as `/bandit`; it is in the OpenAPI document."""
    workers: int = Field(1, ge=1, le=256)
    """Number of processes that serve requests."""
    worker_timeout_seconds: float = Field(10, ge=2, le=1e9, allow_inf_nan=False)
    """A worker is killed and replaced if its event loop has not run for this time."""
    max_connections: Count = 4096
    """Largest number of connections of clients to one worker; fewer where the limit of open files is low. Some more
    are held for health checks."""
    api_keys_file: Path | None = None
    """JSON file with the API keys. It is read again when it changes. Without API keys everybody may do
    everything."""
    api_keys: SecretText | None = None
    """The API keys as JSON text instead of a file; an empty text means none."""
    open_metrics: bool = False
    """Whether `/metrics` is served without an API key."""
    open_docs: bool = False
    """Whether `/docs` and `/openapi.json` are served without an API key."""
    allowed_hosts: Annotated[str, AfterValidator(hosts)] = ""
    """Without API keys: hosts that requests may name in addition to local ones, separated by commas, without ports;
    `*` for all."""
    allowed_origins: Annotated[str, AfterValidator(origins)] = ""
    """Origins of pages, such as `https://shop.example`, that may read the answers of `POST /v1/clicks`, and send it
    JSON; separated by commas, `*` for all. Clicks of other pages count too."""
    token_keys_file: Path | None = None
    """File with the keys of tokens, one a line, of 32 or more printable ASCII characters. The first signs, all
    verify. It is read again when it changes. Without it the store makes a key."""
    clicks_per_second: int = Field(50, ge=0, le=2**53 - 1)
    """Largest number of tokens that one client address may post to `/v1/clicks` in a second, in each worker; 0: no
    limit."""
    trusted_proxies: Annotated[str, AfterValidator(networks)] = ""
    """Addresses and networks of proxies, separated by commas, such as `127.0.0.1,10.0.0.0/8`. From them
    `X-Forwarded-For` names the client in log lines, and `X-Forwarded-Proto` the scheme in traces."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    log_sample: float = Field(0.01, ge=0, le=1)
    """Share of successful acts, feedback, views, health checks and scrapes that is logged, 0 to 1. The same share
    of `/readyz` answers is logged while they repeat the answer before. All other requests and errors are logged."""
    log_clients: bool = True
    """Whether log lines name the address of the client."""
    drain_seconds: float = Field(0, ge=0, le=1e9, allow_inf_nan=False)
    """Time for which a service that is told to stop still serves while `/readyz` answers 503, so that load
    balancers stop sending it requests."""
    grace_seconds: Seconds = 20
    """How long a stop waits for accepted requests."""
    keep_alive_seconds: Seconds = 75
    """How long an idle connection stays open. It must exceed the idle time of a load balancer."""
    retry_after_seconds: int = Field(1, ge=1, le=10**9)
    """Value of `Retry-After` in a 503."""
    dedupe_window_seconds: int = Field(86_400, ge=1, le=10**9)
    """How long event ids and idempotency keys are remembered."""
    store_timeout_seconds: Seconds = 5
    """Time limit of one call to the store."""
    store_budget_seconds: Seconds = 3
    """How long a commit is tried again before the answer is 503."""
    store_connections: Count = 32
    """Largest number of connections from one worker to the store, at least two. Most calls share one connection;
    calls that wait for replicas, and large calls, each use a separate one. Up to 32 calls for each connection may
    be under way."""
    min_replicas: int = Field(0, ge=0, le=100)
    """Number of Redis replicas that must have a commit before it is acknowledged; with fewer the answer is 503."""
    cache_sessions: Count = 16_384
    """Sessions that a worker keeps in memory, in 128 MiB at most."""
    dashboard: bool = True
    """Whether browsers get the dashboard at `/`; else the documentation."""
    history: bool = True
    """Whether the service keeps samples of each session, for `GET /v1/sessions/{id}/history`."""
    max_queue: Count = 1000
    """Largest number of requests of one session that wait in a worker."""
    max_waiting: Count = 10_000
    """Largest number of requests of all sessions that wait in a worker."""
    max_wait_seconds: Seconds = 5
    """Time after which a call that still waits for its session is not done, and answered with 503."""
    max_acts: Count = 1000
    """Largest `count` of one `acts` call."""
    max_act_cells: Count = 1_000_000
    """Largest product of acts and arms in one call; over points, of acts and squared dimension."""
    max_events: Count = 10_000
    """Largest number of events in one call."""
    max_arms: Count = 100_000
    """Largest number of arms of a session."""
    max_arms_ever: Count | None = None
    """Largest number of arms that a session may have had in its life, removed ones included; `None`: ten times what
    it may have at once."""
    max_arms_centred: Count = 10_000
    """Largest number of arms of a Tsallis session."""
    max_feature_cells: Count = 131_072
    """Largest arms times d (d + 3) of a session whose features have d columns: 8 bytes each are kept of it."""
    max_dim: Count = 1000
    """Largest number of dimensions of a session over points."""
    max_label_bytes: int = Field(128, ge=1, le=65_536)
    """Longest arm label, in bytes of UTF-8."""
    max_body_bytes: Count = 2_000_000
    """Largest request body, in bytes."""
    max_import_bytes: Count = 200_000_000
    """Largest exported session, in bytes."""
    body_timeout_seconds: Seconds = 10
    """Time limit for the headers of a request to arrive, and again for its body."""

    def to_json(self) -> str:
        """Return all of it as JSON, secrets included, for a worker's ``Settings(**json.loads(text))``."""
        keys = None if self.api_keys is None else self.api_keys.get_secret_value()
        secrets = {"store_url": self.store_url.get_secret_value(), "api_keys": keys}
        return json.dumps(self.model_dump(mode="json") | secrets)


# -- Secrets that stand in files, such as those that Docker and Kubernetes mount, and not in the environment.


def read_secret(file: Path) -> str:
    """Return the text of a file without the line break at its end.

    Raises
    ------
    ValueError
        where it can't be read, is no UTF-8 or is empty; the text shows nothing of it.
    """
    try:
        text = decoded(file.read_bytes())
    except OSError as error:
        raise ValueError(f"can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("can't be read: not UTF-8") from None
    if not (secret := text.rstrip("\r\n")):
        raise ValueError("is empty")
    return secret


def file_state(file: Path) -> tuple[int, ...]:
    """Return what changes with a file, also with one behind a link; nothing for one that can't be seen."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def with_password(url: str, password: str) -> str:
    """Put a password into a store URL, with its special characters encoded.

    Parameters
    ----------
    url : of the store, with a user or without, and no password
    password : as it is, without encoding

    Raises
    ------
    ValueError
        where the URL has a password already, or can have none.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme == "memory":
        raise ValueError("this store has no password")
    authority, slash, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    if ":" in user:
        raise ValueError("the store URL has a password already")
    return f"{scheme}://{user if at else ''}:{quote(password, safe='')}@{hosts}{slash}{path}"
