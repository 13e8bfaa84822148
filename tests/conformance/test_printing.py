"""What kubectl prints of what is there: tables, documents, selections, descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.conformance.cluster import MANAGED, MANY, Cluster
from tests.conformance.commands import Kubectl, cells, eventually
from tests.conformance.conftest import Present

HEADING = ["NAME", "HUB ACCEPTED", "MANAGED CLUSTER URLS", "JOINED", "AVAILABLE", "AGE"]
AGE = r"\d+[sm]"


@pytest.mark.contract("W101")
def test_nothing_found_is_no_error_even_with_a_cold_cache(admin: Kubectl, tmp_path: Path) -> None:
    done = admin.run("get", "managedclusters", "-l", "nobody=has-this", f"--cache-dir={tmp_path}", code=0)
    assert done.stdout == ""
    assert done.stderr.startswith("No resources found")


@pytest.mark.contract("W130", "W9")
def test_table_of_clusters_has_the_columns_of_upstream(admin: Kubectl, present: Present) -> None:
    urls = [{"url": "https://one.example.com:6443"}, {"url": "https://two.example.com:6443"}]
    name = present(managedClusterClientConfigs=urls)
    heading, row = admin("get", "managedclusters", name).splitlines()
    assert cells(heading) == HEADING
    shown, accepted, url, age = cells(row)  # joined and available are blank before an agent said anything
    assert (shown, accepted, url) == (name, "false", "https://one.example.com:6443")
    assert age.removesuffix("s").isdigit()
    assert cells(admin("get", "mcl", name, "-o", "wide").splitlines()[0]) == HEADING


@pytest.mark.contract("W130")
def test_conditions_fill_the_columns_joined_and_available(cluster: Cluster) -> None:
    cluster.join()
    cluster.report("True")
    (row,) = cluster.admin.rows("mcls", cluster.name)
    assert row[:3] == [cluster.name, "true", "True"]  # no URL, not joined


@pytest.mark.contract("W130")
def test_labels_are_columns_on_request(admin: Kubectl, present: Present) -> None:
    name = present(labels={"env": "prod"})
    heading, row = admin("get", "mcl", name, "--show-labels").splitlines()
    assert cells(heading)[-1] == "LABELS"
    assert cells(row)[-1] == "cluster.open-cluster-management.io/clusterset=default,env=prod"
    heading, row = admin("get", "mcl", name, "-L", "env").splitlines()
    assert (cells(heading)[-1], cells(row)[-1]) == ("ENV", "prod")


@pytest.mark.contract("W130")
def test_rows_of_all_namespaces_say_which(admin: Kubectl, name: str) -> None:
    admin("create", "namespace", name)
    binding = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "default", "namespace": name},
        "spec": {"clusterSet": "default"},
    }
    admin("create", "-f", "-", stdin=binding)
    heading, *rows = admin("get", "managedclustersetbindings", "-A").splitlines()
    assert heading.split() == ["NAMESPACE", "NAME", "AGE"]
    assert [name, "default"] in [row.split()[:2] for row in rows]


@pytest.mark.contract("W130")
def test_sets_that_always_exist_say_whether_they_are_empty(admin: Kubectl, present: Present) -> None:
    present()
    heading, *rows = eventually(lambda: admin("get", "managedclustersets")).splitlines()
    assert heading.split() == ["NAME", "EMPTY", "AGE"]
    assert {row.split()[0] for row in rows} >= {"default", "global"}
    eventually(lambda: admin.rows("mclset", "default")[0][1] == "False")


@pytest.mark.contract("T1")
def test_document_is_printed_as_yaml_and_json_alike(admin: Kubectl, present: Present) -> None:
    name = present(leaseDurationSeconds=45)
    shown = yaml.safe_load(admin("get", "mcl", name, "-o", "yaml"))
    assert shown["apiVersion"] == "cluster.open-cluster-management.io/v1"
    assert shown["kind"] == "ManagedCluster"
    assert shown["spec"]["hubAcceptsClient"] is False
    assert shown["spec"]["leaseDurationSeconds"] == 45
    assert shown["metadata"]["uid"] == json.loads(admin("get", "mcl", name, "-o", "json"))["metadata"]["uid"]


@pytest.mark.contract("T1")
def test_parts_of_a_document_are_picked_by_path(admin: Kubectl, present: Present) -> None:
    first, second = present(labels={"row": "picked"}), present(labels={"row": "picked"})
    assert admin("get", "mcl", first, "-o", "jsonpath={.spec.leaseDurationSeconds}") == "60"
    assert admin("get", "mcl", first, "-o", "name") == f"{MANAGED}/{first}\n"
    picked = ["-l", "row=picked", "-o", "custom-columns=WHO:.metadata.name", "--sort-by=.metadata.creationTimestamp"]
    assert set(admin("get", "mcl", *picked).split()) >= {"WHO", first, second}


@pytest.mark.contract("W10", "W151")
@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("env=prod", "ab"),
        ("env==prod", "ab"),
        ("env!=prod", "c"),
        ("env in (prod, dev)", "abc"),
        ("env notin (prod)", "c"),
        ("tier", "a"),
        ("!tier", "bc"),
        ("env = prod , tier", "a"),
    ],
)
def test_label_selector_chooses(admin: Kubectl, present: Present, name: str, selector: str, found: str) -> None:
    labels = [{"env": "prod", "tier": "1"}, {"env": "prod"}, {"env": "dev"}]
    names = dict(zip("abc", (present(labels={**each, "run": name}) for each in labels), strict=True))
    chosen = admin("get", "mcl", "-l", f"run={name},{selector}", "-o", "name").split()
    assert chosen == [f"{MANAGED}/{names[letter]}" for letter in found]


@pytest.mark.contract("W10", "W151")
def test_malformed_label_selector_is_refused(admin: Kubectl) -> None:
    assert "unable to parse requirement" in admin.refuses(
        "get", "--raw", "/apis/cluster.open-cluster-management.io/v1/managedclusters?labelSelector=a%3D%3D%3Db"
    )


@pytest.mark.contract("W10", "W152")
def test_field_selector_chooses_by_name_and_knows_no_field_of_the_spec(admin: Kubectl, present: Present) -> None:
    name = present()
    assert admin("get", "mcl", "--field-selector", f"metadata.name={name}", "-o", "name") == f"{MANAGED}/{name}\n"
    refusal = admin.refuses("get", "mcl", "--field-selector", "spec.hubAcceptsClient=true")
    assert refusal.endswith("field label not supported: spec.hubAcceptsClient")


@pytest.mark.contract("W146")
def test_description_of_a_cluster_shows_its_fields_and_the_events_about_it(admin: Kubectl, present: Present) -> None:
    name = present(labels={"env": "prod"})
    uid = admin("get", "mcl", name, "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.seen", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "name": name,
            "uid": uid,
        },
        "reason": "Seen",
        "message": "Somebody looked at it",
        "type": "Normal",
        "source": {"component": "eyes"},
    }
    assert "Events:" in admin("describe", "mcl", name)
    admin("create", "-f", "-", stdin=event)
    described = admin("describe", "managedcluster", name)
    for expected in (
        f"Name:         {name}",
        "env=prod",
        "Hub Accepts Client:",
        "Lease Duration Seconds:",
        "Somebody looked at it",
    ):
        assert expected in described


@pytest.mark.contract("W147")
def test_description_of_a_request_reads_its_pem(cluster: Cluster) -> None:
    cluster.announce()
    cluster.ask_for_certificate()
    described = cluster.admin("describe", "csr", cluster.request_name)
    assert f"Common Name:    {cluster.user}" in described
    assert cluster.group in described
    assert "Pending" in described


@pytest.mark.contract("W147")
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (["namespace", "default"], "Status:       Active"),
        (["serviceaccount", "default", "-n", "default"], "default"),
        (["clusterrole", "cluster-admin"], "PolicyRule"),
        (["managedclusterset", "default"], "ExclusiveClusterSetLabel"),
    ],
)
def test_description_of_other_kinds_works(admin: Kubectl, what: list[str], expected: str) -> None:
    eventually(lambda: admin("get", *what, "--ignore-not-found"))
    assert expected in admin("describe", *what)


@pytest.mark.contract("W132")
def test_what_is_not_there_is_not_found(admin: Kubectl) -> None:
    assert admin.refuses("get", "mcl", "missing") == f'Error from server (NotFound): {MANY} "missing" not found'
    assert admin.refuses("get", "nosuch") == 'error: the server doesn\'t have a resource type "nosuch"'
    assert admin("get", "mcl", "missing", "--ignore-not-found") == ""


@pytest.mark.contract("W190")
def test_no_kind_is_in_the_category_all(admin: Kubectl) -> None:
    assert admin.refuses("get", "all") == 'error: the server doesn\'t have a resource type "all"'


@pytest.mark.contract("W190")
def test_clusters_cannot_be_scaled_or_tainted_as_nodes(admin: Kubectl, present: Present) -> None:
    name = present()
    assert "NotFound" in admin.refuses("scale", "mcl", name, "--replicas=1")
    assert "node" in admin.refuses("taint", "mcl", name, "a=b:NoSchedule")
