"""Assemble the pages of the site: the written pages, and the reference, from the code.

    python docs/site.py build/pages

`make docs` builds the site from that folder. `NAV` is the order of the pages.
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
# Pages of the repository with another place on the site.
MOVED = {"bias_metrics/README.md": "reference/metrics.md", "CONTRIBUTING.md": "contributing.md"}
# Folders whose files make a page.
MADE = {"tasks/scoring/http/presets": "reference/services.md"}
_SPECIAL = re.compile(r"([<>*_\[\]{}$])")
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
            lambda link, at=origin, to=page: move_link(link, at, to, target),
            page.read_text("utf-8"),
        )
        reference = os.path.relpath(target / "reference", page.parent)
        page.write_text(_SECTION.sub(partial(link_keys, reference, explained_in), text), "utf-8")
    for name, schema in schemas.items():
        (target / "schemas" / f"{name}.schema.json").write_text(
            json.dumps(schema, indent=1), "utf-8"
        )
    write_page(target, "reference/evaluation-file", describe_evaluation_file())
    write_page(target, "reference/policy", describe_policy())
    write_page(target, "reference/services", describe_services())
    write_page(target, "reference/commands", [describe_commands()])
    write_page(target, "reference/library", write_library_pages(target))
    for section, (summary, pages) in NAV.items():
        lines = list_pages(section, summary, pages, target)
        write_page(target, section.lower() + "-pages", lines)
    write_page(target, "index", make_front_page())


def write_page(target: Path, page: str, lines: Iterable[str]) -> None:
    """Write a page."""
    (target / f"{page}.md").write_text("\n".join(lines) + "\n", "utf-8")


def move_link(link: re.Match[str], origin: Path, page: Path, target: Path) -> str:
    """Point a link to the same page on the site; name a file of the repository by its path."""
    path, _, anchor = link["target"].partition("#")
    file = Path(os.path.normpath(origin.parent / path))
    inside = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
    if moved := (MOVED | MADE | {"README.md": "start.md"}).get(inside):
        copy = target / moved
    else:
        copy = target / file.relative_to(DOCS) if file.is_relative_to(DOCS) else file
    if moved or (file.is_relative_to(DOCS) and copy.is_file()):
        place = os.path.relpath(copy, page.parent)
        return f"{link['text']}({place}{'#' + anchor if anchor else ''})"
    text = link["text"].strip("![]`")
    return f"{text} (`{inside}` in the repository)" if text != inside else f"`{inside}`"


def link_keys(reference: str, explained_in: Mapping[str, str], command: re.Match[str]) -> str:
    """Link a command that prints a section's keys to the page with these keys."""
    section, page = command[1], explained_in.get(command[1])
    return f"[{command[0]}]({reference}/{page}.md#{section.lower()})" if page else command[0]


def read_title(page: Path) -> tuple[str, str]:
    """Return a page's heading and its first sentence."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text("utf-8"))["cells"]
        text = "".join(
            "".join(cell["source"]) + "\n\n" for cell in cells if cell["cell_type"] == "markdown"
        )
    else:
        text = page.read_text("utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    rest = text[title.end() :] if title else text
    prose = [part for part in rest.split("\n\n") if re.match(r"\s*[A-Z`*]", part)]
    first = re.split(r"(?<=[.?])\s", " ".join(prose[0].split()), maxsplit=1)[0] if prose else ""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", first)
    return (title[1] if title else page.stem), plain


def list_pages(section: str, summary: str, pages: Iterable[str], target: Path) -> Iterator[str]:
    """Yield a section's page: a line for each of its pages."""
    yield from (f"# {section}", "", summary, "")
    for name in pages:
        files = (target / (name + ending) for ending in (".md", ".ipynb"))
        [file] = [file for file in files if file.exists()]
        title, first = read_title(file)
        yield f"- [{title}]({name}{file.suffix}): {first.rstrip('.:')}".rstrip() + (
            "" if first.endswith("?") else "."
        )
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def make_front_page() -> Iterator[str]:
    """Yield the first page: the beginning of the README, and links."""
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
    for section, (summary, _) in NAV.items():
        yield f"- [{section}]({section.lower()}-pages.md): {summary}"
    pages = [f"{section} <{section.lower()}-pages>" for section in NAV]
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def describe_evaluation_file() -> Iterator[str]:
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
    own: dict[str, list[Key]] = {name: list(explain_keys(keys)) for name, keys in sections.items()}
    shared = {
        kind: (title, [key for key in own[first] if key[0] in base.model_fields])
        for catalogue, title, first, base in (
            (SOURCE_KINDS, "every set", "table", SourceSettings),
            (CANDIDATES, "every candidate", "scores", CandidateSettings),
        )
        for kind in catalogue.own
    }
    yield from list_keys("evaluation", own.pop("evaluation"))
    columns = [key for key in own["table"] if key not in shared["table"][1]]
    for kind, keys in own.items():
        title, common = shared.get(kind, ("", []))
        known, also = list(common), [f"[{title}](#{title.replace(' ', '-')})"] if title else []
        if kind != "table" and {"cluster", "slices_in"} <= {key[0] for key in keys}:
            known, also = known + columns, [*also, "[table](#table), where they are not below"]
        if kind in {"table", "scores"}:
            yield from list_keys(title, common)
        yield from list_keys(kind, [key for key in keys if key not in known], also)


