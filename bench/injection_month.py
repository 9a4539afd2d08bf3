"""A month of sessions through the real service: what hooks inject as a share of what the sessions read.

Seeded and with a clock of its own. Each turn is a prompt of tests/data/injection.jsonl; its answer uses a
memory that was shown where the set says that it is needed, and else speaks of other things. The set's dozen
preferences that differ in a name alone are left out: they would fill the door, and no answer shows whether a
preference was followed. The same month is lived a second time without muting.

The sessions' reading is made up, by these numbers: a first call reads 12,430 tokens (as Claude Code 2.1.332
did on an empty project), a turn makes one to six calls, each of which adds a tool's result of 200 to 3,000
tokens and reads all before it again; at 150,000 tokens the client compacts. Each transcript tells it, and the
service counts from there.
"""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import common

from mnemo_mcp.memory import EntityRef, instant
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings, Usage
from mnemo_mcp.standing.account import Account

SET = Path(__file__).resolve().parent.parent / "tests/data/injection.jsonl"
FOLDER = "/home/dev/plover"
DAYS = 30
BEGIN = datetime(2026, 9, 1, 8, 0, tzinfo=UTC)
FIRST_CALL, COMPACTED, FULL = 12_430, 18_000, 150_000
HEEDED = 0.9  # of the answers show the needed memories that the session was told
_WORK = (
    "I sorted the imports, renamed two variables and ran the linter again.",
    "Both branches are covered by a test, and the helper moved to its own module.",
    "The layout is two columns now; the header keeps its height on small screens.",
    "I read the log from top to bottom and found nothing unusual after noon.",
    "Three files changed, forty lines less than before, all checks are green.",
)

_ALIKE = "wants a diagram in each design note"

Row = dict[str, Any]


@dataclass
class Month:
    """The clock, the transcript and the context of the session at work, and what was counted."""

    service: Service
    folder: Path
    seed: int
    names: dict[str, Row]
    now: list[datetime]
    needed: int = 0
    given: int = 0
    turns: int = 0
    context: int = FIRST_CALL
    told: set[str] = field(default_factory=set)
    path: Path = field(default_factory=Path)

    def hook(self, moment: str, event: str, session: str, **fields: Any) -> None:
        """Let a hook speak; what it injects is in the context from then on."""
        self.now[0] += timedelta(seconds=20)
        payload = {"session_id": session, "cwd": FOLDER, "hook_event_name": event, **fields}
        out = self.service.hook("claude", moment, json.dumps(payload).encode())
        text = json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""
        self.told |= {each for each in self.names if each in text}

    def session(self, name: str, prompts: list[Row]) -> None:
        self.path, self.context, self.told = self.folder / f"{name}.jsonl", FIRST_CALL, set()
        self.hook("session-open", "SessionStart", name, source="startup")
        for number, prompt in enumerate(prompts):
            self.turn(name, f"{name}-{number}", prompt)
            if self.context > FULL:
                self.context, self.told = COMPACTED, set()
                self.hook("session-open", "SessionStart", name, source="compact")
        self.hook("session-end", "SessionEnd", name, reason="other")

    def turn(self, session: str, turn: str, prompt: Row) -> None:
        chance = random.Random(f"{self.seed} {turn}")  # the same whatever is injected
        about = {"prompt_id": turn, "transcript_path": str(self.path)}
        self.hook("pre-message", "UserPromptSubmit", session, prompt=prompt["text"], **about)
        gold = set(prompt["gold"])
        there = [row for name, row in self.names.items() if name in self.told and row["memory"] in gold]
        self.turns, self.needed, self.given = (
            self.turns + 1,
            self.needed + len(gold),
            self.given + len(there),
        )
        work, heeds = chance.choice(_WORK), chance.random() < HEEDED
        heeded = [f"{row['what']}: {row.get('how', '')}" for row in there if heeds]
        self.record(turn, prompt["text"], chance)
        self.now[0] += timedelta(minutes=chance.randint(1, 9))
        answer = " ".join([*heeded, work])
        self.hook("turn-end", "Stop", session, last_assistant_message=answer, **about)

    def record(self, turn: str, prompt: str, chance: random.Random) -> None:
        """The turn in the session's transcript, with what each call read."""
        lines = [{"type": "user", "promptId": turn, "message": {"role": "user", "content": prompt}}]
        for call in range(chance.randint(1, 6)):
            usage = {"input_tokens": 4, "cache_read_input_tokens": self.context - 4}
            message = {"id": f"{turn}-{call}", "role": "assistant", "content": [], "usage": usage}
            lines.append({"type": "assistant", "message": message})
            self.context += chance.randint(200, 3_000)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def main() -> None:
    given = common.options(__doc__, turns=600, seed=11, vectors=1)
    rows = [json.loads(line) for line in SET.read_text("utf-8").splitlines()]
    ours = live(rows, given.turns, given.seed, Usage(), bool(given.vectors))
    without = live(rows, given.turns, given.seed, Usage(misses=10**9), bool(given.vectors))
    ratio = round(ours["late"]["share"] / without["late"]["share"], 3)
    common.report({"ours": ours, "without_muting": without, "late_share_ratio": ratio}, given.json)


