"""What is in a data folder: of which program it is, and snapshots that were put there."""

import logging
import os
import subprocess

import pytest
import redis

from service.store.embedded import BINARIES, LOADED, RECORD, SNAPSHOT, EmbeddedStoreError, Version
from tests.support.programs import REDIS, WHEEL, program


def value(server):
    with redis.Redis.from_url(server.url, protocol=2) as client:
        return client.get("key")


def write(server):
    """Write a key, stop the server, and return its folder."""
    with redis.Redis.from_url(server.url, protocol=2) as client:
        client.set("key", "value")
    server.stop()
    return server.folder


def contents(folder):
    parts = (folder / "appendonlydir").iterdir()
    return {path.name: path.read_bytes() for path in parts}


# -- Data folders that another program or another version began.


def only_in_path(folder, monkeypatch, name):
    """Let one program be found first, under a server's usual name."""
    folder.mkdir()
    (folder / BINARIES[1]).symlink_to(program(name))
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.servers(REDIS)
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "as 0.1 left it"])
def test_a_folder_is_used_with_the_program_that_began_it(started, tmp_path, monkeypatch, recorded):
    """A redis-server was installed since; it could not read the data."""
    folder = write(started(WHEEL))
    assert (folder / RECORD).read_text().startswith('{"program": "valkey"')
    if not recorded:
        (folder / RECORD).unlink()
    only_in_path(tmp_path / "bin", monkeypatch, REDIS)

    assert value(started(None)) == b"value"


@pytest.mark.servers(REDIS)
def test_a_program_that_cannot_read_the_data_is_refused_before_it_tries(started):
    folder = write(started(WHEEL))
    before = contents(folder)

    with pytest.raises(EmbeddedStoreError, match=r"written by valkey 9\.\d.*redis 7.*can't read it") as refused:
        started(REDIS)

    assert "--fix" not in str(refused.value)
    assert contents(folder) == before
    assert value(started(WHEEL)) == b"value"


@pytest.mark.servers(REDIS)
def test_what_an_older_redis_wrote_goes_on_in_valkey(started):
    folder = write(started(REDIS))

    assert value(started(WHEEL)) == b"value"
    assert "valkey" in (folder / RECORD).read_text()


def test_an_older_program_than_the_recorded_one_is_refused(started):
    (write(started()) / RECORD).write_text('{"program": "valkey", "version": [99, 1]}')

    with pytest.raises(EmbeddedStoreError, match=r"Install valkey 99\.1 or newer"):
        started()


@pytest.mark.parametrize("text", ["", "[]", '{"program": "valkey"}', '{"program": "valkey", "version": ["x"]}'])
def test_a_record_that_is_damaged_is_named(started, text):
    (write(started()) / RECORD).write_text(text)

    with pytest.raises(EmbeddedStoreError, match=r"program\.json can't be read"):
        started()


@pytest.mark.parametrize(
    ("reader", "writer", "able"),
    [
        ("redis 7.2", "redis 7.0", True),
        ("redis 7.0", "redis 7.2", False),
        ("redis 8.0", "valkey 8.1", True),
        ("redis 7.0", "valkey 8.1", False),
        ("redis 8.0", "valkey 9.0", False),
        ("valkey 8.0", "redis 7.2", True),
        ("valkey 9.1", "redis 7.4", False),
        ("valkey 9.0", "valkey 9.1", False),
        (" 0.0", "valkey 9.1", True),
    ],
)
def test_which_program_reads_what(reader, writer, able):
    assert version(reader).can_read(version(writer)) is able


def version(text):
    name, _, numbers = text.partition(" ")
    return Version(name, *map(int, numbers.split(".")))


# -- Data folders that hold a restored snapshot, or that a power failure or a kill left.


def restored(folder):
    """Leave nothing but a snapshot in a folder, as a restored backup does."""
    words = ["--port", "0", "--dir", str(folder), "--unixsocket", str(folder / "s"), "--save", ""]
    process = subprocess.Popen([program(WHEEL), *words], stdout=subprocess.DEVNULL)
    with redis.Redis(unix_socket_path=str(folder / "s"), protocol=2) as client:
        while not (folder / "s").exists():
            assert process.poll() is None
        client.set("key", "value")
        client.save()
    process.kill()
    process.wait()


def test_a_lone_snapshot_is_loaded_and_kept(started, tmp_path, caplog):
    folder = tmp_path / "data"
    folder.mkdir()
    restored(folder)
    with caplog.at_level(logging.WARNING):
        server = started()

    assert value(server) == b"value"
    assert "loading the snapshot dump.rdb" in caplog.text
    assert (folder / LOADED).exists()
    assert not (folder / SNAPSHOT).exists()
    server.stop()
    assert value(started()) == b"value"


def test_a_snapshot_that_cannot_be_loaded_is_refused_and_left_alone(started, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / SNAPSHOT).write_bytes(b"VALKEY080 damaged")

    for _ in range(2):
        with pytest.raises(EmbeddedStoreError):
            started()

    assert (folder / SNAPSHOT).read_bytes() == b"VALKEY080 damaged"
    assert not (folder / RECORD).exists()


def test_a_snapshot_beside_an_append_only_file_is_said_to_be_unread(started, caplog):
    (write(started()) / SNAPSHOT).write_bytes(b"old")

    assert value(started()) == b"value"
    assert "dump.rdb is not read" in caplog.text


def test_parts_without_their_manifest_are_refused(started):
    (write(started()) / "appendonlydir" / "appendonly.aof.manifest").unlink()

    with pytest.raises(EmbeddedStoreError, match="no manifest"):
        started()


def test_a_folder_whose_data_was_moved_away_is_said_to_be_empty(started, caplog):
    folder = write(started())
    assert "starting empty" not in caplog.text
    (folder / "appendonlydir").rename(folder / "appendonlydir.bak")

    assert value(started()) is None
    assert "has no data any more, though valkey" in caplog.text


@pytest.mark.parametrize("zeros", [1, 4096, 200_000])
def test_zero_bytes_at_the_end_are_cut_off(started, caplog, zeros):
    (path,) = (write(started()) / "appendonlydir").glob("*.incr.aof")
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(zeros))

    assert value(started()) == b"value"
    assert f"cut {zeros} zero bytes" in caplog.text
    assert path.read_bytes().startswith(whole)


def test_a_damaged_file_is_refused_without_advice_that_destroys_data(started):
    (path,) = (write(started()) / "appendonlydir").glob("*.incr.aof")
    path.write_bytes(b"nonsense\r\n" + path.read_bytes())

    with pytest.raises(EmbeddedStoreError, match="copy the whole folder first") as refused:
        started()

    assert "--fix" not in str(refused.value)


def test_what_a_killed_server_had_begun_to_write_is_deleted(started):
    folder = write(started())
    for left in (folder / "temp-123.rdb", folder / "appendonlydir" / "temp-rewriteaof-9.aof"):
        left.write_bytes(b"begun")

    assert value(started()) == b"value"
    assert not [name for _, _, names in os.walk(folder) for name in names if name.startswith("temp-")]
