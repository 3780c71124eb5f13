"""Nights in a row on the stack, during which faults happen."""

import os
import subprocess
from multiprocessing import forkserver

import pytest
from support.running_stack import running_stack

from benchmarks.campaigns import soak as soaking
from benchmarks.campaigns.soak import FAULTS, VERDICTS, Soak

pytestmark = pytest.mark.slow

NIGHTS = int(os.environ.get("BIASGATE_SOAK_NIGHTS", "15"))


@pytest.fixture(scope="module")
def soak():
    """All nights, and the stack after them."""
    with running_stack() as (home, stack):
        disk = home / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("only root can mount a disk")
        # A server of forks that another campaign started has the environment of then.
        forkserver._forkserver._stop()
        try:
            found = Soak(home, stack)
            soaking.run(found, NIGHTS)
            yield found
        finally:
            forkserver._forkserver._stop()
            subprocess.run(["umount", "-l", str(disk)], check=False)


def test_every_night_ends_with_a_verdict_or_says_what_failed(soak):
    assert [night.number for night in soak.nights] == list(range(1, NIGHTS + 1))
    for night in soak.nights:
        assert night.ending in {*VERDICTS, "failed", "killed"}, night
        assert night.message or night.ending == "killed", night
        if night.fault is None:
            assert night.ending in VERDICTS, night


def test_every_kind_of_fault_happened_while_a_night_ran(soak):
    fired = {night.fault for night in soak.nights if night.fault}
    assert fired == {*FAULTS, soaking.DISK}


def test_nothing_is_left_running(soak):
    assert soaking.list_open_runs(soak) == []


def test_the_trend_has_each_night_that_ended_with_a_verdict(soak):
    judged = sum(night.ending in VERDICTS for night in soak.nights)
    # A fault may come after the verdict: the night is remembered, and its run has failed.
    late = sum(night.ending not in VERDICTS and night.fault is not None for night in soak.nights)
    numbers = [night["number"] for night in soaking.read_trend(soak)]
    assert len(numbers) == len(set(numbers))
    assert judged <= len(numbers) <= judged + late


def test_the_store_does_not_grow_without_end(soak):
    sizes = [night.size for night in soak.nights]  # by then each night has its three candidates
    middle, last = sizes[NIGHTS // 3 : 2 * NIGHTS // 3], sizes[2 * NIGHTS // 3 :]
    assert max(last) < 1.5 * max(middle)


def test_nothing_is_kept_for_ever_but_what_moved_the_champion(soak):
    promoted, pinned = soaking.count_promotions(soak).total(), soak.nights[-1].pinned
    assert promoted
    assert set(pinned) == {"sets", "scores"}
    assert all(0 < n_pinned <= promoted for n_pinned in pinned.values())


def test_no_version_is_downloaded_twice_but_before_it_becomes_champion(soak):
    promotions = soaking.count_promotions_by_run(soak)
    again = sum(
        max(0, n_downloads - 1 - promotions[run_id])
        for run_id, n_downloads in soaking.count_downloads(soak).items()
        if run_id in promotions
    )
    # A fault may cut a download.
    assert again <= sum(night.fault is not None for night in soak.nights)


def test_the_champion_verifies_afterwards(soak):
    assert soak.command("verify", soaking.MODEL, "--store", str(soak.store))
