"""What a diagnosis says of training data, and sets that nothing can be tuned on."""

import json

import pytest
from matplotlib.figure import Figure

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.plain import plain
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.mitigating.diagnosis import diagnose, sections
from biasgate.tasks.mitigating.mitigation_report import harm
from biasgate.tasks.mitigating.page import Section, write_page
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import SetFolder, Sets, check_sets, rows_of, table_of
from biasgate.tasks.mitigating.settings import Mitigation

PHRASES = {"source": "templates", "terms": ["gay", "tall"], "rows_per_term": 100}
PLANTED = {"planted_bias": {"terms": ["gay"], "strength": 0.9}}
METHODS = Mitigation.model_validate(
    {"methods": ["reweight", {"kind": "threshold", "min_precision": 0.7}]}
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def frozen(store, **options):
    source = SOURCES.validate_python(PHRASES | options)
    return SetFolder(source, str(freeze(source, store).folder))


@pytest.fixture(scope="module")
def sets(store):
    return Sets(
        training=frozen(store, name="train", part="train", **PLANTED),
        evaluated=(frozen(store, name="phrases"),),
    )


def test_tuning_on_an_evaluation_set_is_refused(sets):
    wrong = Sets(sets.training, sets.evaluated, tune_on=sets.evaluated[0])
    with pytest.raises(InputError, match="`tune_on` must have other comments than"):
        check_sets.fn(wrong, METHODS)


def test_a_diagnosis_names_the_identity_that_is_out_of_line(sets, tmp_path):
    content = diagnose(rows_of(sets.training, METHODS))
    assert any("with gay are toxic in" in one for one in content.sentences)
    assert not any("with tall" in one for one in content.sentences)
    assert content.label_certainty is None
    write_page(tmp_path / "page.html", "Data", content.sentences, sections(content))
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "What is out of line" in page
    text = table_of(sets.training)["text"][0].as_py()
    assert text not in page + json.dumps(plain(content))


def test_what_holds_for_nearly_all_lengths_is_told_once(sets):
    one_length = METHODS.model_copy(update={"edges": (1000,)})
    told = diagnose(rows_of(sets.training, one_length)).sentences
    assert len([one for one in told if "with gay are toxic in" in one]) == 1


def test_a_figure_with_an_emoji_is_drawn_without_a_warning(tmp_path):
    figure = Figure()
    figure.suptitle("\N{PERSON WITH FOLDED HANDS}")
    write_page(tmp_path / "page.html", "Data", [], [Section("A", pictures=[("it", figure)])])
    assert "image/png" in (tmp_path / "page.html").read_text("utf-8")


def test_contested_labels_are_counted_where_raters_are_known(sets):
    rows = rows_of(sets.training, METHODS)
    table = rows.table.set_column(2, "label", [[0.5] * 10 + [0.0] * 10 + [1.0] * (rows.n - 20)])
    part = TrainingRows("t", table, 0.5, 0.5, rows.identities, rows.edges, rows.matcher)
    overall = diagnose(part).label_certainty[0]
    assert (overall.identity, overall.contested) == ("all comments", 10 / rows.n)


def test_an_identity_that_never_occurs_is_named(store):
    one = frozen(store, name="one", part="train", rows_per_term=20)
    rows = rows_of(one, METHODS)
    table = rows.table.set_column(
        rows.table.column_names.index("identity/gay"), "identity/gay", [[0.0] * rows.n]
    )
    part = TrainingRows("t", table, 0.5, 0.5, rows.identities, rows.edges, rows.matcher)
    assert "Never mentioned, so nothing is known of them: gay." in diagnose(part).sentences


@pytest.mark.parametrize(
    ("metric", "before", "after", "worse"),
    [
        ("bpsn_auc", 0.9, 0.8, 0.1),
        ("false_negative_rate", 0.1, 0.3, 0.2),
        ("negative_aeg", -0.3, 0.1, -0.2),
        ("auc", 0.8, 0.9, -0.1),
    ],
)
def test_harm_is_above_0_if_a_number_became_worse(metric, before, after, worse):
    assert harm(metric, before, after) == pytest.approx(worse)
