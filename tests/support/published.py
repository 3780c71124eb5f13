"""Results in a folder, as an evaluation writes them: quickly, without running one."""

from support.judged import judge, rows, summary_of

from biasgate.tasks.common.files import write_json

NAMES = ["gay", "muslim", "deaf"]


def publish(output, names=NAMES, candidates=None, sets=("s",), **options):
    """Write the results of candidates on sets; return what `judge` returned for each.

    `candidates` has by name what `rows` takes; `options` are of `judge`.
    """
    candidates = candidates or {"biased": {"shift": 0.8}, "fair": {"shift": 0.0}}
    judged = []
    for candidate, chosen in candidates.items():
        for of_set in sets:
            folder = output / of_set / candidate
            made = judge(folder, rows(names, **chosen), name=candidate, of_set=of_set, **options)
            write_json(folder / "report.json", made[0])
            write_json(folder / "verdict.json", made[1])
            judged.append(made)
    summary = summary_of(judged)
    write_json(output / "summary.json", summary)
    return judged
