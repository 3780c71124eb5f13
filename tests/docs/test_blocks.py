"""Every code block in the docs runs unchanged, or a comment before it says why it cannot.

A page's blocks run in order, in a folder with the files and models that the pages name. YAML that
is a whole evaluation file or policy is saved under its name, for the commands that follow, and
evaluated; a part of one is checked within a whole one.
"""

import doctest
import re
import shlex
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from support.blocks import blocks_of, indented_blocks
from support.pages import names_in_scope

from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.reading_evaluation import read_evaluation

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bias_metrics" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
EXTENDING = ROOT / "docs" / "extending.md"  # tests/docs/test_extending.py runs it
# Another test runs it too, with a server in place of Perspective.
REPLACING = ROOT / "docs" / "guides" / "replacing-perspective.md"
WITH_BLOCKS = [page for page in PAGES if blocks_of(page) and page not in {EXTENDING, REPLACING}]
# Their blocks run evaluations for a long time.
LONG = {"docs/guides/analyses.md", "docs/guides/policies.md"}
VERDICTS = {0, 3, 4}


def called(page):
    return str(page.relative_to(ROOT))


def marked(page):
    marks = [pytest.mark.slow] if called(page) in LONG else []
    return pytest.param(page, marks=marks, id=called(page))


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_every_block_says_its_language(page):
    languages = {block.language for block in blocks_of(page)}
    assert languages <= {"sh", "yaml", "python", "text", "toml"}
    assert indented_blocks(page) == []


@pytest.mark.parametrize("page", PAGES, ids=called)
def test_blocks_fit_the_site(page):
    """`docs/site.css` leaves room for 100 characters; printed tables and addresses scroll."""
    blocks = [block for block in blocks_of(page) if not block.content.startswith(">>>")]
    lines = [line for block in blocks for line in block.content.splitlines()]
    assert [line for line in lines if len(line) > 100 and "https://" not in line] == []


@pytest.mark.evaluates
@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")  # of mlflow.models.evaluate
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("page", [marked(page) for page in WITH_BLOCKS])
def test_every_block_of_a_page_runs_as_it_stands(page, scene, biasgate):
    run_python = partial(run_in_session, {})
    run = {"yaml": run_yaml, "sh": run_shell, "python": run_python, "text": lambda *_: None}
    for block in blocks_of(page):
        if block.not_run is None:
            try:
                run[block.language](block.content, scene, biasgate)
            except Exception as error:
                error.add_note(f"{called(page)}, line {block.line}")
                raise


def run_yaml(content, scene, biasgate):
    """Evaluate what is whole; check a part of an evaluation file within a whole one."""
    given = yaml.safe_load(content)
    if "rules" in given:
        (scene / f"{given['name']}.yaml").write_text(content, "utf-8")
        whole = whole_evaluation(scene) | {"policy": f"{given['name']}.yaml"}
        evaluated(whole, scene, biasgate)
    elif ["..."] in given.values() or "name" not in given:
        parts = {key: value for key, value in given.items() if value != ["..."]}
        path = scene / "part.yaml"
        path.write_text(yaml.safe_dump(whole_evaluation(scene) | parts), "utf-8")
        checked = read_evaluation(path)
        assert parts.keys() <= dict(checked).keys()
    else:
        path = scene / f"{given['name']}.yaml"
        path.write_text(content, "utf-8")
        read_evaluation(path)


def whole_evaluation(scene):
    """An evaluation file to which a page's part is added."""
    return yaml.safe_load((scene / "whole.yaml").read_text("utf-8"))


def evaluated(content, scene, biasgate):
    path = scene / "evaluated.yaml"
    path.write_text(yaml.safe_dump(content), "utf-8")
    done = biasgate("evaluate", path, "--output", scene / "evaluated")
    assert done.exit_code in VERDICTS, done.output + done.stderr


def run_shell(content, scene, biasgate):
    """Run the command with each line's arguments; its output may go to a file."""
    for line in content.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        given = dict(one.split("=", 1) for one in takewhile(lambda one: "=" in one, words))
        program, *arguments = words[len(given) :]
        assert program == "biasgate", f"say why this is not run: {line}"
        target = None
        if ">" in arguments:
            arguments, target = arguments[:-2], arguments[-1]
        with pytest.MonkeyPatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, value)
            done = biasgate(*arguments)
        allowed = VERDICTS if arguments[0] in {"evaluate", "nightly"} else {0}
        assert done.exit_code in allowed, f"{line}\n{done.output}{done.stderr}"
        if target is not None:
            (scene / target).write_text(done.stdout, "utf-8")


def run_in_session(names, content, scene, biasgate):
    """Run a script with what the page has defined so far; of a session also compare its output.

    A script whose first line names a file, as in `# my_model.py`, is also kept in that file.
    """
    del biasgate
    names.update(names_in_scope(scene) if not names else {})
    uri = Gateway.from_store(scene / ".biasgate").uri
    if file := re.match(r"# (\w+\.py)\b", content):
        (scene / file[1]).write_text(content, "utf-8")
    if content.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(content, names, "page", None, 0)
        assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
        names.update(test.globs)
    else:
        with pytest.MonkeyPatch.context() as patch:
            if "MLFLOW_TRACKING_URI" in content:  # as whoever runs it has set it
                patch.setenv("MLFLOW_TRACKING_URI", uri)
            exec(compile(content, "page", "exec"), names)  # noqa: S102 - our own pages


@pytest.mark.parametrize(
    ("text", "language", "why"),
    [
        ("```sh\nls\n```\n", "sh", None),
        ("<!-- not run: needs a cluster -->\n```yaml\na: 1\n```\n", "yaml", "needs a cluster"),
        ("<!-- not run: needs a cluster -->\n\n```yaml\na: 1\n```\n", "yaml", None),
        ("```\nls\n```\n", "", None),
    ],
)
def test_a_block_is_read_with_the_comment_directly_before_it(tmp_path, text, language, why):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{text}")
    [block] = blocks_of(page)
    assert (block.language, block.not_run) == (language, why)


def test_a_line_that_is_not_of_the_command_must_say_why_it_is_not_run(tmp_path):
    with pytest.raises(AssertionError, match="say why this is not run: make demo"):
        run_shell("make demo  # shows it\n", tmp_path, None)