def describe_policy() -> Iterator[str]:
    """Yield every section of a policy with its keys."""
    yield from ("# Policy: every key", "")
    yield "Made from the classes that read the file. The guides say"
    yield "[which rules to choose](../guides/policies.md)."
    yield 'Editors complete and check keys by <a href="../policy.schema.json">the JSON Schema</a>,'
    yield from ("which `biasgate schema policy --json` prints.", "")
    for name, section in list_policy_sections(make_policy_schema()).items():
        yield from list_keys(name, explain_keys(section))


def describe_services() -> Iterator[str]:
    """Yield the presets of `kind: http`, from their files."""
    yield from ("# Services and judges", "")
    yield "Values of `preset` of a candidate of kind `http`, with what each sets."
    yield from ("The guide says [how to use them](../guides/candidates.md#http).", "")
    for name in list_presets():
        preset = read_preset(name)
        yield from (f"## preset: {name}", "", escape(preset.title) + ".", "")
        for key in ("url", "token_env", "categories", "scale"):
            if value := getattr(preset, key):
                yield f"- `{key}`: `{json.dumps(value, ensure_ascii=False)}`"
        for option, value in preset.options.items():
            default = "must be given" if value is None else f"default `{json.dumps(value)}`"
            yield f"- `options: {{{option}: ...}}`: {default}"
        sources = ", ".join(f"[{n}]({source})" for n, source in enumerate(preset.sources, 1))
        yield f"- Documented in {sources}, read on {preset.read}"
        yield from (["- `categories`: must be given", ""] if preset.needs_categories else [""])


def list_keys(name: str, keys: Iterable[Key], also: Iterable[str] = ()) -> Iterator[str]:
    """Yield a section's keys, each with a heading for links."""
    yield from (f"## {name}", "")
    if also:
        yield from (f"Also the keys of {' and of '.join(also)}.", "")
    for key, value, meaning in keys:
        values = _SPECIAL.sub(r"\\\1", value)
        yield from (f"### {name}: {key}", "", values + ".", "", escape(meaning), "")


def escape(text: str) -> str:
    """Escape text outside of code: `<` would begin HTML, `{` a role."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _SPECIAL.sub(r"\\\1", part) for part in parts)


def describe_commands() -> str:
    """Return the commands with their options, in Typer's format."""
    command = [sys.executable, "-m", "typer", "biasgate.cli", "utils", "docs", "--name", "biasgate"]
    environment = os.environ | {"TERMINAL_WIDTH": "200", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    lines = re.sub(r"^#", "##", result.stdout, flags=re.MULTILINE)
    return "# Commands\n\n" + lines.replace("```console", "```text")


def write_library_pages(target: Path) -> Iterator[str]:
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
            summary, source = read_docstring(getattr(bias_metrics, name))
            cells = (f"`{name}`", summary, source, f"`{proofs[name]}`")
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""
        lines = [f"# {room}", "", "```{eval-rst}"]
        for name in names:
            value = getattr(bias_metrics, name)
            kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
            lines += [f".. auto{kind}:: bias_metrics.{name}"]
            lines += ["   :members:", ""] if kind == "class" else [""]
        write_page(target, f"reference/library-{room}", [*lines, "```"])
    pages = [f"library-{room}" for room in sorted(rooms)]
    yield from ("", "```{toctree}", ":hidden:", "", *pages, "```")


def read_docstring(function: Any) -> tuple[str, str]:
    """Return the first sentence of a docstring, and its references."""
    text = inspect.getdoc(function) or ""
    source = re.search(r"References\n-+\n(.+?)(?:\n\n|\Z)", text, re.DOTALL)
    summary = re.sub(r"``?", "`", " ".join(text.partition("\n\n")[0].split()))
    return escape(summary), escape(" ".join(source[1].split())) if source else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
