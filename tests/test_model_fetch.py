"""Fetching a model: resumed, checked, never half; choosing it; and all of it through the command."""

from __future__ import annotations

import fcntl
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
from hub_server import HubServer
from product import Product
from tiny_onnx import tiny_model

from mnemo_mcp.commands.config_file import set_values
from mnemo_mcp.errors import ModelError, Refused, SettingsError
from mnemo_mcp.models.catalogue import KNOWN, HubModel, hub_model
from mnemo_mcp.models.fetch import Hub, fetch, missing
from mnemo_mcp.models.options import from_settings
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import Encoders


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HubServer]:
    source = tmp_path / "source"
    tiny_model(source)
    files = {
        "tokenizer.json": (source / "tokenizer.json").read_bytes(),
        "onnx/model.onnx": (source / "model.onnx").read_bytes(),
        "onnx/model.onnx_data": bytes(range(256)) * 2_000,
    }
    with HubServer(files) as running:
        yield running


TOKENIZER = {"tokenizer": "tokenizer.json"}


class Place(NamedTuple):
    """A folder of models and a hub to fill it from."""

    server: HubServer
    folder: Path
    waits: list[float]

    @property
    def model(self) -> HubModel:
        found = hub_model("tiny", self.server.table())
        assert found is not None
        return found

    def fetch(self, model: HubModel | None = None, url: str = "") -> list[tuple[str, int]]:
        """What was told of progress."""
        told: list[tuple[str, int]] = []
        hub = Hub(url or self.server.url, 5.0, self.waits.append)
        fetch(model or self.model, hub, self.folder, lambda file, here: told.append((file.path, here)))
        return told

    def files(self) -> dict[str, bytes]:
        home = self.folder / "tiny"
        found = {str(each.relative_to(home)): each for each in home.rglob("*") if each.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if name != ".fetching"}


@pytest.fixture
def place(server: HubServer, tmp_path: Path) -> Place:
    return Place(server, tmp_path / "models", [])


def test_every_file_is_fetched_once_and_can_be_used(place: Place) -> None:
    told = place.fetch()
    assert place.files() == place.server.files
    assert dict(told) == {name: len(data) for name, data in place.server.files.items()}
    assert missing(place.model, place.folder) == []
    asked = len(place.server.seen)
    place.fetch()
    assert len(place.server.seen) == asked
    table = place.server.table(**TOKENIZER)
    pair = EncoderPair(Encoders(english="tiny", other="tiny", onnx={"tiny": table}), place.folder)
    pair.load()
    assert pair.problems == ()
    assert pair.encoders[0].encode(["north"]).shape == (1, 4)


def test_a_connection_that_breaks_off_is_taken_up_where_it_ended(place: Place) -> None:
    place.server.breaks_after = 200_000
    place.fetch()
    assert place.files() == place.server.files
    ranges = [asked for path, asked in place.server.seen if path.endswith("_data")]
    assert ranges == ["", "bytes=200000-", "bytes=400000-"]
    assert place.waits == []


def test_a_fetch_that_was_ended_goes_on_another_day(place: Place) -> None:
    data = place.folder / "tiny/onnx/model.onnx_data.part"
    data.parent.mkdir(parents=True)
    data.write_bytes(place.server.files["onnx/model.onnx_data"][:300_000])
    place.fetch()
    assert place.files() == place.server.files
    assert place.server.seen[-1][1] == "bytes=300000-"


def test_a_server_without_ranges_sends_all_again(place: Place) -> None:
    data = place.folder / "tiny/onnx/model.onnx_data.part"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"\0" * 300_000)
    place.server.ranges = False
    place.fetch()
    assert place.files() == place.server.files


def test_a_server_that_always_breaks_off_is_given_up_and_what_is_there_stays(place: Place) -> None:
    place.server.ranges = False
    place.server.breaks_after = 100_000
    with pytest.raises(ModelError, match="broke off after 100000 of 512000") as raised:
        place.fetch()
    assert "same command again" in raised.value.advice
    assert place.waits == [1.0, 2.0, 4.0]
    assert len(place.files()["onnx/model.onnx_data.part"]) == 100_000
    place.server.ranges = True
    place.fetch()
    assert place.files() == place.server.files


