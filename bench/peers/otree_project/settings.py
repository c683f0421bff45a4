"""oTree's settings: its project template without demo and currency, one session of the app `rate_items`."""

from os import environ

SESSION_CONFIGS = [{"name": "rate_items", "app_sequence": ["rate_items"], "num_demo_participants": 1}]
SESSION_CONFIG_DEFAULTS = {"real_world_currency_per_point": 1.00, "participation_fee": 0.00, "doc": ""}
PARTICIPANT_FIELDS: list[str] = []
SESSION_FIELDS: list[str] = []
LANGUAGE_CODE = "en"
REAL_WORLD_CURRENCY_CODE = "USD"
USE_POINTS = False
ADMIN_USERNAME = "admin"
ADMIN_PASSWORD = environ["OTREE_ADMIN_PASSWORD"]
SECRET_KEY = environ["OTREE_SECRET_KEY"]
