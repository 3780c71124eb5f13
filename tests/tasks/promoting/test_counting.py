"""What a decision is about: version, policy, and the rows and scores of each required set."""

from types import SimpleNamespace

import pytest
from support.partial import partial

from biasgate.tasks.promoting import spending as counting
from biasgate.tasks.promoting.spending import asked_of, with_share
from biasgate.tasks.records import Context

POLICY = SimpleNamespace(digest="p")


@pytest.fixture(autouse=True)
def _records(monkeypatch):
    """Kept scores whose digest is the name of their folder."""
    found = staticmethod(lambda url: partial({"candidate_digest": url}))
    monkeypatch.setattr(counting.ScoredSet, "open", found)


def measured(name="comments", *, uri="models:/toxicity/7", rows="r", pooled=None, **options):
    choices = {"label_threshold": 0.5, "n_rows": 100} | options.pop("choices", {})
    return SimpleNamespace(
        source=SimpleNamespace(
            name=name, pool_nights=pooled, required=options.get("required", True)
        ),
        candidate=SimpleNamespace(uri=uri),
        report=partial(
            {
                "evaluation_set": {"digest": rows, "choices": choices},
                "candidate": {"digest": "c"},
            }
        ),
    )


def rivals(uri="models:/toxicity/3"):
    return {"champion": SimpleNamespace(uri=uri)}


def subject(one, scores=None, of=None):
    return asked_of([one], of or rivals(), [scores or {"champion": "s"}], POLICY).subject


def test_it_names_version_policy_rows_and_all_scores():
    both = {"champion": "s", "reference": "f"}
    found = asked_of([measured()], rivals(), [both], POLICY)
    assert (found.version, found.policy) == ("7", "p")
    assert found.compared == {"comments": ["r", "c", "s", "f"]}


def test_without_rivals_there_are_no_scores_of_them():
    assert asked_of([measured()], {}, [{}], POLICY).compared == {"comments": ["r", "c", None, None]}


def test_only_required_sets_decide():
    sets = [measured(), measured("other", required=False)]
    assert asked_of(sets, {}, [{}, {}], POLICY).compared.keys() == {"comments"}


def test_other_rows_another_champion_or_other_scores_are_another_decision():
    found = [
        subject(measured()),
        subject(measured(rows="others")),
        subject(measured(), {"champion": "another"}),
        subject(measured(uri="models:/toxicity/8")),
    ]
    assert len(set(found)) == 4
    assert subject(measured()) == found[0]


def test_the_nights_of_a_pooled_set_are_one_decision_until_its_options_change():
    first = subject(measured(pooled={"rows": 100}, rows="monday"))
    assert subject(measured(pooled={"rows": 100}, rows="tuesday", choices={"n_rows": 7})) == first
    assert subject(measured(pooled={"rows": 100}, choices={"label_threshold": 0.6})) != first


def test_the_champion_itself_is_no_decision():
    assert asked_of([measured(uri="models:/toxicity/3")], rivals(), [{}], POLICY) is None


def test_a_candidate_without_a_share_has_the_context_as_it_is():
    context = Context(required_sets=["comments"], ledger=None, registered_policy=None)
    assert with_share(context, "champion", {"mine": {"number": 1}}) == context
    assert with_share(context, "mine", {"mine": {"number": 1}}).online == {"number": 1}
