"""What exceeds a threshold together is one episode, with one peak."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.extremes import Clusters, clusters, extremal_index
from support.analysis.series import Ints, clustered, exponential


def above(value_ns: Ints, threshold_ns: int) -> Clusters:
    place = np.flatnonzero(value_ns > threshold_ns)
    return clusters(value_ns[place], place, threshold_ns)


def test_the_extremal_index_by_hand() -> None:
    """Ferro & Segers: 2 (ΣT)² / (N ΣT²) where no time is above 2, else of T − 1 and T − 2; never above 1."""
    assert extremal_index(np.array([1, 1, 2, 2])) == pytest.approx(min(1, 2 * 6**2 / (4 * 10)))
    assert extremal_index(np.array([1, 1, 10, 1])) == pytest.approx(2 * 9**2 / (4 * 72))
    assert extremal_index(np.array([100])) == 1
    assert extremal_index(np.empty(0, np.int64)) == 1


def test_clusters_by_hand() -> None:
    """Times 1, 2, 137, 1, 129, 1, 1: the index is 2·265² / (7·34616) = 0.58, so of 8 values 4 times end clusters.
    The fourth largest is 1, as are three more: those stay together.
    """
    values = np.zeros(300, np.int64)
    values[[10, 11, 13]] = 5, 9, 6
    values[[150, 151]] = 7, 7
    values[[280, 281, 282]] = 6, 7, 8
    found = above(values, 4)
    assert (found.exceedances, found.run) == (8, 1)
    assert found.extremal_index == pytest.approx(2 * 265**2 / (7 * 34616))
    assert found.peak_ns.tolist() == [9, 6, 7, 8]
    assert found.place.tolist() == [11, 13, 150, 282]


def test_no_value_above_is_no_cluster() -> None:
    found = above(np.zeros(10, np.int64), 4)
    assert (found.exceedances, len(found.peak_ns), len(found.place)) == (0, 0, 0)


@pytest.mark.parametrize("width", [1, 5, 20])
def test_the_mean_number_of_a_cluster_is_the_process_s(width: int) -> None:
    """A value that is the largest of `width` windows exceeds a high threshold in all of them."""
    values = clustered(width, 400_000, seed=1)
    found = above(values, int(np.quantile(values, 0.999)))
    assert 1 / found.extremal_index == pytest.approx(width, rel=0.15)
    assert found.exceedances / len(found.peak_ns) == pytest.approx(width, rel=0.15)


def test_independent_values_are_clusters_of_their_own() -> None:
    values = exponential(0, 100_000, seed=2)[0]
    found = above(values, int(np.quantile(values, 0.995)))
    assert len(found.peak_ns) > 0.95 * found.exceedances
