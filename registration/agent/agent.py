"""The registration agent: bootstrap until its certificate is there, then steady state, and again (G5).

In: bootstrap hubs, kept files, a managed cluster. Nothing is global: one process may run thousands. Called by
``command`` and by ``registration.simulation``.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from .bootstrapping import hub_files
from .bootstrapping.bootstrap import Bootstrap
from .bootstrapping.certificate_requests import Issued
from .bootstrapping.hub_files import AGENT_NAME, CERTIFICATE, CLUSTER_NAME, KEY, KUBECONFIG, Files, HubFiles
from .bootstrapping.hubs import Connect, HubSource, choose
from .client.api import Api, HubError
from .client.kubeconfig import ApiEndpoint, Kubeconfig, KubeconfigError, Login, hub_kubeconfig
from .equipment import Equipment
from .keys import KeyToolError
from .options import AgentOptions
from .racing import first_of
from .steady_state.managed_cluster import ManagedClusterSource
from .steady_state.serving import End, SteadyState

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # of random agent names, as Kubernetes' generated names
AGENT_NAME_LENGTH = 5  # characters, as upstream's
FIRST_RETRY, LONGEST_RETRY = 2.0, 60.0  # seconds between attempts to keep files or to find a hub


Result = TypeVar("Result")


class RegistrationAgent:
    def __init__(
        self,
        hubs: HubSource,
        files: HubFiles,
        managed: ManagedClusterSource,
        options: AgentOptions,
        equipment: Equipment,
        connect: Connect | None = None,
    ) -> None:
        """``connect`` makes the client of a hub for a kubeconfig; the default has connections of its own."""
        self._hubs, self._files, self._managed, self._options = hubs, files, managed, options
        self._equipment = equipment
        self._tool, self._clock, self._chance = equipment.tool, equipment.clock, equipment.chance
        self._connect = connect or (lambda kubeconfig: Api(kubeconfig, equipment.clock))
        self._kept: dict[str, str] = {}
        self._is_renewed = False  # the present certificate followed another
        self._issued: datetime | None = None  # when the present certificate came, if this process saw it come

    async def run(self) -> None:
        """Until cancelled."""
        await self._name_itself()
        self._equipment.log.info("agent %s started", self._options.agent_name)
        try:
            await first_of([self._live()], [self._managed.run()])
        finally:
            self._equipment.log.info("agent stopped")

    # ----------------------------------------------------------------------------------------------------------- names

    async def _name_itself(self) -> None:
        """G2: names are given, else kept, else random, and kept from now on."""
        self._kept = await self._persistently("kept files not read", self._files.load)
        agent = "".join(self._chance.choices(ALPHABET, k=AGENT_NAME_LENGTH))
        names = {
            CLUSTER_NAME: self._options.cluster_name or self._kept.get(CLUSTER_NAME, "").strip() or str(uuid.uuid4()),
            AGENT_NAME: self._options.agent_name or self._kept.get(AGENT_NAME, "").strip() or agent,
        }
        self._options = replace(self._options, cluster_name=names[CLUSTER_NAME], agent_name=names[AGENT_NAME])
        self._equipment.log.cluster = names[CLUSTER_NAME]
        if any(self._kept.get(name) != value for name, value in names.items()):
            await self._keep({**self._kept, **names})

    async def _keep(self, files: Files) -> None:
        await self._persistently("files not kept", lambda: self._files.save(files))
        self._kept = dict(files)

    async def _persistently(self, what: str, act: Callable[[], Awaitable[Result]]) -> Result:
        attempts = self._equipment.attempts(what, first=FIRST_RETRY, most=LONGEST_RETRY)
        while True:
            try:
                return await act()
            except HubError as error:
                await attempts.wait_after(error)
            except OSError as error:
                await attempts.wait_after(HubError(str(error)))

    # ---------------------------------------------------------------------------------------------------------- phases

    async def _live(self) -> None:
        """One hub after the other, one certificate after the other."""
        attempts = self._equipment.attempts("no hub to turn to", first=FIRST_RETRY, most=LONGEST_RETRY)
        is_settled, is_unknown = True, False
        while True:
            hubs = self._hubs.present()
            hub = await self._choose(hubs, is_settled=is_settled)
            if hub is None:
                waits = [asyncio.sleep(attempts.failed(HubError("no bootstrap kubeconfig names a usable one")))]
                await first_of([*waits, self._hubs.changed()])
                continue
            attempts.worked()
            trouble = await self._what_is_wrong(hub.endpoint)
            if not trouble and is_unknown:
                trouble = "the hub does not know the certificate, and the bootstrap kubeconfig changed"
            if trouble:
                self._equipment.log.info("bootstrapping at %s: %s", hub.endpoint.server, trouble)
                is_settled, is_unknown = True, False
                await self._bootstrap(hub)
            else:
                is_settled, is_unknown = await self._serve(may_leave=len(hubs) > 1)

    async def _choose(self, hubs: list[Kubeconfig], *, is_settled: bool) -> Kubeconfig | None:
        """``is_settled``: a hub whose certificate is kept and good needs no question."""
        current = self._current()
        if is_settled:
            for hub in hubs:
                if hub.endpoint == current and not await self._what_is_wrong(hub.endpoint):
                    return hub
        return await choose(hubs, current, self._options.cluster_name, self._connect, self._equipment.log)

    def _current(self) -> ApiEndpoint | None:
        if not all(self._kept.get(name) for name in (KUBECONFIG, CERTIFICATE, KEY)):
            return None
        try:
            return hub_files.kept_endpoint(self._kept)
        except KubeconfigError:
            return None

    async def _what_is_wrong(self, hub: ApiEndpoint) -> str:
        options = self._options
        return await hub_files.what_is_wrong(
            self._kept, options.cluster_name, options.agent_name, hub, self._tool, self._clock
        )

    async def _bootstrap(self, hub: Kubeconfig) -> None:
        """Returns with the files of the hub kept, or when another bootstrap kubeconfig is there."""
        try:
            api = self._connect(hub)
        except KubeconfigError as error:
            self._equipment.log.error("the bootstrap kubeconfig cannot be used: %s", error)  # noqa: TRY400 - the text says it
            await self._hubs.changed()
            return
        bootstrap = Bootstrap(api, self._options, self._equipment)
        try:
            issued = await first_of([bootstrap.run(), _nothing_after(self._hubs.changed())])
        finally:
            await api.close()
        if issued is None:
            self._equipment.log.info("the bootstrap kubeconfig changed")
            return
        await self._keep_issued(issued, hub.endpoint)
        if trouble := await self._what_is_wrong(hub.endpoint):
            ahead = f"; this clock is {api.ahead.total_seconds():+.0f} s to the hub's" if api.ahead else ""
            self._equipment.log.error("the certificate that the hub issued is of no use: %s%s", trouble, ahead)
            await asyncio.sleep(LONGEST_RETRY)

    async def _keep_issued(self, issued: Issued, endpoint: ApiEndpoint) -> None:
        """G24: all five files at once."""
        names = {CLUSTER_NAME: self._options.cluster_name, AGENT_NAME: self._options.agent_name}
        credential = {KUBECONFIG: hub_kubeconfig(endpoint), CERTIFICATE: issued.certificate, KEY: issued.key}
        await self._keep({**names, **credential})
        self._issued = self._clock.now()
        self._equipment.log.info("certificate and hub kubeconfig are kept")

    async def _serve(self, *, may_leave: bool) -> tuple[bool, bool]:
        """Until something asks to begin anew. Whether the hub may be entered again; whether it refused the agent."""
        login = Login(certificate=self._kept[CERTIFICATE], key=self._kept[KEY])
        endpoint = hub_files.kept_endpoint(self._kept)
        try:
            certificate = await self._tool.read_chain(self._kept[CERTIFICATE])
        except KeyToolError as error:  # it was read a moment ago
            self._equipment.log.error("the certificate cannot be read: %s", error)  # noqa: TRY400 - the text says it
            return True, False
        api = self._connect(Kubeconfig(endpoint, login))

        async def keep(issued: Issued) -> None:
            await self._keep_issued(issued, endpoint)

        serving = SteadyState(
            api,
            certificate,
            self._managed,
            self._options,
            keep,
            self._equipment,
            self._issued,
            is_renewed=self._is_renewed,
        )
        self._equipment.log.info("at %s with the certificate of %s", endpoint.server, certificate.subject.common_name)
        try:
            end = await serving.run(may_leave=may_leave, hubs_changed=self._hubs.changed())
        finally:
            await api.close()
        self._is_renewed = end is End.RENEWED
        self._equipment.log.info("beginning anew: %s", end)
        return end not in {End.NOT_ACCEPTED, End.NOT_HEARD}, serving.is_unknown and end is End.HUBS_CHANGED


async def _nothing_after(waited: Awaitable[None]) -> None:
    await waited
