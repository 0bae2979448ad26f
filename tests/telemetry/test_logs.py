"""Logs: one JSON line per record, bounded, escaped, without passwords."""

import json
import logging
import subprocess
import sys
import time

import pytest

from service.telemetry.logs import MAX_CHARS, JsonLines, hide_passwords


def line(message, *args, exc_info=None):
    record = logging.LogRecord("service", logging.ERROR, __file__, 1, message, args, exc_info)
    return JsonLines().format(record)


def logged_by(program):
    """The lines that a program logs about what nobody catches, checked for the password."""
    program = f"from service.telemetry import logs\nlogs.configure('info')\n{program}"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "hunter22" not in ended.stderr
    return [json.loads(line) for line in ended.stderr.splitlines()]


def test_a_record_is_one_line_of_json():
    shown = json.loads(line("slot %d\nforged\u202e", 17))

    assert (shown["message"], shown["level"]) == ("slot 17\nforged\u202e", "error")
    assert shown["time"].endswith("+00:00")
    assert "\n" not in line("slot\n17")
    assert line("forged\u202e").isascii()


def test_a_long_message_is_cut():
    assert len(line("x" * 10 * MAX_CHARS)) < MAX_CHARS + 500


@pytest.mark.parametrize("password", ["hunter2", "hunt@er22", "hunt/er22", "hunt:er22", "hunt#er22", "hunt%40er22"])
def test_passwords_of_urls_are_hidden(password):
    url = f"redis://user:{password}@host:6379/0"
    try:
        raise RuntimeError(f"no answer from {url}")
    except RuntimeError:
        shown = line("tried %s twice", url, exc_info=sys.exc_info())

    assert password[-4:] not in shown
    assert "tried redis://***@host:6379/0 twice" in shown
    assert "RuntimeError: no answer from redis://***@host:6379/0" in shown


def test_what_nobody_catches_is_logged_without_passwords():
    (line,) = logged_by("raise RuntimeError('redis://user:hunter22@host is odd')")

    assert line["message"] == "uncaught"
    assert "redis://***@host is odd" in line["exception"]


def test_what_is_ignored_elsewhere_is_logged_too_without_passwords():
    lines = logged_by("""
import threading, warnings
class Odd:
    def __del__(self):
        raise RuntimeError("redis://user:hunter22@host is odd in a finalizer")
Odd()
thread = threading.Thread(target=lambda: open("redis://user:hunter22@host, in a thread"))
thread.start()
thread.join()
warnings.warn("redis://user:hunter22@host is odd, a warning")
""")

    assert [line["message"] for line in lines[:2]] == ["uncaught", "uncaught"]
    assert [line["logger"] for line in lines] == ["service", "service", "py.warnings"]
    assert json.dumps(lines).count("redis://***@host") == 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://h/0?password=hunter22&db=0 is odd", "redis://h/0?password=***&db=0 is odd"),
        ("unix:///s?sentinel_password=hunter22", "unix:///s?sentinel_password=***"),
        ("unknown command 'AUTH', with args beginning with: 'hunter22' ", "'AUTH', with args beginning with: ***"),
    ],
)
def test_passwords_elsewhere_are_hidden(text, shown):
    assert shown in json.loads(line("%s", text))["message"]
    assert "hunter22" not in line("%s", text)


def test_hiding_passwords_takes_time_in_proportion_to_the_text():
    """A ratio of processor times: some 20; where every start is tried to the end of the text, 400."""

    def seconds(size):
        started = time.process_time()
        hide_passwords("a" * size)
        return time.process_time() - started

    assert seconds(200_000) < 100 * min(seconds(10_000) for _ in range(5))
