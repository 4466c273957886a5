"""Outputs in a bucket of moto's server, which verifies signatures as the store does."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from command import PATIENCE_S, flow
from flow_service import Producer, batch, definition, flow_service, ids

#: Command `moto_server` of this Python's packages.
MOTO = Path(sys.executable).with_name("moto_server")

#: A space, and what is not ASCII, have to be escaped in what is signed.
OUTPUT = '\n[outputs.kept]\nto = "s3://bucket/a b/é"\nformat = "parquet"\ncodec = "zstd"\n'
STAGE = '[[stages]]\npartition = { key = "id", by = "bits:1" }\n'
ALLOWED = (
    '{"Version": "2012-10-17",'
    ' "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
)


class Store:
    """A server with one user and one bucket."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._iam("CreateUser")
        said = self._iam("CreateAccessKey")
        key, secret = (
            said.partition(f"<{name}>")[2].partition("<")[0]
            for name in ("AccessKeyId", "SecretAccessKey")
        )
        self._iam("PutUserPolicy", PolicyName="all", PolicyDocument=ALLOWED)
        self.variables = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL_S3": uri,
            "AWS_REGION": "us-east-1",
        }
        self.files = pyarrow.fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            endpoint_override=uri,
            region="us-east-1",
            allow_bucket_creation=True,
            tls_ca_file_path=os.environ.get("SSL_CERT_FILE", ""),
        )
        self.files.create_dir("bucket")

    def _iam(self, action: str, **options: str) -> str:
        """Asks as anybody, which the first three may."""
        words = {"Action": action, "Version": "2010-05-08", "UserName": "user", **options}
        scope = "Credential=any/20260101/us-east-1/iam/aws4_request"
        signed = f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0"
        request = urllib.request.Request(
            self.uri, urllib.parse.urlencode(words).encode(), {"Authorization": signed}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text: str = answer.read().decode()
            return text

    def names(self) -> list[str]:
        """The objects."""
        everything = pyarrow.fs.FileSelector("bucket", recursive=True)
        found = self.files.get_file_info(everything)
        return sorted(one.path for one in found if one.type == pyarrow.fs.FileType.File)

    def rows(self) -> list[int]:
        """The ids in all of them."""
        tables = [pq.read_table(name, filesystem=self.files) for name in self.names()]
        return ids(pa.concat_tables(tables))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with moto(tmp_path, "http") as store:
        yield store


@contextlib.contextmanager
def moto(tmp_path: Path, scheme: str, *options: str | Path) -> Iterator[Store]:
    """A server that has ended afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    command = [str(MOTO), "--host", "127.0.0.1", "--port", str(port), *map(str, options)]
    uri = f"{scheme}://127.0.0.1:{port}"
    variables = os.environ | {"INITIAL_NO_AUTH_ACTION_COUNT": "3"}
    log = (tmp_path / "moto.log").open("w")
    with log, subprocess.Popen(command, env=variables, stdout=log, stderr=log) as process:
        try:
            end = time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                try:
                    urllib.request.urlopen(f"{uri}/moto-api/", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield Store(uri)
        finally:
            process.terminate()


def test_a_run_writes_objects_that_another_client_reads(store: Store, tmp_path: Path) -> None:
    with pa.ipc.new_file(str(tmp_path / "in.arrow"), batch(0).schema) as file:
        file.write_batch(batch(0, 1000))
    pipeline = definition(tmp_path, STAGE + '[input]\nfiles = ["in.arrow"]\n' + OUTPUT)
    wrong = {**store.variables, "AWS_SECRET_ACCESS_KEY": "wrong"}
    assert "SignatureDoesNotMatch" in flow("run", pipeline, code=2, **wrong)
    assert store.names() == []
    flow("run", pipeline, **store.variables)
    assert store.names() == [f"bucket/a b/é/part-{part}.parquet" for part in (0, 1)]
    assert sorted(store.rows()) == list(range(1000))
    assert "exists" in flow("run", pipeline, code=2, **store.variables)
    flow("run", pipeline, "--force", **store.variables)


def test_partitions_that_are_long_are_uploaded_in_parts(store: Store, tmp_path: Path) -> None:
    rows = list(range(6_000_000))
    table = pa.table({"id": pa.array(rows)})
    pq.write_table(table, tmp_path / "in.parquet")
    words = ["--key", "id", "--bits", "1", "--format", "parquet", "--out", "s3://bucket/long"]
    command = ["partition", tmp_path / "in.parquet", *words]
    assert "s3://bucket/long/part-0.parquet" in flow(*command, **store.variables)
    sizes = store.files.get_file_info(["bucket/long/part-0.parquet", "bucket/long/part-1.parquet"])
    assert all(file.size > 16 << 20 for file in sizes), "one request would be enough"
    assert sorted(store.rows()) == rows
    assert "exists" in flow(*command, code=2, **store.variables)
    flow(*command, "--force", **store.variables)
    absent = [*command[:-1], "s3://absent/x"]
    assert "NoSuchBucket" in flow(*absent, code=2, **store.variables)


def test_a_bucket_behind_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1"]
    names += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", certificate]
    subprocess.run([*make.split(), *names], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "in.parquet")
    words = ["--key", "id", "--bits", "1", "--format", "parquet", "--out", "s3://bucket/x"]
    command = ["partition", tmp_path / "in.parquet", *words]
    with moto(tmp_path, "https", "--ssl-cert", certificate, "--ssl-key", key) as store:
        assert "UnknownIssuer" in flow(*command, code=2, **store.variables)
        flow(*command, **store.variables, AWS_CA_BUNDLE=str(certificate))
        assert store.rows() == [1, 2, 3]


def test_what_a_service_acknowledged_is_in_the_bucket(store: Store, tmp_path: Path) -> None:
    pipeline = definition(tmp_path, STAGE + OUTPUT)
    with mock.patch.dict(os.environ, store.variables), flow_service(pipeline) as service:
        producer = Producer(service, "sensor").send_all(range(20))
        producer.close(19)
        service.kill()
    assert sorted(store.rows()) == list(range(2000))
