"""Names for packages that extend biasgate; they stay the same if modules move.

docs/extending.md shows how to use them.
"""

from bias_metrics.gate import Evidence, judge_rules
from biasgate.tasks.analysing.analysis import Analysis, Findings
from biasgate.tasks.analysing.catalogue import ANALYSES
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, folder_digest, json_digest
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.freezing import SOURCES, Source
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import TermMatcher
from biasgate.tasks.gating.policy import read_policy
from biasgate.tasks.mitigating.methods.catalogue import ANY_METHOD as METHODS
from biasgate.tasks.mitigating.methods.method import (
    Method,
    MethodUndoneError,
    TrainingChange,
)
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mlflow_server.model_folders import save_classifier
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scorer import Scorer, open_version
from biasgate.tasks.scoring.training_rows import write_training_rows
from biasgate.tasks.store import Workplace

__all__ = [
    "ANALYSES",
    "CANDIDATES",
    "METHODS",
    "SOURCES",
    "Analysis",
    "CandidateSettings",
    "ConfigPath",
    "EvaluationSet",
    "Evidence",
    "Findings",
    "InputError",
    "Method",
    "MethodUndoneError",
    "Scorer",
    "Source",
    "SourceSettings",
    "TermMatcher",
    "TrainingChange",
    "TrainingRows",
    "Workplace",
    "file_digest",
    "folder_digest",
    "json_digest",
    "judge_rules",
    "open_version",
    "read_policy",
    "save_classifier",
    "write_training_rows",
]
