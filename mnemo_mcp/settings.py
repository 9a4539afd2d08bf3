"""Settings: the data folder, `config.toml`, the environment, and every measured constant with its source."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mnemo_mcp.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Encoders:
    """Which encoder reads English questions and which every other; "off" leaves words alone to answer.

    `onnx` describes further encoders by name, see `models.options.OnnxOptions`: `path`, `tokenizer`,
    `pooling`, `dims`, `truncate_dims`, `max_tokens`, `query_prefix`, `document_prefix`, `bos_id`, `eos_id`,
    `normalise`, `sha256`, and where it is fetched from, see `models.catalogue`; `endpoint` those behind an
    address, see `models.embeddings.EndpointOptions`. `hub` is where `mnemo model fetch` fetches from.
    """

    english: str = "minilm-l6-v2-int8"
    other: str = "use-m3"
    onnx: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    endpoint: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hub: str = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a hook may say."""

    block_tokens: int = 800
    door_tokens: int = 400  # of the block when a session opens
    session_tokens: int = 4_000
    block_characters: int = 9_000  # Claude Code cuts hook output at 10,000 (measured with 2.1.332)
    token_scale: float = 1.0  # the count is that of a WordPiece vocabulary; scale it for other models
    state_days: float = 7.0  # after these a state is no longer told unasked
    nearly_as_sure: float = 0.8  # so much of what speaks for the first one speaks for each further one told


@dataclass(frozen=True, slots=True)
class Floor:
    """What must speak for a memory, per encoder because their cosines do not compare.

    The last two decide what answers a question, all others what is shown unasked (see recall/relevance.py).
    Set on tests/data/injection.jsonl and questions.jsonl together; `bench/floor.py` measures what they give.
    """

    meaning_alone: float  # least cosine where no word agrees, or a common one
    meaning_with_words: float  # least cosine where a rare word or a name does, or several words do
    meaning_surely: float  # from here on the best one of these is shown even among many like it
    unrelated: float  # where the sixth of some hundred unrelated memories stands
    stands_out: float
    words_alone: float  # least share of the question's weight, by itself
    words_with_meaning: float
    behind: float
    meaning_asked: float
    words_asked: float


FLOORS: Mapping[str, Floor] = {
    "minilm-l6-v2-int8": Floor(0.60, 0.38, 0.55, 0.25, 0.07, 0.40, 0.20, 0.15, 0.18, 0.20),
    "use-m3": Floor(0.22, 0.18, 0.40, 0.17, 0.04, 0.40, 0.30, 0.15, 0.10, 0.20),
}
FLOOR_ELSEWHERE = Floor(0.60, 0.45, 0.75, 0.35, 0.07, 0.40, 0.25, 0.15, 0.35, 0.20)
"""For encoders nobody measured, and where words alone must do."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each channel's vote counts; set by `bench/quality.py` on one half of the questions."""

    meaning: float = 1.0
    words_covering: float = 0.8  # the more, the more of the question the best memory's words cover
    identifier: float = 2.0  # of the words, where the very identifier asked for is found
    entities: float = 0.1
    time: float = 0.4
    connections: float = 0.3
    scope: float = 0.05


@dataclass(frozen=True, slots=True)
class Recall:
    """Constants of the ranking; set by `bench/quality.py`, reported in docs/recall.md."""

    rank_constant: int = 15  # k of weighted reciprocal rank fusion
    channel_depth: int = 50
    votes_by: str = "scores"  # or "ranks"; see recall/fusion.py
    weights: Weights = field(default_factory=Weights)
    limit: int = 8
    limit_most: int = 50
    cross_encoder: str = ""  # a folder with model.onnx and tokenizer.json; empty is off
    # recall/freshness.py, set on scenarios of changing facts where nobody says what replaces what
    alike_meaning: float = 0.65  # cosine of two memories that may tell of the same thing
    alike_behind: float = 0.20  # and how much further from the question the newer one may be
    alike_score: float = 0.65  # and which share of the older one's score it has at least
    alike_words: float = 0.40  # the share of common words, where there are no vectors
    # recall/cache.py: from this cosine on the answer to another question serves where the guard agrees; above
    # 1 never. Off: questions about 120 s and 600 s are .947 alike, and answering costs a few milliseconds.
    same_question: float = 2.0
    repeat_meaning: float = 0.96  # cosine of two memories that may say the same; the guard decides
    repeat_words: float = 0.85
    kept_gain: float = 0.10  # recall/order.py: shares of the fused score
    confirmed_gain: float = 0.02
    faded_loss: float = 0.05
    saying_score: float = 0.85  # so near to the first, what says why goes before it if why is asked
    past_gain: float = 0.15
    words_share: float = 0.5  # of the words' coverage beside the cosine, where relevance is judged
    field_rank: int = 6  # as many memories may stand out at once; the last of them is the field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that speaks the OpenAI protocol, and the model asked there."""

    url: str = ""  # up to and with /v1
    model: str = ""
    key_env: str = ""  # the variable that holds the key
    key_file: str = ""  # the file that holds it
    key: str = ""  # the key itself; better kept outside this file
    timeout_seconds: float = 180.0  # a small model on two cores writes 2,000 tokens in about this time
    max_input_tokens: int = 6_000  # with the answer this fits a window of 8,192
    max_output_tokens: int = 2_000
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # goes into every request as it is
    price_in: float = 0.0  # per million tokens, in the person's currency
    price_out: float = 0.0
    logprob_temperature: float = 1.0  # above 1 takes certainty from probabilities read off letters


