"""Documents that a hub must not take, and the words with which kubectl passes its refusal on."""

from __future__ import annotations

import json

import pytest

from tests.conformance.cluster import API_VERSION, MANAGED, PATH, managed
from tests.conformance.commands import Doc, Kubectl

STRICT = "strict decoding error: "
DENIED = 'Error from server (BadRequest): error when creating "STDIN": admission webhook "managedclustervalidators.admission.cluster.open-cluster-management.io" denied the request: '
newer = pytest.mark.kubectls("recent", "machine")


@pytest.mark.contract("W143", "W144")
def test_unknown_field_is_refused(admin: Kubectl, name: str) -> None:
    """Debian's 1.20 looks itself, by the hub's OpenAPI document; newer ones leave it to the hub."""
    refusal = admin.refuses("create", "-f", "-", stdin=managed(name, zz=1))
    if admin.is_old:
        kind = "io.open-cluster-management.cluster.v1.ManagedCluster"
        assert f'ValidationError(ManagedCluster.spec): unknown field "zz" in {kind}.spec' in refusal
    else:
        assert refusal == (
            'Error from server (BadRequest): error when creating "STDIN": ManagedCluster in version "v1" cannot be handled as a '
            f'ManagedCluster: {STRICT}unknown field "spec.zz"'
        )
    assert admin("get", "mcl", name, "--ignore-not-found") == ""


@newer
@pytest.mark.contract("W143")
@pytest.mark.parametrize(("validate", "warning"), [("warn", 'Warning: unknown field "spec.zz"\n'), ("ignore", "")])
def test_unknown_field_is_dropped_with_or_without_a_warning_on_request(
    admin: Kubectl, name: str, validate: str, warning: str
) -> None:
    done = admin.run("create", f"--validate={validate}", "-f", "-", stdin=managed(name, zz=1), code=0)
    assert (done.stdout, done.stderr) == (f"{MANAGED}/{name} created\n", warning)
    assert "zz" not in admin.read("mcl", name)["spec"]


@pytest.mark.contract("W144", "W8")
def test_unknown_field_is_dropped_when_validation_is_off(admin: Kubectl, name: str) -> None:
    admin("create", "--validate=false", "-f", "-", stdin=managed(name, zz=1))
    assert "zz" not in admin.read("mcl", name)["spec"]


@newer
@pytest.mark.contract("W143", "W184")
def test_unknown_fields_are_named_by_apply_replace_and_patch_too(admin: Kubectl, name: str) -> None:
    unknown = f'{STRICT}unknown field "spec.zz"'
    assert unknown in admin.refuses("apply", "-f", "-", stdin=managed(name, zz=1))
    admin("apply", "-f", "-", stdin=managed(name))
    assert unknown in admin.refuses("apply", "-f", "-", stdin=managed(name, zz=1))
    assert unknown in admin.refuses("replace", "-f", "-", stdin=managed(name, zz=1))
    assert "spec.zz" in admin.refuses("apply", "--server-side", "-f", "-", stdin=managed(name, zz=1))


@pytest.mark.contract("W184")
def test_field_that_is_written_twice_is_refused(admin: Kubectl, name: str) -> None:
    text = json.dumps(managed(name)).replace('"hubAcceptsClient"', '"hubAcceptsClient": true, "hubAcceptsClient"')
    refusal = admin.refuses("create", "--raw", f"{PATH}?fieldValidation=Strict", "-f", "-", stdin=text)
    assert f'{STRICT}duplicate field "spec.hubAcceptsClient"' in refusal


@pytest.mark.contract("A11")
def test_every_flaw_of_a_taint_is_listed(admin: Kubectl, name: str) -> None:
    taints = [{"key": "a/b/c", "effect": "Nope"}]
    first, *flaws = admin.refuses(
        "create", "--validate=false", "-f", "-", stdin=managed(name, taints=taints)
    ).splitlines()
    assert first.rstrip() == f'The ManagedCluster "{name}" is invalid:'
    assert sorted(flaws) == [
        '* spec.taints[0].effect: Unsupported value: "Nope": supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"',
        "* spec.taints[0].key: Invalid value: \"a/b/c\": spec.taints[0].key in body should match '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$'",
    ]


@pytest.mark.contract("A11")
@pytest.mark.parametrize(
    ("spec", "flaw"),
    [
        ({"hubAcceptsClient": "yes"}, 'spec.hubAcceptsClient in body must be of type boolean: "string"'),
        ({"leaseDurationSeconds": "60"}, 'spec.leaseDurationSeconds in body must be of type integer: "string"'),
        ({"managedClusterClientConfigs": [{}]}, "spec.managedClusterClientConfigs[0].url: Required value"),
    ],
)
def test_wrong_type_is_refused_by_path(admin: Kubectl, name: str, spec: Doc, flaw: str) -> None:
    refusal = admin.refuses("create", "--validate=false", "-f", "-", stdin=managed(name, **spec))
    assert refusal.startswith(f'The ManagedCluster "{name}" is invalid: spec.')
    assert flaw in refusal


@pytest.mark.contract("A3")
def test_name_that_is_no_dns_name_is_refused(admin: Kubectl) -> None:
    assert admin.refuses("create", "-f", "-", stdin=managed("Bad.Name")).startswith(
        'The ManagedCluster "Bad.Name" is invalid: metadata.name: Invalid value: "Bad.Name": a lowercase RFC 1123 subdomain must consist of'
    )


@pytest.mark.contract("A3")
def test_url_without_tls_is_refused_by_admission(admin: Kubectl, name: str) -> None:
    refusal = admin.refuses("create", "-f", "-", stdin=managed(name, managedClusterClientConfigs=[{"url": "http://x"}]))
    assert refusal == f'{DENIED}url "http://x" is invalid in client configs'


@pytest.mark.contract("A8")
def test_binding_is_called_like_its_set(admin: Kubectl) -> None:
    binding = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"clusterSet": "default"},
    }
    refusal = admin.refuses("create", "-f", "-", stdin=binding)
    assert refusal.endswith(
        "denied the request: The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
    )


@pytest.mark.contract("W132")
def test_object_without_a_namespace_to_live_in_is_refused(admin: Kubectl) -> None:
    refusal = admin.refuses("create", "configmap", "x", "-n", "nowhere")
    assert refusal.endswith('namespaces "nowhere" not found')


@pytest.mark.contract("W164")
def test_kind_that_the_hub_does_not_serve_is_refused(admin: Kubectl, name: str) -> None:
    doc = {"apiVersion": API_VERSION, "kind": "ManagedHouse", "metadata": {"name": name}}
    refusal = admin.refuses("create", "--validate=false", "-f", "-", stdin=doc)
    assert 'no matches for kind "ManagedHouse" in version "cluster.open-cluster-management.io/v1"' in refusal
