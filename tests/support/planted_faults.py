"""Faults that no code of ours makes, planted by SQL, each with the check that must report it, the table, and words of the message."""

from typing import NamedTuple

from simulation.casts.load_files import hash_experiment


class PlantedFault(NamedTuple):
    check: str
    sql: tuple[str, ...]
    table: str
    message: str


def plant_fault(check: str, sql: str, table: str, says: str) -> PlantedFault:
    return PlantedFault(check, tuple(part.strip() for part in sql.split(";")), table, says)


RATED = "(SELECT min(assignment_id) FROM ratings_rating WHERE revision = 1)"
CORRECTED = "(SELECT min(assignment_id) FROM ratings_rating WHERE revision = 2)"
SUBMITTED_EPISODE = "(SELECT min(id) FROM simulation_episode WHERE status = 'submitted')"
A_TWIN = "(SELECT min(id) FROM simulation_twin WHERE status = 'done')"
AN_ITEM = "(SELECT min(id) FROM ratings_item)"
NOW = "'2026-01-01 00:00:00+00:00'"

RATINGS = (
    plant_fault("ratings and their log", f"UPDATE ratings_rating SET verdict = NOT verdict WHERE assignment_id = {RATED}",
          "ratings_rating", "verdict"),
    plant_fault("ratings and their log", f"UPDATE ratings_rating SET note = 'forged' WHERE assignment_id = {RATED}",
          "ratings_rating", "forged"),
    plant_fault("ratings and their log", f"UPDATE ratings_rating SET marks = '[\"m1\"]' WHERE assignment_id = {RATED}",
          "ratings_rating", "m1"),
    plant_fault("ratings and their log", f"DELETE FROM ratings_ratingevent WHERE assignment_id = {RATED}",
          "ratings_rating", "none"),
    plant_fault("ratings and their log", f"DELETE FROM ratings_ratingevent WHERE assignment_id = {CORRECTED} AND revision = 1",
          "ratings_ratingevent", "versions 1 to 1"),
    plant_fault("ratings and their log", f"DELETE FROM ratings_rating WHERE assignment_id = {RATED}",
          "ratings_ratingevent", "no rating"),
    plant_fault("ratings and their log",
          f"UPDATE ratings_ratingevent SET at = {NOW} WHERE assignment_id = {CORRECTED} AND revision = 2",
          "ratings_ratingevent", "one after another"),
    plant_fault("ratings and their log", f"UPDATE ratings_ratingevent SET kind = 'correction' WHERE assignment_id = {RATED}",
          "ratings_ratingevent", "answer"),
    plant_fault("times of ratings", f"UPDATE ratings_rating SET seconds = seconds + 9 WHERE assignment_id = {RATED}",
          "ratings_rating", "between opening and submission"),
    plant_fault("unsaved answers of rated items", f"UPDATE ratings_unsavedanswer SET assignment_id = {RATED}", "ratings_unsavedanswer", "no unsaved answer"),
    plant_fault("first answers", "UPDATE ratings_assignment SET layout = 'plain' WHERE layout = 'confirm'",
          "ratings_initialrating", "layout plain"),
    plant_fault("slots of items", f"UPDATE ratings_assignment SET slot = 9 WHERE id = {RATED}", "ratings_assignment", "1 to 2"),
    plant_fault("slots of items", "DROP INDEX assignment_one_per_slot; UPDATE ratings_assignment SET slot = 1 WHERE slot = 2",
          "ratings_assignment", "used 2 times"),
    plant_fault("slots of ratings", f"UPDATE ratings_assignment SET slot = NULL WHERE id = {RATED}",
          "ratings_assignment", "neither"),
    plant_fault("slots of ratings", f"UPDATE ratings_assignment SET released_at = {NOW}, slot = NULL WHERE id = {RATED}",
          "ratings_assignment", "neither released"),
    plant_fault("repeated items of raters", """
          UPDATE ratings_itemsource SET twin_id = NULL, transition_id = (SELECT min(transition_id) FROM ratings_itemsource)
          """, "ratings_assignment", "one version of a transition"),
    plant_fault("sessions of crossovers", f"UPDATE ratings_assignment SET session = 2 WHERE id = {RATED}",
          "ratings_assignment", "its study is not a crossover"),
    plant_fault("studies of assignments", f"""
          UPDATE ratings_assignment SET pair = (SELECT code FROM ratings_item WHERE id = {AN_ITEM}) WHERE id = {RATED}""",
          "ratings_assignment", "pair"),
    plant_fault("assignments of withdrawn raters", f"UPDATE ratings_rater SET withdrawn_at = {NOW}", "ratings_assignment", "withdrawn"),
    plant_fault("assignments of withdrawn raters", f"UPDATE ratings_assignment SET occasion = 2, slot = NULL WHERE id = {RATED}",
          "ratings_assignment", "first occasion"),
    plant_fault("times of answers", f"UPDATE ratings_assignment SET answered_at = NULL WHERE id = {RATED}", "ratings_assignment", "answered at"),
    plant_fault("times of answers", f"UPDATE ratings_assignment SET answered_at = {NOW} WHERE id = (SELECT max(assignment_id) FROM ratings_unsavedanswer)",
          "ratings_assignment", "None"),
    plant_fault("counts of items", "UPDATE ratings_rater SET answered_items = answered_items + 1 WHERE number = 1", "ratings_rater", "waiting"),
    plant_fault("counts of items", "UPDATE ratings_rater SET waiting_items = -1 WHERE number = 2", "ratings_rater", "-1"),
    plant_fault("counts of items", "UPDATE ratings_rater SET counted_items = counted_items + 1 WHERE number = 1", "ratings_rater", "counted"),
    plant_fault("counts of items", "UPDATE ratings_rater SET corrections = 7 WHERE number = 1", "ratings_rater", "7"),
    plant_fault("stored HTML of items", "UPDATE ratings_rendereditem SET html = html || 'x' WHERE id = (SELECT min(id) FROM ratings_rendereditem)",
          "ratings_rendereditem", "other HTML"),
    plant_fault("payloads of items", f"UPDATE ratings_item SET payload = '{{}}' WHERE id = {AN_ITEM}", "ratings_item", "44136fa"),
    plant_fault("contexts of items", f"UPDATE ratings_item SET context = '{{\"goal\": \"x\"}}' WHERE id = {AN_ITEM}", "ratings_item",
          "44136fa"),
    plant_fault("contexts of imported items", "UPDATE ratings_importeditem SET context = '{\"goal\": \"x\"}'",
          "ratings_importeditem", "44136fa"),
    plant_fault("payloads of imported items", "UPDATE ratings_importeditem SET payload = '{}'", "ratings_importeditem", "44136fa"),
    plant_fault("payloads in quarantine", "UPDATE ratings_quarantine SET payload = '{}'", "ratings_quarantine", "44136fa"),
    plant_fault("pairs of items", f"UPDATE ratings_item SET pair_sha256 = 'other' WHERE id = {AN_ITEM}", "ratings_item", "other"),
    plant_fault("sources of items", f"DELETE FROM ratings_itemsource WHERE item_id = {AN_ITEM}", "ratings_item", "a source"),
    plant_fault("ratings by machines", "UPDATE ratings_machinerating SET payload_sha256 = 'other'",
          "ratings_machinerating", "other"),
    plant_fault("statuses of studies", "UPDATE ratings_study SET status = 'unblinded'", "ratings_study", "paused, by its log"),
    plant_fault("contents of events", "UPDATE ratings_studyevent SET data = '{\"items\": \"many\", \"raters\": 1}' WHERE kind = 'opened'",
          "ratings_studyevent", "valid integer"),
    plant_fault("contents of events", "UPDATE ratings_studyevent SET data = '{\"forged\": 1}' WHERE kind = 'created'",
          "ratings_studyevent", "forged"),
    plant_fault("changes of members", "DELETE FROM ratings_membershipchange", "ratings_membershipchange", "a row for account"),
    plant_fault("changes of members", "UPDATE ratings_membershipchange SET role = 'admin'", "ratings_membershipchange",
          "without an event"),
    plant_fault("statuses of studies", "UPDATE ratings_studyevent SET kind = 'unblinded' WHERE kind = 'paused'",
          "ratings_studyevent", "a status change"),
    plant_fault("times of studies", "UPDATE ratings_study SET opened_at = NULL", "ratings_study", "paused, with its times"),
    plant_fault("versions of guides", "UPDATE ratings_study SET guide = 'Look badly.'", "ratings_study", "last version"),
    plant_fault("versions of guides", f"UPDATE ratings_rating SET guide_version = 7 WHERE assignment_id = {RATED}",
          "ratings_rating", "7"),
    plant_fault("roles and consent of raters", """INSERT INTO ratings_membership (study_id, user_id, role)
          SELECT study_id, user_id, 'analyst' FROM ratings_rater WHERE number = 1""", "ratings_rater", "has a role"),
    plant_fault("roles and consent of raters", "UPDATE ratings_rater SET consented_at = NULL", "ratings_rater", "without consent"),
    plant_fault("documents of analyses", "UPDATE ratings_analysis SET document = '{}'", "ratings_analysis", "44136fa"),
    plant_fault("episodes of benchmarks", "DELETE FROM ratings_benchmark_episodes", "ratings_benchmark", ""),
    plant_fault("reports of audits", "UPDATE ratings_blindingaudit SET passed = NOT passed", "ratings_blindingaudit", "passed"),
)  # fmt: skip

