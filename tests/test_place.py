"""The place of the data: refused where it is nobody's, made for one person, kept when the program goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kept_stores import opened, place
from make_schema_fixture import hook
from product import EVENTS, ROOT, Product, alive, until

import mnemo_mcp
from mnemo_mcp.errors import SettingsError
from mnemo_mcp.models.options import from_settings

NOWHERE = ("./mem", "mem", "../mem", "~nobody-of-this-name/mem")
REFUSED = "is not an absolute path. Set MNEMO_HOME to a path that begins with / or ~."


@dataclass(frozen=True)
class Installed:
    """A mnemo as some interpreter runs it, for a person who stands in some folder."""

    python: Path
    environ: dict[str, str]
    here: Path

    def run(self, *arguments: str, given: bytes = b"", **environ: str) -> tuple[int, str]:
        done = subprocess.run(
            [self.python, "-m", *arguments],
            input=given,
            env={**self.environ, **environ},
            cwd=self.here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        return done.returncode, done.stdout.decode()

    def mnemo(self, *arguments: str, **environ: str) -> tuple[int, str]:
        return self.run("mnemo_mcp.cli", *arguments, **environ)

    def recalled(self, question: str, **environ: str) -> set[str]:
        code, printed = self.mnemo("recall", question, "--json", **environ)
        assert code == 0, printed
        return {each["what"] for each in json.loads(printed)["memories"]}


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    with Product(tmp_path, MNEMO_ENCODERS="off") as fresh:
        yield fresh


@pytest.mark.parametrize("home", NOWHERE)
def test_place_that_depends_on_where_one_stands_is_refused(tmp_path: Path, home: str) -> None:
    product = Product(tmp_path, MNEMO_ENCODERS="off", MNEMO_HOME=home)
    here = tmp_path / "project"
    here.mkdir()
    person = Installed(Path(sys.executable), product.environ, here)
    for command in (["status"], ["remember", "Queue is NATS."], ["serve"]):
        code, printed = person.mnemo(*command)
        assert code == 1
        assert f"{home!r} {REFUSED}" in printed and "Traceback" not in printed
    code, printed = person.run("mnemo_mcp.daemon")
    assert (code, printed) == (1, f"mnemo: The data folder {home!r} {REFUSED}\n")
    for moment in EVENTS:
        assert product.hook(moment, prompt="which queue?", last_assistant_message="NATS.") == ""
    assert all("MNEMO_HOME is not an absolute path" in line for line in product.log()) and product.log()
    server = product.stdio()
    server.open()
    went_well, text = server.call("recall", query="queue")
    assert not went_well and "MNEMO_HOME is not an absolute path" in text
    with pytest.raises(SettingsError) as raised:
        mnemo_mcp.open(home)
    assert REFUSED in str(raised.value)
    server.end()
    assert list(here.iterdir()) == []
    assert not [*tmp_path.rglob("mem"), *ROOT.glob("mem"), *ROOT.glob("~*")]


def test_nobodys_folder_is_refused_wherever_a_path_is_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not an absolute path"):
        from_settings("tiny", {"path": "~nobody-of-this-name/model.onnx"})
    with opened(place(tmp_path / "data"), transcript_roots=("~nobody-of-this-name/notes",)) as service:
        fields = {"transcript_path": "/nowhere.jsonl", "last_assistant_message": "The rack is full."}
        hook(service, "turn-end", EVENTS["turn-end"], **fields)
        assert [each.text for each in service.store.episodes.all()][-1] == "The rack is full."


@pytest.mark.parametrize("home", ["{home}/new/a b/ü?#%41/mem", "~/mem"])
def test_missing_folders_are_made_for_this_person_alone(product: Product, home: str) -> None:
    before = set(product.home.iterdir())
    product.environ["MNEMO_HOME"] = home.format(home=product.home)
    place = Path(home.format(home=product.home).replace("~", str(product.home)))
    mask = os.umask(0o022)
    try:
        product.hook("session-open", source="startup")
        stored = product.remember("The queue is NATS.")["id"]
    finally:
        os.umask(mask)
    assert [each["id"] for each in product.recall("queue")] == [stored]
    assert f"data in {place}\n" in product.run("status").stdout.decode()
    server = product.stdio()
    server.open()
    assert stored in server.call("recall", query="queue")[1]
    made = [
        each
        for top in set(product.home.iterdir()) - before
        for each in (top, *top.rglob("*"))
        if each.is_dir()
    ]
    assert made and (place / "mnemo.db").is_file()
    assert {each.stat().st_mode & 0o777 for each in made} == {0o700}
    assert not [each for each in product.home.iterdir() if "~" in each.name]


def a_folder_for_the_store(data: Path) -> None:
    (data / "mnemo.db").mkdir(parents=True)


def a_folder_for_the_settings(data: Path) -> None:
    (data / "config.toml").mkdir(parents=True)


def things_of_another_kind(data: Path) -> None:
    (data / "pictures").mkdir(parents=True, mode=0o755)


def a_link_to_nowhere(data: Path) -> None:
    data.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data.write_text("occupied"), "it is not a folder"),
        (a_folder_for_the_store, "mnemo.db is a folder"),
        (a_folder_for_the_settings, "config.toml cannot be read"),
        (a_link_to_nowhere, "it is not a folder"),
        (things_of_another_kind, "in use for other things"),
    ],
    ids=["a file", "a folder for the store", "a folder for the settings", "a link to nowhere", "pictures"],
)
def test_what_lies_in_the_way_is_one_clear_error(product: Product, spoil: Any, said: str) -> None:
    spoil(product.data)
    for command in (["remember", "Queue is NATS."], ["recall", "queue"]):
        done = product.run(*command)
        printed = done.stderr.decode()
        assert done.returncode == 1 and done.stdout == b""
        assert said in printed and len(printed.splitlines()) == 1, printed
    assert said in json.loads(product.run("status", "--json").stdout)["problems"][0]
    assert {each.stat().st_mode & 0o777 for each in product.data.glob("pictures")} <= {0o755}


def test_settings_own_no_memories(product: Product) -> None:
    product.data.mkdir(mode=0o700)
    settings = product.data / "config.toml"
    settings.write_text('profile = "work"\nzone = "Asia/Tokyo"\n[recall]\nlimit = 2\n')
    told = {f"The {thing} is in rack {number}." for number, thing in enumerate(("gateway", "queue", "cache"))}
    for what in told:
        product.remember(what)
    assert len(product.recall("which rack?")) == 2
    product.run("stop")
    settings.unlink()
    person = Installed(Path(sys.executable), product.environ, product.home)
    assert person.recalled("which rack?", MNEMO_PROFILE="work") == told
    assert person.recalled("which rack?") == set(), "a wall does not fall with the file that named it"


def installation(folder: Path) -> Path:
    """mnemo in an environment of its own, all it needs borrowed from this one; its interpreter."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = [each for each in sys.path if each.endswith("site-packages")]
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    put_package(site)
    return folder / "bin/python"


