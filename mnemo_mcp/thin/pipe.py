"""The stdio MCP server a client starts: copies lines between it and the daemon, and outlives the daemon.

A session may open before its daemon is up, and the daemon may be replaced while it lasts; the client sees
neither. Nothing is started before the client has asked for something.
"""

# ruff: noqa: PTH109

import json
import os
import sys
import threading
import time
from collections import deque

if not __package__:  # run by its path, see hook.py
    sys.path.append(__file__.rsplit("/", 2)[0])
    __package__ = "thin"

from . import link, opening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from .opening import Message

PATIENCE_SECONDS = 0.15  # for the daemon, before an opening request is answered from the file
START_SECONDS = 20.0  # Claude Code gives a server 30 s (2.1.332)
GRACE_SECONDS = 2.0  # for answers under way once the client has closed its end
RESTARTED = (
    "mnemo was restarted while this request was under way, so it is not known whether it was "
    "carried out. It is safe to send it again."
)


class Item:
    """One line of the client's, and whether the present daemon has been given it."""

    __slots__ = ("line", "message", "sent")

    def __init__(self, line: bytes, message: "Message") -> None:
        self.line, self.message, self.sent = line, message, False

    @property
    def method(self) -> "str | None":
        return self.message.get("method")


class Pipe:
    """One session. `run` reads the client, one thread brings up, feeds and buries daemons, one hears each.

    Every line of the client waits in `_queue` until it is sent. A request is in `_unanswered` until the
    client's answer is certain, whoever gives it; an answer to anything else is not passed on. `_untold`
    counts answers that are certain and not yet written. `_handshake` is what a new daemon has to hear first.
    """

    def __init__(
        self, environ: "Mapping[str, str]", answers: opening.Opening, source: int, sink: int
    ) -> None:
        self._environ, self._answers, self._source, self._sink = environ, answers, source, sink
        self._hello = _hello(environ)
        self._changed = threading.Condition()
        self._saying = threading.Lock()
        self._daemon: link.Connection | None = None
        self._ended: link.Connection | None = None
        self._starting_since: float | None = None
        self._queue: deque[Item] = deque()
        self._unanswered: dict[str | int, Item] = {}
        self._handshake: list[Item] = []
        self._untold = 0

    def run(self) -> None:
        """Serve until the client closes its end and has got the answers that came soon enough."""
        threading.Thread(target=self._feed, daemon=True).start()
        for line in lines(lambda: os.read(self._source, 65536)):
            if line.strip():
                self._from_client(line)
        with self._changed:
            self._changed.wait_for(lambda: not self._awaited() and not self._untold, GRACE_SECONDS)

    # the client's side

    def _from_client(self, line: bytes) -> None:
        message = opening.parse(line)
        if message is None:
            self._say(opening.error(None, opening.PARSE_ERROR, "This line is not a JSON object."))
            return
        item = Item(line, message)
        with self._changed:
            self._enqueue(item)
            if not opening.is_request(message) or self._answers.answer(message, self._greeted()) is None:
                return
            since = self._starting_since or time.monotonic()
            self._changed.wait_for(
                lambda: item.sent or message["id"] not in self._unanswered,
                since + PATIENCE_SECONDS - time.monotonic(),
            )
            if item.sent or message["id"] not in self._unanswered:
                return
            answer = self._settle(item, "")
        self._tell([answer])

    def _enqueue(self, item: Item) -> None:
        message = item.message
        if opening.is_request(message):
            self._unanswered[message["id"]] = item
        if item.method == opening.CANCELLED:
            self._unanswered.pop(opening.cancelled(message), None)
        if item.method == opening.INITIALIZE:
            self._handshake = [item]
        elif item.method == opening.INITIALIZED:
            self._handshake = [*self._handshake[:1], item]
        self._queue.append(item)
        self._changed.notify_all()

    def _greeted(self) -> bool:
        return bool(self._handshake)

    def _settle(self, item: Item, trouble: str) -> bytes:
        """The answer in the daemon's place: from the file where it can be, else with the trouble."""
        self._close(item)
        content = self._answers.answer(item.message, self._greeted())
        if item.method == opening.INITIALIZE and content is not None:
            pass  # it stays in the queue: the daemon has to hear it too, its answer will not be needed
        elif item in self._queue:
            self._queue.remove(item)
        if content is None and item in self._handshake:
            self._handshake = []
        if content is None:
            return opening.failure(item.message, trouble)
        return opening.result(item.message, content)

    def _close(self, item: Item) -> None:
        """From here on nobody else answers this request; the answer is yet to be told."""
        del self._unanswered[item.message["id"]]
        self._untold += 1

    def _tell(self, answers: "Iterable[bytes]") -> None:
        for answer in answers:
            self._say(answer)
            with self._changed:
                self._untold -= 1
                self._changed.notify_all()

    def _awaited(self) -> "list[Item]":
        """Requests somebody waits for; a subscription lies open as long as the session."""
        return [item for item in self._unanswered.values() if item.method != opening.LISTEN]

    def _say(self, line: bytes) -> None:
        content = line + b"\n"
        with self._saying:
            try:
                while content:
                    content = content[os.write(self._sink, content) :]
            except OSError:
                os._exit(0)  # the client has gone, and there is nobody left to tell

    # the daemon's side

    def _feed(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                daemon, ended = self._daemon, self._ended
            if daemon is None:
                self._bring_up()
            elif ended is daemon:
                self._bury(daemon)
            else:
                self._send_next(daemon)

    def _has_work(self) -> bool:
        if self._daemon is None:
            return bool(self._awaited())
        return bool(self._queue) or self._ended is self._daemon

    def _bring_up(self) -> None:
        with self._changed:
            self._starting_since = time.monotonic()
        try:
            daemon, incoming = self._greet(time.monotonic() + START_SECONDS)
        except link.Unreachable as unreachable:
            self._give_up(str(unreachable))
            return
        with self._changed:
            self._daemon, self._starting_since = daemon, None
        threading.Thread(target=self._listen, args=(daemon, incoming), daemon=True).start()

    def _greet(self, deadline: float) -> "tuple[link.Connection, Iterator[bytes]]":
        data = link.data_folder(self._environ)
        while True:
            daemon = link.connect(data, deadline)
            incoming = lines(_receiver(daemon))
            if self._is_ready(daemon, incoming, deadline):
                return daemon, incoming
            daemon.close()
            if time.monotonic() + link.POLL_SECONDS > deadline:
                raise link.Unreachable("the daemon did not get ready in time")
            time.sleep(link.POLL_SECONDS)

    def _is_ready(self, daemon: link.Connection, incoming: "Iterator[bytes]", deadline: float) -> bool:
        link.limit(daemon, deadline)
        try:
            daemon.sendall(self._hello)
            answer = opening.parse(next(incoming, b""))
            daemon.settimeout(None)
        except OSError:
            return False
        return bool(answer and answer.get("ready"))

    def _give_up(self, trouble: str) -> None:
        advice = f"mnemo does not answer: {trouble}. `mnemo doctor` in a terminal says more."
        complain(advice)
        with self._changed:
            self._starting_since = None
            answers = [self._settle(item, advice) for item in self._awaited()]
        self._tell(answers)

    def _send_next(self, daemon: link.Connection) -> None:
        with self._changed:
            if not self._queue:
                return
            item = self._queue.popleft()
            item.sent = True
            self._changed.notify_all()
        try:
            daemon.sendall(item.line + b"\n")
        except OSError:  # without its end no daemon has heard it
            with self._changed:
                item.sent = False
                self._queue.appendleft(item)
            self._bury(daemon)

    def _listen(self, daemon: link.Connection, incoming: "Iterator[bytes]") -> None:
        try:
            for line in incoming:
                self._from_daemon(line)
        except OSError:
            pass  # a daemon killed hard; like one that closed
        with self._changed:
            self._ended = daemon
            self._changed.notify_all()

    def _from_daemon(self, line: bytes) -> None:
        message = opening.parse(line)
        if message is None:
            complain("the daemon sent a line that is no JSON object; it was left out")
            return
        if opening.is_response(message):
            with self._changed:
                item = self._unanswered.get(message["id"])
                if item is not None:
                    self._close(item)
            self._tell([line] if item else [])
        else:
            self._say(line)

    def _bury(self, daemon: link.Connection) -> None:
        """Put back what a new daemon has to be told; fail what the old one was at work on."""
        with self._changed:
            self._daemon = None
            subscriptions = [item for item in self._unanswered.values() if item.method == opening.LISTEN]
            again = [item for item in [*self._handshake, *subscriptions] if item.sent]
            failed = [item for item in self._awaited() if item.sent and item not in again]
            for item in again:
                item.sent = False
            self._queue.extendleft(reversed(again))
            for item in failed:
                self._close(item)
            self._changed.notify_all()
        daemon.close()
        self._tell(opening.failure(item.message, RESTARTED) for item in failed)
        if link.is_uninstalled(link.data_folder(self._environ)):
            os._exit(0)


def lines(receive: "Callable[[], bytes]") -> "Iterator[bytes]":
    """The lines of a stream of chunks, without their ends; a last one may lack its end."""
    rest = b""
    while chunk := receive():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _receiver(connection: link.Connection) -> "Callable[[], bytes]":
    return lambda: connection.recv(65536)


def _hello(environ: "Mapping[str, str]") -> bytes:
    """The first line to the daemon: what only a process in the client's place knows."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = None  # removed under us
    hello = {
        "mnemo": "mcp",
        "version": link.VERSION,
        "cwd": folder,
        "project_dir": environ.get("CLAUDE_PROJECT_DIR") or None,
        "session": environ.get("CLAUDE_CODE_SESSION_ID") or None,
        "profile": environ.get("MNEMO_PROFILE") or None,
    }
    return json.dumps(hello).encode() + b"\n"


def complain(text: str) -> None:
    """One line on stderr, if there is one."""
    try:
        os.write(2, f"mnemo: {text}\n".encode("utf-8", "replace"))
    except OSError:
        return  # closed: then nobody wants to know


def _take_stdout() -> int:
    """Stdout for the protocol alone: whatever else this process prints goes to stderr from here on."""
    sink = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return sink


def main() -> None:
    """Serve the client on stdin and stdout."""
    os.umask(0o077)
    answers = opening.load(f"{link.THIN}/opening.json")
    pipe = Pipe(os.environ, answers, 0, _take_stdout())
    try:
        pipe.run()
    except KeyboardInterrupt:
        return  # one way for a client to end its servers


if __name__ == "__main__":
    main()
