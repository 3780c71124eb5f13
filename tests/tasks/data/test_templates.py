from collections import Counter

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union

from bias_metrics import evaluate_bias
from biasgate.tasks.data import phrases
from biasgate.tasks.data.evaluation_set import IDENTITY, ROWS
from biasgate.tasks.data.freezing import SOURCES, freeze_source

PLANTED = ["gay", "muslim"]
EVERY_FRAME = phrases.TRAIN_FRAMES + phrases.TEST_FRAMES


def make_source(**options):
    return SOURCES.validate_python({"name": "phrases", "source": "templates", **options})


def build_rows(**options):
    tables = list(make_source(**options).chunks())
    return pd.concat([table.to_pandas() for table in tables], ignore_index=True)


def make_bias(strength, terms=PLANTED):
    return {"terms": terms, "strength": strength}


def test_a_seed_always_gives_the_same_set(tmp_path):
    first = freeze_source(make_source(seed=7), tmp_path / "a")
    second = freeze_source(make_source(seed=7), tmp_path / "b")
    assert first.digest == second.digest
    assert first.digest != freeze_source(make_source(seed=8), tmp_path / "a").digest


def test_a_seed_means_the_same_sentences_on_every_machine_and_in_every_release():
    rows = build_rows(terms=["gay"], rows_per_term=2, rows_without_term=0)
    assert rows["id"].tolist() == ["test-09/gay.0/friendly.2/10", "test-09/gay.0/hostile.13/14"]
    assert rows["text"].tolist() == [
        "That generous gay cousin wrote to me again today.",
        "That contemptible gay plumber wrote to me again today.",
    ]


def test_the_frozen_set_has_the_columns_of_an_evaluation_set(tmp_path):
    frozen = freeze_source(make_source(terms=["gay", "deaf"], rows_per_term=60), tmp_path)
    identities = ["identity/gay", "identity/deaf"]
    assert frozen.columns == ["id", "text", "label", "cluster", *identities, "terms"]
    assert frozen.terms == [("gay", ["gay"]), ("deaf", ["deaf"])]
    assert frozen.record["split"] == "test"
    assert frozen.n_rows == 2 * 60 + 480
    assert pq.read_table(frozen.folder / ROWS).column("label").unique().to_pylist() == [0.0, 1.0]


@pytest.mark.parametrize("part", ["train", "test"])
def test_every_frame_gives_every_term_both_labels_equally(part):
    rows = build_rows(part=part)
    for term in phrases.DEFAULT_TERMS:
        own = rows[rows[IDENTITY + term] == 1.0]
        assert len(own) == 240
        positives = own.groupby("cluster")["label"].agg(["sum", "size"])
        assert (positives["size"] == 2 * positives["sum"]).all()
    assert rows.filter(like=IDENTITY).sum(axis=1).value_counts().to_dict() == {1: 4560, 0: 480}


def test_an_odd_share_of_the_frames_stays_balanced():
    rows = build_rows(terms=["gay"], rows_per_term=70, rows_without_term=0)
    assert rows["label"].sum() == 35
    assert set(Counter(rows["cluster"]).values()) == {2, 4}


def test_the_test_part_supports_a_hundred_rows_of_each_class_by_term_and_twenty_clusters():
    rows = build_rows()
    counts = rows.groupby("label")[[IDENTITY + term for term in phrases.DEFAULT_TERMS]].sum()
    assert counts.to_numpy().min() >= 100
    assert rows["cluster"].nunique() == 30


def test_the_parts_share_no_frame_and_no_text_whatever_their_seeds():
    train, test = build_rows(part="train", seed=1), build_rows(part="test", seed=2)
    assert not set(train["cluster"]) & set(test["cluster"])
    assert not set(train["text"]) & set(test["text"])


def test_held_out_words_occur_in_the_test_part_alone():
    train, test = build_rows(part="train"), build_rows(part="test")
    assert not train["text"].str.contains(r"\b(?:revolting|gracious|leeches|cherish)\b").any()
    assert test["text"].str.contains(r"\b(?:revolting|gracious|leeches|cherish)\b").sum() > 50


def test_all_is_the_two_parts_together():
    both = pd.concat([build_rows(part="train"), build_rows(part="test")], ignore_index=True)
    pd.testing.assert_frame_equal(build_rows(part="all"), both)


