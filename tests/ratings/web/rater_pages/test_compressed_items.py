"""Tests of the compression of a rater's items: only fragments without a token, in steps of size."""

import gzip
import random
from typing import Any

import pytest
from django.test import Client

from tests.support.rater_forms import HTMX, build_answer, get_rating_url
from tests.support.rating_room import create_open_study
from wetbench_site.middleware.security import compress_padded

ZIPPED = {"Accept-Encoding": "gzip, deflate"}


def test_compressed_size_is_a_multiple_of_512_bytes_and_the_text_survives() -> None:
    draw = random.Random(1)
    for n in (0, 1, 480, 483, 484, 485, 488, 489, 512, 5_000):
        data = draw.randbytes(n)  # cannot be compressed, so the sizes before padding are spread
        packed = compress_padded(data)
        assert gzip.decompress(packed) == data and len(packed) % 512 == 0
        assert len(packed) - n < 512 + 64
    assert compress_padded(b"equal") == compress_padded(b"equal")


@pytest.mark.django_db
def test_items_are_compressed_only_in_fragments_which_have_no_token(client: Client) -> None:
    rater = create_open_study(items=3).raters.get(label="R01")
    client.force_login(rater.user)
    assignment = rater.assignments.order_by("position").first()

    def fetch(**headers: str) -> Any:
        return client.get(get_rating_url(assignment), headers=headers)

    page, fragment, packed = fetch(**ZIPPED), fetch(**HTMX), fetch(**HTMX, **ZIPPED)
    assert "csrfmiddlewaretoken" in page.content.decode() and "Content-Encoding" not in page
    assert "csrfmiddlewaretoken" not in fragment.content.decode() and "Content-Encoding" not in fragment
    assert packed["Content-Encoding"] == "gzip" and int(packed["Content-Length"]) == len(packed.content)
    assert len(packed.content) % 512 == 0 and len(packed.content) < len(fragment.content) / 2
    # Each answer has its own submission id; everything else is equal.
    assert len(gzip.decompress(packed.content)) == len(fragment.content)
    assert "Accept-Encoding" in fragment["Vary"] and "Accept-Encoding" in packed["Vary"]

    following = client.post(get_rating_url(assignment), build_answer(), headers={**HTMX, **ZIPPED})
    assert following["Content-Encoding"] == "gzip" and b'id="rating-card"' in gzip.decompress(following.content)
    # A second answer asks which one should count, with forms that contain the token.
    both = client.post(get_rating_url(assignment), build_answer(verdict="no"), headers={**HTMX, **ZIPPED})
    assert both.status_code == 409 and b"csrfmiddlewaretoken" in both.content and "Content-Encoding" not in both
