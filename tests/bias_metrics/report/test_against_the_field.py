"""Standard errors against other implementations: R's pROC, and Obuchowski's for clusters."""

import io
import math
import subprocess

import numpy as np
import pytest
from support.r import require_r

from bias_metrics import compare_bias, evaluate_bias

EXACT = 1e-12
CELLS = {  # the classes of lower and upper scores, given labels and members
    "subgroup_auc": (lambda y, g: ~y & g, lambda y, g: y & g),
    "bpsn_auc": (lambda y, g: ~y & g, lambda y, g: y & ~g),
    "bnsp_auc": (lambda y, g: ~y & ~g, lambda y, g: y & g),
}
PROC = """
library(pROC)
rows <- read.csv(file("stdin"), colClasses = "numeric")
for (cell in unique(rows$cell)) {
  own <- rows[rows$cell == cell, ]
  a <- roc(own$upper, own$a, direction = "<", levels = c(0, 1), quiet = TRUE)
  b <- roc(own$upper, own$b, direction = "<", levels = c(0, 1), quiet = TRUE)
  found <- c(auc(a), sqrt(var(a)), auc(b), sqrt(var(b)), sqrt(var(a) + var(b) - 2 * cov(a, b)))
  cat(sprintf("%.17g", found), "\\n")
}
"""


def draw(seed, n=600):
    rng = np.random.default_rng(seed)
    y_true, mask = rng.random(n) < 0.4, rng.random(n) < 0.35
    a = rng.normal(y_true, 1.0)
    b = a + rng.normal(0.2 * y_true, 0.7, n)
    return y_true, np.round(a, 1), np.round(b, 2), mask  # a has many ties, b few


def run_proc(y_true, a, b, mask):
    """Return AUC and standard error of both models, and of their difference, by cell."""
    parts = []
    for number, (lower, upper) in enumerate(CELLS.values()):
        of_upper = upper(y_true, mask)
        rows = of_upper | lower(y_true, mask)
        columns = np.full(rows.sum(), number), of_upper[rows], a[rows], b[rows]
        parts.append(np.column_stack(columns))
    file = io.StringIO()
    np.savetxt(file, np.concatenate(parts), "%.17g", ",", header="cell,upper,a,b", comments="")
    said = subprocess.run(
        ["Rscript", "-e", PROC],
        input=file.getvalue(),
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    numbers = np.loadtxt(io.StringIO(said))
    return dict(zip(CELLS, numbers, strict=True))


@pytest.fixture(scope="module")
def _proc():
    require_r("pROC")


@pytest.mark.slow
@pytest.mark.usefixtures("_proc")
@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_have_the_standard_errors_of_proc(seed):
    y_true, a, b, mask = draw(seed)
    compared = compare_bias(y_true, a, b, {"gay": mask})
    first, second = (
        evaluate_bias(y_true, model, {"gay": mask}).subgroups["gay"] for model in (a, b)
    )
    for metric, expected in run_proc(y_true, a, b, mask).items():
        of_a, of_b = getattr(first, metric), getattr(second, metric)
        difference = getattr(compared.subgroups["gay"], metric)
        found = (of_a.value, of_a.std_error, of_b.value, of_b.std_error, difference.std_error)
        assert found == pytest.approx(expected, rel=EXACT), metric


def compute_obuchowski_error(lower, upper, lower_clusters, upper_clusters):
    """Compute the standard error of an AUC by Obuchowski (1997), Biometrics 53, eqs. 4 to 8."""
    wins = (upper[:, None] > lower) + 0.5 * (upper[:, None] == lower)
    auc, m, n = wins.mean(), upper.size, lower.size
    every = np.union1d(lower_clusters, upper_clusters)
    x = np.array([(wins.mean(axis=1) - auc)[upper_clusters == cluster].sum() for cluster in every])
    y = np.array([(wins.mean(axis=0) - auc)[lower_clusters == cluster].sum() for cluster in every])
    of_x, of_y, of_all = np.unique(upper_clusters).size, np.unique(lower_clusters).size, every.size
    s10 = of_x / ((of_x - 1) * m) * (x**2).sum()
    s01 = of_y / ((of_y - 1) * n) * (y**2).sum()
    s11 = of_all / (of_all - 1) * (x * y).sum()
    return math.sqrt(s10 / m + s01 / n + 2 * s11 / (m * n))


def draw_clusters(seed, sizes):
    """Draw clustered rows with shared parts of scores, and labels of both classes."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(0, 1, len(sizes))[clusters]
    y_true, mask = rng.random(clusters.size) < 0.4, rng.random(clusters.size) < 0.5
    return y_true, np.round(y_true + shared + rng.normal(0, 1, clusters.size), 1), mask, clusters


def compare_errors(y_true, y_score, mask, clusters):
    """Yield each cell's standard error, and Obuchowski's."""
    report = evaluate_bias(y_true, y_score, {"gay": mask}, clusters=clusters)
    for metric, (lower, upper) in CELLS.items():
        at, of = lower(y_true, mask), upper(y_true, mask)
        theirs = compute_obuchowski_error(y_score[at], y_score[of], clusters[at], clusters[of])
        yield getattr(report.subgroups["gay"], metric).std_error, theirs


def test_clusters_of_equal_rows_have_obuchowskis_standard_error():
    rng = np.random.default_rng(3)
    n, each = 60, np.array([0, 0, 0, 1, 1, 0, 0, 1, 1, 1])  # the same rows of both classes in each
    y_true = np.tile(each == 1, n)
    mask = np.tile(np.array([1, 1, 0, 1, 0, 0, 1, 1, 0, 1]) == 1, n)
    clusters = np.repeat(np.arange(n), each.size)
    shared = rng.normal(0, 1, n)[clusters]
    y_score = np.round(y_true + shared + rng.normal(0, 1, y_true.size), 1)
    for ours, theirs in compare_errors(y_true, y_score, mask, clusters):
        assert ours == pytest.approx(theirs, rel=EXACT)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [100, 400])
def test_unequal_clusters_have_obuchowskis_standard_error_times_what_the_largest_adds(n, seed):
    # A large cluster pulls the mean towards itself: its deviation is divided by the root of what
    # the others are of its class. Obuchowski's divides all alike, by the root of (n - 1) / n.
    sizes = 1 + np.random.default_rng(seed).lognormal(1.0, 1.0, n).astype(int)
    rows = draw_clusters(seed, sizes)
    y_true, _, mask, clusters = rows
    for (lower, upper), (ours, theirs) in zip(CELLS.values(), compare_errors(*rows), strict=True):
        held = [np.bincount(clusters[of(y_true, mask)]) for of in (lower, upper)]
        largest = max(rows_in_class.max() / rows_in_class.sum() for rows_in_class in held)
        fewest = min(np.count_nonzero(rows_in_class) for rows_in_class in held)
        assert math.sqrt(1 - 1 / fewest) <= ours / theirs <= 1 / math.sqrt(1 - largest)
