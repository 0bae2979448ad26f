"""API keys that change while the service runs."""

import asyncio
import json
import os
import signal

import httpx
import pytest

from service import api_keys
from service.settings import Settings
from tests.support.http import http_client
from tests.support.running import RunningService
from tests.support.waiting import SECONDS, wait_until

OLD, NEW = "old-0123456789abcdef", "new-0123456789abcdef"


def keys(*secrets):
    return json.dumps([{"name": secret[:3], "role": "admin", "key": secret} for secret in secrets])


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(keys(OLD))
    return file


def replace(file, text):
    """As editors and orchestrators do: another file under the same name."""
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


async def status(client, key):
    return (await client.get("/v1/sessions", headers={"X-API-Key": key})).status_code


@pytest.fixture
def _looks_often(monkeypatch):
    monkeypatch.setattr(api_keys, "WATCH_SECONDS", 0.001)


async def eventually(condition):
    async with asyncio.timeout(SECONDS):
        while not await condition():  # noqa: ASYNC110 - of processes and files
            await asyncio.sleep(0.001)


@pytest.mark.usefixtures("_looks_often")
async def test_a_changed_file_is_read_again(make_client, file):
    client = await make_client(api_keys_file=file)
    assert [await status(client, key) for key in (OLD, NEW)] == [200, 401]

    replace(file, keys(OLD, NEW))
    await eventually(lambda: _is(client, NEW, 200))
    assert await status(client, OLD) == 200

    replace(file, keys(NEW))
    await eventually(lambda: _is(client, OLD, 401))
    assert await status(client, NEW) == 200


async def _is(client, key, expected):
    return await status(client, key) == expected


@pytest.mark.usefixtures("_looks_often")
@pytest.mark.parametrize("text", ["", "[]", "{", '[{"name": "a", "role": "king", "key": "secretsecretsecret"}]'])
async def test_a_file_that_cant_be_used_changes_nothing(make_client, file, caplog, text):
    client = await make_client(api_keys_file=file)
    replace(file, text)

    async def said():
        assert await status(client, OLD) == 200
        return "the API keys stay as they were: --api-keys-file" in caplog.text

    await eventually(said)
    assert "secretsecret" not in caplog.text

    replace(file, keys(NEW))
    await eventually(lambda: _is(client, NEW, 200))


@pytest.mark.usefixtures("_looks_often")
async def test_a_file_that_is_removed_changes_nothing(make_client, file, caplog):
    client = await make_client(api_keys_file=file)
    file.unlink()

    async def said():
        return await status(client, OLD) == 200 and "can't be read" in caplog.text

    await eventually(said)
    assert caplog.text.count("can't be read") == 1


async def test_a_worker_that_cant_read_the_file_accepts_no_key(make_client, tmp_path):
    """It may have begun with keys that were taken out of the file since."""
    client = await make_client(api_keys_file=tmp_path / "missing")

    assert await status(client, OLD) == 401
    assert (await client.get("/livez")).status_code == 200


def test_keys_given_as_text_are_not_read_again():
    ring = api_keys.KeyRing(Settings())
    ring.read_again()

    assert ring.keys == ()


@pytest.mark.processes
@pytest.mark.parametrize("how", ["signal", "change"])
def test_every_worker_takes_the_new_keys(tmp_path, file, how):
    flags = ("--workers", "3", "--api-keys-file", str(file))
    with RunningService(tmp_path, *flags) as service:
        service.wait_serving(3)
        assert statuses(service, OLD) == {200}
        kept = file.stat()
        file.write_text(keys(NEW))
        if how == "signal":
            os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: (statuses(service, NEW), statuses(service, OLD)) == ({200}, {401}))

        service.process.send_signal(signal.SIGHUP)
        for pid in service.workers(3):
            os.kill(pid, signal.SIGKILL)
        service.wait_serving(6)
        wait_until(lambda: statuses(service, NEW) == {200})
        assert statuses(service, OLD) == {401}
        assert service.stop() == 0, service.text()
    assert OLD not in service.text()
    assert NEW not in service.text()


def statuses(service, key):
    """Of so many fresh connections that each worker has some; none where a connection fails."""
    found = set()
    for _ in range(24):
        with http_client(service.url) as client:
            try:
                found.add(client.get("/v1/sessions", headers={"X-API-Key": key}).status_code)
            except httpx.TransportError:
                return set()
    return found
