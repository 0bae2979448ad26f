"""Settings that make no sense are refused without the password that stands in them."""

from __future__ import annotations

import subprocess
import sys
from itertools import cycle

import pytest

from tests.support.guarded_stores import shows
from tests.support.running import RunningService
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes
SPELLINGS = [
    "redis://shopper:pEar/plUm@127.0.0.1:1/0",
    "redis://shopper:1/plUm@127.0.0.1:1/0",
    "redis://shopper:1#plUm@127.0.0.1:1/0",
    "redis://shopper:1?plUm@127.0.0.1:1/0",
    "redis://shopper:pEar plUm@127.0.0.1:port/0",
    "redis://shopper:pEar@plUm@[127.0.0.1:1/0",
    "redis://127.0.0.1:1/0?password=pEar@plUm",
    "redis://127.0.0.1:1/0?passwort=pEar",
    "redis://127.0.0.1:1/0?db=pEar",
    "redis://127.0.0.1:1/pEar",
    "unix://shopper:1/plUm@/tmp/none.sock",
    "unix://pEar/tmp/none.sock",
    "rediss://shopper:pEar@127.0.0.1:1/0?ssl_ca_certs=/none/plUm.pem",
    "rediss://127.0.0.1:1/0?ssl_pEar=plUm",
    "redis+sentinel://shopper:pEar@127.0.0.1:1",
    "redis+sentinel://shopper:1/plUm@127.0.0.1:1",
    "redis+sentinel://shopper:1/plUm@127.0.0.1:1/main",
    "redis+sentinel://shopper:pEar@127.0.0.1:plUm/main",
    "rediss+sentinel://shopper:pEar@/main",
    "redis+cluster://shopper:pEar@127.0.0.1:1/0",
    "redis+cluster://shopper:1/plUm@127.0.0.1:1",
    "rediss+cluster://shopper:pEar@127.0.0.1:1?ssl_cert_reqs=plUm",
    "postgres://shopper:pEar@127.0.0.1",
    "shopper:pEar@127.0.0.1",
    "embedded:pEar",
    "memory://pEar",
]


@pytest.mark.parametrize(("url", "way"), list(zip(SPELLINGS, cycle(["variable", "flag"]), strict=False)))
def test_an_url_that_makes_no_sense_is_a_bad_setting_that_is_not_shown(tmp_path, url, way):
    words = ("--store-url", url) if way == "flag" else ()
    variables = {"BANDIT_STORE_URL": url} if way == "variable" else {}
    with RunningService(tmp_path, *words, environment=variables) as service:
        wait_until(lambda: service.process.poll() is not None or "listening" in service.text())

        assert service.process.poll() == 2, service.text()
        assert "--store-url" in service.text()
        assert shows(service.text()) == []


@pytest.mark.quick
@pytest.mark.parametrize(
    "words",
    [
        ("--store-ulr", "redis://shopper:pEar@127.0.0.1"),
        ("--store-ulr=redis://shopper:pEar@127.0.0.1",),
        ("redis://shopper:pEar@127.0.0.1",),
        ("--store-url", "redis://shopper:pEar@127.0.0.1", "--port", "redis://shopper:plUm@127.0.0.1"),
        ("--store-url", "redis://shopper:pEar@127.0.0.1", "--store-url", "redis://shopper:plUm@127.0.0.1:port"),
        ("--log-level", "redis://shopper:pEar@127.0.0.1"),
        ("--workers", "redis://shopper:pEar@127.0.0.1"),
    ],
)
def test_a_flag_that_makes_no_sense_is_not_shown_with_its_value(words):
    command = [sys.executable, "-m", "service", "--port", "0", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "--" in ended.stderr
    assert shows(ended.stderr + ended.stdout) == []
