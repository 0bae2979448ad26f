FROM python:3.11-slim AS build
# An index of your own for pip: docker build --build-arg PIP_INDEX_URL=...
ARG PIP_INDEX_URL
WORKDIR /opt/bandit
RUN python -m venv --without-pip venv
COPY requirements.lock ./
RUN pip --python venv/bin/python install --no-cache-dir --require-hashes -r requirements.lock \
    && find venv -type d -name tests -prune -exec rm -r {} + \
    && rm requirements.lock
# Of plotly, 65 MB with what it needs, the dashboard takes one file; the licence stays beside it.
RUN mkdir -p kept/plotly/package_data \
    && cp venv/lib/python*/site-packages/plotly/package_data/plotly.min.js \
        venv/lib/python*/site-packages/plotly-*.dist-info/licenses/LICENSE* kept/plotly/package_data/ \
    && pip --python venv/bin/python uninstall --yes --quiet plotly narwhals \
    && mv kept/plotly venv/lib/python*/site-packages/ && rmdir kept
COPY service service
# The commit, which a metric tells: docker build --build-arg REVISION=$(git rev-parse HEAD)
ARG REVISION
RUN if [ -n "$REVISION" ]; then echo "$REVISION" > service/REVISION; fi && python -m compileall -q service


FROM build AS build-loadtest
COPY requirements-loadtest.lock ./
RUN pip --python venv/bin/python install --no-cache-dir --require-hashes -r requirements-loadtest.lock \
    && rm requirements-loadtest.lock
COPY loadtest loadtest
RUN python -m compileall -q loadtest


FROM python:3.11-slim AS base
ENV PATH=/opt/bandit/venv/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /opt/bandit


FROM base AS loadtest
ENV MPLCONFIGDIR=/tmp
COPY --from=build-loadtest /opt/bandit /opt/bandit
RUN mkdir --mode 1777 /runs
USER 10001:10001
ENTRYPOINT ["python", "-m", "loadtest"]


FROM base AS service
ARG REVISION
LABEL org.opencontainers.image.title="delayed-bandits" \
      org.opencontainers.image.description="Bandit online learning with unknown delays, as an HTTP service" \
      org.opencontainers.image.version="1.0.0" \
      org.opencontainers.image.revision=$REVISION
ENV BANDIT_HOST=0.0.0.0 \
    BANDIT_PORT=8000 \
    BANDIT_DATA_DIR=/data
COPY --from=build /opt/bandit /opt/bandit
RUN mkdir --mode 1777 /data
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['BANDIT_PORT']}/readyz\", timeout=2)"]
ENTRYPOINT ["python", "-m", "service"]
