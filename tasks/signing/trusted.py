"""The public keys that this machine trusts.

They are in `trusted_keys.json`, in the folder in `BIASGATE_TRUSTED_KEYS` or else
`~/.config/biasgate`: never in the store or in the registry, which an attacker may be able to write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json
from biasgate.tasks.signing.keys import SHORT, PrivateKey, PublicKey

TRUSTED_KEYS = "BIASGATE_TRUSTED_KEYS"
FILE = "trusted_keys.json"


@dataclass(frozen=True)
class TrustedKey:
    """A public key whose signatures are accepted."""

    public: PublicKey
    """The key."""
    name: str
    """What people call it."""
    trusted_since: str
    """When it was added, in ISO format."""
    revoked_since: str | None = None
    """From when on its signatures count for nothing; earlier ones count only where a key that is
    still trusted has signed something after them."""
    reason: str | None = None
    """Why it was revoked."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "key_id": self.public.key_id,
            "name": self.name,
            "public_key": self.public.pem,
            "trusted_since": self.trusted_since,
            "revoked_since": self.revoked_since,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class TrustedKeys:
    """The keys that are trusted on this machine, by id."""

    keys: Mapping[str, TrustedKey]
    """Revoked ones are among them."""

    def __bool__(self) -> bool:
        """Whether anything is checked at all."""
        return bool(self.keys)

    @classmethod
    def of_file(cls, path: Path) -> TrustedKeys:
        """Read a file of trusted keys; none if it is missing.

        Raises
        ------
        InputError
            If it cannot be read. A broken file never means "trust nobody, check nothing".
        """
        try:
            found = json.loads(path.read_text("utf-8"))["keys"]
            keys = [
                TrustedKey(
                    PublicKey.of_pem(one["public_key"], f"{path}, key {one['name']!r},"),
                    str(one["name"]),
                    str(one["trusted_since"]),
                    one.get("revoked_since"),
                    one.get("reason"),
                )
                for one in found
            ]
        except FileNotFoundError:
            return cls({})
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = (
                f"{path} must be a file that `biasgate keys trust` wrote; it cannot be read "
                f"({type(error).__name__}). Restore it, or remove it and trust the keys again."
            )
            raise InputError(msg) from None
        return cls({one.public.key_id: one for one in keys})

    @classmethod
    def here(cls) -> TrustedKeys:
        """Return the keys that are trusted on this machine, and the one that it signs with.

        Raises
        ------
        InputError
            If the file cannot be read, or is missing in the folder that is named.
        """
        path, own = trusted_file(), PrivateKey.here()
        if own is None and os.environ.get(TRUSTED_KEYS) and not path.exists():
            msg = (
                f"{TRUSTED_KEYS} must be a folder with {FILE}; {path} is missing, so no signature "
                "could be checked. Run `biasgate keys trust`, or unset the variable."
            )
            raise InputError(msg)
        known = dict(cls.of_file(path).keys)
        if own is not None:
            mine = TrustedKey(own.public, "of this machine", "")
            known.setdefault(own.public.key_id, mine)
        return cls(known)

    def find(self, key: str) -> TrustedKey:
        """Return the key with a name, or an id that starts like this.

        Raises
        ------
        InputError
            If there is none, or more than one.
        """
        found = [
            one for key_id, one in self.keys.items() if key_id.startswith(key) or one.name == key
        ]
        if len(found) != 1 or not key:
            known = ", ".join(f"{one.name} ({key_id[:SHORT]})" for key_id, one in self.keys.items())
            msg = (
                f"key {key!r} must be one trusted key; got {len(found)} (known: {known or 'none'})."
            )
            raise InputError(msg)
        return found[0]

    def with_key(self, key: TrustedKey) -> TrustedKeys:
        """Return these keys and one more, which replaces the one with the same id."""
        return TrustedKeys({**self.keys, key.public.key_id: key})

    def write(self, path: Path) -> None:
        """Write the keys to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"keys": [one.to_dict() for one in self.keys.values()]})


def trusted_folder() -> Path:
    """Return the folder of trusted keys."""
    named = os.environ.get(TRUSTED_KEYS)
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(home) / "biasgate"


def trusted_file() -> Path:
    """Return the file of trusted keys, which may be missing."""
    return trusted_folder() / FILE
