"""Numbers of a table: read from its JSON, or changed in place of measuring others."""

import json

from pydantic import TypeAdapter

from bias_metrics import Key
from bias_metrics.metrics import CALIBRATION_GAP, list_threshold_metrics
from biasgate.tasks.records.numbers import ReadTable

_FURTHER = {CALIBRATION_GAP, *list_threshold_metrics()}


def cell(table, metric, group=None, threshold=None, against=None):
    """Return the one record of a number among `numbers` of a table's JSON."""
    key = Key(metric, group, threshold, against)
    [found] = [one for one in table["numbers"] if key_of(one) == key]
    return found


def key_of(record):
    """Return the key of a number's record."""
    return Key(*(record.get(part) for part in Key._fields))


def counts_of(table, group=None):
    """Return the record of the rows of a group, or of all rows, in a table's JSON."""
    [found] = [one for one in table["counts"] if one["group"] == group]
    return found


def n_of(table, group=None):
    """Return the number of rows of a group, or of all rows, in a table's JSON."""
    rows = counts_of(table, group)
    return rows["n_positive"] + rows["n_negative"]


def groups_of(table):
    """Return the groups of a table's JSON in their order."""
    return [one["group"] for one in table["counts"] if one["group"] is not None]


def with_number(table, number, metric, group=None, threshold=None):
    """Return a table with a number instead of that of its key."""
    return table.add_numbers({Key(metric, group, threshold): number})


def read_table(record):
    """Return the table that a table's JSON holds."""
    return TypeAdapter(ReadTable).validate_json(json.dumps(record), strict=True)


def as_evaluated(record):
    """Return a table's JSON with the numbers of `evaluate_bias` only."""
    kept = [one for one in record["numbers"] if one["metric"] not in _FURTHER]
    return {key: one for key, one in record.items() if key != "thresholds"} | {"numbers": kept}
