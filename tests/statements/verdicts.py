"""Which statements of the concept documents the hub alone does not decide, and why. Data of ``page``.

A statement that stands here may still be named by a test, which then shows the hub's part of it. All others have to be.
"""

from __future__ import annotations

IDS = [f"S{number}" for number in range(1, 185)]

# It happens on the managed cluster, where no request of the hub is involved.
AGENT = {
    "S24": "the agent reads ClusterClaims of its own cluster and decides which it reports",
    "S49": "the agent reads ClusterClaims of its own cluster and decides which it reports",
    "S65": "the agent stores its certificate on the managed cluster",
    "S66": "components of the managed cluster mount the secret",
    "S67": "the secret is on the managed cluster",
}

# What this project's agent shows of them, with a hub and a managed cluster.
SHOWN_BY_THE_AGENT = {
    "S24": "test_claims_of_the_managed_cluster_are_reported_as_they_change",
    "S49": "test_claims_of_the_managed_cluster_are_reported_as_they_change",
    "S65": "test_in_a_cluster_its_files_are_a_secret_that_other_components_can_mount",
    "S66": "test_in_a_cluster_its_files_are_a_secret_that_other_components_can_mount",
    "S67": "test_in_a_cluster_its_files_are_a_secret_that_other_components_can_mount",
}
AGENT_FILE = "tests/agent/test_registration.py"

# The documents tell of versions that upstream dropped; here all of them are served (D1).
_SERVED = "D1: every version is served at once, deprecated ones with a warning"
DECIDED = dict.fromkeys(("S99", "S100", "S101", "S102", "S143"), _SERVED) | {
    "S80": "D7: all are chosen, as the documents say, and where a number is asked for they come last",
}

# They hold, with a word about how.
_SPELLING = "the field is hubAcceptsClient; the misspelling in the documents' prose is none"
REMARKS = {
    "S8": _SPELLING,
    "S33": _SPELLING,
    "S58": "with the right to join the default set, which a new cluster enters",
    "S62": "with OCMCONSOLE_CSR_SIGNER=external",
}

OTHERWISE = {
    **{name: ("pass", why) for name, why in REMARKS.items()},
    **{name: ("agent", why) for name, why in AGENT.items()},
    **{name: ("decided", why) for name, why in DECIDED.items()},
}