@dataclass(frozen=True, slots=True)
class Models:
    """Which endpoint reads threads and which one judges; with no name set no model is ever asked."""

    endpoint: Mapping[str, Endpoint] = field(default_factory=dict, metadata={"each": Endpoint})
    extraction: str = ""
    decisions: str = ""
    decisions_api: str = "auto"  # auto, openai, systemone, logprobs, json or off
    daily_tokens: int = 2_000_000  # in and out, of all endpoints together; 0 is no ceiling
    failures_in_row: int = 3  # so many open the circuit of an endpoint
    rest_seconds: float = 30.0  # the first rest; each further one is twice as long
    rest_seconds_most: float = 1_800.0


@dataclass(frozen=True, slots=True)
class UsageWeights:
    """What each trace of a memory in an answer counts for (standing/scorer.py), and two cuts.

    From `used_from` on it was used, below `unused_below` it surely was not; nothing is said in between.
    """

    base: float
    share: float
    mass: float
    exact: float
    told: float
    meaning: float
    lift: float
    used_from: float
    unused_below: float


USAGE: Mapping[str, UsageWeights] = {
    "minilm-l6-v2-int8": UsageWeights(-2.61, 2.77, 2.40, 2.35, 0.50, 1.34, 1.34, 0.70, 0.20),
    "use-m3": UsageWeights(-2.88, 2.86, 2.77, 2.03, 0.70, 2.08, 1.34, 0.72, 0.12),
}
USAGE_WORDS = UsageWeights(-2.39, 3.52, 3.65, 2.13, 0.53, 0.0, 0.0, 0.72, 0.20)
"""Fitted by `bench/usage_weights.py` to two thirds of tests/data/usage.jsonl; words alone count where no
encoder is ready, or one that nobody measured."""


@dataclass(frozen=True, slots=True)
class Usage:
    """When a memory that hooks showed in vain is shown no more, and how it is judged."""

    misses: int = 6  # so many sure misses
    days: float = 30.0  # within so many days, without a use
    door_turns: int = 10  # answered turns after which what a session was opened with counts as missed
    decided_used: float = 0.08  # a decisions model: from this probability on it was used
    decided_unused: float = 0.03  # and below this one it surely was not
    uncalibrated_may_mute: bool = False  # models that give no calibrated probabilities


@dataclass(frozen=True, slots=True)
class Judging:
    """When the judge acts, and what it is shown; see docs/judging.md."""

    act_from: float = 0.6  # the probability below which nothing is merged, closed, retracted or left out
    said_may_act: bool = False  # models that name an answer and give no probability
    neighbours: int = 8
    by_meaning: int = 3  # so many of them, then
    by_words: int = 3  # so many others, then those that share entities
    idle_seconds: float = 300.0  # after these without a change what is new is looked through for repeats
    full_days: float = 7.0  # between two passes over everything


@dataclass(frozen=True, slots=True)
class Distilling:
    """How threads are read, and how like a claim must be to what it rests on; see docs/distillation.md."""

    quiet_seconds: float = 120.0  # without a new episode, before a thread is read
    chunk_tokens: int = 4_000  # of lines in one request, where the endpoint takes so many
    chunk_memories: int = 8  # claims taken from one answer
    thread_memories: int = 24  # memories one session may leave
    words_alike: float = 0.34  # of the words of the shorter: claim and clause speak of one thing
    words_supporting: float = 0.5  # of the words of a reason that its lines must hold
    meaning_alike: float = 0.20  # cosine across languages: a low bar, not measured on labelled pairs
    state_days: float = 7.0  # after these a state that was told of the moment is past


