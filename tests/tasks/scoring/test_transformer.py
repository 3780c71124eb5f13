"""A transformer's scores: the same as one comment at a time, whatever the batches."""

import json
import shutil

import numpy as np
import pytest
from support.comments import ODD, batch
from support.registered import workplace_of

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.encoders import WORDS, compute_logits, save  # noqa: E402 - needs torch

from biasgate.tasks.scoring.kinds import transformer_inference as inference  # noqa: E402 - needs torch
from biasgate.tasks.scoring.kinds.transformer import TransformerScorer  # noqa: E402
from biasgate.tasks.scoring.kinds.transformer_tokens import Tokens  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

LABELS = {0: "neutral", 1: "toxic"}


on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU packs without padding")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("models") / "tiny", LABELS)


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(2)
    return [" ".join(rng.choice(WORDS, n)) for n in rng.integers(0, 90, 150)] + ODD


def make_candidate(folder, **options):
    settings = {"name": "tiny", "kind": "transformer", "folder": folder, "toxic_label": "toxic"}
    return CANDIDATES.validate_python(settings | options)


def open_scorer(folder, **options):
    return TransformerScorer(make_candidate(folder, **options), folder)


def score(folder, texts, **options):
    with open_scorer(folder, **options) as scorer:
        return scorer.score(batch(texts)).scores


@pytest.mark.parametrize("options", [{}, {"tokens_a_batch": 8}, {"tokens_a_batch": 300}])
def test_two_classes_score_as_one_comment_at_a_time(folder, texts, options, monkeypatch):
    monkeypatch.setattr(inference, "TEXTS_AHEAD", 50)
    expected = torch.tensor(compute_logits(folder, texts)).double().softmax(1)[:, 1]
    scores = score(folder, texts, **options)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)
    assert np.ptp(scores) > 0.2


def test_a_single_logit_scores_by_its_sigmoid(tmp_path, texts):
    folder = save(tmp_path / "single", {0: "toxic"})
    expected = torch.tensor(compute_logits(folder, texts)).double().sigmoid()[:, 0]
    np.testing.assert_allclose(score(folder, texts), expected, rtol=0, atol=1e-5)


def test_of_several_labels_the_toxic_one_scores_by_its_sigmoid(tmp_path, texts):
    labels = {0: "obscene", 1: "threat", 2: "toxic"}
    folder = save(tmp_path / "multi", labels, problem_type="multi_label_classification")
    expected = torch.tensor(compute_logits(folder, texts)).double().sigmoid()[:, 2]
    np.testing.assert_allclose(score(folder, texts), expected, rtol=0, atol=1e-5)


def test_on_a_cpu_onednn_computes_the_linear_layers(folder):
    if torch.cuda.is_available() or not torch.backends.mkldnn.is_available():
        pytest.skip("needs a CPU alone, and a torch with oneDNN")
    with open_scorer(folder) as scorer, torch.profiler.profile() as seen:
        scorer.score(batch(["you are kind"]))
    names = {event.key for event in seen.key_averages()}
    assert "mkldnn::_linear_pointwise" in names
    assert "aten::addmm" not in names


def test_half_precision_orders_comments_almost_alike(folder, texts):
    exact, rounded = score(folder, texts), score(folder, texts, precision="bfloat16")
    assert 0 < np.abs(exact - rounded).max() < (0.15 if torch.cuda.is_available() else 0.1)
    assert np.corrcoef(exact, rounded)[0, 1] > 0.99


def test_precision_stands_in_the_digest(folder):
    single, half = (open_scorer(folder, precision=p) for p in ("float32", "bfloat16"))
    assert (single.precision, half.precision) == ("float32", "bfloat16")
    assert single.digest != half.digest
    assert single.digest == open_scorer(folder, tokens_a_batch=64, name="b").digest
    assert single.digest != open_scorer(folder, max_tokens=32).digest
    assert single.digest != open_scorer(folder, toxic_label="neutral").digest


