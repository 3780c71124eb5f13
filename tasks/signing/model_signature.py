"""OpenSSF model signatures: what the tool `model_signing` verifies without biasgate."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from biasgate.tasks.common.errors import InputError, to_install
from biasgate.tasks.common.files import whole_file

MODEL_KEY = "BIASGATE_MODEL_KEY"


def write_model_signature(folder: Path, file: Path, leaving_out: Collection[str] = ()) -> None:
    """Sign a model's files with the key that `BIASGATE_MODEL_KEY` names.

    The key is of an elliptic curve, as the standard asks: biasgate's own is of another kind.

    Raises
    ------
    InputError
        If the library is missing, or the variable does not name such a key.
    """
    key = os.environ.get(MODEL_KEY, "")
    if not Path(key).expanduser().is_file():
        msg = (
            f"{MODEL_KEY} must name the PEM file of a private key on an elliptic curve; "
            f"{'it names none' if key else 'it is not set'}. This makes one: "
            "openssl ecparam -name prime256v1 -genkey -noout -out model_key.pem"
        )
        raise InputError(msg)
    try:
        from model_signing import hashing, signing  # noqa: PLC0415
    except ImportError as error:
        msg = f"an OpenSSF model signature needs the library model-signing: {to_install('oms')}."
        raise InputError(msg) from error
    with whole_file(file) as temporary:
        try:
            config = signing.Config().use_elliptic_key_signer(private_key=Path(key).expanduser())
            hashed = hashing.Config().set_ignored_paths(paths=[folder / one for one in leaving_out])
            config.set_hashing_config(hashed).sign(folder, temporary)
        except ValueError:  # its text may quote the key
            msg = f"{MODEL_KEY} must name a private key on an elliptic curve in PEM, unencrypted."
            raise InputError(msg) from None
