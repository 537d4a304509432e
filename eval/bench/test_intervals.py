"""Intervals whose truth is known."""

import unittest

import intervals


def mean_of_the_first(ours, _theirs):
    return sum(ours) / len(ours)


class Bootstrap(unittest.TestCase):
    def test_both_sides_of_a_pair_are_drawn_together(self):
        # Every question takes twice as long: no draw can say otherwise.
        pairs = [(2.0 * n, float(n)) for n in range(1, 40)]
        self.assertEqual(intervals.bootstrap(pairs, lambda ours, theirs: sum(ours) / sum(theirs)), (2.0, 2.0))

    def test_a_mean_has_the_interval_of_the_normal_approximation(self):
        # 400 tosses of a coin, half of them heads: 0.5 ± 1.96 · 0.025.
        low, high = intervals.bootstrap([(n % 2, 0) for n in range(400)], mean_of_the_first)
        self.assertAlmostEqual(low, 0.451, delta=0.006)
        self.assertAlmostEqual(high, 0.549, delta=0.006)

    def test_the_same_pairs_have_the_same_interval(self):
        pairs = [(n * n % 17, 0) for n in range(50)]
        once, again = (intervals.bootstrap(pairs, mean_of_the_first) for _ in range(2))
        self.assertEqual(once, again)

    def test_bounds_leave_as_many_out_on_either_side(self):
        low, high = intervals.within(range(2000, 0, -1))
        self.assertEqual((low, high), (51, 1951))
        self.assertEqual(intervals.between((0.5, 1.25)), "(0.500 to 1.250)")


if __name__ == "__main__":
    unittest.main()
