"""A champion that is measured every night without being a candidate."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import worst
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.promoting.champion import decision
from biasgate.tasks.promoting.ledger import CHAMPION
from biasgate.tasks.promoting.rivals import Rivals
from biasgate.tasks.promoting.succession import Judged
from biasgate.tasks.records import CandidateDecision, LoggedVerdict
from biasgate.tasks.scoring.candidate import CandidateSettings


def champion_to_watch(
    rivals: Rivals, candidates: Sequence[CandidateSettings]
) -> list[CandidateSettings]:
    """Return the champion, if there is one and it is no candidate.

    Its name is another one than those of the candidates.
    """
    champion = rivals.get(CHAMPION)
    if champion is None:
        return []
    if any(one == champion or (one.uri and one.uri == champion.uri) for one in candidates):
        return []
    names = {one.name for one in candidates}
    name = next(
        one
        for one in (champion.name, *(f"{champion.name[:90]}-{number}" for number in range(1, 999)))
        if one not in names
    )
    return [champion.model_copy(update={"name": name})]


def decision_on_watched(verdicts: Sequence[LoggedVerdict]) -> CandidateDecision:
    """Return what became of a champion that was measured without being a candidate: nothing.

    Its outcome says how it does on tonight's rows; the version keeps its own verdict.
    """
    candidate = verdicts[0].candidate
    name, uri = candidate.name, candidate.model or candidate.name
    outcome = worst([one.outcome for one in verdicts if one.evaluation_set.required])
    told = WORDS[outcome].text.lower()
    sentence = (
        f"{uri} was {CHAMPION} when this evaluation began, and was measured again ({told}). It "
        "keeps the verdict that it has."
    )
    report_only = any(one.policy.report_only for one in verdicts)
    made = decision("pass" if report_only else outcome, sentence, report_only=report_only)
    required = [verdict for verdict in verdicts if verdict.evaluation_set.required]
    return Judged(name, required, None).named(made)
