"""Candidate kind `bayes`: naive Bayes on word counts, trained here and registered in MLflow."""

from importlib.metadata import version

from biasgate.extend import (
    CANDIDATES,
    CandidateSettings,
    Source,
    json_digest,
    save_classifier,
    write_training_rows,
)


class Bayes(CandidateSettings):
    train_on: Source | None = None
    model: str | None = None
    alpha: float = 1.0

    def training(self):
        return self.train_on if self.model is None else None

    def training_key(self, training_set):
        packages = [[name, version(name)] for name in ("acme-biasgate", "scikit-learn")]
        options = [self.alpha, self.training_threshold(), training_set.digest]
        return json_digest([*packages, *options])

    def fit(self, training_set, folder, log):
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.naive_bayes import MultinomialNB
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(CountVectorizer(min_df=5), MultinomialNB(alpha=self.alpha))
        model.fit(training_set.column("text").to_pylist(), self.training_labels(training_set))
        save_classifier(model, folder, ["Good morning."])
        write_training_rows(training_set, folder)

    def registered(self, workplace):
        return self.registered_as().registered(workplace) if self.model else None

    def open(self, workplace):
        return self.registered_as().open(workplace)

    def registered_as(self):
        options = self.model_dump(include={"name", "model", "allow_training_rows"})
        return CANDIDATES.validate_python({"kind": "mlflow", **options})
