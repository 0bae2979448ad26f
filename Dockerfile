FROM python:3.11-slim AS build
# An index of your own for pip: docker build --build-arg PIP_INDEX_URL=...
ARG PIP_INDEX_URL
WORKDIR /build
RUN python -m venv --without-pip /opt/bandit
COPY pyproject.toml README.md ./
COPY service service
COPY loadtest loadtest
# hadolint ignore=DL3013
RUN pip --python /opt/bandit/bin/python install --no-cache-dir '.[embedded]' \
    && find /opt/bandit -type d -name tests -prune -exec rm -r {} +


FROM build AS build-loadtest
# hadolint ignore=DL3013
RUN pip --python /opt/bandit/bin/python install --no-cache-dir '.[embedded,loadtest]'


FROM python:3.11-slim AS base
ENV PATH=/opt/bandit/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /opt/bandit


FROM base AS loadtest
ENV MPLCONFIGDIR=/tmp
COPY --from=build-loadtest /opt/bandit /opt/bandit
RUN mkdir --mode 1777 /runs
VOLUME /runs
USER 10001:10001
ENTRYPOINT ["python", "-m", "loadtest"]


FROM base AS service
ENV BANDIT_HOST=0.0.0.0 \
    BANDIT_PORT=8000 \
    BANDIT_DATA_DIR=/data
COPY --from=build /opt/bandit /opt/bandit
RUN mkdir --mode 1777 /data
VOLUME /data
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['BANDIT_PORT']}/readyz\", timeout=2)"]
ENTRYPOINT ["python", "-m", "service"]
