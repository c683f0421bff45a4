import pytest

from ratings.stats.proportions import rate


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17:857-872, table I, method 3 (Wilson, no continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(k: int, n: int, low: float, high: float) -> None:
    found = rate([True] * k + [False] * (n - k))
    assert (found.k, found.n, found.value) == (k, n, k / n)
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_interval_by_hand() -> None:
    # p = 1/2, n = 4, z^2 = 3.841459: half width z*sqrt(p(1-p)/n + z^2/4n^2)/(1 + z^2/n)
    # = 1.959964*sqrt(0.0625 + 0.0600228)/1.9603647 = 0.686051/1.960365 = 0.349961; centre 1/2 by symmetry.
    found = rate([True, True, False, False])
    assert found.high == pytest.approx(0.849961, abs=1e-5)
    assert found.low == pytest.approx(0.150039, abs=1e-5)


def test_no_ratings_give_no_rate_and_say_so() -> None:
    assert rate([]) == (None, None, None, 0, 0, "there are no ratings")
