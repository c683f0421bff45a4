"""Hand-made analysis documents with the agreed columns, as input of the figure tests."""

from typing import Any

Document = dict[str, Any]

GROUPED = "group source k n items raters rate low high wilson_low wilson_high reason"
COLUMNS = {
    "rates": "source error k n items raters rate low high wilson_low wilson_high item_weighted rater_weighted "
    "cannot_judge published reason",
    "rates_by_experiment": GROUPED,
    "rates_by_action": GROUPED,
    "rates_by_error_kind": GROUPED,
    "confidence": "source verdict confidence n share",
    "spread": "source verdict n median mean lower upper",
    "roc": "source threshold false_alarm_rate hit_rate n_error n_genuine",
    "detection": "who source hits misses false_alarms correct_rejections sensitivity sensitivity_low sensitivity_high "
    "specificity d_prime d_prime_low d_prime_high criterion auc auc_low auc_high localised localised_of reason",
    "localisation": "who source k n rate low high items raters untold reason",
    "contrasts": "family first second quantity first_value second_value difference low high p p_holm items raters ratings "
    "shared_items shared_raters target reason reference_name",
    "drift": "from_position to_position n correct_share low high median_seconds",
    "agreement": "coefficient source value low high low_new high_new prevalence items raters ratings pairs_used "
    "pairs_undefined pairs_below_overlap reason",
    "matrix": "rater item source verdict confidence correct",
    "human_model": "who kind agreement agreement_low agreement_high kappa kappa_low kappa_high difference "
    "difference_low difference_high items raters_used ratings reason",
    "agreement_matrix": "row col value n base",
    "conditional_matrix": "row col value n base",
    "fractions": "who kind share k n low high",
    "misses": "who kind error error_kind caught n recall low high",
    "detection_by_size": "who kind error_size smallest largest caught n recall low high reference_name",
    "precision": "what source raters items half_width now said",
    "pass_at_k": "agent k value low high tasks attempts reason",
    "failures": "agent cause n share",
    "cost": "agent episodes input_tokens output_tokens cost per_success",
}

PLAIN = ("Claude 4 Sonnet", "GPT-5", "GPT-5, obvious error", "GPT-5, subtle error")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" & 'single' </title><image href='x'/>",
    "a name so long that it never ends " * 12,
    "שגיאה עדינה\u202e then \u2066more\x00\x1b[31m\ud800",
)
# k of n rated plausible, and the interval
RATES = ((156, 180, 0.80, 0.91), (169, 180, 0.88, 0.97), (2, 60, 0.01, 0.12), (71, 90, 0.68, 0.87))
# plausible by confidence 1 to 5, then not plausible
CONFIDENCES = (
    ((1, 12, 32, 72, 39), (3, 6, 7, 7, 1)),
    ((0, 16, 32, 72, 49), (1, 2, 4, 4, 0)),
    ((0, 0, 1, 1, 0), (0, 2, 6, 20, 30)),
    ((0, 7, 16, 33, 15), (1, 4, 8, 3, 3)),
)


def table(name: str, rows: list[list[Any]]) -> dict[str, Any]:
    names = COLUMNS[name].split()
    assert all(len(row) == len(names) for row in rows), name
    return {"title": name, "summary": "", "columns": [{"name": one} for one in names], "rows": rows, "notes": []}


