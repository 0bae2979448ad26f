"""Tokens as texts, and the keys that sign them."""

import asyncio
import hmac
import re

import pytest

from service.errors import StoreUnavailableError
from service.server.supervisor import main
from service.settings import SettingsError
from service.store.memory import MemoryStore
from service.store.redis.client import slot_of
from service.store.redis.scripts import Keys
from service.tokens import SessionTokens, TokenKey, TokenKeys, read, read_token_keys
from tests.support.waiting import until

KEYS = [f"{name}{'-' * 40}" for name in "abc"]


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"\n{KEYS[0]}\r\n  \n{KEYS[1]}\n")
    return file


@pytest.fixture
def keys(file):
    return TokenKeys(file, MemoryStore().token_key)


@pytest.mark.parametrize(
    "said",
    [
        (1, 0, "", 0.0, 0, b""),
        (2**49 - 1, 10**6, "x" * 128, 1e9 + 0.25, 0, b""),
        (300, 255, "é" * 64, 1e12, 15, b"\0" * 300),
    ],
)
def test_what_is_signed_is_read_again(keys, said):
    slot, arm, segment, at, group, tail = said
    tokens = SessionTokens(keys, "s" * 128, 1.5)
    token = tokens.opened(tokens.sign(slot, arm, segment, at, group, tail))

    assert (token.session_id, token.slot, token.arm, token.segment) == ("s" * 128, slot, arm, segment)
    assert (token.group, token.tail) == (group, tail)
    assert at - 1 / 64 < token.at <= at or at == 1e12 > token.at > 1e10


@pytest.mark.parametrize("key", [b"k" * 32, b"k" * 64, b"k" * 65, b"k" * 500])
def test_the_signature_is_the_standard_one(key):
    assert TokenKey(key).mac(b"said") == hmac.digest(key, b"said", "sha256")[:16]


def test_tokens_are_short(keys):
    """Longest ids and segments, and more slots and arms than there will ever be."""
    short = SessionTokens(keys, "s" * 40, 1.5).sign(2**49 - 1, 10**6, "x" * 40, 2e9)
    longest = SessionTokens(keys, "s" * 128, 1.5).sign(2**49 - 1, 10**6, "x" * 128, 2e9)

    assert len(short) <= 200
    assert len(longest) <= 400
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", longest)


def test_every_changed_character_is_refused(keys):
    tokens = SessionTokens(keys, "shop", 1.5)
    token = tokens.sign(7, 2, "de", 1e9)
    changed = [(place, other) for place, own in enumerate(token) for other in {"A", "B", "_", "."} - {own}]
    others = [token[:place] + other + token[place + 1 :] for place, other in changed]

    assert tokens.opened(token) is not None
    assert [text for text in others if tokens.opened(text) is not None] == []
    assert [t for t in (token[:-1], token + "A", token + "=", f" {token}", "", ".") if tokens.opened(t)] == []


def test_a_tail_has_its_length(keys):
    said, mac = SessionTokens(keys, "shop", 1.5).sign(7, 2, "", 1e9, tail=b"abc").split(".")

    assert read(f"{said}.{mac}") is not None
    assert read(f"{said[:-4]}.{mac}") is None


def test_tokens_are_of_one_session_and_making(keys):
    token = SessionTokens(keys, "shop", 1.5).sign(7, 2, "", 1e9)

    assert SessionTokens(keys, "shop", 1.5 + 1e-8).opened(token)  # As one store or another writes it.
    assert SessionTokens(keys, "shop", 1.5001).opened(token) is None
    assert SessionTokens(keys, "shop2", 1.5).opened(token) is None


def test_the_first_key_of_a_file_signs_and_all_verify(file, keys):
    before = SessionTokens(keys, "shop", 1.5).sign(7, 2, "", 1e9)
    file.write_text(f"{KEYS[2]}\n{KEYS[0]}")
    keys.read_again()
    now = SessionTokens(keys, "shop", 1.5)

    assert now.opened(before)
    assert now.opened(now.sign(7, 2, "", 1e9))
    assert now.sign(7, 2, "", 1e9) != before
    file.write_text(KEYS[2])
    keys.read_again()
    assert now.opened(before) is None


@pytest.mark.parametrize("text", ["", "\n \n", "short", f"{KEYS[0]}\nshort", f"{KEYS[0]}é", f"{KEYS[0]}\t"])
async def test_a_wrong_file_leaves_the_keys(file, keys, text, caplog):
    token = SessionTokens(keys, "shop", 1.5).sign(7, 2, "", 1e9)
    file.write_text(text)
    keys.read_again()

    assert SessionTokens(keys, "shop", 1.5).opened(token)
    assert "the keys of tokens stay as they were" in caplog.text
    assert KEYS[0] not in caplog.text
    with pytest.raises(SettingsError):
        read_token_keys(file)
    with pytest.raises(StoreUnavailableError):
        await TokenKeys(file, MemoryStore().token_key).of("shop", 1.5)


def test_a_wrong_file_ends_the_start(file, capsys, no_settings_from_outside):
    file.write_text("short")

    assert main(["--token-keys-file", str(file), "--store-url", "memory://"]) == 2
    assert "32 or more printable ASCII" in capsys.readouterr().err


async def test_a_changed_file_is_read_again(file, keys, monkeypatch):
    monkeypatch.setattr("service.tokens.WATCH_SECONDS", 0.001)
    before = keys.all[0]
    watching = asyncio.create_task(keys.watch())
    file.write_text(KEYS[2] * 2)

    async def is_read() -> bool:
        await asyncio.sleep(0)
        return keys.all[0] != before

    await until(is_read)
    watching.cancel()


async def test_the_store_makes_a_key_for_all_workers(store):
    one, other = TokenKeys(None, store.token_key), TokenKeys(None, store.token_key)
    token = (await one.of("shop", 1.5)).sign(7, 2, "", 1e9)

    assert (await other.of("shop", 1.5)).opened(token)
    assert one.all[0].id == other.all[0].id


async def test_workers_agree_again_when_the_store_has_lost_its_key(monkeypatch):
    monkeypatch.setattr("service.tokens.WATCH_SECONDS", 0.001)
    replies: list[object] = [b"a" * 40, StoreUnavailableError("down"), b"b" * 40, b"b" * 40]
    offered = list[bytes]()

    async def kept(new: bytes) -> bytes:
        offered.append(new)
        if isinstance(reply := replies.pop(0) if len(replies) > 1 else replies[0], Exception):
            raise reply
        return reply

    keys = TokenKeys(None, kept)
    watching = asyncio.create_task(keys.watch())
    before = await keys.of("shop", 1.5)
    token = before.sign(7, 2, "", 1e9)

    async def is_offered() -> bool:
        await asyncio.sleep(0)
        return len(offered) >= 5

    await until(is_offered)
    watching.cancel()
    assert offered[1:5] == [b"a" * 40, b"a" * 40, b"b" * 40, b"b" * 40]
    assert [key.key for key in keys.all] == [b"b" * 40, b"a" * 40]
    assert before.opened(token)


def test_a_cluster_has_the_key_and_its_probe_in_one_slot():
    assert len({slot_of(key) for key in Keys("bandit", 60).of_tokens}) == 1
