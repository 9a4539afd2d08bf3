"""The way to the daemon: the data folder, its socket, starting it, and one request with one deadline."""

# A hook lives some ten milliseconds; importing pathlib would double that.
# ruff: noqa: PTH103, PTH105, PTH110, PTH111, PTH112, PTH123

import os
import sys
import time

try:
    import _socket as socket  # `socket` adds enum and selectors: as dear as a whole interpreter start
except ImportError:  # another implementation of Python
    import socket  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from subprocess import Popen

VERSION = "0.1.0"
Connection = socket.socket
THIN = __file__.rpartition("/")[0]
SOCKET = "mnemo.sock"  # used from inside its folder: that one's path may be longer than a socket's can be
POLL_SECONDS = 0.015
UNINSTALLED = "run/uninstalled"  # in the data folder, from an uninstallation to the next installation


class Unreachable(Exception):
    """No daemon could be asked. The text says why and holds nothing of what was to be said."""


class NotRunning(Unreachable):
    """No daemon listens, and none was to be started."""


def data_folder(environ: "Mapping[str, str]" = os.environ) -> str:
    """MNEMO_HOME, else the platform's place for application data; as `mnemo_mcp.settings` has it.

    Raises `Unreachable` for a relative path and for a person without a home folder.
    """
    chosen = environ.get("MNEMO_HOME", "")
    if not chosen:
        return user_folder(environ, "XDG_DATA_HOME", ".local/share", "Library/Application Support")
    folder = os.path.expanduser(chosen)
    if not folder.startswith("/"):
        raise Unreachable("MNEMO_HOME is not an absolute path")
    return folder


def user_folder(environ: "Mapping[str, str]", variable: str, linux: str, macos: str) -> str:
    """The folder of mnemo in one of the platform's places, which `variable` may move."""
    base = environ.get(variable, "")
    if not base.startswith("/"):
        base = f"{_home(environ)}/{macos if sys.platform == 'darwin' else linux}"
    return f"{base}/mnemo"


def private_folder(parent: str, name: str) -> str:
    """A folder inside another, both made for this person alone where they are missing."""
    os.makedirs(parent, 0o700, exist_ok=True)
    folder = f"{parent}/{name}"
    os.makedirs(folder, 0o700, exist_ok=True)
    return folder


def _home(environ: "Mapping[str, str]") -> str:
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return home
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise Unreachable("there is no home folder") from None


def connect(data: str, deadline: float, *, start: bool = True) -> Connection:
    """A connection to the daemon of this data folder, started if there is none.

    Any number of callers may start one at the same time: the daemon's lock lets one live, the others
    end with code 0. Raises `Unreachable` at the deadline, or at once when the daemon fails to start.
    """
    child = None
    while True:
        try:
            return _open(f"{data}/run", deadline)
        except (FileNotFoundError, ConnectionRefusedError):
            if not start:
                raise NotRunning("no daemon is running") from None
            if child is None or (child.poll() == 0 and is_free(data)):
                child = start_daemon(data)  # again where the first met a daemon that was only ending
        except BlockingIOError:
            pass  # more callers wait than the daemon's queue holds
        except OSError as error:
            raise Unreachable(f"the data folder cannot be used: {error.strerror}") from None
        if child and child.poll():
            raise Unreachable(f"the daemon ended with code {child.returncode} as it started")
        if time.monotonic() + POLL_SECONDS > deadline:
            raise Unreachable("no daemon came up in time")
        time.sleep(POLL_SECONDS)


def _open(folder: str, deadline: float) -> Connection:
    try:
        here = os.open(".", os.O_RDONLY)
    except OSError:
        here = None  # a removed or closed working folder: there is nothing to come back to
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.chdir(folder)
        limit(connection, deadline)
        connection.connect(SOCKET)
    except OSError:
        connection.close()
        raise
    finally:
        if here is not None:
            os.fchdir(here)
            os.close(here)
    return connection


