"""Tables and triggers of `mnemo.db`, and the steps from one schema version to the next."""

from __future__ import annotations

# A text may be blanked (never changed) once an erase row names it; every other change is refused. The
# INSERT triggers close the hole of INSERT OR REPLACE, whose implied delete fires no trigger by itself.
_PROTECTION = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
WHEN NOT ({unchanged} AND NEW.{text} = '{blank}' AND EXISTS (
    SELECT 1 FROM ledger WHERE memory = OLD.{subject} AND operation = 'erase'))
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;

CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;

CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id OR seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, '{table} is append-only: this id exists'); END;
"""


def _protect(table: str, columns: str, text: str, blank: str, subject: str) -> str:
    kept = (column for column in columns.split() if column != text)
    unchanged = " AND ".join(f"NEW.{column} IS OLD.{column}" for column in kept)
    return _PROTECTION.format(table=table, unchanged=unchanged, text=text, blank=blank, subject=subject)


_LEDGER = """seq id profile memory operation body valid_from valid_to known_at
             source cause episodes recorded_at"""
_EPISODES = "seq id profile role text client session project turn occurred_at zone recorded_at"

_FIRST = f"""
CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL CHECK (profile <> ''),
    memory TEXT NOT NULL,
    operation TEXT NOT NULL,
    body TEXT NOT NULL,
    valid_from TEXT,
    valid_to TEXT,
    known_at TEXT NOT NULL,
    source TEXT NOT NULL,
    cause TEXT NOT NULL,
    episodes TEXT NOT NULL,
    recorded_at TEXT NOT NULL
) STRICT;
CREATE INDEX ledger_by_memory ON ledger (memory, seq);

CREATE TABLE episodes (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL CHECK (profile <> ''),
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    client TEXT NOT NULL,
    session TEXT NOT NULL,
    project TEXT NOT NULL,
    turn TEXT NOT NULL,
    occurred_at TEXT NOT NULL,
    zone TEXT NOT NULL,
    recorded_at TEXT NOT NULL
) STRICT;
CREATE INDEX episodes_by_session ON episodes (profile, session, seq);

