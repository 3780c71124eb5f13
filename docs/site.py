"""Put the pages of the site together: the hand-written ones, and the reference, from the code.

    python docs/site.py build/pages

`make docs` builds the site from that folder. `NAV` says where each page stands.
"""

from __future__ import annotations

import csv
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import bias_metrics
from biasgate.tasks.data.freezing import SOURCE_KINDS
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evaluation_file import evaluation_schema, explain_keys, list_sections
from biasgate.tasks.gating.policy import list_policy_sections, make_policy_schema
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.http.preset import list_presets, read_preset
from biasgate.tasks.scoring.kinds.catalogue import KINDS as CANDIDATES

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PROOFS = ROOT / "tests" / "bias_metrics" / "proofs.csv"
NAV: Mapping[str, tuple[str, list[str]]] = {
    "Start": (
        "From a file of scores to a verdict.",
        ["start", "tutorial", "guides/results", "glossary"],
    ),
    "Evaluate": (
        "What is measured, and on which models.",
        [
            "guides/evaluation-files",
            "guides/candidates",
            "guides/analyses",
            "guides/mitigation",
            "guides/replacing-perspective",
        ],
    ),
    "Gate": (
        "What a model must meet, and what a pass is worth.",
        ["guides/policies", "guides/promotion", "guides/transparency", "threat-model"],
    ),
    "Operate": (
        "Every night, on the machines of a team.",
        ["guides/nightly", "guides/ci", "guides/operate"],
    ),
    "Extend": ("Your own kinds, and biasgate itself.", ["extending", "contributing"]),
    "Reference": (
        "Made from the code: every key, command and function.",
        [
            "reference/evaluation-file",
            "reference/policy",
            "reference/services",
            "reference/commands",
            "reference/metrics",
            "reference/library",
        ],
    ),
    "Evidence": (
        "What was measured, each with its command.",
        [
            "evidence/numbers",
            "evidence/intervals",
            "evidence/gate",
            "evidence/models",
            "evidence/packages",
            "evidence/mitigation",
            "evidence/operation",
        ],
    ),
}
Key = tuple[str, str, str]  # name, value, meaning
# Pages of the repository that stand elsewhere on the site.
MOVED = {"bias_metrics/README.md": "reference/metrics.md", "CONTRIBUTING.md": "contributing.md"}
# Folders whose files make a page, and commands that print a section of one.
MADE = {
    "tasks/scoring/http/presets": "reference/services.md",
}
_SECTION = re.compile(r"`biasgate schema ([\w-]+)`")
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?!https?:|mailto:|#)(?P<target>[^)\s]+)\)")


def main(target: Path) -> None:
    """Write all pages into a folder, which is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    leaving_out = shutil.ignore_patterns("*.py", "reproduce", "__pycache__")
    shutil.copytree(DOCS, target, ignore=leaving_out)
    shutil.copy(DOCS / "conf.py", target)
    (target / "reference").mkdir()
    (target / "schemas").mkdir()
    for source, page in MOVED.items():
        (target / page).write_text((ROOT / source).read_text("utf-8"), "utf-8")
    origins = {target / page: ROOT / source for source, page in MOVED.items()}
    schemas = {"evaluation": evaluation_schema(), "policy": make_policy_schema()}
    explained_in = dict.fromkeys(list_policy_sections(schemas["policy"]), "policy")
    explained_in |= dict.fromkeys(list_sections(schemas["evaluation"]), "evaluation-file")
    for page in target.rglob("*.md"):
        origin = origins.get(page, DOCS / page.relative_to(target))
        text = _LINK.sub(
            lambda link, at=origin, to=page: linked(link, at, to, target), page.read_text("utf-8")
        )
        reference = os.path.relpath(target / "reference", page.parent)
        page.write_text(_SECTION.sub(partial(keys_linked, reference, explained_in), text), "utf-8")
    for name, schema in schemas.items():
        (target / "schemas" / f"{name}.schema.json").write_text(
            json.dumps(schema, indent=1), "utf-8"
        )
    write(target, "reference/evaluation-file", evaluation_file_page())
    write(target, "reference/policy", policy_page())
    write(target, "reference/services", services_page())
    write(target, "reference/commands", [commands()])
    write(target, "reference/library", library_pages(target))
    for section, (said, pages) in NAV.items():
        write(target, section.lower() + "-pages", index_page(section, said, pages, target))
    write(target, "index", front_page())


def write(target: Path, page: str, lines: Iterable[str]) -> None:
    """Write a page."""
    (target / f"{page}.md").write_text("\n".join(lines) + "\n", "utf-8")


def linked(link: re.Match[str], origin: Path, page: Path, target: Path) -> str:
    """Point a link to the same page on the site; name a file of the repository by its path."""
    path, _, anchor = link["target"].partition("#")
    found = Path(os.path.normpath(origin.parent / path))
    inside = found.relative_to(ROOT).as_posix() if found.is_relative_to(ROOT) else ""
    at = "#" + anchor if anchor else ""
    if moved := (MOVED | MADE).get(inside):
        return f"{link['text']}({os.path.relpath(target / moved, page.parent)}{at})"
    if inside == "README.md":
        return f"{link['text']}({os.path.relpath(target / 'start.md', page.parent)}{at})"
    if found.is_relative_to(DOCS) and (copy := target / found.relative_to(DOCS)).is_file():
        return f"{link['text']}({os.path.relpath(copy, page.parent)}{at})"
    text = link["text"].strip("![]`")
    return f"{text} (`{inside}` in the repository)" if text != inside else f"`{inside}`"


def keys_linked(reference: str, explained_in: Mapping[str, str], command: re.Match[str]) -> str:
    """Let a command that prints a section's keys lead to them."""
    section, page = command[1], explained_in.get(command[1])
    return f"[{command[0]}]({reference}/{page}.md#{section.lower()})" if page else command[0]