@pytest.mark.parametrize("damage", ["other", "longer"])
def test_wrong_bytes_are_removed(place: Place, damage: str) -> None:
    model = place.model
    data = place.server.files["onnx/model.onnx_data"]
    place.server.files["onnx/model.onnx_data"] = b"x" * len(data) if damage == "other" else data + b"x"
    with pytest.raises(ModelError, match="removed"):
        place.fetch(model)
    assert set(place.files()) == {"tokenizer.json", "onnx/model.onnx"}
    assert [each.path for each in missing(model, place.folder)] == ["onnx/model.onnx_data"]


def test_a_spoilt_part_is_removed_and_the_next_fetch_is_whole(place: Place) -> None:
    data = place.folder / "tiny/onnx/model.onnx_data.part"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"\0" * 300_000)
    with pytest.raises(ModelError, match="removed"):
        place.fetch()
    place.fetch()
    assert place.files() == place.server.files


def test_a_spoilt_file_is_fetched_again(place: Place) -> None:
    place.fetch()
    file = place.folder / "tiny/tokenizer.json"
    file.write_bytes(b"x" * file.stat().st_size)
    place.fetch()
    assert place.files() == place.server.files


def test_a_part_longer_than_the_file_begins_anew(place: Place) -> None:
    data = place.folder / "tiny/onnx/model.onnx_data.part"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"\0" * 600_000)
    with pytest.raises(ModelError, match="longer"):
        place.fetch()
    place.fetch()
    assert place.files() == place.server.files


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 4), (429, 4)])
def test_a_hub_that_refuses_says_so(place: Place, status: int, tries: int) -> None:
    place.server.status = status
    with pytest.raises(ModelError, match=str(status)):
        place.fetch()
    assert len(place.server.seen) == tries


def test_no_hub_at_all(place: Place) -> None:
    with pytest.raises(ModelError, match="broke off after 0"):
        place.fetch(url="http://127.0.0.1:9")
    with pytest.raises(Refused, match="no address"):
        place.fetch(url="file:///etc")


def test_a_disk_that_is_too_small_is_told_before(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1_000_000))
    with pytest.raises(Refused, match="are free"):
        place.fetch()
    assert place.server.seen == []


def test_one_fetch_of_a_model_at_a_time(place: Place) -> None:
    (place.folder / "tiny").mkdir(parents=True)
    with (place.folder / "tiny/.fetching").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="already"):
            place.fetch()
    place.fetch()


def test_the_proxy_of_the_environment_is_for_other_hosts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, place.server.url)  # as a proxy it is asked for whole addresses
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    place.fetch(url="http://hub.example.com")
    assert place.files() == place.server.files
    assert all(path.startswith("http://hub.example.com/lab/tiny/") for path, _ in place.server.seen)
    shutil.rmtree(place.folder)
    place.server.seen.clear()
    place.fetch()
    assert all(path.startswith("/lab/tiny/") for path, _ in place.server.seen)