CREATE TABLE snapshot (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    seq INTEGER NOT NULL,
    field TEXT NOT NULL,
    state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_by_field ON snapshot (profile, field) WHERE field <> '';

CREATE INDEX snapshot_by_seq ON snapshot (seq);

CREATE TABLE entities (
    id TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    aliases TEXT NOT NULL DEFAULT '[]',
    merged_into TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX entities_by_merge ON entities (merged_into) WHERE merged_into <> '';
CREATE TABLE entity_names (
    profile TEXT NOT NULL,
    key TEXT NOT NULL,
    entity TEXT NOT NULL,
    PRIMARY KEY (profile, key, entity)
) STRICT, WITHOUT ROWID;
CREATE TABLE links (
    memory TEXT NOT NULL,
    entity TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (memory, entity, role)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_by_entity ON links (entity);
CREATE TABLE citations (
    episode TEXT NOT NULL,
    memory TEXT NOT NULL,
    PRIMARY KEY (episode, memory)
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
    encoder TEXT NOT NULL,
    hash BLOB NOT NULL,
    scale REAL NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (encoder, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE standing (
    memory TEXT PRIMARY KEY,
    profile TEXT NOT NULL,
    keep INTEGER NOT NULL DEFAULT 0,
    uses INTEGER NOT NULL DEFAULT 0,
    last_used TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    client TEXT NOT NULL,
    project TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    PRIMARY KEY (profile, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE injections (
    seq INTEGER PRIMARY KEY,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    moment TEXT NOT NULL,
    at TEXT NOT NULL,
    prompt TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    memories TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
CREATE INDEX injections_by_session ON injections (profile, session, seq);
CREATE TABLE shown (
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    memory TEXT NOT NULL,
    injection INTEGER NOT NULL,
    PRIMARY KEY (profile, session, memory)
) STRICT, WITHOUT ROWID;

CREATE TABLE work (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    profile TEXT NOT NULL,
    subject TEXT NOT NULL,
    due_at TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL DEFAULT '',
    UNIQUE (kind, profile, subject)
) STRICT;

CREATE TABLE upgrades (
    schema INTEGER PRIMARY KEY,
    version TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
{_protect("ledger", _LEDGER, "body", "{}", "memory")}
{_protect("episodes", _EPISODES, "text", "", "id")}
"""

_CONNECTIONS = """
CREATE TABLE connections (
    one TEXT NOT NULL,
    other TEXT NOT NULL CHECK (one < other),
    profile TEXT NOT NULL CHECK (profile <> ''),
    weight REAL NOT NULL,
    touched_at TEXT NOT NULL,
    PRIMARY KEY (one, other)
) STRICT, WITHOUT ROWID;
CREATE INDEX connections_by_other ON connections (other);
CREATE INDEX connections_by_profile ON connections (profile);
"""
# `asked` counts how often a task was asked for, so that one asked for again while it runs is not lost.
_QUEUE = """
ALTER TABLE work ADD COLUMN error_kind TEXT NOT NULL DEFAULT '';
ALTER TABLE work ADD COLUMN claimed_until TEXT NOT NULL DEFAULT '';
ALTER TABLE work ADD COLUMN asked INTEGER NOT NULL DEFAULT 1;
CREATE INDEX work_by_due ON work (kind, due_at);

CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    request TEXT NOT NULL,
    purpose TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    outcome TEXT NOT NULL,
    body TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX calls_by_request ON calls (request) WHERE body <> '';
CREATE INDEX calls_by_time ON calls (at);
CREATE TABLE call_sources (
    source TEXT NOT NULL,
    call INTEGER NOT NULL,
    PRIMARY KEY (source, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX call_sources_by_call ON call_sources (call);

CREATE TABLE endpoints (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    since TEXT NOT NULL DEFAULT '',
    retry_at TEXT NOT NULL DEFAULT '',
    problem TEXT NOT NULL DEFAULT '',
    problem_kind TEXT NOT NULL DEFAULT '',
    manners TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
"""
# What the judge said of a candidate and one neighbour ("" for the candidate by itself), and the ledger rows
# that came of it. `candidate` and `guard` hold texts that can be erased; they are blanked then.
_VERDICTS = """
CREATE TABLE verdicts (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL CHECK (profile <> ''),
    key TEXT NOT NULL,
    memory TEXT NOT NULL,
    neighbour TEXT NOT NULL,
    relation TEXT NOT NULL,
    shares TEXT NOT NULL,
    judge TEXT NOT NULL,
    guard TEXT NOT NULL,
    done TEXT NOT NULL,
    reason TEXT NOT NULL,
    rows TEXT NOT NULL,
    candidate TEXT NOT NULL,
    at TEXT NOT NULL,
    undone_at TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX verdicts_by_memory ON verdicts (memory) WHERE memory <> '';
CREATE INDEX verdicts_by_neighbour ON verdicts (neighbour) WHERE neighbour <> '';
CREATE TABLE verdict_sources (
    episode TEXT NOT NULL,
    verdict INTEGER NOT NULL,
    PRIMARY KEY (episode, verdict)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_by_profile ON snapshot (profile, seq);
CREATE TABLE consolidations (
    profile TEXT NOT NULL,
    pass TEXT NOT NULL,
    reached INTEGER NOT NULL,
    goal INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (profile, pass)
) STRICT, WITHOUT ROWID;
"""
# What became of each memory shown, and how turns were answered. `evidence` and `acts` hold words of texts
# that can be erased; they are blanked with them.
_USAGE = """
ALTER TABLE injections ADD COLUMN detail TEXT NOT NULL DEFAULT '{}';
ALTER TABLE sessions ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN inherited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN counted_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN context_since TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN ended_at TEXT;
ALTER TABLE standing ADD COLUMN muted_at TEXT;
ALTER TABLE standing ADD COLUMN misses TEXT NOT NULL DEFAULT '[]';
ALTER TABLE standing ADD COLUMN door_muted_at TEXT;
ALTER TABLE standing ADD COLUMN door_misses TEXT NOT NULL DEFAULT '[]';
CREATE TABLE turns (
    seq INTEGER PRIMARY KEY,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    turn TEXT NOT NULL,
    at TEXT NOT NULL,
    answer TEXT NOT NULL,
    prompts TEXT NOT NULL,
    acts TEXT NOT NULL,
    calls INTEGER,
    read INTEGER,
    judged INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX turns_by_session ON turns (profile, session, seq);
CREATE TABLE exposures (
    injection INTEGER NOT NULL,
    memory TEXT NOT NULL,
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    at TEXT NOT NULL,
    verdict TEXT NOT NULL DEFAULT '',
    probability REAL,
    judge TEXT NOT NULL DEFAULT '',
    evidence TEXT NOT NULL DEFAULT '',
    turn INTEGER,
    turns INTEGER NOT NULL DEFAULT 0,
    doubts INTEGER NOT NULL DEFAULT 0,
    judged_at TEXT,
    PRIMARY KEY (injection, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX exposures_by_session ON exposures (profile, session);
CREATE INDEX exposures_by_memory ON exposures (memory);
CREATE TABLE private_sessions (
    profile TEXT NOT NULL,
    session TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (profile, session)
) STRICT, WITHOUT ROWID;
"""

# How far each thread was read, and what became of every claim a model took from one. `what` and `reason` hold
# words of texts that can be erased; they are blanked with them.
_THREADS = """
CREATE TABLE threads (
    profile TEXT NOT NULL CHECK (profile <> ''),
    session TEXT NOT NULL,
    folder TEXT NOT NULL DEFAULT '',
    reached INTEGER NOT NULL DEFAULT 0,
    read_at TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (profile, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE extractions (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    profile TEXT NOT NULL CHECK (profile <> ''),
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    what TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    memory TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX extractions_by_session ON extractions (profile, session, seq);
CREATE INDEX extractions_by_memory ON extractions (memory) WHERE memory <> '';
CREATE TABLE extraction_sources (
    episode TEXT NOT NULL,
    extraction INTEGER NOT NULL,
    PRIMARY KEY (episode, extraction)
) STRICT, WITHOUT ROWID;
"""

_SECOND = _CONNECTIONS + _QUEUE + _VERDICTS + _USAGE + _THREADS

MIGRATIONS: tuple[str, ...] = (_FIRST, _SECOND)
"""Step n leads from schema version n to n + 1; steps are only ever added."""

SCHEMA_VERSION = len(MIGRATIONS)

TRIGGERS = frozenset(
    f"{table}_no_{change}" for table in ("ledger", "episodes") for change in ("update", "delete", "replace")
)
"""Without one of these the log is not append-only; `doctor` looks for them."""
