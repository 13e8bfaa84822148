"""Django admin of the kinds that any API server has. Secrets stay out of browsers."""

from __future__ import annotations

from ocmconsole.corekinds import kinds
from ocmconsole.kubeapi.admin import register

register(
    kinds.NAMESPACE,
    kinds.CONFIG_MAP,
    kinds.SERVICE_ACCOUNT,
    kinds.ROLE,
    kinds.CLUSTER_ROLE,
    kinds.ROLE_BINDING,
    kinds.CLUSTER_ROLE_BINDING,
    kinds.EVENT,
)
