"""Checks of results that are stored with a digest: analyses, benchmarks, blinding audits."""

from collections.abc import Iterator

from ratings.models import Analysis, Benchmark, BlindingAudit
from ratings.results.analyses import form
from ratings.results.benchmarks import freezing
from ratings.studies.blinding_audit import auditing
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong


@check("documents of analyses", "a stored analysis matches the digest in its files and figures", Analysis)
def documents_of_analyses() -> Iterator[Wrong]:
    for key, document, sha in rows(Analysis.objects.order_by("pk").values_list("key", "document", "sha256")):
        if (digest := form.digest(document)) != sha:
            yield wrong(Analysis, key, sha, digest)


@check("episodes of benchmarks", "a benchmark has the episodes that were frozen, with the same ends", Benchmark)
def episodes_of_benchmarks() -> Iterator[Wrong]:
    for benchmark in rows(Benchmark.objects.order_by("pk")):
        # The digest does not need them, and they are the largest columns of an episode.
        episodes = benchmark.episodes.defer("initial", "memory")
        if (digest := freezing.digest(list(episodes))) != benchmark.sha256:
            yield wrong(Benchmark, benchmark.code, benchmark.sha256, digest)


@check(
    "reports of audits",
    "a blinding audit matches the digest and the result of its report",
    BlindingAudit,
)
def reports_of_audits() -> Iterator[Wrong]:
    audits = BlindingAudit.objects.order_by("pk").values_list("pk", "study__slug", "report", "sha256", "passed")
    for pk, study, report, sha, passed in rows(audits):
        if (digest := auditing.digest(report)) != sha:
            yield wrong(BlindingAudit, f"{pk} of {study}", sha, digest)
        if report.get("passed") is not passed:
            yield wrong(BlindingAudit, f"{pk} of {study}", f"passed: {report.get('passed')}", passed)


CHECKS = (documents_of_analyses, episodes_of_benchmarks, reports_of_audits)