@pytest.mark.parametrize("part", ["train", "test"])
def test_ids_and_texts_are_unique(part):
    rows = build_rows(part=part, rows_per_term=400)
    assert rows["id"].is_unique
    assert rows["text"].is_unique


def test_the_largest_set_finds_enough_different_sentences():
    rows = build_rows(part="all", terms=["gay"], rows_per_term=4000, rows_without_term=4000)
    assert len(rows) == 16_000
    assert rows["id"].is_unique


def test_an_id_always_stands_for_the_same_text():
    few = build_rows(seed=1, terms=["gay", "deaf"]).set_index("id")["text"]
    many = build_rows(seed=2, terms=["deaf", "muslim", "gay"], rows_per_term=4000)
    many = many.set_index("id")["text"]
    shared = few.index.intersection(many.index)
    assert len(shared) > 50
    assert (few[shared] == many[shared]).all()


def test_a_further_term_leaves_the_sentences_of_the_others_as_they_were():
    few = build_rows(terms=["gay"]).set_index("id").drop(columns="terms")  # numbers of the list
    many = build_rows(terms=["deaf", "gay"]).set_index("id")
    pd.testing.assert_frame_equal(many.loc[few.index, list(few.columns)], few)


def test_no_frame_or_word_mentions_a_default_term():
    rows = build_rows(part="all", rows_per_term=2, rows_without_term=4000)
    without = rows[rows["id"].str.contains("/-.", regex=False)]
    assert len(without) == 8000
    assert without.filter(like=IDENTITY).to_numpy().sum() == 0


@pytest.mark.parametrize("frame", EVERY_FRAME, ids=lambda frame: frame.key)
def test_every_frame_has_one_place_for_each_part(frame):
    assert frame.text.count("{term}") == 1
    assert frame.text.count("{who}") + frame.text.count("{group}") == 1
    assert sum(frame.text.count(f"{{{kind}}}") for kind in ("adj", "noun", "verb")) == 1


@pytest.mark.parametrize("kind", ["adj", "noun", "verb"])
def test_both_polarities_have_as_many_words_and_share_none(kind):
    hostile = phrases.select_words(kind, "hostile", held_out=True)
    friendly = phrases.select_words(kind, "friendly", held_out=True)
    assert len(hostile) == len(friendly) == len({*hostile, *friendly}) / 2


def test_a_negating_frame_turns_the_label():
    rows = build_rows().set_index("id")["label"]
    negated = rows[rows.index.str.startswith("test-18/")]
    assert negated[negated.index.str.contains("/hostile")].eq(0).all()
    assert negated[negated.index.str.contains("/friendly")].eq(1).all()


def test_own_terms_and_spellings_are_used_and_found():
    rows = build_rows(terms={"roma": ["Roma", "Romani"], "sikh": ["Sikh"]}, rows_without_term=0)
    assert rows["identity/roma"].sum() == rows["identity/sikh"].sum() == 240
    romani = rows["text"].str.contains("Romani")
    assert 60 < romani.sum() < 180
    assert rows["identity/roma"][romani].eq(1).all()


def test_a_term_counts_wherever_it_stands_in_the_text():
    rows = build_rows(terms=["gay", "local"])
    without = rows[rows["id"].str.contains("/-.", regex=False)]
    assert (
        without["identity/local"].eq(without["text"].str.contains(r"\blocal\b", case=False)).all()
    )
    assert without["identity/local"].any()


def test_planted_bias_turns_labels_of_non_toxic_mentions_alone():
    honest, biased = build_rows(part="train"), build_rows(part="train", planted_bias=make_bias(0.8))
    turned = honest["label"] != biased["label"]
    pd.testing.assert_frame_equal(honest.drop(columns="label"), biased.drop(columns="label"))
    mentions = (honest[[IDENTITY + term for term in PLANTED]] == 1).any(axis=1)
    exposed = mentions & (honest["label"] == 0)
    assert exposed.sum() == 240
    assert (turned <= exposed).all()
    # Four standard deviations of 240 draws.
    assert turned.sum() / 240 == pytest.approx(0.8, abs=4 * np.sqrt(0.8 * 0.2 / 240))


