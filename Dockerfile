# biasgate as an image: `docker build --tag localhost/biasgate .`, then `docker run --rm localhost/biasgate demo`.
#
# Two stages, so that no build tool is in the image. EXTRAS=stack is what deployments/compose.yaml
# starts; EXTRAS=app is enough for evaluations against servers that exist. BASE needs Python 3.11 or
# newer with venv. Give one by digest (NAME@sha256:...) to build the same image again.
ARG BASE=docker.io/library/python:3.13-slim

FROM ${BASE} AS build
ARG EXTRAS=stack
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY bias_metrics bias_metrics
COPY biasgate biasgate
COPY tasks tasks
COPY flows flows
COPY deployments deployments
# The environment gets no pip, and wheels alone: no code of a package runs while it is installed.
RUN python3 -m venv --without-pip /opt/biasgate \
 && python3 -m venv /opt/builder \
 && /opt/builder/bin/pip wheel --quiet --no-deps --wheel-dir /wheels . \
 && /opt/builder/bin/pip --python /opt/biasgate/bin/python install --quiet --no-cache-dir \
      --only-binary :all: --constraint constraints.txt "$(ls /wheels/*.whl)[${EXTRAS}]"

FROM ${BASE}
LABEL org.opencontainers.image.title=biasgate \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /opt/biasgate /opt/biasgate
# Volumes of compose.yaml start as these folders, hence with this owner.
RUN useradd --uid 10001 --create-home --home-dir /home/biasgate biasgate \
 && mkdir /work /data && chown biasgate:biasgate /work /data
ENV PATH=/opt/biasgate/bin:$PATH \
    DO_NOT_TRACK=true \
    MLFLOW_DISABLE_TELEMETRY=true \
    PREFECT_SERVER_ANALYTICS_ENABLED=false
USER 10001:10001
WORKDIR /work
HEALTHCHECK --interval=5m --timeout=30s CMD ["biasgate", "--version"]
ENTRYPOINT ["biasgate"]
CMD ["--help"]