def live(rows: list[Row], turns: int, seed: int, usage: Usage, vectors: bool) -> dict[str, Any]:
    """Live the month; figures of all of it, of its first ten days and of its last ten."""
    chance = random.Random(seed)
    now = [BEGIN]
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as name:
        folder = Path(name)
        settings = Settings(folder / "data", zone="UTC", transcript_roots=(name,), usage=usage)
        if not vectors:
            settings = replace(settings, encoders=Encoders("off", "off"))
        with Service.open(clock=lambda: now[0], settings=settings) as service:
            told = [row for row in rows if "memory" in row and _ALIKE not in row["what"]]
            names = {remember(service, row): row for row in told}
            month = Month(service, folder, seed, names, now)
            prompts = [row for row in rows if "prompt" in row]
            plan = planned(chance, prompts, turns)
            account = Account(service.store, service.zone)
            marks: dict[int, int] = {}
            set_in = 0
            for day, sessions in enumerate(plan):
                now[0] = BEGIN + timedelta(days=day)
                for number, asked in enumerate(sessions):
                    month.session(f"d{day:02}-{number}", asked)
                marks[day] = month.given
                if not set_in and account.stats("personal", instant(now[0]))["muted"]:
                    set_in = day + 1
                common.progress(f"day {day + 1} of {DAYS}, {month.turns} turns")
            end = instant(BEGIN + timedelta(days=DAYS))
            return {
                **figures(account.stats("personal", end, DAYS + 1)),
                "early": figures(account.stats("personal", instant(BEGIN + timedelta(days=10)), 10)),
                "late": figures(account.stats("personal", end, 10)),
                "muting_set_in_on_day": set_in or None,
                "needed": month.needed,
                "needed_and_there": month.given,
                "needed_and_there_late": month.given - marks[DAYS - 11],
            }


def planned(chance: random.Random, prompts: list[Row], turns: int) -> list[list[list[Row]]]:
    """Sessions by day: three to five a day, prompts drawn with a liking for some of them."""
    weights = [chance.random() ** 2 for _ in prompts]
    plan: list[list[list[Row]]] = [[[] for _ in range(chance.randint(3, 5))] for _ in range(DAYS)]
    sessions = [session for day in plan for session in day]
    for number, prompt in enumerate(chance.choices(prompts, weights, k=turns)):
        place = number % len(sessions) if number < len(sessions) else chance.randrange(len(sessions))
        sessions[place].append(prompt)
    return plan


def remember(service: Service, row: Row) -> str:
    parts = {name: row.get(name, "") for name in ("what", "why", "how", "who", "where")}
    entities = [EntityRef(name) for name in row.get("entities", ())]
    return service.remember(**parts, kind=row["kind"], entities=entities).id


def figures(stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "sessions": stats["sessions"],
        "turns": stats["answered_turns"],
        "tokens": stats["tokens"],
        "tokens_per_turn": stats["tokens_per_turn"],
        "tokens_per_session": stats["tokens_per_session"],
        "read": stats["reading"]["tokens"],
        "share": stats["reading"]["share"],
        "verdicts": stats["verdicts"],
        "muted": len([each for each in stats["muted"] if each["where"] == "everywhere"]),
        "muted_at_door": len(stats["muted"]),
    }


if __name__ == "__main__":
    main()
