"""The demo: what it promises, and that it notices when a promise is broken."""

import json
import re
import shlex

import pytest
from support.partial import partial
from typer.testing import CliRunner

from biasgate.cli import app, describe_unexpected_verdicts

# The tutorial runs the demo too, and is checked by fast tests.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown(tmp_path_factory, prefect_server):
    """Return what the demo says and sums up."""
    del prefect_server
    output = tmp_path_factory.mktemp("demo")
    result = CliRunner().invoke(app, ["demo", "--output", str(output)])
    return result, json.loads((output / "summary.json").read_text())


def test_planted_bias_is_blocked_for_the_planted_identities_alone(shown):
    result, summary = shown
    assert result.exit_code == 0, result.output
    outcomes = {one["candidate"]: one["outcome"] for one in summary["decisions"]}
    assert outcomes == {"biased_labels": "fail", "balanced_labels": "pass"}
    assert describe_unexpected_verdicts(partial(summary)) is None
    said = " ".join(result.output.split())
    assert re.search(r"balanced_labels PASSED \(exceptions\)", said)
    assert "models:/toxicity_demo/2 is champion now" in said
    assert re.search(r"biased_labels BLOCKED .*?(gay|muslim) BPSN( AUC)? 0\.4", said)
    assert "More to try" in result.output
    assert re.search("open the report in a browser: .*report.html\n", result.output)
    following = re.findall("^Next: \\S+ (.*)$", result.output, re.MULTILINE)
    assert [one.split()[0] for one in following] == ["verify"]
    for one in following:
        assert CliRunner().invoke(app, shlex.split(one)).exit_code == 0


@pytest.mark.parametrize(
    ("biased", "balanced", "said"),
    [
        ("pass", "pass", "biased_labels should be blocked"),
        ("fail", "fail", "balanced_labels should pass"),
        ("fail", "pass", r"blocked for \['gay', 'muslim'\]; it is blocked for \['black'\]"),
    ],
)
def test_the_demo_says_when_it_did_not_go_as_expected(biased, balanced, said):
    summary = {
        "decisions": [
            {"candidate": "biased_labels", "outcome": biased},
            {"candidate": "balanced_labels", "outcome": balanced},
        ],
        "verdicts": [
            {
                "candidate": {"name": "biased_labels"},
                "results": [{"outcome": "fail", "group": "black"}],
            }
        ],
    }
    assert re.search(said, describe_unexpected_verdicts(partial(summary)))
