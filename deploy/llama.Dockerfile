# llama.cpp's own server, from a package of PyPI: the profile `llama` of deploy/compose.yaml. From the repository's root:
#
#     docker build -f deploy/llama.Dockerfile -t spechop-llama:0.1.0 .

ARG PYTHON=python:3.13-slim-bookworm

FROM ${PYTHON}
# hadolint ignore=DL3008
RUN apt-get update && \
    apt-get install -y --no-install-recommends libgomp1 && \
    rm -rf /var/lib/apt/lists/* && \
    pip install --no-cache-dir --only-binary=:all: xllamacpp==2026.10.11549
COPY deploy/compose/llama.py /usr/local/lib/llama.py
EXPOSE 8080
USER 65532:65532
ENTRYPOINT ["python", "/usr/local/lib/llama.py"]
