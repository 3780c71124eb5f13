"""Answers of a language model, with the probabilities of their tokens; needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.scoring.asking.guard import Guard, Token
from biasgate.tasks.scoring.kinds.hugging_face import NEEDS_TORCH

try:
    import torch
    import transformers

    from biasgate.tasks.scoring.kinds.transformer_inference import (
        is_out_of_memory,
        lack_of_memory,
        loading,
    )
except ImportError as error:
    raise InputError(NEEDS_TORCH) from error

_LIKELIEST = 20
_PROBE = "probe of seven words, none of them"


class Answer(NamedTuple):
    """What a model answers."""

    text: str
    tokens: Sequence[Token]
    """Empty where only the text matters."""


class Answers:
    """A language model and its tokenizer, on the GPU if there is one.

    The likeliest answer is taken, token by token. `folder`: as `save_pretrained` writes it, weights
    in safetensors. `of`: the model, for messages. `guard`: how it is asked.
    """

    def __init__(
        self,
        folder: Path,
        of: str,
        guard: Guard,
        *,
        precision: str,
        batch_size: int,
        trust_remote_code: bool,
    ) -> None:
        transformers.utils.logging.disable_progress_bar()
        self._of, self._guard, self._batch_size = of, guard, batch_size
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        options = {"local_files_only": True, "trust_remote_code": trust_remote_code}
        with loading(of, self._device):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                str(folder), padding_side="left", **options
            )
            model, told = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype=getattr(torch, precision),
                use_safetensors=True,
                output_loading_info=True,
                **options,
            )
            model.to(self._device)
        if told["missing_keys"]:
            lacking = sorted(told["missing_keys"])
            msg = (
                f"{of} must hold all weights of a language model; it lacks "
                f"{', '.join(lacking[:3])} ({len(lacking)} in all)."
            )
            raise InputError(msg)
        self._in_parts = False
        self._shows_comments()
        self._ends = _as_list(model.generation_config.eos_token_id, self._tokenizer.eos_token_id)
        if not self._ends:
            msg = f"the tokenizer of {of} must have a token that ends answers; it has none."
            raise InputError(msg)
        self._fill = self._tokenizer.pad_token_id
        if self._fill is None:
            self._tokenizer.pad_token_id = self._fill = self._ends[0]
        self._longest = min(
            self._tokenizer.model_max_length,
            getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2**31,
        )
        self._model = model.eval()
        _exact_last_layer(self._model)
        self._deciding = self._find_deciding() if guard.score_as == "probability" else None

    def to(self, texts: Sequence[str]) -> list[Answer | None]:
        """Return the answer about each text; None where the question is too long for the model."""
        asked = [self._tokens(text) for text in texts]
        most = self._longest - self._guard.max_tokens
        fitting = [at for at in range(len(texts)) if len(asked[at]) <= most]
        fitting.sort(key=lambda at: len(asked[at]), reverse=True)
        found: list[Answer | None] = [None] * len(texts)
        start = 0
        while start < len(fitting):
            places = fitting[start : start + self._batch_size]
            try:
                answers = self._answer([asked[at] for at in places])
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if len(places) == 1:
                    work = f" with one question of {len(asked[places[0]])} tokens"
                    raise lack_of_memory(self._of, self._device, work) from error
                self._batch_size = len(places) // 2
                continue
            for at, answer in zip(places, answers, strict=True):
                found[at] = answer
            start += len(places)
        return found

    def _answer(self, asked: list[list[int]]) -> list[Answer]:
        given = self._tokenizer.pad({"input_ids": asked}, return_tensors="pt").to(self._device)
        recorder = _Recorder(self._deciding)
        with torch.inference_mode():
            found = self._model.generate(
                **given,
                # The model's own settings may change probabilities, as by a penalty for repeating.
                generation_config=transformers.GenerationConfig(
                    max_new_tokens=self._guard.max_tokens,
                    do_sample=False,
                    eos_token_id=self._ends,
                    pad_token_id=self._fill,
                ),
                logits_processor=[recorder],
            )
        said = found[:, given["input_ids"].shape[1] :].tolist()
        return [self._read(row, ids, recorder) for row, ids in enumerate(said)]

    def _read(self, row: int, ids: list[int], recorder: _Recorder) -> Answer:
        length = next((at for at, one in enumerate(ids) if one in self._ends), len(ids))
        text = self._decode(ids[:length])
        if self._deciding is None:
            return Answer(text, ())
        tokens = [
            Token(
                self._decode([ids[at]]),
                [(self._decode([one]), logprob) for one, logprob in recorder.pairs(at, row)],
            )
            # An answer that is empty still has a place at which a word might have begun.
            for at in range(max(length, 1))
        ]
        return Answer(text, tokens)

    def _tokens(self, text: str) -> list[int]:
        """Return the tokens of the question about a text."""
        has_template = self._tokenizer.chat_template is not None
        prompt = self._filled(text) if has_template else self._guard.plain_prompt(text)
        given = self._tokenizer(prompt, add_special_tokens=not has_template)
        ids: list[int] = given["input_ids"]
        return ids

    def _filled(self, text: str) -> str:
        """Return the model's own chat template, filled."""
        messages: list[dict[str, Any]] = list(self._guard.messages(text))
        if self._in_parts:
            messages = [
                {**message, "content": [{"type": "text", "text": message["content"]}]}
                for message in messages
            ]
        variables = dict(self._guard.filled_template or {})
        if self._guard.effort is not None:
            variables["reasoning_effort"] = self._guard.effort
        filled: str = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **variables
        )
        return filled

    def _shows_comments(self) -> None:
        """Refuse a model whose template does not show it the comment."""
        if self._tokenizer.chat_template is None:
            if not isinstance(self._guard.prompt, str):
                msg = f"`prompt` must be a text for {self._of}, which has no chat template."
                raise InputError(msg)
            return
        problem = "leaves it out"
        for self._in_parts in (False, True):
            try:
                if _PROBE in self._filled(_PROBE):
                    return
            except Exception as error:  # noqa: BLE001 - a template is code of the model's author
                problem = f"fails ({type(error).__name__})"
        msg = (
            f"the chat template of {self._of} must show the comment; it {problem}. Is the model of "
            "another kind than `guard` is for? Else give the messages that it expects as `prompt`."
        )
        raise InputError(msg)

    def _find_deciding(self) -> Any:
        """Return all tokens that a word may begin with; however unlikely, they are counted."""
        known = [
            number
            for number, text in enumerate(
                self._tokenizer.batch_decode([[one] for one in range(len(self._tokenizer))])
            )
            if self._guard.begun(text) is not None
        ]
        return torch.tensor(known, dtype=torch.long, device=self._device)

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids)
        return text