def title_and_first(page: Path) -> tuple[str, str]:
    """Return a page's heading and its first sentence."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text("utf-8"))["cells"]
        text = "".join(
            "".join(one["source"]) + "\n\n" for one in cells if one["cell_type"] == "markdown"
        )
    else:
        text = page.read_text("utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    rest = text[title.end() :] if title else text
    prose = [one for one in rest.split("\n\n") if re.match(r"\s*[A-Z`*]", one)]
    first = re.split(r"(?<=[.?])\s", " ".join(prose[0].split()), maxsplit=1)[0] if prose else ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return (title[1] if title else page.stem), plain


def index_page(section: str, said: str, pages: Iterable[str], target: Path) -> Iterator[str]:
    """Yield a section's page: what is where, in one line each."""
    yield from (f"# {section}", "", said, "")
    for name in pages:
        [file] = [one for ending in (".md", ".ipynb") if (one := target / (name + ending)).exists()]
        title, first = title_and_first(file)
        yield f"- [{title}]({name}{file.suffix}): {first.rstrip('.:')}".rstrip() + (
            "" if first.endswith("?") else "."
        )
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def front_page() -> Iterator[str]:
    """Yield the page that opens: what it is, as the README says it, and where to go on."""
    readme = (ROOT / "README.md").read_text("utf-8")
    for part in readme.split("\n\n")[:3]:
        yield from (_LINK.sub(lambda link: link["text"].strip("[]"), part), "")
    yield "- You want to see it work on public data: [Civil Comments](start.md#civil-comments)."
    yield "- Your scores are in a CSV: [one command](start.md#your-own-scores)."
    yield "- Your models are in MLflow: [register one, and judge it](guides/candidates.md#mlflow)."
    yield "- You want to change biasgate: [set up and test](contributing.md)."
    yield ""
    yield "Or look something up:"
    yield ""
    for section, (said, _) in NAV.items():
        yield f"- [{section}]({section.lower()}-pages.md): {said}"
    pages = [f"{section} <{section.lower()}-pages>" for section in NAV]
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def evaluation_file_page() -> Iterator[str]:
    """Yield every section of an evaluation file with its keys."""
    schema = evaluation_schema()
    yield from ("# Evaluation file: every key", "")
    yield "Made from the classes that read the file; `biasgate schema SECTION` prints a part of it."
    yield "The guides say [how to write one](../guides/evaluation-files.md)."
    yield "Editors complete and check keys by"
    yield '<a href="../evaluation.schema.json">the JSON Schema</a>. Write it with'
    yield "`biasgate schema --json > evaluation.schema.json`, and begin the file with this line:"
    yield ""
    yield from ("```yaml", "# yaml-language-server: $schema=evaluation.schema.json", "```", "")
    sections = list_sections(schema)
    own: dict[str, list[Key]] = {name: list(explain_keys(of)) for name, of in sections.items()}
    shared = {
        kind: (every, [key for key in own[first] if key[0] in base.model_fields])
        for catalogue, every, first, base in (
            (SOURCE_KINDS, "every set", "table", SourceSettings),
            (CANDIDATES, "every candidate", "scores", CandidateSettings),
        )
        for kind in catalogue.own
    }
    yield from table("evaluation", own.pop("evaluation"))
    columns = [key for key in own["table"] if key not in shared["table"][1]]
    for kind, keys in own.items():
        every, common = shared.get(kind, ("", []))
        known, also = list(common), [f"[{every}](#{every.replace(' ', '-')})"] if every else []
        if kind != "table" and {"cluster", "slices_in"} <= {key[0] for key in keys}:
            known, also = known + columns, [*also, "[table](#table), where they are not below"]
        if kind in {"table", "scores"}:
            yield from table(every, common)
        yield from table(kind, [key for key in keys if key not in known], also)