@on_a_cpu
def test_batches_come_in_few_shapes_and_full(folder, texts, monkeypatch):
    """Kernels are made and kept for each shape: many would slow it down and fill the memory."""
    monkeypatch.setattr(inference, "TEXTS_AHEAD", 50)
    with open_scorer(folder, tokens_a_batch=200) as scorer:
        model = scorer._classifier._model
        forward, shapes = model.forward, []

        def record_shape(**given):
            shapes.append(tuple(given["input_ids"].shape))
            return forward(**given)

        monkeypatch.setattr(model, "forward", record_shape)
        scorer.score(batch(texts))
    assert len(shapes) > 10
    assert all(n_tokens % inference.STEPS["cpu"] == 0 for _, n_tokens in shapes)
    assert all(n_rows == 200 // n_tokens for n_rows, n_tokens in shapes[:-1])


@on_a_cpu
def test_padding_is_at_most_3_percent_at_the_lengths_of_real_comments(folder, monkeypatch):
    """Civil Comments have 50 tokens on average, and few have more than 200."""
    lengths = np.random.default_rng(0).lognormal(3.6, 0.75, 10_000).clip(4, 256).astype(int)
    parts = [
        Tokens(np.arange(len(some)), some, some > 200, {"input_ids": np.zeros(some.sum(), int)})
        for some in np.array_split(-np.sort(-lengths), 20)
    ]
    with open_scorer(folder) as scorer:
        classifier = scorer._classifier
        monkeypatch.setattr(classifier, "_max_tokens", 256)
        n_padded = sum(
            len(one.lengths) * classifier._round_length(int(one.lengths.max()))
            for one in classifier._make_batches(parts)
        )
    assert 0 < 1 - lengths.sum() / n_padded <= 0.03


def test_padding_ends_where_the_model_does(tmp_path, texts):
    folder = save(tmp_path / "short", LABELS, max_position_embeddings=30)
    assert np.isfinite(score(folder, texts)).all()


@on_a_cpu
def test_a_batch_that_does_not_fit_is_halved_until_it_does(folder, texts, monkeypatch):
    expected = score(folder, texts)
    with open_scorer(folder) as scorer:
        model = scorer._classifier._model
        forward, sizes = model.forward, []

        def run_limited(**given):
            sizes.append(given["input_ids"].numel())
            if sizes[-1] > 200:
                raise torch.OutOfMemoryError("out of memory")
            return forward(**given)

        monkeypatch.setattr(model, "forward", run_limited)
        np.testing.assert_allclose(scorer.score(batch(texts)).scores, expected, rtol=0, atol=1e-5)
        too_large = sum(size > 200 for size in sizes)
        assert too_large
        sizes.clear()
        scorer.score(batch(texts))
        assert sum(size > 200 for size in sizes) == 0, "the smaller budget is kept"


def test_one_comment_that_does_not_fit_is_told(folder, monkeypatch):
    with open_scorer(folder) as scorer:

        def run_out(**_):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

        monkeypatch.setattr(scorer._classifier._model, "forward", run_out)
        with pytest.raises(
            InputError, match="must fit into memory with a single comment of 5 tokens"
        ):
            scorer.score(batch(["you are kind"]))


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: out of memory")],
)
def test_weights_that_do_not_fit_are_refused_with_what_to_do(folder, monkeypatch, error):
    def run_out(*_):
        raise error

    monkeypatch.setattr(transformers.BertForSequenceClassification, "to", run_out)
    with pytest.raises(InputError, match=r"model tiny .* must fit into .*memory; it") as refused:
        score(folder, ["you"])
    assert "use `precision: bfloat16`" in str(refused.value)
    assert "Finished shards are kept" in str(refused.value)
    assert refused.value.__cause__ is error


def test_on_a_gpu_an_error_of_memory_says_how_to_hide_it():
    said = str(inference.make_memory_error("model m", torch.device("cuda"), options="`max_tokens`"))
    assert "must fit into the GPU's memory; it does not" in said
    assert "lower `max_tokens`, use `precision: bfloat16`" in said
    assert "CUDA_VISIBLE_DEVICES= (empty)" in said


def test_another_error_of_the_model_is_not_taken_for_a_lack_of_memory(folder, monkeypatch):
    with open_scorer(folder) as scorer:

        def fail(**_):
            raise RuntimeError("shapes differ")

        monkeypatch.setattr(scorer._classifier._model, "forward", fail)
        with pytest.raises(RuntimeError, match="shapes differ"):
            scorer.score(batch(["you are kind"]))


def test_an_encoder_without_a_classifier_is_refused(tmp_path, folder):
    made = tmp_path / "encoder"
    shutil.copytree(folder, made)
    transformers.AutoModel.from_pretrained(made).save_pretrained(made)
    config = json.loads((made / "config.json").read_text())
    config["id2label"] = {str(at): label for at, label in LABELS.items()}
    (made / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"it lacks classifier.bias, classifier.weight"):
        score(made, ["you"])


@pytest.mark.parametrize("content", [b"", b"torn" * 100])
def test_torn_weights_are_refused(tmp_path, folder, content):
    made = tmp_path / "torn"
    shutil.copytree(folder, made)
    (made / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="model torn of candidate 'tiny' cannot be loaded"):
        score(made, ["you"])


def test_weights_with_nan_give_no_finite_score(tmp_path, folder):
    made = tmp_path / "nan"
    shutil.copytree(folder, made)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(made)
    model.classifier.bias.data.fill_(float("nan"))
    model.save_pretrained(made)
    assert np.isnan(score(made, ["you"])).all()  # which is refused with its row when it is kept


@pytest.mark.filterwarnings("ignore")
def test_a_pipeline_in_the_registry_scores_as_its_folder_does(folder, tmp_path):
    import mlflow.transformers  # noqa: PLC0415 - slow

    pipeline = transformers.pipeline("text-classification", str(folder), device="cpu")
    model = tmp_path / "logged"
    mlflow.transformers.save_model(pipeline, model, pip_requirements=[], input_example=["you"])
    settings = {"name": "logged", "kind": "mlflow", "model": "models:/logged/1", "trusted": True}
    workplace = workplace_of(model)
    texts = ["you are kind", "vile", "", "a w1 w2"]
    with CANDIDATES.validate_python(settings | {"label": "toxic"}).open(workplace) as scorer:
        scores = scorer.score(batch(texts))
    np.testing.assert_allclose(scores, score(folder, texts), rtol=0, atol=1e-5)
    with pytest.raises(InputError, match=r"got 'hate' .known: neutral, toxic"):
        CANDIDATES.validate_python(settings | {"label": "hate"}).open(workplace)
