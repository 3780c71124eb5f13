"""The one place where this package meets Prefect: the project-wide `task`.

Every step is made with it, so that all of them retry alike and none is cached by Prefect:
what is worth keeping (evaluation sets, scores) is kept as files keyed by digests of what it
was made from, which survive Prefect's own store and can be checked.
"""

from __future__ import annotations

import functools
from typing import Any

import prefect
from prefect.cache_policies import NO_CACHE

from tasks.errors import InputError

# A second try cannot mend these; anything else (a server that restarts, a full queue) it may.
_NOT_RETRIED = (InputError, ValueError, TypeError, KeyError, AttributeError, AssertionError)


async def _may_pass_next_time(_task: Any, _run: Any, state: Any) -> bool:
    try:
        await state.aresult()
    except _NOT_RETRIED:
        return False
    except Exception:  # noqa: BLE001 - whatever else it was, it may have passed by then
        return True
    return False


task = functools.partial(
    prefect.task,
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=[1, 5],
    retry_condition_fn=_may_pass_next_time,
)
