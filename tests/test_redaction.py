"""Redaction: what is taken out of every text before it is stored, and what must stay."""

from __future__ import annotations

import pytest

from mnemo_mcp.capture.redaction import redact

MARK = "LEAK7"
HEX = "0123456789abcdef"
LETTERS = "aB3dE5gH7jK9mN1pQ"


def _long(count: int) -> str:
    """So many letters and figures, as no one would choose them."""
    return (LETTERS * (count // len(LETTERS) + 1))[: count - len(MARK)] + MARK


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("export PGPASSWORD=Sup3r{mark}; psql -h db -U app", "secret"),
        ("Authorization: Bearer {long40}", "authorization header"),
        ("authorization: ApiKey {long40}", "authorization header"),
        ("-H 'Authorization: {long40}'", "authorization header"),
        ("the key is " + "AKIA" + "{upper16}{mark}", "AWS key"),
        ("token " + "ghp" + "_{long40}", "GitHub token"),
        ("github" + "_pat_{long40}", "GitHub token"),
        ("glpat" + "-{long40}", "GitLab token"),
        ("OPENAI: " + "sk" + "-{long48}", "API key"),
        ("sk" + "-ant-api03-{long48}", "API key"),
        ("xoxb" + "-1234-{long40}", "Slack token"),
        ("https://hooks.slack.com" + "/services/{long40}", "webhook address"),
        ("sk" + "_live_{long40}", "Stripe key"),
        ("npm" + "_{long40}", "package registry token"),
        ("AIza" + "{long40}", "Google key"),
        ("hf" + "_{long40}", "Hugging Face token"),
        ("SG" + ".{long24}.{long40}", "API key"),
        ('api_key = "{hex32}{mark}"', "secret"),
        ("DB_PASS={long24}", "secret"),
        ("ENCRYPTION_KEY={hex32}{hex32}{mark}", "secret"),
        ("SESSION_SALT='{long24}'", "secret"),
        ("postgres://app:{long24}@db.example/app", "password in an address"),
        ("redis://:{long24}@cache.example:6379", "password in an address"),
        ("Server=db;User Id=app;Password={long24};", "secret"),
        ("DefaultEndpointsProtocol=https;AccountKey={long48}==;", "secret"),
        ("https://store.example/file?sig={long40}&x=1", "signature"),
        ("curl -u app:{long24} https://api.example", "password"),
        ("Set-Cookie: session={long24}; Path=/", "cookie"),
        ("passphrase: {long24}", "secret"),
        ("eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0.{long40}", "JWT"),
        (
            "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n{long48}\n-----END OPENSSH PRIVATE KEY-----",
            "private key",
        ),
        ("-----BEGIN " + "RSA PRIVATE KEY-----\n{long48} and cut off", "private key"),
    ],
)
def test_secrets_are_taken_out_and_named(line: str, kind: str) -> None:
    parts = {f"long{count}": _long(count) for count in (24, 40, 48)}
    secret = line.format(mark=MARK, hex32=HEX * 2, upper16="ABCDEFGH12345678", **parts)
    text, kinds = redact(f"before it\n{secret}\nafter it")
    assert MARK not in text
    assert kind in kinds and f"[redacted: {kind}]" in text
    assert text.startswith("before it\n")
    assert redact(text)[0] == text  # once more takes nothing more


def test_a_cloud_key_takes_its_secret_along() -> None:
    pair = "AKIA" + "ABCDEFGH12345678" + " " + _long(40)
    assert redact(pair)[0] == "[redacted: AWS key] [redacted: AWS key]"


@pytest.mark.parametrize(
    "line",
    [
        "the password rotates on the 5th",
        "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12 broke it",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "run 550e8400-e29b-41d4-a716-446655440000 again",
        "image registry.example/app@sha256:" + HEX * 4,
        "request_id=req_7f3a9c2b1d and trace 4bf92f3577b34da6a3ce929d0e0e4736",
        "max_tokens: 4000, tokens = count(text)",
        'password = os.environ["PGPASSWORD"]',
        "token = settings.token",
        "secret: ${DB_SECRET} and token=<your token>",
        "Authorization: required for all routes",
        "the basic idea, a bearer of news",
        "cache_key: user_2024_index and primary key = customer_id",
        "PRIMARY KEY (id), FOREIGN_KEY_CHECKS=0",
        "see https://example.org/a/b?c=d and ssh://git@host/x.git",
        "the API listens on port 8443, key size 4096",
        "sk-learn, risk-averse and desk-top",
    ],
)
def test_identifiers_and_prose_stay(line: str) -> None:
    assert redact(line) == (line, ())
