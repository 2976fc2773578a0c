"""What a registry is told by its URL, without asking it."""

import pytest

from tidelog.client.errors import ClientConfigError
from tidelog.client.schemas.registry import SchemaRegistry


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://registry", "http://", "http://registry:many", ""])
def test_what_is_no_url_is_refused_with_an_example(url):
    with pytest.raises(ClientConfigError, match="such as http://localhost:8081"):
        SchemaRegistry(url)


@pytest.mark.parametrize(
    "url", ["http://alice:s3cret@registry:8081/", "https://alice:s3cret@", "alice:s3cret@registry"]
)
def test_a_password_in_a_url_is_in_no_text(url):
    try:
        shown = repr(SchemaRegistry(url))
    except ClientConfigError as error:
        shown = str(error)
    assert "s3cret" not in shown