GRADED = "(SELECT min(episode_id) FROM simulation_grading)"
CODE_EPISODES = (
    plant_fault("stored files", "UPDATE simulation_blob SET packed = (SELECT packed FROM simulation_blob ORDER BY sha256 LIMIT 1)",
          "simulation_blob", "bytes"),
    plant_fault("stored files", "UPDATE simulation_blob SET size = size + 1", "simulation_blob", "bytes"),
    plant_fault("stored workspaces", "UPDATE simulation_tree SET entries = '[]'", "simulation_tree", "4f53cda18c2baa0c"),
    plant_fault("stored workspaces", "DELETE FROM simulation_blob", "simulation_tree", "none of TASK.md"),
    plant_fault("stored workspaces", "UPDATE simulation_tree SET bytes = 1", "simulation_tree", "1 bytes"),
    plant_fault("numbers of code steps", f"UPDATE simulation_codeepisode SET next_number = 4 WHERE id = {GRADED}",
          "simulation_codeepisode", "steps 1 to 3"),
    plant_fault("numbers of code steps", "DELETE FROM simulation_codestep WHERE number = 1", "simulation_codeepisode", "2 to 2"),
    plant_fault("workspaces of code steps", "UPDATE simulation_codestep SET tree_before_id = tree_after_id WHERE number = 1",
          "simulation_codestep", "workspace"),
    plant_fault("workspaces of code steps", f"UPDATE simulation_codeepisode SET present_id = initial_id WHERE id = {GRADED}",
          "simulation_codeepisode", "workspace"),
    plant_fault("contents of code steps", "UPDATE simulation_codestep SET observation = 'forged' WHERE number = 1",
          "simulation_codestep", ""),
    plant_fault("phases of code episodes", f"""UPDATE simulation_codeepisode SET phase = 'agent'
          WHERE id = {GRADED}""", "simulation_codeepisode", "no ending"),
    plant_fault("ends of graded episodes", f"UPDATE simulation_codeepisode SET status = 'quit' WHERE id = {GRADED}",
          "simulation_codeepisode", "quit"),
    plant_fault("ends of graded episodes", "DELETE FROM simulation_grading", "simulation_codeepisode", "a grading"),
    plant_fault("retries of code episodes", "UPDATE simulation_codeepisode SET seed = 0, replicate = 3 WHERE retry_of_id IS NOT NULL",
          "simulation_codeepisode", "different ones"),
    plant_fault("states of sandboxes", "UPDATE simulation_sandboxrun SET state = 'started', ended_at = NULL, seconds = NULL, exit = NULL",
          "simulation_sandboxrun", "started"),
    plant_fault("states of sandboxes", "UPDATE simulation_sandboxrun SET seconds = NULL", "simulation_sandboxrun", "seconds None"),
    plant_fault("states of sandboxes", "UPDATE simulation_sandboxrun SET fence = 99", "simulation_sandboxrun", "99"),
    plant_fault("contents of gradings", "UPDATE simulation_grading SET outcome = 'wrong'", "simulation_grading", "wrong"),
    plant_fault("contents of gradings", "UPDATE simulation_grading SET grade = '{}'", "simulation_grading", ""),
    plant_fault("data of replication tasks", "UPDATE simulation_replicationtask SET sha256 = 'other'",
          "simulation_replicationtask", "other"),
    plant_fault("ends of code episodes", f"UPDATE simulation_codeepisode SET ended_at = NULL WHERE id = {GRADED}",
          "simulation_codeepisode", "None"),
    plant_fault("reasons of code episodes", "UPDATE simulation_codeepisode SET reason = 'internal' WHERE status = 'queued'",
          "simulation_codeepisode", "internal"),
    plant_fault("leases of code episodes", f"UPDATE simulation_codeepisode SET lease_until = {NOW}, fence = 0",
          "simulation_codeepisode", "fence 0"),
)  # fmt: skip

