"""What every kind must do at the HTTP entry: a test class declares a site, and inherits the cases."""

from __future__ import annotations

import re

import pytest

from ocmconsole.kubeapi import errors
from tests import factories as make
from tests.api import entry
from tests.api.entry import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, YAML, Answer, Doc, Entry
from tests.fuzz.world import NAMESPACE, Site

GENERATED = re.compile(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}")
LABELLED: Doc = {"metadata": {"labels": {"seen": "yes"}}}
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class KindContract:
    """``bad`` is merged into a valid document; ``complaint`` is what the refusal then says about it."""

    site: Site
    bad: Doc
    complaint: str
    put_creates = False
    put_needs_version = False
    lingers = False  # a reconciler ends what DELETE begins
    has_deletecollection = True

    @pytest.fixture(autouse=True)
    def _place(self, db: None) -> None:  # noqa: ARG002 - asks for the database first
        if self.site.served.kind.namespaced:
            make.namespace(NAMESPACE)

    @property
    def root(self) -> Entry:
        return entry.root()

    @property
    def resource(self) -> str:
        return self.site.served.kind.resource

    @property
    def custom(self) -> bool:
        return self.site.served.kind.custom

    @property
    def url(self) -> str:
        return f"{self.site.path}/sample"

    def place_of(self, name: str) -> str:
        return f"{self.site.path}/{name}"

    def present(self, name: str = "sample", **metadata: object) -> Doc:
        """Put an object there; its name is in the answer."""
        answer = self.root.post(self.site.path, self.site.document(name, **metadata))
        assert answer.code == 201, answer.body
        return answer.doc

    def stored(self) -> Doc:
        return self.root.get(self.url).doc

    def conflict(self) -> str:
        return str(errors.conflict(self.site.served.kind.group, self.site.plural, "sample").message)

    # ------------------------------------------------------------ reads and creation

    @pytest.mark.contract("W14")
    def test_what_is_created_is_read_back_with_what_the_server_owns(self) -> None:
        sent = self.site.document("sample", uid="mine", resourceVersion="", creationTimestamp="1999-01-01T00:00:00Z")
        answer = self.root.post(self.site.path, sent)
        assert answer.code == 201
        metadata = answer.doc["metadata"]
        assert metadata["uid"] != "mine"
        assert int(metadata["resourceVersion"]) > 0
        assert metadata["creationTimestamp"] > "2020"
        assert metadata.get("generation") == (1 if self.custom else None)
        assert (answer.doc["apiVersion"], answer.doc["kind"]) == (self.site.api_version, self.site.served.kind.kind)
        assert self.stored() == answer.doc

    @pytest.mark.contract("W19")
    def test_a_name_that_is_taken_is_taken(self) -> None:
        self.present()
        answer = self.root.post(self.site.path, self.site.document("sample"))
        assert answer.said == (409, "AlreadyExists")
        assert answer.message == f'{self.resource} "sample" already exists'

    @pytest.mark.contract("W19")
    @pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH"])
    def test_what_is_not_there_is_not_found(self, method: str) -> None:
        body, as_ = (LABELLED, MERGE) if method == "PATCH" else (None, "")
        answer = self.root.send(method, self.url, body, as_)
        assert answer.said == (404, "NotFound")
        assert answer.message == f'{self.resource} "sample" not found'
        assert answer.doc["details"]["name"] == "sample"

    @pytest.mark.contract("W17", "W162")
    def test_generated_names_have_the_prefix_and_five_safe_characters(self) -> None:
        doc = {**self.site.document("made"), "metadata": {"generateName": "made-"}}
        names = {self.root.post(self.site.path, doc).doc["metadata"]["name"] for _ in range(2)}
        assert len(names) == 2
        assert all(GENERATED.fullmatch(name) for name in names)

    @pytest.mark.contract("A11", "W19")
    def test_what_the_schema_refuses_is_invalid_and_says_where(self) -> None:
        answer = self.root.post(self.site.path, {**self.site.document("sample"), **self.bad})
        assert answer.said == (422, "Invalid")
        # A kind's own name in messages carries the group of its stored form.
        group = self.site.served.kind.group
        named = f"{self.site.served.kind.kind}.{group}" if group else self.site.served.kind.kind
        assert answer.message == f'{named} "sample" is invalid: {self.complaint}'

    @pytest.mark.contract("W117")
    def test_a_body_without_content_type_is_json(self) -> None:
        answer = self.root.send("POST", self.site.path, self.site.document("sample"), "")
        assert answer.code == 201
        assert self.root.send("PUT", self.url, self.stored(), "").code == 200

    @pytest.mark.contract("W171")
    def test_yaml_is_read_and_written(self) -> None:
        document = self.site.document("sample")
        answer = self.root.send("POST", self.site.path, document, YAML, accept=YAML)
        assert (answer.code, answer.headers["Content-Type"]) == (201, YAML)
        assert answer.doc == self.stored()

    @pytest.mark.contract("W172")
    def test_an_answer_that_nobody_can_read_is_not_acceptable_and_a_browser_gets_json(self) -> None:
        self.present()
        assert self.root.get(self.url, accept="application/xml").said == (406, "NotAcceptable")
        browser = self.root.get(self.url, accept="text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        assert (browser.code, browser.headers["Content-Type"]) == (200, "application/json")

    def test_a_body_in_an_unknown_format_is_unsupported(self) -> None:
        answer = self.root.send("POST", self.site.path, b"<a/>", "application/xml")
        assert answer.said == (415, "UnsupportedMediaType")
        assert answer.message.startswith("the body of the request was in an unknown format - accepted media types")

    @pytest.mark.contract("W19")
    def test_methods_that_make_no_sense_are_not_allowed(self) -> None:
        assert self.root.post(self.url, {}).said == (405, "MethodNotAllowed")
        nameless = (400, "BadRequest") if self.site.served.kind.custom else (405, "MethodNotAllowed")
        for method in ("PUT", "PATCH"):
            assert self.root.send(method, self.site.path, {}).said == nameless

    def test_lists_know_their_kind_and_revision(self) -> None:
        self.present()
        listed = self.root.get(self.site.path).doc
        assert (listed["kind"], listed["apiVersion"]) == (f"{self.site.served.kind.kind}List", self.site.api_version)
        assert int(listed["metadata"]["resourceVersion"]) >= int(self.stored()["metadata"]["resourceVersion"])
        found = [item for item in listed["items"] if item["metadata"]["name"] == "sample"]
        assert [{"apiVersion": self.site.api_version, "kind": self.site.served.kind.kind, **found[0]}] == [
            self.stored()
        ]

    def test_a_table_has_a_row_for_each_object_and_a_cell_for_each_column(self) -> None:
        self.present()
        table = self.root.get(f"{self.site.path}?fieldSelector=metadata.name%3Dsample", accept=TABLE).doc
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        columns = [column["name"] for column in table["columnDefinitions"]]
        [row] = table["rows"]
        assert columns[0] in {"Name", "Last Seen"}
        assert len(row["cells"]) == len(columns)
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert row["object"]["metadata"]["name"] == "sample"

    @pytest.mark.contract("W173")
    def test_metadata_alone_can_be_read(self) -> None:
        self.present()
        one = self.root.get(self.url, accept=PARTIAL).doc
        assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": one["metadata"]}
        assert one["metadata"] == self.stored()["metadata"]
        many = self.root.get(self.site.path, accept=PARTIAL.replace("Metadata;", "MetadataList;")).doc
        assert (many["kind"], many["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
        assert one["metadata"] in [item["metadata"] for item in many["items"]]
        assert all(set(item) <= {"kind", "apiVersion", "metadata"} for item in many["items"])

    @pytest.mark.contract("W19", "W119")
    def test_one_who_may_not_is_refused_in_the_words_of_rbac(self) -> None:
        kind, group = self.site.served.kind, self.site.group
        where = f'in the namespace "{NAMESPACE}"' if kind.namespaced else "at the cluster scope"
        about = errors.qualified(group, self.site.plural)
        if kind.kind == "Namespace":
            where = 'in the namespace "sample"'
        asked = f'resource "{self.site.plural}" in API group "{group}" {where}'
        answer = entry.person("mallory").delete(self.url)
        assert answer.said == (403, "Forbidden")
        assert answer.message == f'{about} "sample" is forbidden: User "mallory" cannot delete {asked}'
        anonymous = Entry({}).get(self.url)
        assert anonymous.said == (403, "Forbidden")
        assert 'User "system:anonymous" cannot get' in anonymous.message

    # ------------------------------------------------------------ update

    @pytest.mark.contract("W16", "W115")
    def test_a_put_of_the_same_changes_nothing(self) -> None:
        self.present()
        before = self.stored()
        answer = self.root.put(self.url, before)
        assert answer.code == 200
        assert answer.doc == before == self.stored()

    @pytest.mark.contract("W14")
    def test_a_put_of_an_older_version_is_a_conflict(self) -> None:
        old = self.present()
        assert self.root.patch(self.url, LABELLED).code == 200
        answer = self.root.put(self.url, old)
        assert answer.said == (409, "Conflict")
        assert answer.message == self.conflict()
        assert self.stored()["metadata"]["labels"]["seen"] == "yes"

    @pytest.mark.contract("W14", "W178")
    def test_a_put_without_version_is_for_those_kinds_that_allow_it(self) -> None:
        doc = self.present()
        del doc["metadata"]["resourceVersion"]
        answer = self.root.put(self.url, doc)
        if not self.put_needs_version:
            assert answer.code == 200
            return
        assert answer.said == (422, "Invalid")
        assert answer.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")

    @pytest.mark.contract("W178")
    def test_a_put_of_what_is_not_there_creates_it_or_does_not_find_it(self) -> None:
        answer = self.root.put(self.url, self.site.document("sample"))
        if self.put_creates:
            assert answer.code == 201
            assert self.stored() == answer.doc
        else:
            assert answer.said == (404, "NotFound")

    def test_a_document_of_another_name_is_refused(self) -> None:
        doc = self.present()
        doc["metadata"]["name"] = "other"
        answer = self.root.put(self.url, doc)
        assert answer.said == (400, "BadRequest")
        assert answer.message == "the name of the object (other) does not match the name on the URL (sample)"

    # ------------------------------------------------------------ patch

    @pytest.mark.parametrize(
        ("as_", "body"),
        [
            (MERGE, LABELLED),
            (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]),
            (STRATEGIC, LABELLED),
        ],
        ids=["merge", "json", "strategic"],
    )
    @pytest.mark.contract("W15")
    def test_each_form_of_patch_changes_what_it_says(self, as_: str, body: object) -> None:
        before = self.present()
        answer = self.root.patch(self.url, body, as_)
        if as_ == STRATEGIC and self.custom:
            assert answer.said == (415, "UnsupportedMediaType")
            return
        assert answer.code == 200, answer.body
        assert answer.doc == self.stored()
        assert answer.doc["metadata"]["labels"]["seen"] == "yes"
        assert answer.doc["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert answer.doc["metadata"].get("generation") == before["metadata"].get("generation")

    def test_apply_creates_then_configures(self) -> None:
        doc = self.site.document("sample")
        url = f"{self.url}?fieldManager=gitops"
        assert self.root.patch(url, doc, APPLY).code == 201
        again = self.root.patch(url, doc, APPLY)
        assert again.code == 200
        doc["metadata"]["labels"] = {"seen": "yes"}
        changed = self.root.patch(url, doc, APPLY)
        assert changed.code == 200
        assert changed.doc["metadata"]["labels"]["seen"] == "yes"
        assert self.root.patch(self.url, doc, APPLY).said[0] in {400, 422}  # no manager

    def test_a_patch_of_an_unknown_form_is_unsupported(self) -> None:
        self.present()
        assert self.root.patch(self.url, LABELLED, "application/json").said == (415, "UnsupportedMediaType")

    @pytest.mark.contract("W15")
    def test_a_version_or_uid_in_a_patch_is_a_lock(self) -> None:
        doc = self.present()
        self.root.patch(self.url, LABELLED)
        stale = {"metadata": {"resourceVersion": doc["metadata"]["resourceVersion"], "labels": {"seen": "no"}}}
        answer = self.root.patch(self.url, stale)
        assert (answer.said, answer.message) == ((409, "Conflict"), self.conflict())
        uid = doc["metadata"]["uid"]
        answer = self.root.patch(self.url, {"metadata": {"uid": "other", "labels": {"seen": "no"}}})
        assert answer.said == (422, "Invalid")
        assert answer.message.endswith('metadata.uid: Invalid value: "other": field is immutable')
        fresh = self.stored()["metadata"]
        body = {"metadata": {"uid": uid, "resourceVersion": fresh["resourceVersion"], "labels": {"seen": "no"}}}
        assert self.root.patch(self.url, body).doc["metadata"]["labels"]["seen"] == "no"

    # ------------------------------------------------------------ dry run

    def test_a_dry_run_answers_and_stores_nothing(self) -> None:
        dry = f"{self.url}?dryRun=All"
        created = self.root.post(f"{self.site.path}?dryRun=All", self.site.document("sample"))
        assert created.code == 201
        assert self.root.get(self.url).code == 404
        self.present()
        before = self.stored()
        patched = self.root.patch(dry, LABELLED)
        assert (patched.code, patched.doc["metadata"]["labels"]["seen"]) == (200, "yes")
        assert self.root.put(dry, patched.doc).code == 200
        assert self.root.delete(dry).code == 200
        assert self.stored() == before

    def test_an_odd_dry_run_is_refused(self) -> None:
        answer = self.root.post(f"{self.site.path}?dryRun=Some", self.site.document("sample"))
        assert answer.said == (422, "Invalid")
        assert "dryRun: Unsupported value: " in answer.message
        assert self.root.get(self.url).code == 404

    # ------------------------------------------------------------ delete

    @pytest.mark.contract("W18")
    def test_delete_removes_and_says_so(self) -> None:
        doc = self.present()
        answer = self.root.delete(self.url)
        assert answer.code == 200
        if self.lingers:
            assert answer.doc["metadata"]["deletionTimestamp"]
            make.settle()
        else:
            assert (answer.doc["kind"], answer.doc["status"]) == ("Status", "Success")
            assert answer.doc["details"]["name"] == "sample"
            assert answer.doc["details"]["uid"] == doc["metadata"]["uid"]
        assert self.root.get(self.url).code == 404

    @pytest.mark.contract("W18")
    def test_finalizers_keep_what_is_deleted_until_the_last_is_gone(self) -> None:
        self.present(finalizers=["example.com/one"])
        marked = self.root.delete(self.url, {"kind": "DeleteOptions", "apiVersion": "v1"})
        assert marked.code == 200
        assert marked.doc["metadata"]["deletionTimestamp"]
        more = {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}}
        refused = self.root.patch(self.url, more)
        assert refused.said == (422, "Invalid")
        assert "no new finalizers can be added if the object is being deleted" in refused.message
        assert self.root.patch(self.url, {"metadata": {"finalizers": None}}).code == 200
        make.settle()
        assert self.root.get(self.url).code == 404

    @pytest.mark.contract("W137")
    def test_preconditions_of_a_delete_must_hold(self) -> None:
        metadata = self.present()["metadata"]
        for precondition, sent, what in (("uid", "other", "UID"), ("resourceVersion", "1", "ResourceVersion")):
            answer = self.root.delete(self.url, {"preconditions": {precondition: sent}})
            assert answer.said == (409, "Conflict")
            found = f"the {what} in the precondition ({sent}) does not match the {what} in record ({metadata[precondition]})"
            assert f"{found}. The object might have been " in answer.message
        right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        assert self.root.delete(self.url, {"preconditions": right}).code == 200

    @pytest.mark.contract("W170")
    def test_options_of_a_delete_may_carry_any_version(self) -> None:
        self.present()
        options = {"kind": "DeleteOptions", "apiVersion": self.site.api_version, "propagationPolicy": "Background"}
        assert self.root.delete(self.url, options).code == 200

    @pytest.mark.contract("W160")
    def test_a_collection_is_deleted_by_label(self) -> None:
        self.present("goes", labels={"pick": "me"})
        self.present("stays")
        answer: Answer = self.root.delete(f"{self.site.path}?labelSelector=pick%3Dme")
        if not self.has_deletecollection:
            assert answer.said == (405, "MethodNotAllowed")
            return
        assert answer.code == 200
        assert answer.doc["kind"] == f"{self.site.served.kind.kind}List"
        assert [item["metadata"]["name"] for item in answer.doc["items"]] == ["goes"]
        assert self.root.get(self.place_of("goes")).code == 404
        assert self.root.get(self.place_of("stays")).code == 200
