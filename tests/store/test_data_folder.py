"""Data folders that another program or another version began."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.store.embedded_programs import BINARIES, RECORD, EmbeddedStoreError, Version
from tests.support.data_folders import Started, contents, value, write
from tests.support.programs import REDIS, WHEEL, program


def only_in_path(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let one program be found first, under a server's usual name."""
    folder.mkdir()
    (folder / BINARIES[1]).symlink_to(program(name))
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.servers(REDIS)
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "as 0.1 left it"])
def test_a_folder_is_used_with_the_program_that_began_it(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """A redis-server was installed since; it could not read the data."""
    folder = write(started(WHEEL))
    assert (folder / RECORD).read_text().startswith('{"program": "valkey"')
    if not recorded:
        (folder / RECORD).unlink()
    only_in_path(tmp_path / "bin", monkeypatch, REDIS)

    assert value(started(None)) == b"value"


@pytest.mark.servers(REDIS)
def test_a_program_that_cannot_read_the_data_is_refused_before_it_tries(started: Started) -> None:
    folder = write(started(WHEEL))
    before = contents(folder)

    with pytest.raises(EmbeddedStoreError, match=r"written by valkey 9\.\d.*redis 7.*can't read it") as refused:
        started(REDIS)

    assert "--fix" not in str(refused.value)
    assert contents(folder) == before
    assert value(started(WHEEL)) == b"value"


@pytest.mark.servers(REDIS)
def test_what_an_older_redis_wrote_goes_on_in_valkey(started: Started) -> None:
    folder = write(started(REDIS))

    assert value(started(WHEEL)) == b"value"
    assert "valkey" in (folder / RECORD).read_text()


def test_an_older_program_than_the_recorded_one_is_refused(started: Started) -> None:
    folder = write(started())
    (folder / RECORD).write_text('{"program": "valkey", "version": [99, 1]}')

    with pytest.raises(EmbeddedStoreError, match=r"Install valkey 99\.1 or newer"):
        started()


@pytest.mark.parametrize("text", ["", "[]", '{"program": "valkey"}', '{"program": "valkey", "version": ["x"]}'])
def test_a_record_that_is_damaged_is_named(started: Started, text: str) -> None:
    folder = write(started())
    (folder / RECORD).write_text(text)

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
def test_which_program_reads_what(reader: str, writer: str, able: bool) -> None:
    assert version(reader).can_read(version(writer)) is able


def version(text: str) -> Version:
    name, _, numbers = text.partition(" ")
    return Version(name, *map(int, numbers.split(".")))
