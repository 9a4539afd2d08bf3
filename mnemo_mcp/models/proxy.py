"""Which proxy a request goes through: none within this machine or network, else that of the environment."""

from __future__ import annotations

import ipaddress
import urllib.request
from urllib.parse import urlsplit

from mnemo_mcp.errors import Unusable

_PRIVATE_ENDINGS = (".localhost", ".local", ".lan", ".internal", ".home.arpa")


def proxy_for(url: str) -> str | None:
    """The proxy to reach `url` through, None to go there directly.

    Raises `Unusable` for a proxy of a sort that cannot be used: to go around it would be against the wish
    of whoever set it.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_private(host) or urllib.request.proxy_bypass(host):
        return None
    set_to = urllib.request.getproxies()
    proxy = set_to.get(parts.scheme) or set_to.get("all")
    if not proxy:
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise Unusable(
            f"The proxy {without_credentials(proxy)} of the environment cannot be used for {host}.",
            f"Set HTTPS_PROXY to an http:// proxy, or add {host} to NO_PROXY.",
        )
    return proxy


def is_private(host: str) -> bool:
    """Whether a host is this machine, or by its name or address one of the network around it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith(_PRIVATE_ENDINGS)
    return address.is_private or address.is_loopback or address.is_link_local


def without_credentials(url: str) -> str:
    """An address as it may be shown: no user, no password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