LABORATORY = (
    plant_fault("applied migrations", "DELETE FROM django_migrations WHERE app = 'ratings' AND name LIKE '0006%'",
          "django_migrations", "not applied"),
    plant_fault("applied migrations", """INSERT INTO django_migrations (app, name, applied)
          VALUES ('ratings', '9999_later', '2026-01-01 00:00:00+00:00')""", "django_migrations", "does not know"),
    plant_fault("constraints of tables", "DROP INDEX assignment_one_per_slot", "ratings_assignment", "this constraint"),
    plant_fault("foreign keys", "UPDATE ratings_unsavedanswer SET assignment_id = 999999", "ratings_unsavedanswer", "ratings_assignment"),
    plant_fault("numbers of steps", f"DELETE FROM simulation_transition WHERE episode_id = {SUBMITTED_EPISODE} AND number = 7",
          "simulation_episode", "steps 1 to"),
    plant_fault("numbers of steps", f"UPDATE simulation_episode SET next_number = next_number + 1 WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "steps 1 to"),
    plant_fault("pending actions", f"UPDATE simulation_episode SET pending = '{{}}' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "no pending action"),
    plant_fault("ends of submitted and rejected episodes", "DELETE FROM simulation_evidencereview", "simulation_episode", "0 of them"),
    plant_fault("ends of submitted and rejected episodes", f"UPDATE simulation_episode SET status = 'rejected_out' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "three rejections"),
    plant_fault("ends of submitted and rejected episodes", f"UPDATE simulation_episode SET status = 'truncated' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "steps used"),
    plant_fault("retries of replicates", "DROP INDEX episode_one_per_replicate; UPDATE simulation_episode SET counts = true",
          "simulation_episode", "it counts"),
    plant_fault("hidden truths", f"UPDATE simulation_episode SET truth_seed = 1000001 WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "the truth of seed 1000001"),
    plant_fault("hidden truths", "UPDATE simulation_run SET truths = 'test' WHERE kind = 'episodes'",
          "simulation_episode", "a truth seed of test"),
    plant_fault("hidden steps", f"UPDATE simulation_episode SET mask_key = '3/text' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "3/text"),
    plant_fault("hidden steps", f"UPDATE simulation_transition SET given = true WHERE episode_id = {SUBMITTED_EPISODE}",
          "simulation_episode", "no given steps"),
    plant_fault("verdicts of reviews", "UPDATE simulation_evidencereview SET sufficient = NOT sufficient",
          "simulation_evidencereview", "sufficient"),
    plant_fault("texts of steps", f"UPDATE simulation_transition SET action_name = 'Wish' WHERE episode_id = {SUBMITTED_EPISODE} AND number = 3",
          "simulation_transition", "Wish"),
    plant_fault("texts of steps", f"""UPDATE simulation_transition SET content_sha256 = 'other'
          WHERE episode_id = {SUBMITTED_EPISODE} AND number = 3""", "simulation_transition", "other"),
    plant_fault("benches of steps", f"""UPDATE simulation_transition SET step = (SELECT step FROM simulation_transition
          WHERE episode_id = {SUBMITTED_EPISODE} AND number = 4) WHERE episode_id = {SUBMITTED_EPISODE} AND number = 5""",
          "simulation_transition", "started at"),
    plant_fault("benches of steps", f"UPDATE simulation_episode SET seed = seed + 1 WHERE id = {SUBMITTED_EPISODE}",
          "simulation_transition", "barcodes"),
    plant_fault("benches of steps", f"UPDATE simulation_episode SET initial = '[]' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_transition", "materials"),
    plant_fault("differences of twins", f"UPDATE simulation_twin SET diff = '[{{\"path\": \"x\"}}]' WHERE id = {A_TWIN}",
          "simulation_twin", "x"),
    plant_fault("decisions on twins", f"UPDATE simulation_twin SET vetting = 'rejected' WHERE id = {A_TWIN}",
          "simulation_twin", "rejected"),
    plant_fault("dates of decisions", f"UPDATE simulation_twin SET vetted_as = 'subtle' WHERE id = {A_TWIN}",
          "simulation_twin", "subtle"),
    plant_fault("ends of episodes", f"UPDATE simulation_episode SET ended_at = NULL WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "ended None"),
    plant_fault("ends of twins", f"UPDATE simulation_twin SET lease_until = {NOW} WHERE id = {A_TWIN}",
          "simulation_twin", "no lease"),
    plant_fault("ends of jobs", "UPDATE simulation_job SET status = 'queued'", "simulation_job", "no end"),
    plant_fault("reasons of episodes", f"UPDATE simulation_episode SET reason = 'budget' WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "budget"),
    plant_fault("reasons of twins", f"UPDATE simulation_twin SET reason = 'budget' WHERE id = {A_TWIN}",
          "simulation_twin", "budget"),
    plant_fault("reasons of jobs", "UPDATE simulation_job SET status = 'failed'", "simulation_job", "a reason"),
    plant_fault("leases of episodes", f"UPDATE simulation_episode SET lease_until = {NOW}, fence = 0 WHERE id = {SUBMITTED_EPISODE}",
          "simulation_episode", "fence 0"),
    plant_fault("leases of twins", f"UPDATE simulation_twin SET status = 'running', lease_owner = '' WHERE id = {A_TWIN}",
          "simulation_twin", "no worker"),
    plant_fault("leases of jobs", f"UPDATE simulation_job SET lease_until = {NOW}", "simulation_job", "owner none"),
    plant_fault("owners of calls", f"""UPDATE simulation_modelcall SET run_id =
          (SELECT run_id FROM simulation_episode WHERE id = {SUBMITTED_EPISODE})""", "simulation_modelcall", "the run of its episode"),
    plant_fault("owners of calls", "UPDATE simulation_modelcall SET fence = 8", "simulation_modelcall", "8"),
    plant_fault("attempts of calls", "DELETE FROM simulation_modelcall WHERE attempt = 1", "simulation_modelcall", "2 to 2"),
    plant_fault("attempts of calls", "UPDATE simulation_modelcall SET state = 'answered'", "simulation_modelcall", "2 answered"),
    plant_fault("ends of calls", "UPDATE simulation_modelcall SET ended_at = NULL", "simulation_modelcall", "ended None"),
    plant_fault("costs of calls", "UPDATE simulation_modelcall SET cost = 1 WHERE attempt = 2", "simulation_modelcall", "$0.001750"),
    plant_fault("budgets of runs", "UPDATE simulation_run SET held_tokens = held_tokens + 1 WHERE max_cost IS NOT NULL",
          "simulation_run", "1050 tokens"),
    plant_fault("texts of calls", "DELETE FROM simulation_calltext", "simulation_modelcall", "the text"),
    plant_fault("data of experiments", "UPDATE simulation_experiment SET data = '{}'", "simulation_experiment",
          hash_experiment({})[:7]),
    plant_fault("data of actions", "UPDATE simulation_catalogueentry SET data = '{}'", "simulation_catalogueentry", "44136fa"),
    plant_fault("setups of runs", "UPDATE simulation_run SET setup = '{\"cast\": 1}'", "simulation_run", "no digest"),
    plant_fault("texts of prompt sets", "UPDATE simulation_promptset SET files = '{}'", "simulation_promptset", "44136fa"),
    plant_fault("stored texts of calls", "UPDATE simulation_calltext SET text = 'other'", "simulation_calltext", ""),
    plant_fault("pieces of files", "DELETE FROM simulation_jobchunk WHERE number = 0", "simulation_jobfile", "chunk 1 at position 0"),
    plant_fault("pieces of files", "UPDATE simulation_jobfile SET size = size + 1", "simulation_jobfile", "307201 bytes"),
)  # fmt: skip

BROKEN_TABLES = {
    "sqlite": ("PRAGMA ignore_check_constraints = ON", "UPDATE ratings_rating SET seconds = -1",
               "PRAGMA ignore_check_constraints = OFF"),
    "postgresql": ("ALTER TABLE ratings_machinerating DROP CONSTRAINT machine_rating_confidence_1_to_5",
                   """ALTER TABLE ratings_machinerating ADD CONSTRAINT machine_rating_confidence_1_to_5
                      CHECK (confidence < 6) NOT VALID"""),
}  # fmt: skip
