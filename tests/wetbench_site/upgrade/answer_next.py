"""Answer the next item of the release's rater over the pages, as their browser does; test_upgrade.py runs this.

It prints the number of ratings of that rater before and after.
"""

import os
import re
import sys
import uuid
from pathlib import Path

import django

sys.path.insert(0, str(Path(__file__).parents[3]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.test import Client  # noqa: E402

from ratings.models import Rater, Rating  # noqa: E402


def main() -> None:
    user = User.objects.get(username="open-rater")
    rater = Rater.objects.get(user=user)
    ratings = Rating.objects.filter(assignment__rater=rater)
    before = ratings.count()
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    page = client.get(f"/rate/study/{rater.code}/", follow=True)
    path = page.request["PATH_INFO"]
    assert page.status_code == 200 and re.fullmatch(r"/rate/[0-9a-f-]{36}/", path), (page.status_code, path)
    form = {"verdict": "yes", "confidence": "4", "submission_id": str(uuid.uuid4()), "revision": "0"}
    answer = client.post(path, form)
    assert answer.status_code == 303, (answer.status_code, answer.content[-2000:])
    print(before, ratings.count())


if __name__ == "__main__":
    main()
