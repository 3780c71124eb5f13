"""All checks of the doctor, in the order in which problems are best solved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from biasgate.tasks.doctor.check import Check, told
from biasgate.tasks.doctor.data import check_champion, check_evaluation, check_keys, check_store
from biasgate.tasks.doctor.machine import check_disks, check_gpu, check_versions
from biasgate.tasks.doctor.servers import check_mlflow, check_prefect


def examine(store: Path, config: Path | None = None, *, may_write: bool = True) -> Iterator[Check]:
    """Yield every check, each as soon as it is made.

    `may_write`: whether to try in the registry if an alias can be set.
    """
    looks: dict[str, Callable[[], Iterator[Check]]] = {
        "versions": check_versions,
        "GPU": check_gpu,
        "disks": partial(check_disks, {"store": store}),
        "MLflow": partial(check_mlflow, store, may_write=may_write),
        "Prefect": check_prefect,
        "signing key": check_keys,
        "store": partial(check_store, store),
        "data": partial(check_evaluation, config),
        "champion": partial(check_champion, config, store),
    }
    for what, look in looks.items():
        yield from told(what, look)
