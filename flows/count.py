"""Judge a candidate by the counts of shards that do not fit into memory."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

from prefect import flow

from biasgate.flows.own_runs import apply_file_settings, record_own_run
from biasgate.flows.stages import stage
from biasgate.tasks.common.own_folders import redirect_temporary_files
from biasgate.tasks.common.prefect_task import is_distributed
from biasgate.tasks.counting.results import judge_counts
from biasgate.tasks.counting.settings import CountFile, read_count_file
from biasgate.tasks.counting.shards import FOLDER, add_shard, count_parallel_shards, count_shard
from biasgate.tasks.evidence.counted import Counted
from biasgate.tasks.records import Verdict
from biasgate.tasks.reporting.publish import check_places
from biasgate.tasks.signing.keys import PrivateKey, TrustedKeys


@flow(name="count", flow_run_name="count {config}", on_running=[record_own_run])
def count(config: str, output: str, store: str) -> Verdict:
    """Count the shards of a count file, and judge the candidate by their sum.

    - count each shard in its own task; concurrent tasks are limited by the cores and by 2 GiB of
      memory (on a cluster, workers share the shards). Existing counts in `output/counts` are reused
    - add the counts; refuse a shard that is repeated, missing or of another set
    - judge by the policy; write evidence, report, verdict and page into `output`

    Returns
    -------
    Verdict
        The content of `verdict.json`.
    """
    with redirect_temporary_files(), apply_file_settings(config, store):
        check_places(output, store)
        settings, policy = read_count_file(Path(config))
        TrustedKeys.load().refuse_revoked(PrivateKey.from_environment())  # before the long work
        counted = count_shards(settings, output)
        return judge_counts(counted, settings, policy, output)


@stage("count shards", spread=True)
def count_shards(settings: CountFile, output: str) -> Counted:
    """Return the sum of the counts of all shards, with a limited number of submitted tasks."""
    folder = f"{output}/{FOLDER}"
    waiting: deque[Any] = deque()
    max_waiting = count_parallel_shards(settings)
    total: Counted | None = None
    for shard in settings.list_shards():
        if len(waiting) == max_waiting:
            total = add_shard(total, waiting.popleft().result(), folder)
        waiting.append(count_shard.submit(settings, shard, folder, send=is_distributed()))
    while waiting:
        total = add_shard(total, waiting.popleft().result(), folder)
    assert total is not None  # noqa: S101 - a count file has at least one shard
    return total
