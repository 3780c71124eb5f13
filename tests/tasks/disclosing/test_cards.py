"""Cards are read by the library of the hub they are for; each number is the report's."""

import json

import pytest
import yaml
from support.evaluations import run
from support.filed import judge_site

hub = pytest.importorskip("huggingface_hub")
from huggingface_hub.repocard_data import model_index_to_eval_results  # noqa: E402

# As `types/integration.ts` of Coop has them.
REQUIRED = [
    *("trainingData", "policyAndTaxonomy", "annotationMethodology", "performanceBenchmarks"),
    *("biasAndLimitations", "implementationGuidance", "relevantLinks"),
]


def report(results):
    return json.loads((results / "sample" / "first" / "report.json").read_text("utf-8"))


def card(results, *options):
    code, text = run("card", results / "sample" / "first", "--json", "--format", *options)
    assert code == 0, text
    return json.loads(text)


def test_the_hubs_library_reads_the_model_index(results):
    content = card(results, "huggingface", "--dataset", "org/comments")
    name, found = model_index_to_eval_results(content["model-index"])
    assert name == "first"
    bias = report(results)["bias"]
    values = {one.metric_name: one for one in found}
    assert values["AUC"].metric_value == bias["overall"]["auc"]["value"]
    bpsn = values["BPSN AUC of gay"]
    assert bpsn.metric_value == bias["subgroups"]["gay"]["bpsn_auc"]["value"]
    assert bpsn.metric_args["low"] == bias["subgroups"]["gay"]["bpsn_auc"]["low"]
    assert {one.dataset_type for one in found} == {"org/comments"}
    assert len(found) == 2 + 2 * 5
    assert {one.dataset_revision for one in found} == {None}
    data = hub.ModelCardData(eval_results=found, model_name="first")
    again = yaml.safe_load(data.to_yaml())["model-index"]
    assert len(model_index_to_eval_results(again)[1]) == len(found)


def test_the_hubs_library_reads_the_eval_results(results):
    tasks = ("--task", "toxicity=auc", "--task", "muslims=bnsp_auc/muslim")
    content = card(results, "eval-results", "--dataset", "org/comments", *tasks)
    found = hub.parse_eval_result_entries(content)
    bias = report(results)["bias"]
    assert [one.value for one in found] == [
        bias["overall"]["auc"]["value"],
        bias["subgroups"]["muslim"]["bnsp_auc"]["value"],
    ]
    assert [one.task_id for one in found] == ["toxicity", "muslims"]
    assert all("95 % interval" in one.notes and "by policy p" in one.notes for one in found)
    assert hub.eval_result_entries_to_yaml(found)


def test_coops_card_has_every_required_section_and_says_what_is_the_owners(results):
    content = card(results, "coop")
    sections = {one["id"]: one for one in content["sections"]}
    assert list(sections) == REQUIRED
    assert content["modelName"] == "first"
    assert content["releaseDate"].startswith("To be filled in by the owner")
    [bias] = sections["biasAndLimitations"]["subsections"]
    fields = {one["label"]: one["value"] for one in bias["fields"]}
    assert "BPSN AUC" in fields["gay"]
    assert fields["Verdict"].endswith("by policy p, on 2026-11-21")
    assert "To be filled in by the owner" in sections["trainingData"]["fields"][0]["value"]
    every = [one for part in content["sections"] for one in part["fields"]]
    every += [
        one
        for part in content["sections"]
        for sub in part.get("subsections", [])
        for one in sub["fields"]
    ]
    assert all(set(one) == {"label", "value"} for one in every)
    assert all(isinstance(text, str) for one in every for text in one.values())


def test_exceptions_of_a_pass_are_on_the_card(site, tmp_path):
    few = site.assign(muslim=site["muslim"] & (site.index < 40))
    folder = judge_site(tmp_path / "few", few, {"first": 0.5})
    verdict = json.loads((folder / "sample" / "first" / "verdict.json").read_text("utf-8"))
    assert verdict["exceptions"]
    [found] = card(folder, "huggingface")["model-index"][0]["results"]
    assert any(
        one["sentence"] in " ".join(found["dataset"]["args"]["exceptions"])
        for one in verdict["exceptions"]
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "eval-results"), "needs `--dataset ORG/NAME` and `--task"),
        (("--format", "eval-results", "--dataset", "a/b", "--task", "x=acu"), "got 'acu'"),
    ],
)
def test_what_the_hub_needs_must_be_given(results, options, words):
    code, text = run("card", results / "sample" / "first", *options)
    assert (code, words in text) == (2, True)


def test_a_card_is_about_one_candidate(results):
    code, text = run("card", results, "--format", "coop")
    assert (code, "has first, second" in text) == (2, True)