@dataclass(frozen=True, slots=True)
class Daemon:
    """The life of the resident process."""

    idle_seconds: float = 4 * 3600.0
    maintenance_seconds: float = 60.0
    episodes_mib: float = 192.0  # of RAM; others are looked up on disk, far more slowly
    keep_versions_seconds: float = 60.0  # LanceDB: a reader whose version went is served the newest


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a person may set, with its default."""

    home: Path
    profile: str = "personal"
    zone: str = ""  # an IANA name; empty is the zone of this machine
    transcript_roots: tuple[str, ...] = ()  # further folders transcripts may be read from
    exclude: tuple[str, ...] = ()  # folders nothing is remembered in, as "~/clients/**"; read at every call
    encoders: Encoders = field(default_factory=Encoders)
    budgets: Budgets = field(default_factory=Budgets)
    recall: Recall = field(default_factory=Recall)
    models: Models = field(default_factory=Models)
    usage: Usage = field(default_factory=Usage)
    judging: Judging = field(default_factory=Judging)
    distilling: Distilling = field(default_factory=Distilling)
    daemon: Daemon = field(default_factory=Daemon)

    @property
    def database(self) -> Path:
        return self.home / "mnemo.db"

    @property
    def search(self) -> Path:
        return self.home / "search"

    @property
    def model_files(self) -> Path:
        return self.home / "models"

    @property
    def index(self) -> Path:
        return self.home / "index"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def inbox(self) -> Path:
        return self.home / "inbox"


def expanded(text: str) -> Path:
    """A path with its ~ expanded; one that names nobody known stays as it is, and so is not absolute."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def data_folder(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """The data folder: `path`, else MNEMO_HOME, else the platform's place for application data.

    `~` is expanded. Raises `SettingsError` for a relative path, because it would mean another folder
    for every working folder it is used from.
    """
    import platformdirs  # commands start from this module, also where the installation is not whole

    chosen = str(path) if path is not None else environ.get("MNEMO_HOME", "")
    folder = expanded(chosen or platformdirs.user_data_dir("mnemo", appauthor=False))
    if not folder.is_absolute():
        raise SettingsError(
            f"The data folder {chosen!r} is not an absolute path.",
            "Set MNEMO_HOME to a path that begins with / or ~.",
        )
    return folder


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings of a data folder: defaults, then `config.toml`, then MNEMO_* variables.

    Raises `SettingsError` when the file or a value cannot be used; unknown keys are refused by name.
    """
    home = data_folder(path, environ)
    settings = _from_file(Settings(home=home), home / "config.toml")
    if profile := environ.get("MNEMO_PROFILE"):
        settings = replace(settings, profile=profile)
    if idle := environ.get("MNEMO_IDLE_SECONDS"):
        settings = replace(settings, daemon=replace(settings.daemon, idle_seconds=_number(idle)))
    if environ.get("MNEMO_ENCODERS") == "off":
        settings = replace(settings, encoders=replace(settings.encoders, english="off", other="off"))
    if not settings.profile.strip():
        raise SettingsError("The profile has no name.", "Give `profile` a name in config.toml.")
    _check_models(settings.models)
    return settings


DECISIONS_APIS = ("auto", "openai", "systemone", "logprobs", "json", "off")


def _check_models(models: Models) -> None:
    if models.decisions_api not in DECISIONS_APIS:
        raise SettingsError(
            f"models.decisions_api is {models.decisions_api!r}.", f"It is one of {', '.join(DECISIONS_APIS)}."
        )
    for use, name in (("extraction", models.extraction), ("decisions", models.decisions)):
        if name and name not in models.endpoint:
            raise SettingsError(
                f"models.{use} names the endpoint {name!r}, which is not described.",
                f"Add [models.endpoint.{name}] with `url` and `model`.",
            )
    for name, endpoint in models.endpoint.items():
        _check_endpoint(f"models.endpoint.{name}", endpoint)


def _check_endpoint(where: str, endpoint: Endpoint) -> None:
    if not _is_web_address(endpoint.url):
        raise SettingsError(f"{where}.url is {endpoint.url!r}.", "Give it as http://127.0.0.1:11434/v1.")
    if not endpoint.model:
        raise SettingsError(f"{where} has no model.", "Set `model` to the name the server knows it by.")
    if sum(map(bool, (endpoint.key_env, endpoint.key_file, endpoint.key))) > 1:
        raise SettingsError(f"{where} has several keys.", "Keep one of `key_env`, `key_file` and `key`.")
    least = min(endpoint.timeout_seconds, endpoint.max_input_tokens, endpoint.max_output_tokens)
    if least <= 0 or endpoint.logprob_temperature <= 0:
        raise SettingsError(f"{where} has a limit that is not above 0.", "Give it a number above 0.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"MNEMO_IDLE_SECONDS is {text!r}.", "Give a number of seconds.") from None


def _from_file(settings: Settings, file: Path) -> Settings:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return settings
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}.", "Mend or remove the file.") from None
    merged: Settings = _merge(settings, table, str(file))
    return merged


def _merge(section: Any, table: Mapping[str, Any], where: str) -> Any:
    known = {each.name: getattr(section, each.name) for each in fields(section)}
    known.pop("home", None)
    tables = {each.name: each.metadata["each"] for each in fields(section) if "each" in each.metadata}
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise SettingsError(f"{where}: unknown setting {key!r}.", f"Known are {', '.join(known)}.")
        place = f"{where}: {key}"
        if key in tables and isinstance(value, Mapping):
            value = {name: _fitting(tables[key](), each, f"{place}.{name}") for name, each in value.items()}
        changes[key] = _fitting(known[key], value, place)
    return replace(section, **changes)


def _fitting(current: Any, value: Any, where: str) -> Any:
    if hasattr(current, "__dataclass_fields__") and isinstance(value, Mapping):
        return _merge(current, value, where)
    if isinstance(current, tuple) and isinstance(value, list):
        return tuple(str(each) for each in value)
    if isinstance(current, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(current, Mapping) and isinstance(value, Mapping):
        return value
    if type(current) is not type(value):
        raise SettingsError(f"{where} is {value!r}.", f"It takes a value like {current!r}.")
    return value


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number, a bracket left open
        return False
