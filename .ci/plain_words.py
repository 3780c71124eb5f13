"""Print how often words that slow a reader occur per 1,000 words: docstrings, messages, pages.

Usage: python .ci/plain_words.py [--places] [FILE ...]

Without files, it reads the whole tree and exits with 1 if a rate is above its limit. The limits are
about twice the rates of scikit-learn, fairlearn, MLflow and three other libraries. With files, it
only prints, as a few hundred words prove little.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("bias_metrics", "tasks", "flows", "deployments", "biasgate")
KINDS = ("docstrings", "messages", "pages")
# Limits in the order of KINDS.
PATTERNS = {
    "of which, of those": (r"\bof (which|whom|those|these|it|them|such)\b", (0.6, 0.6, 0.6)),
    "one for a noun": (
        (
            r"\b(?:the|this|that|each|only) ones?\b"
            r"|\bones?(?= (?:is|are|has|that|which|for|in)\b|[.,;:)])"
        ),
        (0.6, 0.6, 0.6),
    ),
    "is no, nobody, nothing": (
        (
            r"(?<!there )\b(?:is|are|was|were|be) no (?!longer|more)\w+|\b(?:is|are) none\b"
            r"|\bnobody\b|\bnothing\b"
        ),
        (0.6, 0.6, 0.6),
    ),
    "things that say or tell": (r"\b(?:told|said|says?|tells?|saying|telling)\b", (0.3, 0.3, 0.3)),
    "who for identities": (r"\b(?:who|whom|whoever|somebody|everybody)\b", (0.8, 0.8, 0.8)),
    "stands, rests on": (r"\b(?:stands?|stood|rest(?:s|ed)? on|held against)\b", (0.3, 0.3, 0.3)),
    "alone, beside": (r"\balone\b|\bbesides?\b|, too\b", (0.3, 0.3, 0.3)),
    "first word of a clause": (r"^(?:What|Which|Whether|How|Who|Whose|Where|That)\b", (0.3, 9, 9)),
}
NAME_LENGTH = 11.0  # mean characters of function names, at least
CODE_SPAN = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def read_texts(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield the kind, line and text of each docstring and message of a module, or of a page."""
    if path.suffix == ".md":
        yield "pages", 1, path.read_text("utf-8")
        return
    docstrings: set[int] = set()
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                docstrings.add(id(constant))
                yield "docstrings", constant.lineno, re.sub(r"(?m)^ *(>>>|\.\.\.).*", "", text)
            case ast.Constant(value=str(text)) if id(node) not in docstrings and " " in text:
                yield "messages", node.lineno, text


def main(arguments: list[str]) -> int:
    """Print the table, and the places with `--places`; return the exit code."""
    files = [Path(name) for name in arguments if name != "--places"]
    paths = files or sorted(
        path
        for pattern in [*(f"{folder}/**/*.py" for folder in FOLDERS), "*.md", "docs/**/*.md"]
        for path in ROOT.glob(pattern)
        if not any(part.is_symlink() for part in path.parents) and path.name != "phrases.py"
    )
    words: Counter[str] = Counter()
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in paths:
        for kind, line, source in read_texts(path):
            text = CODE_SPAN.sub(lambda span: "X" + "\n" * span[0].count("\n"), source)
            words[kind] += len(re.findall(r"[A-Za-z']+", text))
            for name, (pattern, _) in PATTERNS.items():
                for match in re.finditer(pattern, text):
                    at = line + text[: match.start()].count("\n")
                    context = " ".join(text[max(0, match.start() - 50) : match.end() + 50].split())
                    places[name, kind].append(f"{path}:{at}: {context}")
    above = False
    print(f"{'per 1,000 words':28}" + "".join(f"{kind:>20}" for kind in KINDS))
    for name, (_, limits) in PATTERNS.items():
        cells = ""
        for kind, limit in zip(KINDS, limits, strict=True):
            rate = 1000 * len(places[name, kind]) / max(words[kind], 1)
            above |= rate > limit
            cells += f"{rate:10.2f} (<= {limit:3.1f})"
        print(f"{name:28}{cells}")
    if "--places" in arguments:
        print(*(place for found in places.values() for place in found), sep="\n")
    return int(above and not files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