def is_free(data: str) -> bool:
    """Whether no process holds the lock of this data folder."""
    import fcntl

    try:
        with open(f"{data}/run/lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def limit(connection: Connection, deadline: float) -> None:
    """Let the next operation on `connection` take until the deadline and no longer."""
    connection.settimeout(max(deadline - time.monotonic(), 0.001))


def start_daemon(data: str) -> "Popen[bytes]":
    """Start the daemon of this data folder, detached from this session and all its streams."""
    from subprocess import DEVNULL, Popen

    command = [sys.executable, "-I", "-m", "mnemo_mcp.daemon"]
    try:
        return Popen(
            command,
            env=_daemon_environment(data),
            cwd="/",
            start_new_session=True,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
    except OSError as error:
        raise Unreachable(f"the daemon cannot be started: {error.strerror}") from None


def _daemon_environment(data: str) -> "dict[str, str]":
    """Ours without what belongs to one client, one session or one profile: the daemon serves them all."""
    dropped = ("VIRTUAL_ENV", "MNEMO_NESTED", "MNEMO_PROFILE")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in dropped and not name.startswith(("PYTHON", "CLAUDE"))
    }
    if folder := os.environ.get("CLAUDE_CONFIG_DIR"):  # where transcripts are
        kept["CLAUDE_CONFIG_DIR"] = folder
    return {**kept, "MNEMO_HOME": data}


def request(
    data: str, path: str, body: bytes, deadline: float, *, headers: "Sequence[str]" = (), start: bool = True
) -> "tuple[int, bytes]":
    """POST `body` to the daemon: the status and the body of its answer.

    A connection that breaks is tried once more, for a daemon that was just being replaced.
    Raises `Unreachable` when there is no whole answer before the deadline.
    """
    head = [
        f"POST {path} HTTP/1.1",
        "Host: mnemo",
        "Connection: close",
        f"Content-Length: {len(body)}",
        f"Mnemo-Version: {VERSION}",
        *headers,
        "",
        "",
    ]
    message = "\r\n".join(head).encode() + body
    for _attempt in range(2):
        connection = connect(data, deadline, start=start)
        try:
            return _exchange(connection, message, deadline)
        except TimeoutError:
            raise Unreachable("the daemon did not answer in time") from None
        except ConnectionError:
            continue
        except (ValueError, IndexError):
            raise Unreachable("the daemon's answer cannot be read") from None
        finally:
            connection.close()
    raise Unreachable("the daemon broke off")


def _exchange(connection: Connection, message: bytes, deadline: float) -> "tuple[int, bytes]":
    limit(connection, deadline)
    connection.sendall(message)
    received = bytearray()
    while (answer := _whole(received)) is None:
        limit(connection, deadline)
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionResetError
        received += chunk
    return answer


def _whole(received: bytearray) -> "tuple[int, bytes] | None":
    """Status and body, once all of them are there; without a length nobody can tell."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *fields = bytes(received[:end]).lower().split(b"\r\n")
    length = next((int(field[15:]) for field in fields if field.startswith(b"content-length:")), -1)
    body = bytes(received[end + 4 : end + 4 + length])
    return (int(first.split()[1]), body) if len(body) == length else None


def is_uninstalled(data: str) -> bool:
    """Whether mnemo was taken away while this process ran: then nothing of it is to go on."""
    return os.path.exists(f"{data}/{UNINSTALLED}") or not os.path.isdir(f"{data}/run")


def write_pointer(data: str) -> bool:
    """Note which interpreter and folder serve this data folder, for launchers that trust no PATH.

    True if the note had to be written anew.
    """
    lines = [sys.executable, THIN]
    if any("\n" in line or not line for line in lines):
        return False
    content = os.fsencode("".join(f"{line}\n" for line in lines))
    pointer, fresh = f"{data}/run/launch", f"{data}/run/launch.{os.getpid()}"
    try:
        with open(pointer, "rb") as file:
            if file.read() == content:
                return False
    except FileNotFoundError:
        private_folder(data, "run")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    os.replace(fresh, pointer)
    return True
