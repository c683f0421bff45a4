"""python manage.py sample_size kappa|area|two-areas ... [--csv | --json]"""

import argparse
import json
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ratings.management.statistics_output import StatisticsCommand, parse_integer
from ratings.stats.planning import sample_size
from ratings.stats.planning.sample_size import HANLEY, OBUCHOWSKI, AreaPlan, KappaPlan, PlannedTest

METHODS = {
    "kappa": "Cantor 1996, with the variance of Fleiss, Cohen and Everitt 1969",
    OBUCHOWSKI: "Obuchowski and McClish 1997",
    HANLEY: "Hanley and McNeil 1982",
}
NOT_REACHED = "No number of items is enough, because the raters differ too much: plan more raters"


class Command(StatisticsCommand):
    help = (
        "Compute how many items a study needs for a kappa or an area under the ROC curve: to show that it exceeds a value, or "
        "for an interval of a given half-width. No database is used."
    )
    examples = (
        "sample_size kappa --share 0.3 --null 0.4 --expected 0.6",
        "sample_size kappa --share 0.3 --second-share 0.4 --expected 0.6 --half-width 0.1",
        "sample_size area --null 0.5 --expected 0.75 --ratio 2 --json",
        "sample_size area --expected 0.8 --half-width 0.05 --raters 5 --rater-sd 0.02 --correlation 0.4",
        "sample_size two-areas --first 0.7 --second 0.75 --one-sided",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        quantities = parser.add_subparsers(dest="quantity", required=True, metavar="kappa|area|two-areas")
        kappa = quantities.add_parser("kappa", help="items for the kappa of two raters, or of more with equal shares")
        kappa.add_argument("--share", type=parse_share, required=True, help="share of verdict 1")
        kappa.add_argument("--second-share", type=parse_share, help="the second rater's share (default: the same)")
        kappa.add_argument(
            "--per-item", type=partial(parse_integer, 2), default=2, help="ratings per item (default: 2)"
        )
        kappa.add_argument(
            "--rater-variance", type=parse_number, default=0.0,
            help="variance of kappa between raters divided by their number, for new raters (default: 0, these raters)",
        )  # fmt: skip
        area = quantities.add_parser("area", help="items with and without an error for one area, or a mean over raters")
        area.add_argument(
            "--ratio", type=parse_number, default=1.0, help="items without an error for each with one (default: 1)"
        )
        area.add_argument(
            "--raters", type=partial(parse_integer, 1), default=1, help="raters of every item (default: 1)"
        )
        area.add_argument(
            "--rater-sd",
            type=parse_number,
            help="standard deviation of the raters' true areas; needed for several raters",
        )
        area.add_argument(
            "--correlation", type=parse_number, help="of two raters' estimated areas, 0 to 1; needed for several raters"
        )
        area.add_argument("--variance", choices=(OBUCHOWSKI, HANLEY), default=OBUCHOWSKI, help="default: obuchowski")
        two = quantities.add_parser("two-areas", help="items of each class to compare two independent areas")
        two.add_argument("--first", type=parse_share, required=True, help="the first area")
        two.add_argument("--second", type=parse_share, required=True, help="the second area")
        for quantity in (kappa, area):
            quantity.add_argument("--expected", type=parse_number, required=True, help="the value that is expected")
            goal = quantity.add_mutually_exclusive_group(required=True)
            goal.add_argument("--null", type=parse_number, help="the value that it must differ from")
            goal.add_argument("--half-width", type=parse_share, help="half-width of its interval")
        for quantity in (kappa, area, two):
            quantity.add_argument("--alpha", type=parse_share, default=0.05, help="level of the test (default: 0.05)")
            quantity.add_argument("--power", type=parse_share, default=0.8, help="power of the test (default: 0.8)")
            quantity.add_argument("--one-sided", action="store_true", help="a one-sided test (default: two-sided)")
            self.add_format_options(quantity)

    def handle(self, *args: Any, **options: Any) -> None:
        test = PlannedTest(options["alpha"], options["power"], not options["one_sided"])
        try:
            result = self._compute(options, test)
        except ValueError as error:
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
        elif options["csv"]:
            self.print_table(tuple(result), [result.values()])
        else:
            self.stdout.write(_describe(result))

    def _compute(self, options: dict[str, Any], test: PlannedTest) -> dict[str, Any]:
        """Return the numbers of items with the inputs they follow from. Raises ValueError for inputs that exclude each other."""
        quantity = options["quantity"]
        inputs = {"quantity": quantity, "alpha": test.alpha, "power": test.power, "two_sided": test.is_two_sided}
        if quantity == "two-areas":
            items = sample_size.count_pairs_of_classes(options["first"], options["second"], test)
            sizes = {"first": options["first"], "second": options["second"], "items": 2 * items}
            return {**inputs, **sizes, "with_error": items, "without_error": items, "method": METHODS[HANLEY]}
        plan = self._build_kappa_plan(options) if quantity == "kappa" else self._build_area_plan(options)
        expected, null, width = options["expected"], options["null"], options["half_width"]
        for name, value in (("expected", expected), ("null", null)):
            if value is not None and not (-1 if quantity == "kappa" else 0) < value < 1:
                raise ValueError(
                    f"--{name} is {value:g}; it must be below 1 and above {-1 if quantity == 'kappa' else 0}"
                )
        if null is not None:
            number = sample_size.count_items_for_test(plan, null, expected, test)
        else:
            number = sample_size.count_items_for_width(plan, expected, width, test.alpha)
        goal = {"expected": expected, "null": null, "half_width": width}
        if isinstance(plan, KappaPlan):
            return {**inputs, **goal, **plan._asdict(), "items": number, "method": METHODS["kappa"]}
        without = None if number is None else -int(-number * plan.ratio // 1)
        sizes = {
            "items": None if number is None or without is None else number + without,
            "with_error": number,
            "without_error": without,
        }
        return {**inputs, **goal, **plan._asdict(), **sizes, "method": METHODS[plan.variance]}

    def _build_kappa_plan(self, options: dict[str, Any]) -> KappaPlan:
        second = options["share"] if options["second_share"] is None else options["second_share"]
        return KappaPlan(options["share"], second, options["per_item"], options["rater_variance"])

    def _build_area_plan(self, options: dict[str, Any]) -> AreaPlan:
        spread, correlation = options["rater_sd"], options["correlation"]
        if options["raters"] > 1 and (spread is None or correlation is None):
            raise ValueError(
                "several raters need --rater-sd and --correlation: they decide how much more raters help; take them from a "
                "pilot study (the components of the U-statistic, or Obuchowski and Rockette's)"
            )
        if not 0 <= (correlation or 0) <= 1:
            raise ValueError(f"--correlation is {correlation:g}; it must be from 0 to 1")
        if options["ratio"] <= 0:
            raise ValueError("--ratio must be above 0")
        return AreaPlan(options["ratio"], options["raters"], spread or 0.0, correlation or 0.0, options["variance"])


def _describe(result: dict[str, Any]) -> str:
    """Return the result in two sentences."""
    if result["items"] is None:
        return f"{NOT_REACHED}. {result['method']}."
    if result["quantity"] == "kappa":
        numbers = f"{result['items']:,} items"
    else:
        each = " for each of the two areas" if result["quantity"] == "two-areas" else ""
        numbers = f"{result['with_error']:,} items with and {result['without_error']:,} without an error{each}"
    if result.get("half_width") is not None:
        goal = f"for a {100 * (1 - result['alpha']):g}% interval of ±{result['half_width']:g} around {result['expected']:g}"
    else:
        first, second = (
            (result["first"], result["second"]) if "first" in result else (result["null"], result["expected"])
        )
        sides = "two-sided" if result["two_sided"] else "one-sided"
        goal = f"to distinguish {second:g} from {first:g} with {100 * result['power']:g}% power ({sides} test at {100 * result['alpha']:g}%)"
    return f"{numbers} {goal}. {result['method']}."


def parse_share(text: str) -> float:
    """Return the number. Raises ArgumentTypeError unless it is above 0 and below 1."""
    number = parse_number(text)
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and below 1")
    return number


def parse_number(text: str) -> float:
    """Return the number. Raises ArgumentTypeError unless it is one and finite."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number
