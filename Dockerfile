# The service on a CPU, with its gallery in the current folder; clients send the token:
#   docker build -t hypersphere .
#   docker run --rm -p 127.0.0.1:8000:8000 -e HYPERSPHERE_TOKEN -v "$PWD:/data" hypersphere
# Any other command:  docker run --rm -v "$PWD:/data" hypersphere train --list
# For a GPU run with --gpus all. --build-arg TORCH_INDEX=URL takes torch from another index, such as that of its smaller CPU builds.
# Packages have the versions of constraints.txt. compose.yaml starts it with PostgreSQL.
FROM python:3.12.12-slim-bookworm

ARG TORCH_INDEX=
COPY constraints.txt /src/
RUN pip install --no-cache-dir --constraint /src/constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch

COPY pyproject.toml MANIFEST.in README.md CHANGELOG.md CITATION.cff SECURITY.md LICENSE /src/
COPY src /src/src
COPY recipes /src/recipes
COPY docs/law.md /src/docs/law.md
RUN pip install --no-cache-dir --constraint /src/constraints.txt "/src[plots,fast-images,service,postgres]" && rm -r /src

RUN useradd --create-home hypersphere && install -d -o hypersphere /data
USER hypersphere
WORKDIR /data
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
ENTRYPOINT ["hypersphere"]
CMD ["serve", "--host", "0.0.0.0", "--gallery", "/data/people.db"]
