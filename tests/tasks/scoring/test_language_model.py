"""A judge that is computed here: scores as from all logits of one question at a time."""

import math

import pytest
from support.comments import batch

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.outcomes import NO_ANSWER, TOO_LONG

torch = pytest.importorskip("torch", reason="needs the extra `text` (torch and transformers)")
transformers = pytest.importorskip("transformers", reason="needs the extra `text`")

from support.encoders import save_language_model  # noqa: E402 - needs torch

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# The tiny model knows few other words, so these have most of the probability.
LEVELS = [f"w{number}" for number in range(40)]
TEMPLATE = (
    "{% for one in messages %}{{ one.content }} {% endfor %}"
    "{% if risk_name is defined %}{{ risk_name }}{% endif %}"
)
TEXTS = ["a b", "b c d e f", "c", "d a", "e e e", "", "f b a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_language_model(tmp_path_factory.mktemp("models") / "tiny", LEVELS, TEMPLATE)


def candidate(folder, **options):
    known = {
        "name": "tiny",
        "kind": "language_model",
        "folder": folder,
        "prompt": "is {{text}} bad",
    }
    return CANDIDATES.validate_python(known | {"words": LEVELS, "precision": "float32"} | options)


def scored(folder, texts, **options):
    with candidate(folder, **options).open(None) as scorer:
        return scorer.score(batch(texts))


def by_hand(folder, text):
    """The mean level, from all logits of one question alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(f"is {text} bad ", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        shares = torch.softmax(model(ids).logits[0, -1].double(), -1).tolist()
    of_words = {word: shares[tokenizer.convert_tokens_to_ids(word)] for word in LEVELS}
    known = sum(of_words.values())
    assert known > 0.5
    return sum(share * (39 - at) / 39 for at, share in enumerate(of_words.values())) / known


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_a_score_is_read_from_the_logits_whatever_the_batches(folder, batch_size):
    found = scored(folder, TEXTS, batch_size=batch_size)
    assert found.scores.tolist() == pytest.approx([by_hand(folder, one) for one in TEXTS], abs=1e-6)


def test_half_precision_does_not_round_the_logits(folder):
    scorer = candidate(folder, precision="bfloat16").open(None)
    assert scorer.score(batch(TEXTS)).scores == pytest.approx(
        scored(folder, TEXTS).scores, abs=0.02
    )
    model = scorer._answers._model
    assert model.dtype == torch.bfloat16
    assert model(torch.tensor([[5, 6]])).logits.dtype == torch.float32


def test_a_question_that_is_too_long_for_the_model_has_no_score(folder):
    found = scored(folder, ["a", "b " * 200])
    assert found.reasons == [None, TOO_LONG]
    assert math.isnan(found.scores[1])


def test_a_level_is_the_likeliest_word(folder):
    found = scored(folder, TEXTS, score_as="level")
    known = {one for one in found.scores.tolist() if not math.isnan(one)}
    assert known
    assert known <= {at / 39 for at in range(40)}


def test_a_model_that_answers_otherwise_is_told(folder):
    with pytest.raises(InputError, match=r"model tiny of candidate 'tiny' must answer with one of"):
        scored(folder, ["a secret"] * 10, words=["yes", "no"])


def test_a_template_that_leaves_the_comment_out_is_refused(tmp_path):
    other = save_language_model(tmp_path / "deaf", LEVELS, "{{ bos_token }} hello")
    with pytest.raises(InputError, match=r"chat template of .* must show the comment; it leaves"):
        scored(other, ["a"])


def test_a_template_that_wants_parts_of_messages_gets_them(folder, tmp_path):
    parts = "{% for one in messages %}{{ one.content[0].text }} {% endfor %}"
    other = save_language_model(tmp_path / "parts", LEVELS, parts)
    assert scored(other, ["a b"]).scores == pytest.approx(scored(folder, ["a b"]).scores, abs=1e-9)


def test_a_model_without_a_template_gets_the_plain_prompt(folder, tmp_path):
    other = save_language_model(tmp_path / "plain", LEVELS, None)
    assert scored(other, ["a b"]).scores == pytest.approx(scored(folder, ["a b"]).scores, abs=1e-9)
    with pytest.raises(InputError, match="`prompt` must be a text for model plain"):
        scored(other, ["a"], prompt=[{"role": "user", "content": "{{text}}"}])


def test_the_digest_is_of_the_files_the_question_and_the_precision(folder, tmp_path):
    def digest(place=folder, **options):
        return candidate(place, **options).open(None).digest

    other = save_language_model(tmp_path / "other", LEVELS, TEMPLATE + " ")
    changed = [digest(prompt="{{text}}"), digest(other), digest(precision="bfloat16")]
    assert len({digest(), *changed}) == 4
    assert digest(batch_size=2) == digest()


def test_a_folder_without_a_language_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"must hold config.json; it does not"):
        candidate(tmp_path).check()


def test_an_answer_without_a_word_is_counted(folder):
    assert scored(folder, ["a"], words=["yes", "no"]).reasons == [NO_ANSWER]
