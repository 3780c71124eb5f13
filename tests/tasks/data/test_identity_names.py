"""Refusal of identity names that MLflow cannot store, before any measurement."""

import pyarrow as pa
import pytest
from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name
from support.made import bias_of

from bias_metrics.metrics import SUBGROUP_METRICS, list_changed_metrics
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.columns import conform_rows
from biasgate.tasks.data.freezing import SOURCES
from biasgate.tasks.data.identity_names import MAX_NAME_LENGTH, check_identity_names, sanitize_name
from biasgate.tasks.tracking.log_runs import collect_counts

KEYS = [
    *SUBGROUP_METRICS,
    *list_changed_metrics(),
    *{key.partition("/")[0] for key in collect_counts(bias_of({}))},
]


@pytest.mark.parametrize(
    "name", ["a" * MAX_NAME_LENGTH, "\u0130" * 100, "a/b", "...", "=x", "ça va"]
)
def test_a_name_that_is_accepted_can_be_logged(name):
    check_identity_names([name])
    for key in KEYS:
        _validate_metric_name(f"{key}/{sanitize_name(name)}")


def test_the_limit_is_as_long_as_mlflow_allows():
    assert len(f"{max(KEYS, key=len)}/") + MAX_NAME_LENGTH == MAX_ENTITY_KEY_LENGTH


@pytest.mark.parametrize("name", ["", "a" * (MAX_NAME_LENGTH + 1), "a" * 300, ".", "..", " "])
def test_a_name_that_could_not_be_logged_is_refused(name):
    with pytest.raises(ValueError, match=f"must have 1 to {MAX_NAME_LENGTH} characters and must"):
        check_identity_names([name])


@pytest.mark.parametrize(
    "source",
    [
        {"source": "table", "path": "rows.csv", "identities": ["a" * 300]},
        {"source": "table", "path": "rows.csv", "text": "t", "terms": ["a" * 300]},
    ],
)
def test_a_configuration_with_a_name_that_is_too_long_is_refused(source):
    with pytest.raises(ValueError, match="with 300 characters"):
        SOURCES.validate_python({"name": "rows"} | source)


def test_two_names_with_one_key_are_refused():
    with pytest.raises(ValueError, match="both 'men & boys' and 'men / boys' are 'men _ boys'"):
        check_identity_names(["men & boys", "gay", "men / boys"])


def test_a_name_from_a_source_of_another_package_is_refused_when_it_is_frozen():
    rows = pa.table({"id": ["1"], "label": [1.0], "identity/" + "a" * 300: [1.0]})
    with pytest.raises(InputError, match="'rows' must yield valid identities: the name of an id"):
        conform_rows(rows, "rows")


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x1b[2Ka", "a\x9b", "a\0"])
def test_a_name_with_control_characters_is_refused_escaped(name):
    with pytest.raises(ValueError, match="must not hold control characters") as refused:
        check_identity_names(["gay", name])
    assert str(refused.value).isprintable()
