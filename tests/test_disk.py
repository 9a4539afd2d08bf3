"""Files of the store: read by their owner alone, on disks that are full or closed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from processes import linux, processes
from product import EVENTS, Product, Stdio, until
from storing import NOTHING_STORED, claim, configure, mounted, payload, quiet, read_only, stopped

# only its owner reads it


def loose(home: Path) -> list[str]:
    """Everything below a folder that others could read, with its mode."""
    found = []
    for each in home.rglob("*"):
        mode = each.lstat().st_mode & 0o777
        if not each.is_symlink() and mode & 0o077:
            found.append(f"{oct(mode)} {each.relative_to(home)}")
    return found


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask,place", [(0o022, "MNEMO_HOME"), (0o000, "the usual place")])
def test_everything_made_is_private(tmp_path: Path, mask: int, place: str) -> None:
    with umask(mask), Product(tmp_path, MNEMO_ENCODERS="off") as product:
        if place != "MNEMO_HOME":
            del product.environ["MNEMO_HOME"]
            product.data = tmp_path / ".local/share/mnemo"
        product.hook("turn-end", last_assistant_message="Deploy day is Thursday.")  # before there is a daemon
        product.hook("session-open", source="startup")
        product.hook("pre-message", prompt="when is deploy day?")
        product.hook_raw("turn-end", b'{"session_id": ')
        configure(product, maintenance_seconds=0.2, keep_versions_seconds=0.2)
        (product.data / "config.toml").chmod(0o600)
        product.http()
        server = product.stdio()
        server.open()
        for number in range(3):
            assert server.call("remember", what=claim(number))[0]
        until(lambda: product.ask("status")["queue"]["relay"] == 0)
        product.run("export", str(tmp_path / "export.jsonl"))
        product.run("backup", str(tmp_path / "copy.db"))
        until(lambda: (product.data / "search/episodes.lance").exists())
        assert (tmp_path / "export.jsonl").exists() and (tmp_path / "copy.db").exists()
        assert loose(tmp_path) == []
    assert loose(tmp_path) == []


def test_open_folder_is_tightened_and_the_log_says_so(fresh: Product) -> None:
    fresh.remember("Deploy day is Thursday.")
    until(lambda: fresh.ask("status")["queue"]["relay"] == 0)
    fresh.run("stop")
    fresh.data.chmod(0o755)
    (fresh.data / "search").chmod(0o755)
    (fresh.data / "mnemo.db").chmod(0o644)
    (fresh.data / "notes.txt").write_text("somebody's own")
    (fresh.data / "notes.txt").chmod(0o644)
    (fresh.data / "outside").symlink_to("/etc/hostname")
    before = Path("/etc/hostname").stat().st_mode
    assert fresh.recall("deploy day")
    assert fresh.data.stat().st_mode & 0o777 == 0o700
    assert loose(fresh.data) == []
    lines = (fresh.data / "log/daemon.log").read_text().splitlines()
    assert len([line for line in lines if "private" in line]) == 1
    assert Path("/etc/hostname").stat().st_mode == before


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder to somebody else takes root")
@pytest.mark.parametrize("way", ["the folder", "a link to it"])
def test_folder_of_another_person_is_refused(tmp_path: Path, way: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 12_345, 12_345)
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    if way == "the folder":
        product.environ["MNEMO_HOME"] = str(theirs)
    else:
        product.data.symlink_to(theirs)
    for command in ("status", "doctor"):
        done = product.run(command)
        assert done.returncode == 1 and b"belongs to another user" in done.stdout
    done = product.run("remember", "Deploy day is Thursday.")
    assert done.returncode == 1 and b"belongs to another user" in done.stderr
    assert product.hook("turn-end", last_assistant_message="Deploy day is Thursday.") == ""
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert not (theirs / "mnemo.db").exists()


@linux
def test_words_are_in_no_argument_and_no_environment(fresh: Product) -> None:
    word = "zebra" * 4
    with stopped(fresh), ThreadPoolExecutor() as client:
        hook = client.submit(fresh.hook_raw, "pre-message", payload("pre-message", prompt=f"what is {word}?"))
        until(lambda: len(processes(fresh)) >= 2 or hook.done())
        seen = 0
        for pid, command in processes(fresh).items():
            seen += 1
            assert word not in command
            assert word.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert seen >= 2
        assert quiet(hook.result())


# disks that are full or closed


def test_full_disk_refuses_writes_in_words_and_reads_on(tmp_path: Path) -> None:
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    with mounted("-t", "tmpfs", "-o", "size=12m", "mnemo", on=product.data), product:
        server = product.stdio()
        server.open()
        for number in range(5):
            assert server.call("remember", what=claim(number))[0]
        product.hook("turn-end", last_assistant_message="The gateway has moved.")
        until(lambda: product.ask("status")["queue"]["relay"] == 0)
        with occupied(product.data):
            refuses_writes(product, server)
            went_well, text = server.call("recall", query=claim(3))
            assert went_well and claim(3) in text
            assert {each["what"] for each in product.recall("gateway")} == {claim(each) for each in range(5)}
            status = product.json("status")
            assert status["memories"] == 5 and "0 MB left" in " ".join(status["problems"])
            assert product.run("doctor").returncode == 1
        assert server.call("remember", what=claim(30))[0]
        until(lambda: product.ask("status")["queue"]["relay"] == 0)

        product.run("stop")
        with occupied(product.data):  # not even the room is left that SQLite takes to open a file
            refuses_writes(product, server)
            assert "The disk is full." in " ".join(product.json("status")["problems"])
        assert server.call("remember", what=claim(31))[0]
        assert {each["what"] for each in product.recall("gateway")} >= {claim(3), claim(30), claim(31)}
        assert [each for each in product.json("status")["problems"] if "MB left" not in each] == []


def refuses_writes(product: Product, server: Stdio) -> None:
    for number in range(10, 13):
        went_well, text = server.call("remember", what=claim(number) + "x" * 4_000)
        assert not went_well and "disk is full" in text and NOTHING_STORED in text
    done = product.run("remember", claim(20) + "x" * 4_000)
    assert done.returncode == 1 and b"disk is full" in done.stderr
    for moment, fields in (
        ("session-open", {"source": "startup"}),
        ("pre-message", {"prompt": "where does the gateway listen?" + "x" * 9_000}),
        ("turn-end", {"last_assistant_message": "Nothing fits any more." + "x" * 9_000}),
    ):
        assert quiet(product.hook_raw(moment, payload(moment, "full", **fields)))


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Its disk filled to the last byte for a while."""
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1 << 9, 1):
            try:
                while ballast.write(b"x" * size):
                    pass
            except OSError:
                continue
    yield
    (folder / "ballast").unlink()


def test_closed_folder_is_told_by_every_verb_and_opens_again(fresh: Product) -> None:
    for number in range(3):
        fresh.remember(claim(number))
    fresh.run("stop")
    before = (fresh.data / "mnemo.db").read_bytes()
    with read_only(fresh.data):
        for command in ("status", "doctor"):
            done = fresh.run(command)
            assert done.returncode == 1 and b"Read-only file system" in done.stdout
        for command in (["recall", "gateway"], ["remember", claim(4)]):
            done = fresh.run(*command)
            assert done.returncode == 1 and b"Read-only file system" in done.stderr, done
            assert b"Traceback" not in done.stderr
        server = fresh.stdio()
        server.open()
        went_well, text = server.call("recall", query="gateway")
        assert not went_well and "mnemo doctor" in text
        for moment in EVENTS:
            fields = {"prompt": "which gateway?", "last_assistant_message": "The gateway."}
            assert quiet(fresh.hook_raw(moment, payload(moment, **fields)))
    assert (fresh.data / "mnemo.db").read_bytes() == before
    assert "gateway" in server.call("recall", query="gateway")[1].lower()
    assert len(fresh.recall("gateway")) == 3
