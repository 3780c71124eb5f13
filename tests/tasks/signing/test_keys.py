"""Creation, trust and revocation of keys; private keys are never printed."""

import hashlib
import json
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from biasgate.cli import app
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.signing.keys import PrivateKey, PublicKey, TrustedKeys, get_trust_file


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Run `biasgate keys` in a folder, with trusted keys in another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(tmp_path / "trusted"))

    def run(*arguments):
        return CliRunner().invoke(app, ["keys", *map(str, arguments)])

    return run


@pytest.fixture
def trusted(keys):
    """A private key, `ci.key`, whose public key is trusted as `ci`."""
    keys("new", "ci.key")
    assert keys("trust", "ci.key.pub", "--name", "ci").exit_code == 0
    return keys


def find_revocation():
    return TrustedKeys.from_file(get_trust_file()).find_key("ci").revoked_since


def test_a_private_key_is_only_readable_by_its_owner_and_neither_printed_nor_overwritten(keys):
    made, path = keys("new", "ci.key"), Path("ci.key")
    before = path.read_bytes()
    assert (made.exit_code, stat.S_IMODE(path.stat().st_mode)) == (0, 0o600)
    printed = "".join(made.output.split())
    assert not any(line in printed for line in before.decode().splitlines())
    assert (keys("new", "ci.key").exit_code, path.read_bytes()) == (2, before)


@pytest.mark.parametrize("how", ["file", "text"])
def test_the_private_key_is_read_from_a_file_or_from_the_variable(keys, monkeypatch, how):
    keys("new", "ci.key")
    named = "ci.key" if how == "file" else Path("ci.key").read_text("utf-8")
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", named)
    public = PublicKey.from_pem(Path("ci.key.pub").read_text("utf-8"), "it")
    assert PrivateKey.from_environment().public == public
    assert public.key_id == hashlib.sha256(public.raw).hexdigest()


SECRETS = ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n", "no/such/secret", "c2VjcmV0", '"c2VjcmV0')


@pytest.mark.parametrize("text", [*SECRETS, "\ufeff-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n"])
def test_what_is_no_private_key_is_refused_without_its_text(keys, monkeypatch, text):
    del keys
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", text)
    with pytest.raises(InputError, match="private key") as refused:
        PrivateKey.from_environment()
    assert "c2VjcmV0" not in str(refused.value)


def test_a_trusted_key_is_listed_and_a_revoked_one_says_since_when(trusted):
    assert "ci  trusted since" in trusted("list").output
    trusted("revoke", "ci", "--reason", "stolen", "--since", "2026-11-01")
    assert "revoked since 2026-11-01T00:00:00+00:00 (stolen)" in trusted("list").output


def test_a_key_is_not_revoked_from_a_later_time_on(trusted):
    refused = trusted("revoke", "ci", "--reason", "stolen", "--since", "2127-01-01")
    assert (refused.exit_code, find_revocation()) == (2, None)
    assert "must not be later than now" in refused.stderr


def test_a_revoked_key_cannot_be_trusted_again(trusted):
    trusted("revoke", "ci", "--reason", "stolen")
    assert trusted("trust", "ci.key.pub").exit_code == 2
    assert find_revocation()


def test_the_own_public_key_is_trusted_unless_it_is_revoked(keys, monkeypatch):
    keys("new", "ci.key")
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", "ci.key")
    [own] = TrustedKeys.load().keys.values()
    assert own.revoked_since is None
    keys("trust", "ci.key.pub", "--name", "ci")
    keys("revoke", "ci", "--reason", "stolen")
    [own] = TrustedKeys.load().keys.values()
    assert own.revoked_since


def test_missing_or_broken_trusted_keys_are_refused_and_not_taken_for_none(keys):
    keys("list")
    with pytest.raises(InputError, match="BIASGATE_TRUSTED_KEYS must be a folder with"):
        TrustedKeys.load()
    get_trust_file().parent.mkdir()
    get_trust_file().write_text(json.dumps({"keys": [{"name": "x"}]}), "utf-8")
    with pytest.raises(InputError, match="it cannot be read"):
        TrustedKeys.load()


def test_a_key_must_be_named_so_that_one_is_meant(keys):
    for name in ("a", "b"):
        keys("new", f"{name}.key")
        keys("trust", f"{name}.key.pub", "--name", name)
    for name in ("z", ""):  # an id is hexadecimal
        assert "must be 1 trusted key" in keys("revoke", name, "--reason", "x").output


def test_a_private_key_is_not_accepted_as_a_public_one(keys):
    keys("new", "ci.key")
    refused = keys("trust", "ci.key")
    assert (refused.exit_code, "must be an Ed25519 public key" in refused.output) == (2, True)