# Descriptions


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repo": ""}, "not whole"),
        ({"files": []}, "not whole"),
        ({"repo": "../../x"}, "inside"),
        ({"files": [{"path": "../x", "bytes": 1, "sha256": "0" * 64}]}, "inside"),
        ({"files": [{"path": "/x", "bytes": 1, "sha256": "0" * 64}]}, "inside"),
        ({"files": [{"path": "x", "bytes": 0, "sha256": "0" * 64}]}, "Each file"),
        ({"files": [{"path": "x", "bytes": 1, "sha256": "0"}]}, "Each file"),
        ({"files": [{"path": "x", "bytes": 1}]}, "Each file"),
        ({"files": "x"}, "not whole"),
    ],
)
def test_a_description_that_cannot_be_meant(server: HubServer, change: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        hub_model("tiny", server.table() | change)


def test_a_known_model_is_described_whole(tmp_path: Path) -> None:
    for name, table in KNOWN.items():
        model = hub_model(name, table)
        assert model is not None
        options = from_settings(name, table, tmp_path)
        assert set(options.sha256) == {Path(each.path).name for each in model.files}
        assert options.path.parent == tmp_path / name / "onnx"
        assert EncoderPair(Encoders(english=name, other=name), tmp_path).ready is False


# config.toml


def test_a_value_is_changed_in_its_place(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '# mine\nprofile = "work" # the wall\n\n[ encoders ] # who reads\n# the first\n'
        "english = 'off'   # for now\n[encoders.onnx.x]\npath = \"/a\"\n"
    )
    file.chmod(0o640)
    set_values(file, "encoders", {"english": "a", "other": 'b"'})
    assert file.read_text() == (
        '# mine\nprofile = "work" # the wall\n\n[ encoders ] # who reads\nother = "b\\""\n# the first\n'
        'english = "a"   # for now\n[encoders.onnx.x]\npath = "/a"\n'
    )
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_lines_end_as_they_did(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes('# \u2028 mine\r\n[encoders]\r\nother = "a" # b\r\n'.encode())
    set_values(file, "encoders", {"other": "c", "english": "d"})
    assert file.read_bytes().decode() == (
        '# \u2028 mine\r\n[encoders]\r\nenglish = "d"\r\nother = "c" # b\r\n'
    )


def test_a_file_that_is_not_there_or_has_no_such_table(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    set_values(file, "encoders", {"other": "a"})
    assert tomllib.loads(file.read_text()) == {"encoders": {"other": "a"}}
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text('[encoders.onnx.x]\npath = "/a"')
    set_values(file, "encoders", {"other": "a"})
    assert tomllib.loads(file.read_text()) == {"encoders": {"onnx": {"x": {"path": "/a"}}, "other": "a"}}


@pytest.mark.parametrize(
    "text",
    ['encoders.english = "a"\n', 'encoders = {english = "a"}\n', '[encoders]\nenglish = """a\n"""\n', "[enc"],
)
def test_a_file_written_otherwise_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(SettingsError):
        set_values(file, "encoders", {"english": "b", "other": "b"})
    assert file.read_text() == text


# The command


def test_from_a_hub_to_an_answer(server: HubServer, product: Product) -> None:
    table = server.table(**TOKENIZER, query_prefix="", bos_id=6)
    product.data.mkdir(parents=True)
    config = product.data / "config.toml"
    config.write_text(
        "# mine\n" + tomli_w.dumps({"encoders": {"hub": server.url, "onnx": {"tiny": table}}}), "utf-8"
    )
    refused = product.run("model", "use", "tiny")
    assert refused.returncode == 1
    assert b"mnemo model fetch tiny" in refused.stderr
    listed = {each["name"]: each for each in product.json("model", "list")["models"]}
    assert not listed["tiny"]["there"]
    assert listed["embeddinggemma-2"]["bytes"] == 346_390_603
    assert listed["use-m3"]["reads"] == ["other"]

    done = product.run("model", "fetch", "tiny")
    assert done.returncode == 0, done.stderr
    told = done.stderr.decode()
    assert "tiny/onnx/model.onnx_data: 0.5 MB of 0.5 MB (100%)" in told
    assert "/s" in told
    assert product.json("model", "fetch", "tiny")["fetched"] == 0

    product.json("model", "use", "tiny")
    assert config.read_text().startswith("# mine\n")
    product.remember("north")
    assert product.recall("north")[0]["what"] == "north"
    assert [each["reads"] for each in product.json("model", "list")["models"] if each["name"] == "tiny"] == [
        ["english", "other"]
    ]
    (encoder,) = product.json("status")["encoders"]
    assert encoder.startswith("tiny-")
    assert not [path for path in product.data.rglob("*") if path.stat().st_mode & 0o077]


def test_wrong_names_and_a_hub_that_fails_end_with_1(server: HubServer, product: Product) -> None:
    table = server.table(**TOKENIZER)
    product.data.mkdir(parents=True)
    text = tomli_w.dumps({"encoders": {"hub": server.url, "onnx": {"tiny": table}}})
    (product.data / "config.toml").write_text(text)
    server.status = 404
    for arguments, said in (
        (("fetch", "tiny"), "404"),
        (("fetch", "use-m3"), "no model that can be fetched"),
        (("use", "nothing"), "no encoder 'nothing'"),
    ):
        done = product.run("model", *arguments)
        assert done.returncode == 1
        assert said in done.stderr.decode()
        assert done.stdout == b""
    assert (product.data / "config.toml").read_text() == text
    assert product.run("model").returncode == 2


def test_one_kind_of_questions_and_back_to_the_packaged_pair(product: Product) -> None:
    product.data.mkdir(parents=True)
    product.json("model", "use", "use-m3", "--for", "english")
    config = product.data / "config.toml"
    assert tomllib.loads(config.read_text()) == {"encoders": {"english": "use-m3"}}
    product.json("model", "use", "default")
    packaged = {"english": "minilm-l6-v2-int8", "other": "use-m3"}
    assert tomllib.loads(config.read_text()) == {"encoders": packaged}
