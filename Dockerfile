# One image for the web server, the worker, the dispatcher and every command; compose.yaml chooses which one runs.
# Debian 12 throughout: its pg_dump is of the same version as the server in compose.yaml, and backups need that.
# The digest is of the index of all platforms, as published in docker-library/repo-info. How to renew it: docs/operations.md, "Upgrade".
FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b AS packages
COPY requirements.lock /
RUN python -m venv /venv && /venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.lock

FROM python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql-client-15 bubblewrap && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin wetbench && install -d -o wetbench -g wetbench /var/lib/wetbench /backups
COPY --from=packages /venv /venv
WORKDIR /app
COPY manage.py ./
COPY wetbench_site ./wetbench_site
COPY simulation ./simulation
COPY ratings ./ratings
COPY templates ./templates
COPY static ./static
COPY fixtures ./fixtures
COPY docs ./docs
# Whatever umask the files were fetched under, the user of the container reads them.
RUN chmod -R a+rX /app && /venv/bin/python -m compileall -q /app
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 WETBENCH_PROFILE=production WETBENCH_SANDBOX=off WETBENCH_VAR_DIR=/var/lib/wetbench
USER wetbench
EXPOSE 8000
CMD ["python", "-m", "gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf", "-b", "0.0.0.0:8000"]
