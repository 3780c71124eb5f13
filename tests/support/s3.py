"""An S3 server on this machine."""

import threading
from contextlib import contextmanager

import boto3
import pytest
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer


@contextmanager
def serving_s3(bucket):
    """Yield a client of a server with one bucket; all clients of this process use the server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    # S3 lets one of two writers of a new object win. moto looks, and writes later.
    one_at_a_time, put = threading.Lock(), S3Response.put_object

    def put_object(response):
        with one_at_a_time:
            return put(response)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(S3Response, "put_object", put_object)
            for name, value in (
                ("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port())),
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("AWS_DEFAULT_REGION", "us-east-1"),
                ("NO_PROXY", "127.0.0.1"),
            ):
                patch.setenv(name, value)
            client = boto3.client("s3")
            client.create_bucket(Bucket=bucket)
            yield client
    finally:
        server.stop()
