"""Checks of a whole database: every promise about stored rows that must hold at any time."""

from wetbench_site.maintenance.verify import code_checks, episode_checks, rating_checks, study_checks, work_checks

ALL_CHECKS = (
    # The database itself first: with a broken schema the other findings mislead.
    *work_checks.DATABASE_CHECKS, *rating_checks.ANSWER_CHECKS, *rating_checks.ASSIGNMENT_CHECKS,
    *study_checks.ITEM_CHECKS, *study_checks.STUDY_CHECKS, *study_checks.DOCUMENT_CHECKS,
    *episode_checks.EPISODE_CHECKS, *episode_checks.STEP_CHECKS, *episode_checks.TWIN_CHECKS,
    *code_checks.CODE_CHECKS, *work_checks.WORK_CHECKS, *work_checks.CALL_CHECKS, *work_checks.FILE_CHECKS,
)  # fmt: skip
