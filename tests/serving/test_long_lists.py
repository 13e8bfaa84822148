"""A list that is read at once comes and goes in parts: the same bytes, headers and revision as the texts of a page."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import httpx
import orjson
import pytest

from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.watch import change_log
from tests import factories as make
from tests.hub import Hub

MAPS = "/api/v1/namespaces/long-lists/configmaps"
COUNT = 40
SIZE = 8_000  # bytes of each, so that the list is compressed


@pytest.mark.django_db
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 250])
def test_the_parts_are_the_texts_in_their_order_as_of_one_revision(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(reader, "ROWS_OF_A_PART", rows)
    for namespace in ("ll-a", "ll-b", "ll-c"):
        make.namespace(namespace)
    for namespace, name in (("ll-b", "z"), ("ll-a", "b"), ("ll-b", "é".encode().hex()), ("ll-a", "a")):
        doc = make.document(CONFIG_MAP, name) | {"data": {"text": "é,\u2028"}}
        make.create(CONFIG_MAP, doc, namespace=namespace)
    for namespace in ("", "ll-a", "ll-b", "ll-c"):
        page = reader.read_page(CONFIG_MAP, namespace=namespace)
        parts, revision = reader.read_everything(CONFIG_MAP, namespace=namespace)
        assert b",".join(parts) == ",".join(page.texts).encode()
        assert len(parts) == -(-len(page.texts) // rows)
        assert revision == page.revision == change_log.newest_revision()


@pytest.fixture(scope="module")
def admin(hub: Hub) -> Iterator[httpx.Client]:
    with hub.client(pair=hub.admin_pair()) as client:
        client.post("/api/v1/namespaces", json={"metadata": {"name": "long-lists"}}).raise_for_status()
        for number in range(COUNT):
            doc = {"metadata": {"name": f"map-{number:03}"}, "data": {"text": f"{number}é" * (SIZE // 4)}}
            client.post(MAPS, json=doc).raise_for_status()
        yield client


@pytest.mark.slow
@pytest.mark.contract("W10")
def test_it_is_sent_whole_with_its_length_compressed_or_not(admin: httpx.Client) -> None:
    plain = admin.get(MAPS, headers={"Accept-Encoding": "identity"})
    paged = admin.get(MAPS, params={"limit": "1000"}, headers={"Accept-Encoding": "identity"})
    assert plain.json()["items"] == paged.json()["items"]
    names = [doc["metadata"]["name"] for doc in plain.json()["items"]]
    assert [name for name in names if name.startswith("map-")] == [f"map-{number:03}" for number in range(COUNT)]
    assert int(plain.headers["content-length"]) == len(plain.content)
    with admin.stream("GET", MAPS, headers={"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(raw) < len(plain.content)
    assert orjson.loads(gzip.decompress(raw))["items"] == plain.json()["items"]
    head = admin.head(MAPS, headers={"Accept-Encoding": "identity"})
    assert (head.content, head.headers["content-type"]) == (b"", "application/json")
    pretty = admin.get(MAPS, params={"pretty": "true"})
    assert pretty.text.startswith('{\n  "kind": "ConfigMapList",\n')
    assert pretty.json()["items"] == plain.json()["items"]


@pytest.mark.slow
def test_one_of_nothing_has_its_items(admin: httpx.Client) -> None:
    found = admin.get("/api/v1/namespaces/nothing-here/configmaps")
    assert json.loads(found.content)["items"] == []
    assert found.content.endswith(b',"items":[]}')
