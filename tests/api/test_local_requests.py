"""Without API keys: which hosts and pages are served, in all the ways to write them."""

import json

import pytest

from service.api.middleware import check_origin
from service.command_line import read_settings
from service.errors import CrossSiteError, ForeignHostError, ServiceError
from service.settings import SecretText, Settings, SettingsError

LOCAL = (
    *("localhost", "localhost:8000", "LOCALHOST", "localhost.", "localhost.:80", "a.localhost", "A.b.LocalHost:1"),
    *("127.0.0.1", "127.0.0.1:8000", "127.0.0.2", "127.255.255.254:9", "127.0.0.1."),
    *("[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]:80"),
)
PRIVATE = ("10.0.0.5", "8.8.8.8", "[2001:db8::1]:8000", "0.0.0.0", "bandit", "bandit:8000")
PRIVATE += ("bandit.local", "a.internal.")
FOREIGN = (
    *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost"),
    *("notlocalhost.example", "localhost%00.evil.example", "local%68ost.example", "127.0.0.1.nip.io"),
    "[v1.localhost]",
    *("localhost..", ".localhost.example", "128.0.0.1.example", "127.0.0.1.1", "2130706433.example"),
)


def outcome(url=b"/livez", *, settings=None, **headers):
    """The code of the refusal; None for a request that is served."""
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    try:
        check_origin(settings or Settings())(url, given)
    except ServiceError as error:
        return error.code
    return None


@pytest.mark.parametrize("host", LOCAL)
def test_local_names_are_served(host):
    assert outcome(host=host) is None
    assert outcome(host=host, settings=Settings(host="0.0.0.0")) is None
    assert outcome(f"http://{host}/livez".encode(), host="localhost") is None
    for origin in (f"http://{host}", f"HTTPS://{host}"):
        assert outcome(host="localhost", origin=origin) is outcome(host="127.0.0.1:8000", origin=origin) is None


@pytest.mark.parametrize("host", [*FOREIGN, *PRIVATE, ""])
def test_no_other_host_is_served_on_loopback(host):
    assert outcome(host=host) == ForeignHostError.code
    assert outcome(host=host, settings=Settings(host="::1")) == ForeignHostError.code


@pytest.mark.parametrize("host", [*PRIVATE, *FOREIGN])
def test_elsewhere_names_that_nobody_can_register_are_served_too(host):
    expected = None if host in PRIVATE or host == "evil-localhost" else ForeignHostError.code

    assert outcome(host=host, settings=Settings(host="0.0.0.0")) == expected


@pytest.mark.parametrize("url", [b"http://evil.example/livez", b"http://evil.example:80", b"HTTP://10.0.0.5?a"])
def test_an_address_with_a_foreign_host_is_refused_whatever_the_header_says(url):
    assert outcome(url, host="localhost") == ForeignHostError.code
    assert outcome(b"http://localhost/livez", host="evil.example") is None
    assert outcome(b"http://evil.example/v1/clicks", host="localhost") is None


def test_a_request_without_a_host_comes_from_no_browser():
    assert outcome() is None
    assert outcome(b"*") is None


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "NULL", "", "file://", "https://evil.example", "http://localhost.evil.example"),
        "http://10.0.0.5",
        *("http://localhost@evil.example", "http://evil.example#localhost", "http://evil.example/localhost"),
        *("chrome-extension://localhost", "http://", "localhost", "http://localhost, http://evil.example"),
        *("http://evil.example\\.localhost", "http://localhost http://evil.example"),
    ],
)
def test_pages_of_other_origins_are_refused(origin):
    assert outcome(host="localhost:8000", origin=origin) == CrossSiteError.code
    assert outcome(host="localhost:8000", origin=origin, sec_fetch_site="same-origin") == CrossSiteError.code


