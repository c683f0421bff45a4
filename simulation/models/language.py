"""Language models with their prices, casts, and prompt sets."""

from django.db import models


class LanguageModel(models.Model):
    """A language model that can play a role: its address, its limits, and whether it is still offered."""

    LIFECYCLES = [("active", "active"), ("retiring", "retiring"), ("retired", "retired"), ("unknown", "not known")]

    name = models.CharField(unique=True, max_length=80, help_text="what casts call it")
    provider = models.CharField(max_length=20, help_text="a name of simulation.providers.base.PROVIDERS")
    model_id = models.CharField(max_length=120, help_text="as sent to the provider")
    aliases = models.JSONField(default=list, help_text="other ids that mean the same")
    options = models.JSONField(default=dict, help_text="simulation.providers.base.WireOptions")
    context_limit = models.PositiveIntegerField(null=True, blank=True, help_text="tokens; empty: not known")
    lifecycle = models.CharField(max_length=10, choices=LIFECYCLES, default="unknown")
    retires_on = models.DateField(null=True, blank=True)
    lifecycle_source = models.CharField(max_length=300, blank=True)
    lifecycle_read_on = models.DateField(null=True, blank=True)
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["provider", "name"]

    def __str__(self) -> str:
        return self.name


class ModelPrice(models.Model):
    """The price of a model from a day on, in US dollars per million tokens of each class. Unknown prices are empty."""

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="prices")
    effective_from = models.DateField()
    input = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_read = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_write_5m = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_write_1h = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    output = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    source = models.CharField(max_length=300, blank=True)
    read_on = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ["model", "-effective_from"]
        constraints = [models.UniqueConstraint(fields=["model", "effective_from"], name="price_once_a_day")]

    def __str__(self) -> str:
        return f"{self.model} from {self.effective_from}"


class CastDefinition(models.Model):
    """A cast with language models, as data; `simulation.casts.cast_files` parses it."""

    name = models.CharField(unique=True, max_length=80)
    description = models.TextField()
    data = models.JSONField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PromptSet(models.Model):
    """The texts of a prompt set under their hash. Rows never change: changed texts have another hash and are a new row."""

    name = models.CharField(max_length=80)
    sha256 = models.CharField(max_length=64, unique=True)
    files = models.JSONField(help_text="file name -> text")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} {self.sha256[:12]}"
