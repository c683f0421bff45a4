"""Checks of results that are stored with a digest: analyses, benchmarks, blinding audits."""

from collections.abc import Iterator

from ratings.models import Analysis, Benchmark, BlindingAudit
from ratings.results.analyses import store
from ratings.results.benchmarks import store as freeze
from ratings.studies.blinding_audit import audit_runner
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows


@build_check("documents of analyses", "a stored analysis matches the digest in its files and figures", Analysis)
def check_analysis_digests() -> Iterator[Violation]:
    for key, document, sha in iter_rows(Analysis.objects.order_by("pk").values_list("key", "document", "sha256")):
        if (digest := store.hash_document(document)) != sha:
            yield build_violation(Analysis, key, sha, digest)


@build_check("episodes of benchmarks", "a benchmark has the episodes that were frozen, with the same ends", Benchmark)
def check_benchmark_episodes() -> Iterator[Violation]:
    for benchmark in iter_rows(Benchmark.objects.order_by("pk")):
        # The digest does not need them, and they are the largest columns of an episode.
        episodes = benchmark.episodes.defer("initial", "memory")
        if (digest := freeze.hash_episodes(list(episodes))) != benchmark.sha256:
            yield build_violation(Benchmark, benchmark.code, benchmark.sha256, digest)


@build_check(
    "reports of audits",
    "a blinding audit matches the digest and the result of its report",
    BlindingAudit,
)
def check_audit_reports() -> Iterator[Violation]:
    audits = BlindingAudit.objects.order_by("pk").values_list("pk", "study__slug", "report", "sha256", "passed")
    for pk, study, report, sha, passed in iter_rows(audits):
        if (digest := audit_runner.compute_digest(report)) != sha:
            yield build_violation(BlindingAudit, f"{pk} of {study}", sha, digest)
        if report.get("passed") is not passed:
            yield build_violation(BlindingAudit, f"{pk} of {study}", f"passed: {report.get('passed')}", passed)


CHECKS = (check_analysis_digests, check_benchmark_episodes, check_audit_reports)
