"""The pages of vetting samples: draw one, see how two people agree on it, and accept the rest of what waited with it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_POST

from ratings.stats import Estimate
from ratings.web.study.vetting import build_queue_url, find_own_last
from simulation.lab.errors import LabError
from simulation.models import VettingSample
from simulation.runs import twin_filters, vetting_samples
from simulation.runs.create import MAX_SEED
from simulation.runs.vetting_samples import DecisionPair
from simulation.web import StaffRequest, staff_only
from simulation.web.twin_filter import QueueFilter

if TYPE_CHECKING:
    from ratings.stats.proportions import Rate


class SampleForm(forms.Form):
    """How many of the waiting twins to vet, and the seed that chooses them."""

    share = forms.IntegerField(min_value=1, max_value=100, initial=20, label="Share to vet (%)")
    seed = forms.IntegerField(min_value=0, max_value=MAX_SEED, required=False, label="Seed")


@dataclass(frozen=True)
class SampleAgreement:
    """How far two independent decisions on the same twins agree, and the share that the first person rejected."""

    n: int
    agreed: int
    agreement: Estimate
    kappa: Estimate
    same_type: int
    both_accepted: int
    rejected: "Rate"

    @property
    def text(self) -> str:
        """The agreement as one line, as it is stored with the accepted twins."""
        kappa = f"{self.kappa.value:.2f}" if self.kappa.value is not None else f"undefined ({self.kappa.reason})"
        return f"two people agreed on {self.agreed} of {self.n} ({self.agreed / self.n:.0%}), Cohen's kappa {kappa}"

    @property
    def agreement_range(self) -> str:
        return _format_shares(self.agreement.low, self.agreement.high)

    @property
    def rejected_range(self) -> str:
        return _format_shares(self.rejected.low, self.rejected.high)

    @property
    def rejected_high(self) -> str:
        return f"{self.rejected.high or 0:.0%}"

    @property
    def kappa_range(self) -> str:
        """The interval of kappa; "" if there is none."""
        low, high = self.kappa.low, self.kappa.high
        return "" if low is None or high is None else f"{low:.2f} to {high:.2f}"

    def to_json(self) -> dict[str, Any]:
        return {"n": self.n, "agreed": self.agreed, "kappa": self.kappa.value, "text": self.text}


def _format_shares(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.0%} to {high:.0%}"


def measure_agreement(pairs: list[DecisionPair]) -> SampleAgreement | None:
    """Return the agreement on accepting or rejecting; None without a twin that two people have decided on."""
    if not pairs:
        return None
    from ratings.stats.pairwise import estimate_pairs  # imports numpy and scipy, which few pages need
    from ratings.stats.proportions import estimate_rate
    from ratings.stats.ratings_table import RatingRecord, build_ratings_table

    rows = [(str(pair.sampled.pk), pair.first == "accepted", pair.second == "accepted") for pair in pairs]
    records = [RatingRecord(item, "first", int(first)) for item, first, _ in rows]
    records += [RatingRecord(item, "second", int(second)) for item, _, second in rows]
    agreement, kappa = estimate_pairs(build_ratings_table(records))
    both = [pair for pair in pairs if pair.first == pair.second == "accepted"]
    return SampleAgreement(
        n=len(pairs),
        agreed=sum(first == second for _, first, second in rows),
        agreement=agreement,
        kappa=kappa,
        same_type=sum(pair.first_type == pair.second_type for pair in both),
        both_accepted=len(both),
        rejected=estimate_rate([pair.first == "rejected" for pair in pairs]),
    )


@staff_only
@require_POST
def draw_sample(request: StaffRequest) -> HttpResponse:
    """Draw a sample of the twins that wait under the filter in the URL, and show it."""
    filters = QueueFilter(request.GET)
    form = SampleForm(request.POST)
    if not form.is_valid():
        problems = [f"{form[name].label}: {error}" for name, errors in form.errors.items() for error in errors]
        messages.error(request, f"No sample was drawn. {' '.join(problems)}")
        return redirect(build_queue_url(filters))
    try:
        share, seed = form.cleaned_data["share"], form.cleaned_data["seed"]
        sample = vetting_samples.draw_sample(filters.get_filters(), share, seed, request.user)
    except LabError as error:
        messages.error(request, f"{error}.")
        return redirect(build_queue_url(filters))
    return redirect("ratings:vetting_sample", sample.code)


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def show_sample(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the progress of a sample and, once two people have decided on every twin, their agreement.

    A post accepts the remaining twins.
    """
    sample = get_object_or_404(VettingSample.objects.select_related("created_by", "accepted_by"), code=code)
    progress = vetting_samples.count_progress(sample, request.user)
    # Nothing of the first decisions before the second ones are complete: this page is open to the second person.
    pairs = vetting_samples.list_pairs(sample) if progress.is_complete else []
    agreement = measure_agreement(pairs)
    if request.method == "POST":
        return _accept_remaining(request, sample, agreement)
    own = vetting_samples.list_own(sample, request.user).select_related("twin").first()
    context = {
        "sample": sample,
        "described": twin_filters.describe_filters(sample.filters),
        "progress": progress,
        "last": find_own_last(request),
        "query": urlencode({"sample": sample.code}),
        "start": own.twin.code if own else None,
        "pairs": pairs,
        "disputed": [pair for pair in pairs if pair.first != pair.second],
        "agreement": agreement,
        "remaining": vetting_samples.list_remaining(sample).count() if sample.accepted_at is None else 0,
    }
    return render(request, "simulation/vetting_sample.html", context)


def _accept_remaining(request: StaffRequest, sample: VettingSample, agreement: SampleAgreement | None) -> HttpResponse:
    try:
        number = vetting_samples.accept_remaining(sample, agreement.to_json() if agreement else {}, request.user)
    except LabError as error:
        messages.error(request, f"Nothing was accepted. {error}.")
    else:
        messages.success(request, f"Accepted unread: {number}. Each can be reopened on its own page.")
    return redirect("ratings:vetting_sample", sample.code)


urls: list[URLPattern] = [
    path("vetting/samples/", draw_sample, name="vetting_samples"),
    path("vetting/samples/<uuid:code>/", show_sample, name="vetting_sample"),
]