def policy_page() -> Iterator[str]:
    """Yield every section of a policy with its keys."""
    yield from ("# Policy: every key", "")
    yield "Made from the classes that read the file. The guides say"
    yield "[which rules to choose](../guides/policies.md)."
    yield 'Editors complete and check keys by <a href="../policy.schema.json">the JSON Schema</a>,'
    yield from ("which `biasgate schema policy --json` prints.", "")
    for name, section in list_policy_sections(make_policy_schema()).items():
        yield from table(name, explain_keys(section))


def services_page() -> Iterator[str]:
    """Yield the presets of `kind: http`, from their files."""
    yield from ("# Services and judges", "")
    yield "Values of `preset` of a candidate of kind `http`, with what each sets."
    yield from ("The guide says [how to use them](../guides/candidates.md#http).", "")
    for name in list_presets():
        preset = read_preset(name)
        yield from (f"## preset: {name}", "", escaped(preset.title) + ".", "")
        for key in ("url", "token_env", "categories", "scale"):
            if value := getattr(preset, key):
                yield f"- `{key}`: `{json.dumps(value, ensure_ascii=False)}`"
        for option, value in preset.options.items():
            default = "must be given" if value is None else f"default `{json.dumps(value)}`"
            yield f"- `options: {{{option}: ...}}`: {default}"
        sources = ", ".join(f"[{at}]({source})" for at, source in enumerate(preset.sources, 1))
        yield f"- Documented in {sources}, read on {preset.read}"
        yield from (["- `categories`: must be given", ""] if preset.needs_categories else [""])


def table(name: str, keys: Iterable[Key], also: Iterable[str] = ()) -> Iterator[str]:
    """Yield a section's keys as definitions, each of which can be linked to."""
    yield from (f"## {name}", "")
    if also:
        yield from (f"Also the keys of {' and of '.join(also)}.", "")
    for key, value, meaning in keys:
        said = re.sub(r"([<>*_\[\]{}$])", r"\\\1", value)
        yield from (f"### {name}: {key}", "", said + ".", "", escaped(meaning), "")


def escaped(text: str) -> str:
    """Escape what is no code: `<` would begin HTML, `{` a role."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        one if one.startswith("`") else re.sub(r"([<>*_\[\]{}$])", r"\\\1", one) for one in parts
    )


def commands() -> str:
    """Return the commands with their options, as Typer writes them."""
    asked = [sys.executable, "-m", "typer", "biasgate.cli", "utils", "docs", "--name", "biasgate"]
    environment = os.environ | {"TERMINAL_WIDTH": "200", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    return "# Commands\n\n" + re.sub(r"^#", "##", done.stdout, flags=re.MULTILINE).replace(
        "```console", "```text"
    )


def library_pages(target: Path) -> Iterator[str]:
    """Write a page for each room of the library; yield the index with sources and proofs."""
    rooms: dict[str, list[str]] = {}
    for name in sorted(bias_metrics.__all__, key=str.lower):
        module = getattr(getattr(bias_metrics, name), "__module__", "")
        room = module.split(".")[1] if module.count(".") else ""
        if room:
            rooms.setdefault("results" if room.startswith("_") else room, []).append(name)
    with PROOFS.open(encoding="utf-8", newline="") as file:
        proofs = {row["function"]: row["test"] for row in csv.DictReader(file)}
    yield from (
        "# Library bias_metrics",
        "",
        "Every public name, from its docstring. The last column is a test in `tests/bias_metrics`",
        "that works one value out by hand. [How to use it](metrics.md).",
        "",
    )
    for room, names in sorted(rooms.items()):
        yield from (f"## [{room}](library-{room}.md)", "")
        functions = [name for name in names if name in proofs]
        if others := [f"`{name}`" for name in names if name not in proofs]:
            yield from (", ".join(others), "")
        if functions:
            yield from ("| function | what | source | proved in |", "|---|---|---|---|")
        for name in functions:
            said, source = summary_and_source(getattr(bias_metrics, name))
            cells = (f"`{name}`", said, source, f"`{proofs[name]}`")
            yield "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"
        yield ""
        lines = [f"# {room}", "", "```{eval-rst}"]
        for name in names:
            found = getattr(bias_metrics, name)
            kind = "class" if isinstance(found, type) else "function" if callable(found) else "data"
            lines += [f".. auto{kind}:: bias_metrics.{name}"]
            lines += ["   :members:", ""] if kind == "class" else [""]
        write(target, f"reference/library-{room}", [*lines, "```"])
    pages = [f"library-{room}" for room in sorted(rooms)]
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def summary_and_source(function: Any) -> tuple[str, str]:
    """Return the first sentence of a docstring, and its references."""
    text = inspect.getdoc(function) or ""
    source = re.search(r"References\n-+\n(.+?)(?:\n\n|\Z)", text, re.DOTALL)
    said = re.sub(r"``?", "`", " ".join(text.partition("\n\n")[0].split()))
    return escaped(said), escaped(" ".join(source[1].split())) if source else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
