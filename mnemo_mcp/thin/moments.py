"""The moments of a session: what a hook hands to the daemon, for how long, and what happens without one."""

import os
import select
import time

from . import link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds from the start of the hook. The clients' own limits are in the manifests (5 s); SessionEnd
# gets 1.5 s from Claude Code 2.1.332 whatever a manifest says.
SECONDS = {"session-open": 2.5, "pre-message": 1.5, "turn-end": 0.8, "session-end": 0.8}
HANDED_OVER = ("turn-end", "session-end")  # these print nothing and are kept when no daemon takes them
CLIENTS = ("claude", "codex")
PAYLOAD_BYTES = 64 << 20
PAUSE_SECONDS = 0.25  # a client that says nothing for so long may have forgotten to close its end


class Refused(Exception):
    """The hook was called in a way, or with a payload, that nothing can be done with."""


def serve(arguments: "list[str]", environ: "Mapping[str, str]", began: float) -> None:
    """Hand stdin to the daemon and print what it answers; `arguments` are CLIENT and MOMENT."""
    from_ourselves = environ.get("MNEMO_NESTED")
    if from_ourselves:
        return
    try:
        _serve(arguments, environ, began)
    except (Refused, link.Unreachable) as trouble:
        from . import hooklog

        hooklog.note(arguments, environ, str(trouble))


def _serve(arguments: "list[str]", environ: "Mapping[str, str]", began: float) -> None:
    client, moment = _known(arguments)
    deadline = began + SECONDS[moment]
    payload = read_all(0, deadline)
    if b"{" not in payload:
        return
    received, data = time.time_ns(), link.data_folder(environ)
    try:
        answer = _ask(data, client, moment, environ, payload, received, deadline)
    except link.Unreachable as trouble:
        if moment in HANDED_OVER:
            _keep(data, client, moment, environ, payload, received, trouble)
        raise
    if moment not in HANDED_OVER:
        write_all(1, answer)


def _known(arguments: "list[str]") -> "tuple[str, str]":
    if len(arguments) != 2 or arguments[0] not in CLIENTS or arguments[1] not in SECONDS:
        raise Refused("the hook was called without a known client and moment")
    return arguments[0], arguments[1]


def _ask(
    data: str,
    client: str,
    moment: str,
    environ: "Mapping[str, str]",
    payload: bytes,
    received: int,
    deadline: float,
) -> bytes:
    headers = [
        f"Mnemo-Received: {received // 10**9}.{received // 10**6 % 1000:03}",
        f"Mnemo-Delivery: {delivery(received)}",
    ]
    if profile := environ.get("MNEMO_PROFILE"):
        headers.append(f"Mnemo-Profile: {os.fsencode(profile).hex()}")
    status, answer = link.request(
        data, f"/hooks/{client}/{moment}", payload, deadline, headers=headers, start=moment not in HANDED_OVER
    )
    if status != 200:
        raise link.Unreachable(f"the daemon answered with status {status}")
    return answer


def delivery(received: int) -> str:
    """What names this delivery, in the request and in the inbox: a daemon that got both knows it is one."""
    return f"{received:020}-{os.getpid()}"


def _keep(
    data: str,
    client: str,
    moment: str,
    environ: "Mapping[str, str]",
    payload: bytes,
    received: int,
    trouble: Exception,
) -> None:
    from . import inbox

    name = inbox.name_of(delivery(received), client, moment, environ.get("MNEMO_PROFILE", ""))
    try:
        inbox.keep(data, name, payload)
    except OSError as error:
        raise Refused(f"{trouble}, and the payload cannot be kept: {error.strerror}") from None
    if moment == "turn-end" and isinstance(trouble, link.NotRunning):
        link.start_daemon(data)  # to take it from there; nobody waits for it


def read_all(descriptor: int, deadline: float) -> bytes:
    """Everything up to the end of a stream, or a whole JSON value whose writer forgot to close it."""
    payload = bytearray()
    while True:
        pause = min(deadline - time.monotonic(), PAUSE_SECONDS)
        if pause <= 0:
            raise Refused("the payload did not end in time")
        try:
            if not select.select([descriptor], [], [], pause)[0]:
                if _is_json(payload):
                    return bytes(payload)
                continue
            chunk = os.read(descriptor, 1 << 20)
        except OSError:
            return b""  # closed, or a folder: nothing was said
        if not chunk:
            return bytes(payload)
        payload += chunk
        if len(payload) > PAYLOAD_BYTES:
            raise Refused(f"the payload is longer than {PAYLOAD_BYTES >> 20} MB")


def _is_json(payload: bytearray) -> bool:
    if not payload.rstrip().endswith(b"}"):
        return False
    import json

    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it, or stop where the reader has gone."""
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        raise Refused("the client does not read the answer") from None