def study(sources: tuple[str, str, str, str] = PLAIN) -> Document:
    """Return a document of two genuine and two perturbed sources, six raters and three model raters."""
    raters = [f"R{place}" for place in range(1, 7)]
    machines = ["Claude 4 Sonnet (machine)", "GPT-4o", "Rules of the checker"]
    errors = ("none", "none", "obvious", "subtle")
    rates = [
        [source, error, k, n, n // 6, 6, k / n, low, high, low + 0.01, high - 0.01, k / n, k / n, 0, published, ""]
        for source, error, (k, n, low, high), published in zip(
            sources, errors, RATES, (0.92, 0.92, None, 0.8), strict=True
        )
    ]
    confidence = [
        [source, verdict, level, n, n / sum(map(sum, counts))]
        for source, counts in zip(sources, CONFIDENCES, strict=True)
        for verdict, some in zip((1, 0), counts, strict=True)
        for level, n in enumerate(some, 1)
    ]
    spread = [
        [source, verdict, sum(some), 4, 3.7, 3, 4.5]
        for source, counts in zip(sources, CONFIDENCES, strict=True)
        for verdict, some in zip((1, 0), counts, strict=True)
    ]
    grouped = [
        [
            group,
            source,
            k // 3,
            n // 3,
            n // 18,
            6,
            (k // 3) / (n // 3),
            max(low - 0.1, 0),
            min(high + 0.05, 1),
            low,
            high,
            "",
        ]
        for group in ("Acidic soil isolates", "GFP insert orientation", sources[2])
        for source, (k, n, low, high) in zip(sources, RATES, strict=True)
    ]
    alone = [
        [f"action {place}", "", 20 - place, 24, 8, 3, (20 - place) / 24, 0.3, 0.9, 0.3, 0.9, ""] for place in range(9)
    ]
    roc = [
        [source, threshold, false, hit, 60, 360]
        for source, curve in (
            (sources[2], (0, 0.5, 0.8, 0.93, 0.97, 0.98, 1)),
            (sources[3], (0, 0.05, 0.1, 0.21, 0.3, 0.45, 1)),
        )
        for threshold, false, hit in zip(
            (None, -4, -3, -1, 1, 3, 5), (0, 0.01, 0.04, 0.1, 0.16, 0.3, 1), curve, strict=True
        )
    ]
    detection = [
        [
            "all raters",
            sources[2],
            58,
            2,
            35,
            325,
            0.97,
            0.9,
            0.99,
            0.9,
            3.1,
            2.7,
            3.5,
            0.3,
            0.97,
            0.93,
            0.99,
            50,
            58,
            "",
        ],
        [
            "all raters",
            sources[3],
            19,
            71,
            35,
            325,
            0.21,
            0.12,
            0.33,
            0.9,
            0.5,
            None,
            None,
            1.0,
            0.61,
            0.52,
            0.70,
            9,
            19,
            "",
        ],
    ]
    drift = [[first, first + 9, 60, share, share - 0.1, share + 0.07, seconds]
             for first, share, seconds in ((1, 0.82, 74), (11, 0.86, 61), (21, 0.85, 52), (31, 0.8, 44.5))]  # fmt: skip
    names = ("Percent agreement", "Cohen's kappa, mean", "Fleiss' kappa", "Krippendorff's alpha, verdict", "Gwet's AC1")
    agreement = [
        [name, source, value, low, high, low - 0.1, high + 0.02, 0.8, 40, 6, 240, 15, 0, 0, ""]
        for source, drop in (("", 0.0), (sources[3], 0.5))
        for name, value, low, high in zip(
            names,
            (0.88 - drop, 0.7 - drop, 0.69 - drop, 0.71 - drop, 0.84 - drop),
            (0.81 - drop,) * 5,
            (0.93 - drop,) * 5,
            strict=True,
        )
    ]
    agreement.append(
        ["Kappa max", sources[3], None, None, None, None, None, 0.9, 4, 6, 24, 0, 15, 0, "all say the same"]
    )
    matrix = [
        [
            rater,
            f"i{place}{item}",
            source,
            int((item * 7 + at * 3 + place) % 5 > place),
            (item + at) % 5 + 1,
            (item + at) % 4 > 0,
        ]
        for place, source in enumerate(sources)
        for at, rater in enumerate(raters)
        for item in range(20)
        if (item + at) % 3
    ]
    human = [
        ["Raters with each other", "people", 0.88, 0.84, 0.92, 0.62, 0.5, 0.71, None, None, None, 160, 6, 960, ""],
        [machines[0], "machine", 0.81, 0.75, 0.87, 0.41, 0.28, 0.55, -0.21, -0.33, -0.08, 160, 6, 960, ""],
        [machines[1], "classifier", 0.86, 0.8, 0.9, 0.58, 0.4, 0.7, -0.04, -0.15, 0.06, 160, 6, 960, ""],
        [
            machines[2],
            "checker",
            0.7,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            4,
            6,
            24,
            "says yes to every item",
        ],
    ]
    cells = [
        [row, col, None if row == col else 0.6 + 0.1 * (machines.index(row) + machines.index(col)) / 2, 240, 200]
        for row in machines
        for col in machines
    ]
    fractions = [
        [who, "classifier", k / 240, k, 240, k / 240 - 0.05, k / 240 + 0.06]
        for who, k in zip(machines, (80, 73, 33), strict=True)
    ]
    misses = [
        [who, kind, error, which, caught, n, caught / n, max(caught / n - 0.1, 0), min(caught / n + 0.1, 1)]
        for error, which, n in (("obvious", "all", 60), ("subtle", "wrong volume", 45), ("subtle", "all", 90), ("none", "", 360))
        for who, kind, caught in (("Raters", "people", n // 4), ("R1", "person", 3), (machines[0], "machine", n // 3), (machines[2], "checker", n // 9))
    ]  # fmt: skip
    ranges = (
        ("below 10%", 0.0, 0.1, 20),
        ("10 to 20%", 0.1, 0.2, 40),
        ("20 to 30%", 0.2, 0.3, 40),
        ("no size", None, None, 60),
        ("no error", None, None, 360),
    )
    by_size = [
        [who, kind, name, low, high, n // part, n, 1 / part, max(1 / part - 0.1, 0), min(1 / part + 0.1, 1), "planted"]
        for who, kind, start in (("Raters", "people", 5), ("R1", "person", 4), (machines[0], "machine", 10))
        for part, (name, low, high, n) in zip((start, 4, 2, 2, 20), ranges, strict=True)
    ]  # fmt: skip
    precision = [
        [what, source, count, items, half * (6 / count) ** 0.5, count == 6 and items == 40, ""]
        for what, source, half in (("rate", sources[3], 0.09), ("kappa", "", 0.1), ("auc", sources[3], 0.08))
        for count, items in ((6, 40), (8, 40), (12, 40))
    ]
    localisation = [
        ["all raters", "all errors", 41, 60, 41 / 60, 0.52, 0.8, 45, 6, 3, ""],
        ["all raters", sources[2], 30, 38, 30 / 38, 0.6, 0.9, 27, 6, 1, ""],
        ["all raters", sources[3], 11, 22, 0.5, 0.27, 0.73, 18, 6, 2, ""],
        ["R1", "all errors", 5, 8, 5 / 8, None, None, 8, 1, 0, ""],
    ]
    contrasts = [
        [
            "sources",
            sources[0],
            sources[1],
            "rate",
            0.87,
            0.94,
            -0.07,
            -0.13,
            -0.01,
            0.03,
            0.06,
            60,
            6,
            360,
            0,
            6,
            "",
            "",
            "",
        ],
        [
            "simulators",
            sources[0],
            sources[1],
            "AUC",
            0.8,
            0.7,
            0.1,
            -0.05,
            0.25,
            0.2,
            0.2,
            90,
            6,
            540,
            0,
            6,
            "",
            "",
            "planted",
        ],
        [
            "simulators",
            sources[0],
            sources[1],
            "d'",
            2.0,
            1.5,
            0.5,
            -0.2,
            1.2,
            0.15,
            0.15,
            90,
            6,
            540,
            0,
            6,
            "",
            "",
            "planted",
        ],
        [
            "raters",
            "R1",
            "the others",
            "rate",
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            1,
            6,
            6,
            1,
            0,
            "",
            "one item",
            "",
        ],
    ]
    rows = {
        "contrasts": contrasts,
        "localisation": localisation,
        **{"rates": rates, "confidence": confidence, "spread": spread, "rates_by_experiment": grouped},
        **{"rates_by_action": alone, "rates_by_error_kind": grouped[:4], "roc": roc, "detection": detection},
        **{"drift": drift, "agreement": agreement, "matrix": matrix, "human_model": human},
        **{"agreement_matrix": cells, "conditional_matrix": cells, "fractions": fractions, "misses": misses},
        **{"precision": precision, "detection_by_size": by_size},
    }
    return {"version": 1, "tables": {name: table(name, some) for name, some in rows.items()}}


def benchmark(agents: tuple[str, ...] = ("GPT-5", "Claude 4 Sonnet", "Qwen 3 235B A22B Instruct")) -> Document:
    """Return a document with pass@k, failures and cost of some agents; the last has fewer than five trials."""
    passes = [
        [agent, k, value, value - 0.12, value + 0.1, 18, 90, ""]
        for place, agent in enumerate(agents[:-1])
        for k in range(1, 6)
        if (value := min(0.85, 0.2 + 0.15 * place + 0.08 * k))
    ]
    passes += [
        [agents[-1], 1, 0.3, 0.1, 0.5, 18, 36, ""],
        [agents[-1], 2, None, None, None, 18, 36, "fewer than 2 attempts at some experiments"],
    ]
    failures = [
        [agent, cause, n, n / 90]
        for agent in agents
        for cause, n in (("agent", 30), ("simulator", 2), ("classifier", 11), ("provider", 0), ("success", 47))
    ]
    cost = [[agent, 90, 12_345_678, 987_654, 12.3 * place, 0.26 * place or None] for place, agent in enumerate(agents)]
    rows = {"pass_at_k": passes, "failures": failures, "cost": cost}
    return {"version": 1, "tables": {name: table(name, some) for name, some in rows.items()}}
