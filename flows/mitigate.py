"""Train a candidate again with every mitigation method, and evaluate the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow

from biasgate.flows.evaluate import evaluate
from biasgate.flows.own_runs import apply_file_settings, record_own_run
from biasgate.flows.states import conclude, get_summary
from biasgate.tasks.common.own_folders import redirect_temporary_files
from biasgate.tasks.data.freezing import freeze_evaluation_set
from biasgate.tasks.mitigating.blocked import limit_to_failed, read_blocked
from biasgate.tasks.mitigating.proposing import get_training_source, propose_candidates
from biasgate.tasks.mitigating.sets import check_sets, freeze_sets
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.mitigation import resolve_candidate, write_evaluation_file
from biasgate.tasks.reading_evaluation import read_evaluation_file
from biasgate.tasks.reporting.publish import check_places
from biasgate.tasks.store import Workplace

WITHHELD = "`biasgate mitigate` is an experiment, and promotes only with `--promote`"


@flow(name="mitigate", flow_run_name="mitigate {config}", on_running=[record_own_run])
def mitigate(
    config: str,
    output: str,
    store: str,
    *,
    candidate: str | None = None,
    blocked: str | None = None,
    promote: bool = False,
) -> Any:
    """Train a candidate again with every method, and evaluate the results.

    The flow is an experiment: aliases move only if `promote` is set.

    - read the verdict of a blocked candidate, to balance the identities that failed
    - freeze the sets; refuse wrong sets before anything is written
    - write an evaluation file of all mitigated candidates, and evaluate it

    Parameters
    ----------
    store : str
        Folder of frozen sets, scores and, by default, the MLflow store.
    candidate : str, optional
        The candidate to mitigate. Default: the candidate of `blocked`, or the only candidate that
        the evaluation file trains.
    blocked : str, optional
        Folder of results of a candidate that did not pass, OUTPUT/SET/CANDIDATE.
    promote : bool, default=False
        Let a mitigated candidate that passes replace the champion.

    Returns
    -------
    Summary or State
        As in `evaluate`.
    """
    with redirect_temporary_files(), apply_file_settings(config, store):
        check_places(output, store)
        evaluation = read_evaluation_file(config)
        verdict = read_blocked(blocked, output)
        base_candidate = resolve_candidate(evaluation, candidate, verdict)
        workplace = Workplace(Path(store))
        mitigation = evaluation.mitigation or Mitigation()
        sets = freeze_sets(
            get_training_source(base_candidate),
            evaluation.evaluation_sets,
            mitigation,
            lambda source: freeze_evaluation_set(source, workplace),
        )
        mitigation = limit_to_failed(verdict, mitigation, sets)
        check_sets(sets, mitigation)
        candidates = propose_candidates(base_candidate, mitigation, sets.training.folder)
        file = write_evaluation_file(evaluation, candidates, config, output)
        withheld = None if promote else WITHHELD
        state: Any = evaluate(file, output, store, withheld=withheld, return_state=True)
        return conclude(get_summary(state))