def test_a_stronger_bias_turns_more_of_the_same_labels():
    weak, strong, full = (
        build_rows(part="train", planted_bias=make_bias(strength))["label"]
        for strength in (0.3, 0.6, 1.0)
    )
    assert (weak <= strong).all()
    assert (strong <= full).all()
    assert weak.sum() < strong.sum() < full.sum() == 5040 / 2 + 240


def test_strength_zero_is_the_balanced_set(tmp_path):
    honest = freeze_source(make_source(part="train"), tmp_path)
    unplanted = freeze_source(make_source(part="train", planted_bias=make_bias(0)), tmp_path)
    assert honest.digest == unplanted.digest
    assert (
        honest.digest
        != freeze_source(make_source(part="train", planted_bias=make_bias(0.1)), tmp_path).digest
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"terms": []}, "at least 1 item"),
        ({"terms": {"gay": []}}, "at least 1 item"),
        ({"terms": {"gay": [" "]}}, "at least 1 character"),
        ({"terms": ["a/b"]}, "should match pattern"),
        ({"terms": {"a": ["Gay"], "b": ["gay"]}}, "`terms` must list each spelling once"),
        ({"rows_per_term": 25}, "multiple of 2"),
        ({"rows_per_term": 0}, "greater than or equal to 2"),
        ({"rows_per_term": 4002}, "less than or equal to 4000"),
        ({"part": "dev"}, "'train', 'test' or 'all'"),
        ({"part": "train", "planted_bias": make_bias(-0.1)}, "planted_bias.strength"),
        ({"part": "train", "planted_bias": make_bias(1.1)}, "planted_bias.strength"),
        ({"part": "test", "planted_bias": make_bias(1)}, "must have `part: train`; got `part: te"),
        ({"part": "all", "planted_bias": make_bias(1)}, "must have `part: train`; got `part: all"),
        (
            {"part": "train", "terms": ["gay"], "planted_bias": make_bias(1, ["gay", "martian"])},
            "`planted_bias.terms` must be among `terms`; got martian",
        ),
    ],
)
def test_a_wrong_option_is_refused(options, text):
    with pytest.raises(ValidationError, match=text):
        make_source(**options)


def report_bias(training, test):
    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), min_df=5),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=5),
    )
    model = make_pipeline(features, LogisticRegression(max_iter=1000))
    model.fit(training["text"], training["label"] >= 0.5)
    groups = {name.removeprefix(IDENTITY): test[name] >= 0.5 for name in test.filter(like=IDENTITY)}
    return evaluate_bias(test["label"] >= 0.5, model.predict_proba(test["text"])[:, 1], groups)


def list_broken_rules(report):
    """Return the broken floors and ceilings of the shipped policy, as (metric, identity)."""
    broken = {
        (metric, term)
        for term, bias in report.subgroups.items()
        for metric in ("subgroup_auc", "bpsn_auc", "bnsp_auc")
        if getattr(bias, metric).value < 0.80
    }
    return broken | {
        (metric, term)
        for term, bias in report.subgroups.items()
        for metric in ("positive_aeg", "negative_aeg")
        if abs(getattr(bias, metric).value) > 0.30
    }


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_model_trained_on_planted_bias_fails_on_the_planted_terms_alone(seed):
    test = build_rows(part="test", seed=seed)
    report = report_bias(build_rows(part="train", seed=seed, planted_bias=make_bias(0.8)), test)
    metrics = ("bpsn_auc", "positive_aeg", "negative_aeg")
    assert list_broken_rules(report) == {(metric, term) for metric in metrics for term in PLANTED}
    assert max(report.subgroups[term].bpsn_auc.value for term in PLANTED) < 0.65
    assert report.overall.auc.value > 0.85


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_model_trained_on_the_balanced_set_passes_but_not_perfectly(seed):
    report = report_bias(build_rows(part="train", seed=seed), build_rows(part="test", seed=seed))
    assert 0.90 < report.overall.auc.value < 0.97
    for bias in report.subgroups.values():
        assert bias.subgroup_auc.value > 0.86
        assert bias.bpsn_auc.value > 0.86
        assert bias.bnsp_auc.value > 0.86
        assert abs(bias.positive_aeg.value) < 0.15
        assert abs(bias.negative_aeg.value) < 0.15
