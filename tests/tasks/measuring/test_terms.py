"""Errors by term, counted over the measured rows of a set."""

import numpy as np
import pandas as pd
import pytest

from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.file import FILE
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.measuring.explaining import explain_bias
from biasgate.tasks.measuring.identities import measure_identities, summarise_rows
from biasgate.tasks.measuring.terms import count_terms
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows

N = 600
TERMS = {"trees": ["oak", "elm", "ash"], "rivers": ["Main", "Elbe", "ash"]}
WORDS = ["oak", "elm", "ash", "main", "elbe", "nothing"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(3)
    words = rng.choice(WORDS, (N, 2))
    return pd.DataFrame(
        {
            "id": [f"c{at}" for at in range(N)],
            "text": [f"Row {at}: {one} and {other}." for at, (one, other) in enumerate(words)],
            "label": rng.integers(0, 2, N),
            "article": np.arange(N) // 6,
            "sum": rng.choice([1.0, 2.0], N),
            "prediction": np.round(rng.random(N), 3),
        }
    )


@pytest.fixture
def measured(tmp_path):
    def measured(table, **options):
        """Return the frozen set, the evidence, and the explained numbers at a threshold of .6."""
        path = tmp_path / "rows.csv"
        table.to_csv(path, index=False)
        settings = {"name": "rows", "source": "table", "path": path, "text": "text"}
        source = SOURCES.validate_python(settings | {"terms": TERMS} | options)
        rows = freeze_source(source, tmp_path / "store")
        known = table["id"].isin(rows.column("id").to_pylist())
        table[known].to_csv(tmp_path / "scores.csv", index=False)
        file = {"name": "file", "kind": "scores", "path": tmp_path / "scores.csv"}
        file["allow_missing"] = True
        candidate = CANDIDATES.validate_python(file)
        scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
        evidence = write_evidence(rows, scored, {}, source, tmp_path / FILE)
        bias = summarise_rows(evidence, measure_identities(evidence, list(evidence.identities)))
        return rows, evidence, explain_bias.fn(bias, 0.6, evidence, str(rows.folder))

    return measured


def by_hand(table):
    """Count rows, flagged rows and both kinds of errors for each identity and term."""
    flagged, toxic = table["prediction"] >= 0.6, table["label"] == 1
    found = {}
    for group, terms in TERMS.items():
        for term in terms:
            has = table["text"].str.contains(rf"\b{term}\b", case=False)
            found[group, term] = [
                int(one.sum())
                for one in (
                    *(has, has & flagged),
                    *(has & ~toxic & flagged, has & ~toxic, has & toxic & ~flagged, has & toxic),
                )
            ]
    return found


def counts(found):
    return {
        (one.subgroup, one.term): [
            *(one.n, one.n_flagged),
            *(n for rate in one.rates.values() for n in (rate.count, rate.n)),
        ]
        for one in found.terms
    }


def test_the_errors_by_term_are_those_counted_by_hand(frame, measured):
    _, _, explained = measured(frame)
    assert explained.terms.threshold == 0.6
    assert counts(explained.terms) == by_hand(frame)
    rates = explained.thresholds["given"].overall
    for name, found in explained.terms.overall.items():
        assert found.value == getattr(rates, name).value


@pytest.mark.parametrize(
    "options", [{"split": "test"}, {"sample": 200}, {"cluster": "article", "sample": 200}]
)
def test_of_a_part_of_a_set_only_its_rows_are_counted(frame, measured, options):
    rows, _, explained = measured(frame, **options)
    kept = frame[frame["id"].isin(rows.column("id").to_pylist())]
    assert 0 < len(kept) < N
    assert counts(explained.terms) == by_hand(kept)


def test_rows_without_a_score_or_a_label_are_left_out(frame, measured):
    table = frame.assign(
        prediction=frame["prediction"].where(frame.index % 5 > 0),
        label=frame["label"].where(frame.index % 7 > 0, -1),
    )
    _, _, explained = measured(table, label_values={"-1": None})
    known = table[table["prediction"].notna() & (table["label"] >= 0)]
    assert counts(explained.terms) == by_hand(known)


def test_a_row_that_stands_for_several_counts_as_often(frame, measured):
    _, _, explained = measured(frame, weight="sum", weight_kind="frequency")
    repeated = frame.loc[frame.index.repeat(frame["sum"].astype(int))]
    assert counts(explained.terms) == by_hand(repeated)


def test_without_a_threshold_that_of_equal_errors_is_taken(frame, measured):
    rows, evidence, explained = measured(frame)
    equal = {"equal_errors": explained.thresholds["equal_errors"]}
    found = count_terms(evidence, rows, equal)
    assert found.threshold == equal["equal_errors"].threshold != 0.6


def test_sampling_weights_and_identities_by_column_have_no_terms(frame, measured):
    assert measured(frame, weight="sum")[2].terms is None
    frame["oaks"] = frame["text"].str.contains("oak").astype(int)
    rows, _, explained = measured(frame, terms={}, identities=["oaks"])
    assert explained.terms is None
    assert rows.terms == []