class _Recorder(transformers.LogitsProcessor):
    """Keeps, of each token of the answers, the likeliest alternatives and the deciding ones."""

    def __init__(self, deciding: Any) -> None:
        self._deciding = deciding
        self._steps: list[tuple[list[list[int]], list[list[float]]]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        del input_ids
        if self._deciding is not None:
            logprobs = torch.log_softmax(scores.float(), -1)
            top = logprobs.topk(min(_LIKELIEST, logprobs.shape[-1])).indices
            ids = torch.cat([top, self._deciding.expand(len(top), -1)], -1)
            self._steps.append((ids.tolist(), logprobs.gather(-1, ids).tolist()))
        return scores

    def pairs(self, at: int, row: int) -> list[tuple[int, float]]:
        """Return token numbers and log-probabilities, each once."""
        ids, logprobs = self._steps[at]
        return list(dict(zip(ids[row], logprobs[row], strict=True)).items())


def _exact_last_layer(model: Any) -> None:
    """Compute the last layer in single precision: rounded logits would tie."""
    last = model.get_output_embeddings()
    if isinstance(last, torch.nn.Linear) and last.weight.dtype != torch.float32:
        exact = torch.nn.Linear(last.in_features, last.out_features, bias=last.bias is not None)
        # The weights may be those of the first layer, so the layer is copied.
        exact.load_state_dict({name: one.float() for name, one in last.state_dict().items()})
        exact.to(last.weight.device).register_forward_pre_hook(lambda _, given: (given[0].float(),))
        model.set_output_embeddings(exact)


def _as_list(*chosen: int | list[int] | None) -> list[int]:
    """Return the first of several settings that is given, as a list."""
    for one in chosen:
        if one is not None:
            return one if isinstance(one, list) else [one]
    return []
