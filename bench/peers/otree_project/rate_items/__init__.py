"""One round per item: a page shows the item, asks for a verdict and a confidence. Items are read once, at the start."""

import json
from pathlib import Path
from typing import Any

from otree.api import BaseConstants, BaseGroup, BasePlayer, BaseSubsession, Page, models, widgets

ITEMS = json.loads(Path(__file__).with_name("items.json").read_text())


class C(BaseConstants):
    NAME_IN_URL = "rate_items"
    PLAYERS_PER_GROUP = None
    NUM_ROUNDS = len(ITEMS)


class Subsession(BaseSubsession):
    pass


class Group(BaseGroup):
    pass


class Player(BasePlayer):
    verdict = models.StringField(
        label="Is the outcome plausible?", choices=[["yes", "Yes"], ["no", "No"]], widget=widgets.RadioSelect
    )
    confidence = models.IntegerField(
        label="How confident are you?", choices=[1, 2, 3, 4, 5], widget=widgets.RadioSelectHorizontal
    )


class Rate(Page):
    form_model = "player"
    form_fields = ["verdict", "confidence"]

    @staticmethod
    def vars_for_template(player: Player) -> dict[str, Any]:
        # Raters start at different items, as in bench.floor.
        return {"item": ITEMS[(player.round_number + 7 * player.participant.id_in_session) % len(ITEMS)]}


page_sequence = [Rate]
