"""The verbs behind every door: arguments in, a result that can be shown as JSON or as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mnemo_mcp.capture.transcript import transcript_roots
from mnemo_mcp.daemon import arguments as read
from mnemo_mcp.daemon.arguments import Arguments
from mnemo_mcp.distil.backfill import Backfill, Scope
from mnemo_mcp.memory import Episode, LedgerRow, Memory, Outcome, Status, instant
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.pictures import stats_svg, timeline_svg
from mnemo_mcp.recall.answer import Answer, RecalledEpisode, RecalledMemory
from mnemo_mcp.service import Service
from mnemo_mcp.standing.account import Account
from mnemo_mcp.times import parse_instant


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls through a door: the project, folder and profile it speaks for, and its name."""

    client: str = "cli"
    project: str = ""
    profile: str | None = None
    session: str = ""
    by: str = "agent"
    folder: str = ""


def recall(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    began = time.perf_counter()
    answer = service.recall(
        read.text(given, "query", "question", "q", "text", required=True),
        limit=read.number(given, "limit"),
        kinds=read.texts(given, "kinds", "kind"),
        entities=[each.name for each in read.entities(given)],
        project=read.text(given, "project") or caller.project or None,
        valid_at=read.text(given, "valid_at") or None,
        known_at=read.text(given, "known_at") or None,
        history=read.flag(given, "history"),
        explain=read.flag(given, "explain"),
        profile=caller.profile,
    )
    return {**answer_json(answer), "took_ms": round((time.perf_counter() - began) * 1000, 1)}


def remember(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    places = (caller.folder, read.text(given, "project"))
    service.privacy.check(places, service.profile_of(caller.profile), caller.session)
    outcome = service.remember(
        read.text(given, "what", "text", "content", "memory", required=True),
        why=read.text(given, "why", "reason"),
        how=read.text(given, "how"),
        who=read.text(given, "who"),
        where=read.text(given, "where"),
        when=read.text(given, "when"),
        kind=read.text(given, "kind") or "fact",
        entities=read.entities(given),
        subject=read.text(given, "subject"),
        field=read.text(given, "field"),
        valid_from=read.text(given, "valid_from") or None,
        valid_to=read.text(given, "valid_to") or None,
        replaces=read.texts(given, "replaces"),
        correction=read.flag(given, "correction"),
        at=read.text(given, "at") or None,
        project=read.text(given, "project") or caller.project,
        profile=caller.profile,
        client=caller.client,
        session=caller.session,
        by=caller.by,
    )
    return outcome_json(outcome)


def forget(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    outcomes = service.forget(
        read.one_or_more(given, "id", "ids", "memory_id"),
        read.text(given, "mode") or "retract",
        read.text(given, "reason"),
        at=read.text(given, "at") or None,
        profile=caller.profile,
        client=caller.client,
        by=caller.by,
    )
    if len(outcomes) == 1:
        return outcome_json(outcomes[0])
    return {"outcome": outcomes[0].outcome, "outcomes": [outcome_json(each) for each in outcomes]}


def keep(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    name = read.text(given, "id", "memory_id", required=True)
    return outcome_json(service.keep(name, read.flag(given, "on", True), profile=caller.profile))


def recall_episode(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    name = read.text(given, "id", "episode_id", "memory_id", required=True)
    around = max(0, min(read.number(given, "around") or 0, 20))
    found, near = service.recall_episode(name, around, profile=caller.profile)
    return {
        "episodes": [episode_json(each) for each in found],
        "around": [episode_json(each) for each in near],
        "offset": max(0, read.number(given, "offset") or 0),
    }


def history(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    profile = service.profile_of(caller.profile)
    memory, rows = service.records.history(read.text(given, "id", required=True), profile)
    return {
        "memory": memory_json(memory, memory.status(instant(service.clock()))),
        "rows": [row_json(row) for row in rows],
        "verdicts": [asdict(each) for each in service.records.verdicts(memory.id)],
    }


def undo(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    writer = service.writer(caller.profile, "", caller.client, "", caller.by, None)
    return outcome_json(service.records.undo(read.text(given, "id", "verdict", required=True), writer))


def diff(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    found = service.diff(
        read.text(given, "query", "question", required=True),
        read.text(given, "known_at", required=True),
        read.text(given, "other_known_at", required=True),
        valid_at=read.text(given, "valid_at") or None,
        project=read.text(given, "project") or caller.project or None,
        profile=caller.profile,
    )
    return {
        "changes": list(found.changes),
        "same_ranking": found.same_ranking,
        "before": answer_json(found.before)["memories"],
        "after": answer_json(found.after)["memories"],
    }


def timeline(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    subject, field = read.text(given, "subject", required=True), read.text(given, "field") or None
    found = service.records.timeline(subject, field, service.profile_of(caller.profile))
    title = f"{subject} / {field}" if field else subject
    return {
        "subject": subject,
        "field": field,
        "spans": [asdict(span) for span in found],
        "svg": timeline_svg(title, found),
    }


def entity(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    name, kind = read.text(given, "name", required=True), read.text(given, "kind") or None
    writer = service.writer(caller.profile, "", caller.client, "", caller.by, read.text(given, "at") or None)
    if alias := read.text(given, "alias"):
        service.records.alias(name, alias, writer, kind)
    if into := read.text(given, "into"):
        service.records.merge(name, into, writer, kind)
    if read.flag(given, "unmerge"):
        service.records.unmerge(name, writer, kind)
    found, rows = service.records.entity(name, writer.profile, kind)
    return {**asdict(found), "rows": [row_json(row) for row in rows]}


def merge(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    writer = service.writer(caller.profile, "", caller.client, "", caller.by, read.text(given, "at") or None)
    name, into = read.text(given, "id", required=True), read.text(given, "into")
    if into:
        return outcome_json(service.records.merge_memories(name, into, writer, read.text(given, "reason")))
    return outcome_json(service.records.unmerge_memories(name, writer))


def export(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    file = Path(read.text(given, "file", required=True))
    return {"file": str(file), "records": service.records.export(file, instant(service.clock()))}


def take_in(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    return asdict(service.records.take_in(Path(read.text(given, "file", required=True))))


def backup(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    file = Path(read.text(given, "file", required=True))
    service.records.backup(file)
    return {"file": str(file)}


def why(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    account = Account(service.store, service.zone)
    return account.why(service.profile_of(caller.profile), read.text(given, "session") or None)


def stats(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    account, days = Account(service.store, service.zone), read.number(given, "days") or 30
    now = instant(service.clock())
    found = account.stats(service.profile_of(caller.profile), now, max(1, min(days, 3_660)))
    return {**found, "svg": stats_svg(found)}


def status(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    return dict(service.status())


def check(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    return {"problems": service.check(repair=read.flag(given, "repair"))}


def probe(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    return {"endpoints": service.tasks.probe()}


def distilled(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    profile, session = service.profile_of(caller.profile), read.text(given, "session") or None
    found = service.store.threads.extractions(profile, session, read.number(given, "limit") or 50)
    return {"claims": [asdict(each) for each in found]}


def past_sessions(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    found = _backfill(service).sessions(read.text(given, "client"))
    return {
        "sessions": [{"path": str(each.path), "client": each.client, "began": each.began} for each in found]
    }


def take_session(service: Service, given: Arguments, caller: Caller) -> dict[str, Any]:
    backfill, since = _backfill(service), read.text(given, "since")
    return backfill.take(
        backfill.session(read.text(given, "path", required=True)),
        service.profile_of(caller.profile),
        Scope(
            parse_instant(since, service.zone, service.clock()) if since else "", read.text(given, "project")
        ),
        dry_run=read.flag(given, "dry_run"),
    ).as_json()


def _backfill(service: Service) -> Backfill:
    count = TokenCounter(service.settings.budgets.token_scale).count
    roots = transcript_roots(service.settings.transcript_roots)
    return Backfill(
        service.store, service.settings, service.privacy, service.clock, service.zone, count, roots
    )


Verb = Callable[[Service, Arguments, Caller], Mapping[str, Any]]

VERBS: Mapping[str, Verb] = {
    "recall": recall,
    "remember": remember,
    "forget": forget,
    "keep": keep,
    "recall_episode": recall_episode,
    "history": history,
    "diff": diff,
    "timeline": timeline,
    "entity": entity,
    "merge": merge,
    "undo": undo,
    "export": export,
    "import": take_in,
    "backup": backup,
    "why": why,
    "stats": stats,
    "status": status,
    "check": check,
    "probe": probe,
    "distilled": distilled,
    "past_sessions": past_sessions,
    "take_session": take_session,
}


def answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "memories": [_recalled(each) for each in answer.memories],
        "episodes": [_passage(each) for each in answer.episodes],
        "notes": list(answer.notes),
        "left_out": answer.left_out,
        **({"explained": asdict(answer.explained)} if answer.explained else {}),
    }


def memory_json(memory: Memory, status: Status) -> dict[str, Any]:
    claim = memory.claim
    return {
        "id": memory.id,
        "kind": str(claim.kind),
        "what": claim.what,
        "why": claim.why,
        "how": claim.how,
        "who": claim.who,
        "where": claim.where,
        "when": claim.when,
        "entities": [asdict(each) for each in claim.entities],
        "subject": claim.subject,
        "field": claim.field,
        "status": str(status),
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "assumed": memory.assumed,
        "confidence": memory.confidence,
        "sources": list(memory.episodes),
        "project": memory.project,
        "origin": str(memory.origin),
        "known_at": memory.known_at,
        "replaced_by": list(memory.replaced_by),
        "reason": memory.reason,
    }


def episode_json(episode: Episode) -> dict[str, Any]:
    return {**asdict(episode), "role": str(episode.role)}


def row_json(row: LedgerRow) -> dict[str, Any]:
    return {**asdict(row), "operation": str(row.operation)}


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "outcome": outcome.outcome,
        "id": outcome.id,
        "closed": list(outcome.closed),
        "retracted": list(outcome.retracted),
        "cut": list(outcome.cut),
        "reason": outcome.reason,
        **outcome.details,
    }


def _recalled(found: RecalledMemory) -> dict[str, Any]:
    return {
        **memory_json(found.memory, found.status),
        "score": round(found.score, 5),
        "relevance": "sure" if found.sure else "weak",
        "outdated_by": found.outdated_by,
        "says_the_same": list(found.repeats),
        "ranks": dict(found.ranks),
        "moved_by": list(found.reasons),
    }


def _passage(found: RecalledEpisode) -> dict[str, Any]:
    episode = found.episode
    return {
        "id": episode.id,
        "role": str(episode.role),
        "passage": found.passage,
        "before": found.before,
        "after": found.after,
        "relevance": "weak" if found.weak else "sure",
        "session": episode.session,
        "project": episode.project,
        "occurred_at": episode.occurred_at,
        "score": round(found.score, 5),
    }
