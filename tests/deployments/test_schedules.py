"""Times at which nights are due, as computed by Prefect, and the rule for overlapping nights."""

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.server.schemas.schedules import CronSchedule

from biasgate.deployments.nightly import ONE_AT_A_TIME

SHIPPED = Path(__file__).parents[2] / "deployments" / "prefect.yaml"
BERLIN = "Europe/Berlin"
DAY_H = 24.0


def list_due_times(cron, timezone, start, count):
    """Return the next times of a schedule, in its time zone."""
    schedule = CronSchedule(cron=cron, timezone=timezone)
    begin = start.replace(tzinfo=ZoneInfo(timezone))
    dates = asyncio.run(schedule.get_dates(count, begin))
    return [date.astimezone(ZoneInfo(timezone)) for date in dates]


def hours_between(times):
    utc = [time.astimezone(UTC) for time in times]
    return [(later - earlier).total_seconds() / 3600 for earlier, later in pairwise(utc)]


def read_schedule():
    [deployment] = yaml.safe_load(SHIPPED.read_text("utf-8"))["deployments"]
    [schedule] = deployment["schedules"]
    return deployment, schedule


@pytest.mark.parametrize(
    ("start", "days"),
    [
        (datetime(2026, 1, 30), ["01-30", "01-31", "02-01", "02-02"]),  # noqa: DTZ001
        (datetime(2026, 2, 27), ["02-27", "02-28", "03-01", "03-02"]),  # noqa: DTZ001
        (datetime(2028, 2, 27), ["02-27", "02-28", "02-29", "03-01"]),  # noqa: DTZ001
        (datetime(2026, 12, 30), ["12-30", "12-31", "01-01", "01-02"]),  # noqa: DTZ001
    ],
)
def test_no_night_is_left_out_or_doubled_across_the_end_of_a_month(start, days):
    _, schedule = read_schedule()
    due_times = list_due_times(schedule["cron"], schedule["timezone"], start, 4)
    assert [time.strftime("%m-%d") for time in due_times] == days
    assert hours_between(due_times) == [DAY_H] * 3


@pytest.mark.parametrize("start", [datetime(2026, 3, 27), datetime(2026, 10, 23)])  # noqa: DTZ001
def test_nights_in_utc_are_24_hours_apart_when_clocks_change(start):
    _, schedule = read_schedule()
    assert schedule["timezone"] == "UTC"
    assert hours_between(list_due_times(schedule["cron"], "UTC", start, 5)) == [DAY_H] * 4


@pytest.mark.parametrize(
    ("start", "hours"),
    [
        (datetime(2026, 3, 27), [24.0, 23.0, 24.0]),  # noqa: DTZ001
        (datetime(2026, 10, 23), [24.0, 25.0, 24.0]),  # noqa: DTZ001
    ],
    ids=["spring", "autumn"],
)
def test_nights_at_four_in_berlin_stay_at_four_when_clocks_change(start, hours):
    due_times = list_due_times("0 4 * * *", BERLIN, start, 4)
    assert [time.hour for time in due_times] == [4] * 4
    assert hours_between(due_times) == hours


def test_an_hour_that_comes_twice_in_autumn_has_one_night():
    due_times = list_due_times("30 2 * * *", BERLIN, datetime(2026, 10, 24), 3)  # noqa: DTZ001
    assert [time.strftime("%d %H:%M") for time in due_times] == ["24 02:30", "25 02:30", "26 02:30"]


def test_the_hour_that_spring_leaves_out_moves_its_night_as_prefect_yaml_warns():
    due_times = list_due_times("30 2 * * *", BERLIN, datetime(2026, 3, 28), 3)  # noqa: DTZ001
    assert [time.day for time in due_times] == [28, 29, 30]
    assert due_times[1].strftime("%H:%M") != "02:30"
    assert "not\n        # left out in spring" in SHIPPED.read_text("utf-8")


def test_an_overlapping_night_is_cancelled_by_both_ways_to_deploy():
    deployment, _ = read_schedule()
    limit = deployment["concurrency_limit"]
    assert limit == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert ONE_AT_A_TIME.limit == limit["limit"]
    assert ONE_AT_A_TIME.collision_strategy is ConcurrencyLimitStrategy(limit["collision_strategy"])