@pytest.mark.parametrize("site", ["cross-site", "Cross-Site", " cross-site ", "same-origin", "same-site", "none"])
def test_what_a_browser_calls_cross_site_alone_is_refused(site):
    expected = CrossSiteError.code if "cross" in site.lower() else None
    assert outcome(host="localhost", sec_fetch_site=site) == expected
    assert outcome(host="localhost", sec_fetch_site=site, origin="http://localhost") == expected


def test_every_one_of_several_headers_counts():
    for name, first, second in (("origin", "http://localhost", "null"), ("sec-fetch-site", "none", "cross-site")):
        headers = [("host", "localhost"), (name, first), (name, second)]
        with pytest.raises(CrossSiteError):
            check_origin(Settings())(b"/", [(key.encode(), value.encode()) for key, value in headers])


def test_settings_add_hosts():
    settings = Settings(allowed_hosts="Shop.example, 10.0.0.5,2001:db8:0::1,[::2]")

    for host in ("shop.example:8443", "SHOP.EXAMPLE.", "10.0.0.5", "[2001:DB8::1]:8000", "[::2]", "localhost"):
        assert outcome(host=host, settings=settings) is None
    for host in ("a.shop.example", "10.0.0.6", "example", "[2001:db8::2]"):
        assert outcome(host=host, settings=settings) == ForeignHostError.code
    assert outcome(host="evil.example", settings=Settings(allowed_hosts="*")) is None


def test_the_pages_of_the_service_itself_are_served_under_an_added_host():
    settings = Settings(allowed_hosts="shop.example")

    assert outcome(host="shop.example", origin="https://shop.example", settings=settings) is None
    assert outcome(host="shop.example", origin="https://evil.example", settings=settings) == CrossSiteError.code


@pytest.mark.parametrize("root", ["", "/bandit"])
def test_any_page_may_send_clicks_and_load_their_script(root):
    settings = Settings(root_path=root or None)
    foreign = {"host": "evil.example", "origin": "https://evil.example", "sec_fetch_site": "cross-site"}
    check = check_origin(settings)

    for path in (b"/v1/clicks", b"/v1/clicks?a", b"/v1/clicks.js?v=1"):
        assert outcome(root.encode() + path, settings=settings, **foreign) is None
        assert not check(root.encode() + path, [])  # The next request of the connection is checked all the same.
    for path in (b"/v1/clicks/", b"/v1/clicksx", b"/v1/sessions", b"/x/v1/clicks", b"//v1/clicks"):
        assert outcome(path, settings=settings, **foreign) == ForeignHostError.code
    assert check(b"/v1/sessions", []) is True


def test_the_origins_of_clicks_open_nothing_else():
    for allowed in ("https://shop.example", "*"):
        settings = Settings(allowed_origins=allowed)
        assert outcome(host="localhost", origin="https://shop.example", settings=settings) == CrossSiteError.code


def test_the_address_to_listen_on_is_one_of_its_names():
    assert outcome(host="bandit.example", settings=Settings(host="bandit.example")) is None
    assert outcome(host="[fe80::1]:8000", settings=Settings(host="FE80::0:1")) is None


def test_with_api_keys_nothing_is_refused():
    keys = SecretText(json.dumps([{"name": "a", "role": "admin", "key": "0123456789abcdef"}]))

    settings = Settings(api_keys=keys)
    assert outcome(host="evil.example", origin="null", sec_fetch_site="cross-site", settings=settings) is None


@pytest.mark.parametrize(
    "flags",
    [
        *(["--allowed-hosts", host] for host in ("shop.example:8443", "http://shop.example", "*.example")),
        *(["--allowed-origins", origin] for origin in ("shop.example", "https://shop.example/")),
        *(["--allowed-origins", f"https://a.b, {each}"] for each in ("https://a.b:443", "http://a.b:80")),
    ],
)
def test_other_settings_are_errors(flags):
    with pytest.raises(SettingsError, match=r"must be (hosts without ports|origins, such as)"):
        read_settings(flags)


def test_origins_may_have_other_ports():
    origins = "http://a.b:443, https://a.b:80,https://a.b:8443"
    assert read_settings(["--allowed-origins", origins]).allowed_origins == origins
