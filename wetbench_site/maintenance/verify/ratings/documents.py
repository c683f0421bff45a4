"""What was computed and stored under a digest: analyses, benchmarks, blinding audits."""

from collections.abc import Iterator

from ratings.models import Analysis, Benchmark, BlindingAudit
from ratings.results.analyses import form
from ratings.results.benchmarks import freezing
from ratings.studies.blinding_audit import auditing
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong


@check("documents of analyses", "a stored analysis has the digest that its files and figures bear", Analysis)
def documents_of_analyses() -> Iterator[Wrong]:
    for key, document, sha in rows(Analysis.objects.order_by("pk").values_list("key", "document", "sha256")):
        if (found := form.digest(document)) != sha:
            yield wrong(Analysis, key, sha, found)


@check("episodes of benchmarks", "a benchmark holds the episodes that were frozen, as they had ended", Benchmark)
def episodes_of_benchmarks() -> Iterator[Wrong]:
    for benchmark in rows(Benchmark.objects.order_by("pk")):
        episodes = benchmark.episodes.defer("initial", "memory")
        if (found := freezing.digest(list(episodes))) != benchmark.sha256:
            yield wrong(Benchmark, benchmark.code, benchmark.sha256, found)


@check(
    "reports of audits",
    "a blinding audit has the digest of its report, and says of itself what its report says",
    BlindingAudit,
)
def reports_of_audits() -> Iterator[Wrong]:
    audits = BlindingAudit.objects.order_by("pk").values_list("pk", "study__slug", "report", "sha256", "passed")
    for pk, study, report, sha, passed in rows(audits):
        if (found := auditing.digest(report)) != sha:
            yield wrong(BlindingAudit, f"{pk} of {study}", sha, found)
        if report.get("passed") is not passed:
            yield wrong(BlindingAudit, f"{pk} of {study}", f"passed: {report.get('passed')}", passed)


CHECKS = (documents_of_analyses, episodes_of_benchmarks, reports_of_audits)
