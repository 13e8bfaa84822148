"""An agent behind nginx hears of each change at once, however many watches it has open (W12)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from registration.agent.client.api import Api, client_of
from registration.agent.client.clock import AgentClock
from registration.agent.client.kubeconfig import read_kubeconfig
from tests.proxy.clients import MAPS as OF_DEFAULT
from tests.proxy.conftest import CLUSTERS, Site

pytestmark = [pytest.mark.contract("W12", "W30"), pytest.mark.slow]

MAPS, SPACES = "/api/v1/configmaps", "/api/v1/namespaces"
LONGEST = 120  # seconds until the last event must have come; each comes at once


def test_no_watch_of_an_agent_waits_for_what_another_one_reads(site: Site, admin_pair: Path) -> None:
    kubeconfig = read_kubeconfig(site.hub.admin_kubeconfig)

    def create(name: str) -> None:
        with site.client(admin_pair) as admin:
            admin.post(OF_DEFAULT, json={"metadata": {"name": name}}).raise_for_status()

    async def follow() -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()
        client = client_of(kubeconfig)
        api = Api(kubeconfig, AgentClock(), client=client)

        async def watch(path: str) -> None:
            query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            async for event in api.events(path, query | {"allowWatchBookmarks": "true"}, 300):
                document: dict[str, Any] = event["object"]
                await heard.put("open" if event["type"] == "BOOKMARK" else str(document["metadata"]["name"]))

        watches = [asyncio.create_task(watch(path)) for path in (CLUSTERS, MAPS, SPACES)]
        try:
            async with asyncio.timeout(LONGEST):
                opened = 0
                while opened < len(watches):
                    opened += await heard.get() == "open"
                for number in range(6):
                    name = f"heard-{number}"
                    await asyncio.to_thread(create, name)  # over another connection: on this one nothing else comes
                    while await heard.get() != name:
                        pass
        finally:
            for each in watches:
                each.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await client.aclose()

    asyncio.run(follow())