def put_package(site: Path) -> None:
    shutil.rmtree(site / "mnemo_mcp", ignore_errors=True)
    shutil.copytree(ROOT / "mnemo_mcp", site / "mnemo_mcp")
    (site / "mnemo_mcp/__init__.py").touch()  # installers do not keep the times of files


def test_memories_outlive_the_installation(product: Product) -> None:
    cache = product.home / "cache"
    told = {f"The {thing} is in rack {number}." for number, thing in enumerate(("gateway", "queue", "cache"))}
    first = Installed(installation(cache / "one"), product.environ, product.home)
    for what in told:
        assert first.mnemo("remember", what)[0] == 0
    daemon = product.pid()
    shutil.rmtree(cache)  # under the daemon that runs from it
    until(lambda: not alive(daemon))
    second = Installed(installation(cache / "two"), product.environ, product.home)
    assert second.recalled("which rack?") == told
    assert f"data in {product.data}\n" in second.mnemo("status")[1]
    assert not [each for each in cache.rglob("*") if each.name == "mnemo.db"]

    product.stdio_command = [str(second.python), "-m", "mnemo_mcp.cli", "mcp"]
    server = product.stdio()
    server.open()
    assert server.call("recall", query="which rack?")[0]
    daemon = product.pid()
    put_package(next((cache / "two").glob("lib/python*/site-packages")))  # an update in place
    until(lambda: not alive(daemon))
    went_well, text = server.call("recall", query="which rack?")
    assert went_well and all(what in text for what in told)
