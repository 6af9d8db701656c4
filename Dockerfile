# syntax=docker/dockerfile:1
# Memrelay in a container: docs/deployment.md.
#
#   docker build -t memrelay .
#   docker build -t memrelay:slim --build-arg EMBEDDER=none .    # without a built-in embedder

# A pinned image: --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:...
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ARG EMBEDDER=auto
WORKDIR /src
COPY requirements.lock pyproject.toml ./
COPY deploy/install.py deploy/
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ENV UV_LINK_MODE=copy
# deploy/install.py takes the hashes of requirements.lock. uv and pip stay in this stage.
RUN --mount=type=cache,target=/root/.cache \
    case "$EMBEDDER" in \
        auto) better=--extra=bge small=--extra=local ;; \
        bge) better=--extra=bge small='' ;; \
        local) better='' small=--extra=local ;; \
        none) better='' small='' ;; \
        *) echo 'EMBEDDER must be auto, bge, local or none' >&2; exit 1 ;; \
    esac && \
    python -m venv /opt/tools && \
    python -m venv --without-pip /opt/memrelay && \
    python deploy/install.py --into /opt/memrelay --tools /opt/tools --project none --group build \
        --extra mcp --extra postgres --extra objects --extra jwt --extra seal --extra otel ${better:+"$better"} ${small:+"$small"}
COPY . .
RUN pip --python /opt/memrelay/bin/python install --no-cache-dir --no-deps --no-build-isolation .

FROM ${PYTHON_IMAGE}
RUN useradd --system --uid 10001 --user-group --home-dir /data --shell /usr/sbin/nologin memrelay && \
    install -d -o memrelay -g memrelay -m 700 /data
COPY --from=build /opt/memrelay /opt/memrelay
COPY deploy/container/entrypoint.sh /usr/local/bin/memrelay-entrypoint
ENV PATH=/opt/memrelay/bin:$PATH \
    FIRST_KEY_FILE=/data/first-key \
    MEMRELAY_BUS__DATA=/data/bus \
    MEMRELAY_LOG__FORMAT=json \
    MEMRELAY_MEMORY__ROOT=/data/memory \
    MEMRELAY_WEB__HOST=0.0.0.0
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
# A worker or a bus alone serves no HTTP: compose.yaml turns this check off for them.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["memrelay-entrypoint", "check-health"]
ENTRYPOINT ["memrelay-entrypoint"]
CMD ["up", "--json"]
