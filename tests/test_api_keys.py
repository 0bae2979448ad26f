"""API keys as the settings give them, and how they are kept."""

import json
import os
from contextlib import suppress

import pytest

from service.api_keys import MAX_KEYS, KeyRing, find, read_keys
from service.errors import RateLimitedError
from service.server.pool import API_KEYS, Board
from service.settings import SecretText, Settings, SettingsError
from tests.support.api_keys import KEYS, SHOP, settings


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("secret", "list: not valid JSON"),
        ("{}", "list: Input should be a valid list"),
        ("[" * 100_000, "list: not valid JSON"),
        ("9" * 10_000, "list: not valid JSON"),
        ('[{"name": "a", "role": "client", "role": "admin", "key": "secretsecretsecret"}]', "named twice"),
        ('[{"name": "a", "role": "admin", "key": "secretsecretsecret", "key": "secret"}]', "named twice"),
        ('[{"name": "a", "n\\u0061me": "b", "role": "admin", "key": "secretsecretsecret"}]', "named twice"),
        ([], "no keys"),
        ([{"name": "a", "role": "admin", "key": "secret"}], "16 to 512"),
        ([{"name": "a", "role": "admin", "key": "secret " * 4}], "no space"),
        ([{"name": "a", "role": "admin", "key": "secret" * 4, "sha256": "0" * 64}], "not both"),
        ([{"name": "a", "role": "admin", "sha256": "secret"}], "0.sha256: "),
        ([{"name": "a", "role": "admin"}], "0.sha256: Field required"),
        ([{"name": "a", "role": "secret", "key": "secret" * 4}], "0.role: "),
        ([{"name": "a\n", "role": "admin", "key": "secret" * 4}], "0.name: "),
        ([{"name": "a", "role": "admin", "key": "secret" * 4, "session_prefix": "*"}], "0.session_prefix: "),
        ([{"name": "a", "role": "admin", "key": "secret" * 4, "max_arms": "4"}], "0.max_arms: "),
        *(
            ([{"name": "a", "role": "admin", "key": "secret" * 4, "requests_per_second": rate}], "0.requests_per_")
            for rate in (0, -1, 1.5, "5", True)
        ),
        ([{"name": "a", "role": "admin", "key": f"secret{n}" * 4} for n in (1, 2)], "same name"),
        ([{"name": n, "role": "admin", "key": "secret" * 4} for n in "ab"], "same secret"),
    ],
)
def test_keys_that_make_no_sense_are_refused_without_being_shown(keys, message):
    with pytest.raises(SettingsError) as error:
        read_keys(settings(keys))

    assert message in str(error.value)
    assert "secret" not in str(error.value).replace("same secret", "")
    assert "secret" not in repr(settings(keys))


def test_keys_come_from_a_file_or_a_text(tmp_path):
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS))

    assert read_keys(Settings(api_keys_file=file)) == read_keys(settings(KEYS))
    assert read_keys(Settings()) == ()
    with pytest.raises(SettingsError, match="give one of them"):
        read_keys(Settings(api_keys_file=file, api_keys=SecretText("[]")))
    with pytest.raises(SettingsError, match="can't be read"):
        read_keys(Settings(api_keys_file=tmp_path / "missing"))


def test_only_the_hash_is_kept():
    keys = read_keys(settings(KEYS))

    assert find(SHOP.encode(), keys).name == "shop"
    assert find(b"", keys) is None
    assert "0123456789abcdef" not in repr(keys)


def test_an_empty_text_is_no_key():
    assert read_keys(settings("")) == ()


@pytest.mark.parametrize("rate", [1, 3, 7, 1000, 10**12])
def test_workers_share_the_bucket_of_a_key(rate):
    """Whoever asks always gets the rate, and at once what the bucket holds: the requests of a second."""
    board, now = Board.create(3), 1e6
    given = settings([*KEYS, {"name": "a", "role": "client", "key": "a" * 16, "requests_per_second": rate}])
    workers = [KeyRing(given, Board(os.dup(board.descriptor), 3).full_at, lambda: now) for _ in range(3)]

    def taken(seconds, asked):
        nonlocal now
        count = 0
        for n in range(asked):
            ring = workers[n % 3]
            with suppress(RateLimitedError):
                ring.take(ring.keys[-1])
                count += 1
            now += seconds / asked
        return count

    assert API_KEYS == MAX_KEYS
    assert taken(0, 2000) == min(rate, 2000)
    now += 2
    most = min(11 * rate, 11_000)
    assert 0.9 * most <= taken(10, 11_000) <= most
    assert KeyRing(given, None, lambda: now).take(workers[0].keys[0]) is None
