"""Violations that the database must not have once all episodes have ended, whatever happened while they were played."""

ONE_TURN = "group by episode_id, number, role, speaker, turn"

# Violation -> query of the rows that show it. Every query must return none.
VIOLATION_QUERIES = {
    "an episode did not end by the rules": """
        select id, status, reason, error from simulation_episode where ended_at is null or reason <> ''
        or lease_until is not null or status not in ('submitted', 'quit', 'rejected_out', 'truncated')""",
    "steps are not 1 to n, each stored after the one before": """
        select e.id, e.next_number, array_agg(t.number order by t.id) from simulation_episode e
        left join simulation_transition t on t.episode_id = e.id group by e.id
        having array_agg(t.number::int order by t.id) <> array(select generate_series(1, e.next_number - 1))""",
    "a call is not in an end state": """
        select id, state from simulation_modelcall
        where ended_at is null or state not in ('answered', 'lost', 'fenced', 'failed')""",
    "one claim of a row had two calls under way at once": """
        select a.episode_id, a.fence, a.id, b.id from simulation_modelcall a join simulation_modelcall b
        on a.episode_id = b.episode_id and a.fence = b.fence and a.id < b.id
        where a.state <> 'lost' and b.started_at < a.ended_at""",
    "a turn was not answered exactly once, or was tried again after it was answered": f"""
        select episode_id, number, role, speaker, turn, array_agg(state order by attempt) from simulation_modelcall
        {ONE_TURN} having count(*) filter (where state = 'answered') <> 1 or max(attempt) <> count(*)
        or max(attempt) <> max(attempt) filter (where state = 'answered')""",
    "the same situation was sent as different requests": f"""
        select episode_id, number, role, turn from simulation_modelcall
        {ONE_TURN} having count(distinct request_sha256) > 1""",
    "a paid choice of the agent is not a step, or a step has no paid choice": """
        select e.id, e.next_number, c.n from simulation_episode e left join lateral (
            select array_agg(number::int order by number) as n from simulation_modelcall
            where episode_id = e.id and role = 'agent' and state = 'answered') c on true
        where c.n <> array(select generate_series(1, e.next_number - (e.status not in ('submitted', 'quit'))::int))""",
    "a paid outcome is not a step, or a step has no paid outcome": """
        select e.id, c.n, t.n from simulation_episode e, lateral (
            select array_agg(number::int order by number) as n from simulation_modelcall
            where episode_id = e.id and role = 'transition' and state = 'answered') c, lateral (
            select array_agg(number::int order by number) as n from simulation_transition
            where episode_id = e.id and rejected_by in ('', 'transition_model')) t where c.n is distinct from t.n""",
    "a submitted episode lacks a verdict of one of its classifiers": """
        select e.id, count(r.id) from simulation_episode e left join simulation_evidencereview r on r.episode_id = e.id
        where e.status = 'submitted' group by e.id having count(r.id) <> 2 or count(r.id) filter (where r.primary) <> 1""",
}
