"""The rule-based cast: a transition model, agents, a classifier and planted errors, all without a language model.

`rules` computes the outcome of an action with the functions of `handlers/`; `declarations` applies what the experiment
declares in its hidden truth, whose format is in `hidden_truth`. `injectors/` plant obvious (Type 1) and subtle (Type 2)
errors. `agents` choose actions. `checklist` judges a record by its rubric. The same seed gives the same result. `gym`
registers one Gymnasium environment for each experiment.

May import: simulation.lab.

Without Django.
"""

# Increase it when the same action on the same materials gives another outcome. It is part of the digest of every experiment,
# so that results of two versions of the rules are not mixed (docs/contributing.md).
RULES_VERSION = 2
