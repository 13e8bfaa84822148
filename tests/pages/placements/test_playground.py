"""The playground: what a draft would choose, as the scheduler would, without storing anything."""

from __future__ import annotations

import re
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import yaml
from django.contrib.auth.models import User
from django.test import Client
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from clusters.models import ManagedCluster
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.watch import change_log
from placements.kinds import PLACEMENT
from placements.models import Placement, PlacementDecision
from placements.playground import draft_forms
from placements.playground.drafts import Draft, Pretence
from placements.playground.rows import Rows, fits
from tests import factories as make
from tests.actors import grant, person, rule, signed_in
from tests.pages.placements.scene import TEAM, author, fleet, matching, place

__all__ = ["fleet"]  # a fixture of every test

pytestmark = pytest.mark.django_db

PAGE = "/placements/playground/"
REVIEW = "/placements/-/review/"
Doc = dict[str, Any]


@pytest.fixture
def admin() -> Client:
    return signed_in("root", is_superuser=True)


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def address(spec: Doc, *pretences: Pretence, namespace: str = TEAM, **more: str) -> str:
    return f"{PAGE}?{urlencode({'namespace': namespace, 'd': Draft(spec, pretences).encoded(), **more})}"


def chosen(response: Any) -> list[str]:
    assert response.status_code == 200
    assert response.context["has_answer"], text(response)[:2000]
    return sorted(each.name for each in response.context["result"].chosen)


def decided(name: str = "p1") -> list[str]:
    rows = PlacementDecision.objects.filter(namespace=TEAM, placement=name)
    return sorted(each["clusterName"] for row in rows for each in (row.doc.get("status") or {}).get("decisions") or ())


def fields(spec: Doc, **more: str) -> dict[str, Any]:
    """What the form of a draft sends."""
    rows = Rows.of(spec)
    found: dict[str, Any] = {"namespace": TEAM, "d": Draft(spec).encoded(), "set": rows.sets}
    found |= {f"w-{name}": "" if value is None else value for name, value in rows.whole.items()}
    for kind, (prefix, _) in draft_forms.ROWS.items():
        each = getattr(rows, kind)
        if each is None:
            continue
        found |= {f"{prefix}-TOTAL_FORMS": len(each), f"{prefix}-INITIAL_FORMS": 0}
        for number, row in enumerate(each):
            found |= {f"{prefix}-{number}-{name}": "" if value is None else value for name, value in row.items()}
    return found | more


def drafted(response: Any) -> Draft:
    """The draft of the address to which the page leads."""
    assert response.status_code == 302, text(response)[:2000]
    return drafted_in(response["Location"])


def drafted_in(url: str) -> Draft:
    return Draft.read(parse_qs(urlsplit(url).query)["d"][0])


def saving(spec: Doc, **more: str) -> dict[str, str]:
    """What the page of the review sends."""
    return {"namespace": TEAM, "into": TEAM, "d": Draft(spec).encoded(), **more}


def marks_of(client: Client, spec: Doc) -> dict[str, Any]:
    found: dict[str, Any] = client.get(address(spec)).context["marks"]
    return found


EVERYTHING: Doc = {
    "clusterSets": ["web"],
    "numberOfClusters": 2,
    "predicates": [
        {
            "requiredClusterSelector": {
                "labelSelector": {"matchLabels": {"env": "prod"}, "matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
                "claimSelector": {"matchExpressions": [{"key": "country", "operator": "In", "values": ["de", "fr"]}]},
                "celSelector": {"celExpressions": ["managedCluster.metadata.name.startsWith('web, ')"]},
            }
        },
        *matching(env="test"),
    ],
    "tolerations": [{"key": "a/b", "operator": "Exists", "tolerationSeconds": 0}, {"key": "c", "value": "d", "effect": "NoSelect"}],
    "prioritizerPolicy": {
        "mode": "Exact",
        "configurations": [
            {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 0},
            {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "cpu"}}},
        ],
    },
    "sortBy": "Score",
    "spreadPolicy": {
        "spreadConstraints": [
            {"topologyKey": "region", "topologyKeyType": "Label"},
            {"topologyKey": "country", "topologyKeyType": "Claim", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
        ]
    },
    "decisionStrategy": {
        "groupStrategy": {
            "clustersPerDecisionGroup": "50%",
            "decisionGroups": [
                {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"rollout": "canary", "tier": "1"}}}},
                {"groupName": "rest", "groupClusterSelector": {}},
            ],
        }
    },
}  # fmt: skip


class TestAnswer:
    @pytest.mark.contract("P5", "P6", "P9", "P19")
    def test_it_is_what_the_scheduler_decides(self, admin: Client) -> None:
        """Of random specifications; both come from one pipeline, and here through HTTP and through the reconciler."""
        random = Random(5)  # noqa: S311 - a seed, no secret
        for number in range(8):
            spec = _random_spec(random)
            expected = chosen(admin.get(address(spec)))
            place(f"r{number}", **spec)
            assert decided(f"r{number}") == expected, spec

    def test_nothing_is_stored_by_trying(self, admin: Client) -> None:
        before = change_log.newest_revision()
        assert drafted(admin.post(PAGE, fields(EVERYTHING))).spec == EVERYTHING
        admin.get(address(EVERYTHING))
        admin.post(PAGE, fields({}, **{"x-what": "label", "x-where": "web-3", "x-value": "env=prod", "pretend": "1"}))
        assert change_log.newest_revision() == before

    def test_a_draft_says_who_would_enter_leave_and_stay(self, admin: Client) -> None:
        place(predicates=matching(env="prod"))
        answer = admin.get(address({"predicates": matching(env="test")}, **{"from": "shop/p1"}))
        diffs = answer.context["diffs"]
        assert (diffs["enter"]["names"], diffs["leave"]["names"], diffs["stay"]) == (["web-3"], ["web-1"], 0)
        assert "1 would enter" in text(answer)
        assert [row["name"] for row in admin.get(diffs["url"]).context["rows"]] == ["web-3", "web-1"]

    def test_a_placement_opens_with_its_specification(self, admin: Client) -> None:
        place(predicates=matching(env="prod"), numberOfClusters=1)
        answer = admin.get(f"{PAGE}?from=shop/p1")
        assert chosen(answer) == decided() == ["web-1"]
        assert answer.context["tried"].namespace == TEAM
        assert "1 of 1 cluster would be chosen" in text(answer)

    @pytest.mark.contract("P3")
    def test_a_set_that_is_not_bound_comes_first_with_what_binding_would_do(self, admin: Client) -> None:
        answer = admin.get(address({"clusterSets": ["web", "db"], "predicates": matching(env="prod")}))
        missing = answer.context["missing"]
        assert (missing["names"], missing["invisible"], missing["pass"], missing["chosen"]) == (["db"], 1, 1, 2)
        assert "db is named, but not bound into namespace shop" in text(answer)
        assert chosen(admin.get(missing["pretend_url"])) == ["db-1", "web-1"]

    def test_a_namespace_without_any_binding_is_said_to_be_one(self, admin: Client) -> None:
        answer = admin.get(address({}, namespace="ops"))
        assert chosen(answer) == []
        assert "No set is bound into namespace ops, so no cluster can be chosen" in text(answer)

    @pytest.mark.contract("P29")
    def test_what_is_misconfigured_is_said_in_upstreams_words(self, admin: Client) -> None:
        answer = admin.get(address({"numberOfClusters": -1}))
        assert "Misconfigured: :numberOfClusters must not be negative" in text(answer)


class TestWhatIf:
    @pytest.mark.parametrize(
        ("pretence", "expected"),
        [
            (Pretence("label", "web-3", "env=prod"), ["web-1", "web-3"]),
            (Pretence("label", "web-1", "env-"), []),
            (Pretence("label", "web", "env=prod"), ["web-1", "web-3", "web-4"]),
            (Pretence("label", "db-1", f"{CLUSTERSET_LABEL}=web"), ["db-1", "web-1"]),
            (Pretence("taint", "web-2", "ocmconsole.io/maintenance-"), ["web-1", "web-2"]),
            (Pretence("taint", "*", "dedicated=gpu:NoSelect"), []),
            (Pretence("health", "web-1", "silent"), []),
            (Pretence("binding", "db", ""), ["db-1", "web-1"]),
        ],
    )
    def test_it_changes_the_answer_and_nothing_else(
        self, admin: Client, pretence: Pretence, expected: list[str]
    ) -> None:
        answer = admin.get(address({"predicates": matching(env="prod")}, pretence))
        assert chosen(answer) == expected
        assert chosen(admin.get(address({"predicates": matching(env="prod")}))) == ["web-1"]

    @pytest.mark.contract("P11")
    def test_a_later_time_ends_tolerations(self, admin: Client) -> None:
        spec = {"tolerations": [{"key": "ocmconsole.io/maintenance", "operator": "Exists", "tolerationSeconds": 3600}]}
        assert "web-2" in chosen(admin.get(address(spec)))
        assert "web-2" not in chosen(admin.get(address(spec, Pretence("time", "", "2h"))))

    def test_it_is_added_and_taken_back_by_forms(self, admin: Client) -> None:
        spec = {"predicates": matching(env="prod")}
        more = {"x-what": "label", "x-where": "web-3", "x-value": "env=prod", "pretend": "1"}
        draft = drafted(admin.post(PAGE, fields(spec, **more)))
        assert draft == Draft(spec, (Pretence("label", "web-3", "env=prod"),))
        answer = admin.get(address(spec, *draft.pretences))
        assert "web-3: label env=prod" in text(answer)
        assert "Without it, 1 would enter and 0 would leave" in text(answer)
        assert drafted(admin.post(PAGE, {"d": draft.encoded(), "namespace": TEAM, "drop": "0"})) == Draft(spec)

    @pytest.mark.parametrize(
        ("what", "where", "value", "says"),
        [
            ("label", "web-3", "env", "write a label as key=value"),
            ("label", "nobody", "env=prod", "you see no cluster or set of this name"),
            ("label", "", "env=prod", "name a cluster or a set"),
            ("taint", "web-3", "a:Nothing", "write a taint as key=value:Effect"),
            ("health", "web-3", "ill", "health is one of heard, silent, unhealthy"),
            ("binding", "nobody", "", "you see no set of this name"),
            ("time", "", "soon", "write a time as 30m, 2h or 7d"),
        ],
    )
    def test_what_cannot_be_pretended_is_said_beside_its_field(
        self, admin: Client, what: str, where: str, value: str, says: str
    ) -> None:
        more = {"x-what": what, "x-where": where, "x-value": value, "pretend": "1"}
        answer = admin.post(PAGE, fields({}, **more))
        assert answer.status_code == 400
        assert says in text(answer)


class TestDraft:
    def test_form_and_yaml_say_the_same(self, admin: Client) -> None:
        assert fits(EVERYTHING)
        assert (
            drafted(admin.post(PAGE, {"namespace": TEAM, "as": "yaml", "yaml": yaml.safe_dump(EVERYTHING)})).spec
            == EVERYTHING
        )
        shown = admin.get(address(EVERYTHING, **{"as": "yaml"}))
        assert yaml.safe_load(shown.context["yaml"]) == EVERYTHING
        more = EVERYTHING | {"scoreRateLimit": "5m"}
        assert "Kept as they are, and edited as YAML: scoreRateLimit" in text(admin.get(address(more)))
        assert drafted(admin.post(PAGE, fields(more))).spec == more

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ({"tolerations": [{"key": "a", "effect": "Nothing"}]}, "spec.tolerations[0].effect"),
            ({"predicates": "x"}, "spec.predicates"),
            ({"numberOfClusters": "many"}, "spec.numberOfClusters"),
            ({"unknown": 1}, "unknown field spec.unknown"),
        ],
    )
    def test_what_does_not_fit_the_schema_is_said_and_not_worked_out(self, admin: Client, spec: Doc, says: str) -> None:
        answer = admin.post(PAGE, {"namespace": TEAM, "as": "yaml", "yaml": yaml.safe_dump(spec)})
        assert answer.status_code == 400
        assert says in text(answer)
        opened = admin.get(address(spec))
        assert opened.status_code == 200
        assert says in text(opened)
        assert "has_answer" not in opened.context

    @pytest.mark.parametrize("broken", ["a: [", "- 1", "a: 1\na: 2", "kind: Secret", "&a [*a]"])
    def test_yaml_that_is_none_is_said_beside_its_field(self, admin: Client, broken: str) -> None:
        answer = admin.post(PAGE, {"namespace": TEAM, "as": "yaml", "yaml": broken})
        assert answer.status_code == 400
        assert 'id="yaml-errors"' in answer.content.decode()
        assert "oc-errors" in answer.content.decode()

    @pytest.mark.parametrize("damaged", ["x", "eJx", "AAAA", "é", "====", "e" * 100_000])
    def test_a_damaged_address_begins_anew_and_says_so(self, admin: Client, damaged: str) -> None:
        answer = admin.get(f"{PAGE}?{urlencode({'namespace': TEAM, 'd': damaged})}")
        assert answer.status_code == 200
        assert "this begins anew" in text(answer)

    @pytest.mark.parametrize(
        "field",
        [
            {"w-number": "9" * 30},
            {"t-TOTAL_FORMS": "1", "t-0-key": "a", "t-0-seconds": "9" * 30},
            {
                "p-TOTAL_FORMS": "1",
                "p-0-key": "env",
                "p-0-operator": "In",
                "p-0-values": "x",
                "p-0-number": "9" * 5_000,
            },
        ],
    )
    def test_numbers_that_nothing_can_hold_are_refused(self, admin: Client, field: dict[str, str]) -> None:
        assert admin.post(PAGE, fields({}, **field)).status_code == 400

    @pytest.mark.parametrize(
        "odd", [r'a: "\ud800"', r'clusterSets: ["a\0b"]', "clusterSets: 5", "numberOfClusters: 99999999999999999999999"]
    )
    def test_text_that_cannot_be_stored_is_refused(self, admin: Client, odd: str) -> None:
        answer = admin.post(PAGE, {"namespace": TEAM, "as": "yaml", "yaml": odd})
        assert answer.status_code == 400

    def test_a_draft_of_an_address_may_be_anything(self, admin: Client) -> None:
        for spec in (
            {"clusterSets": 5},
            {"clusterSets": [5]},
            {"predicates": [5]},
            {"tolerations": {"a": 1}},
            {"numberOfClusters": "x"},
        ):
            assert admin.get(address(spec)).status_code == 200
            assert admin.get(address(spec, **{"as": "yaml"})).status_code == 200
        odd = {"namespace": "a\0b", "from": "shop/\0", "review": "1"}
        assert admin.get(admin.post(PAGE, odd)["Location"]).status_code == 200

    def test_a_field_that_cannot_be_read_keeps_what_was_typed(self, admin: Client) -> None:
        answer = admin.post(PAGE, fields({}, **{"w-number": "many"}))
        assert answer.status_code == 400
        assert "Enter a whole number" in text(answer)
        assert 'value="many"' in answer.content.decode()


class TestSaving:
    def test_a_draft_is_reviewed_before_it_becomes_a_placement(self, admin: Client) -> None:
        spec = {"predicates": matching(env="prod")}
        reviewed = admin.post(PAGE, fields(spec, review="1"))
        page = admin.get(reviewed["Location"])
        assert "1 cluster will be chosen" in text(page)
        assert page.context["enter"]["names"] == ["web-1"]
        assert next(line.text for line in page.context["lines"] if line.sign == "+") == "predicates:"
        assert not Placement.objects.exists()
        answer = admin.post(REVIEW, saving(spec, name="mine"))
        assert answer["Location"] == "/placements/shop/mine/"
        make.settle()
        assert decided("mine") == ["web-1"]

    def test_a_review_leaves_out_what_is_pretended(self, admin: Client) -> None:
        place(predicates=matching(env="prod"))
        spec = {"predicates": matching(env="prod"), "numberOfClusters": 2}
        pretence = Pretence("label", "web-3", "env=prod")
        tried = admin.get(address(spec, pretence, **{"from": "shop/p1"}))
        assert chosen(tried) == ["web-1", "web-3"]
        assert tried.context["plainly"] == {"enter": 0, "leave": 0, "stay": 1}
        form = fields(spec, review="1") | {"from": "shop/p1", "d": Draft(spec, (pretence,)).encoded()}
        page = admin.get(admin.post(PAGE, form)["Location"])
        assert page.context["changes"] == {"enter": 0, "leave": 0, "stay": 1}
        assert "web-3: label env=prod" in text(page)
        assert [(line.sign, line.text) for line in page.context["lines"] if line.sign in "+-"] == [
            ("+", "numberOfClusters: 2")
        ]

    def test_a_placement_is_changed_unless_somebody_was_faster(self, admin: Client) -> None:
        place()
        seen = admin.get(f"{REVIEW}?from=shop/p1").context["seen"]
        more = {"name": "p1", "from": "shop/p1", "seen": seen}
        assert admin.post(REVIEW, saving({"numberOfClusters": 1}, **more)).status_code == 302
        assert stored()["spec"]["numberOfClusters"] == 1
        late = admin.post(REVIEW, saving({"numberOfClusters": 2}, **more))
        assert late.status_code == 409
        assert "Somebody has changed it since you opened it" in text(late)
        assert stored()["spec"]["numberOfClusters"] == 1

    @pytest.mark.contract("K38")
    def test_what_a_rule_refuses_stands_beside_the_name_before_and_after(self, admin: Client) -> None:
        long = "x" * 64
        for answer, code in (
            (admin.get(f"{REVIEW}?{urlencode({'namespace': TEAM, 'd': Draft({}).encoded(), 'name': long})}"), 200),
            (admin.post(REVIEW, saving({}, name=long)), 422),
        ):
            assert answer.status_code == code
            assert "must be no more than 63 characters" in text(answer)
        assert not Placement.objects.exists()

    def test_without_the_right_nothing_is_saved(self) -> None:
        client = signed_in("li")
        assign_perm("clusters.view_managedcluster", User.objects.get(username="li"))
        grant(person("li"), rule("list", "managedclustersetbindings", groups=GROUP), namespace=TEAM)
        assert chosen(client.get(address({}))) == ["web-1", "web-3", "web-4"]
        shown = client.get(client.post(PAGE, fields({}, review="1"))["Location"])
        assert "You may not save placements in this namespace" in text(shown)
        assert client.post(REVIEW, saving({}, name="mine")).status_code == 403
        assert not Placement.objects.exists()

    def test_a_draft_that_does_not_fit_the_schema_is_not_saved(self, admin: Client) -> None:
        for spec in ({"tolerations": [{"key": "a", "effect": "Nothing"}]}, {"clusterSets": 5}):
            assert "does not fit the schema" in text(admin.get(f"{REVIEW}?{urlencode(saving(spec, name='mine'))}"))
            assert admin.post(REVIEW, saving(spec, name="mine")).status_code in {400, 422}
        odd = {"namespace": "a\0b", "from": "shop/\0", "into": "a\0", "name": "\0", "d": "x"}
        assert admin.post(REVIEW, odd).status_code in {400, 404, 422}
        assert not Placement.objects.exists()


class TestClauses:
    def test_beside_each_condition_stands_what_it_passes_alone(self, admin: Client) -> None:
        spec = {
            "predicates": [
                {
                    "requiredClusterSelector": {
                        "labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "test"]}]},
                        "celSelector": {"celExpressions": ["managedCluster.metadata.name == 'web-1'"]},
                    }
                }
            ],
            "tolerations": [{"key": "ocmconsole.io/maintenance", "operator": "Exists"}],
            "decisionStrategy": {"groupStrategy": {"decisionGroups": [
                {"groupName": "prod", "groupClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]}},
            "spreadPolicy": {"spreadConstraints": [{"topologyKey": "env", "topologyKeyType": "Label"}]},
        }  # fmt: skip
        said = {kind: [mark.passes for mark in marks] for kind, marks in marks_of(admin, spec).items()}
        assert said["predicates"] == ["alone: 3 pass", "alone: 1 pass"]
        assert said["tolerations"] == ["alone: 1 pass, 0 of them because of it"]
        assert said["groups"] == ["takes 1"]
        assert said["spread"] == ["1 value among those that pass"]

    def test_a_toleration_says_how_many_pass_because_of_it(self, admin: Client) -> None:
        spec = {"tolerations": [{"key": "ocmconsole.io/maintenance", "operator": "Exists"}]}
        assert marks_of(admin, spec)["tolerations"][0].passes == "alone: 4 pass, 1 of them because of it"

    @pytest.mark.contract("P12", "P29")
    def test_a_clause_that_makes_no_sense_has_upstreams_words_beneath_it(self, admin: Client) -> None:
        spec: Doc = {
            "predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": ["managedCluster.("]}}}],
            "tolerations": [{"operator": "Equal", "value": "x"}],
        }
        marks = marks_of(admin, spec)
        assert marks["predicates"][0].flaw.startswith("compilation failed")
        assert marks["tolerations"][0].flaw == "If the key is empty, operator must be Exists."

    def test_beside_each_clause_stands_what_it_was(self, admin: Client) -> None:
        toleration = {"key": "a/b", "operator": "Exists", "tolerationSeconds": 600}
        place(
            predicates=matching(env="prod"),
            numberOfClusters=3,
            tolerations=[toleration, {"key": "gone", "operator": "Exists"}],
        )
        spec = {
            "clusterSets": ["web"],
            "predicates": [*matching(env="test"), *matching(tier="1")],
            "tolerations": [toleration | {"tolerationSeconds": 1800}],
        }
        page = admin.get(address(spec, **{"from": "shop/p1"}))
        marks = page.context["marks"]
        assert [mark.was for mark in marks["predicates"]] == ["was prod", "new"]
        assert [mark.was for mark in marks["tolerations"]] == ["was 600"]
        assert page.context["was"] == {"number": "was 3"}
        assert page.context["removed"]["tolerations"] == ["gone"]
        assert "6 changes to shop/p1" in text(page)
        assert page.content.decode().count("oc-was") >= 6

    @pytest.mark.parametrize(
        ("field", "says"),
        [
            ({"t-TOTAL_FORMS": "1", "t-INITIAL_FORMS": "0", "t-0-key": "a b"}, "key: "),
            ({"c-TOTAL_FORMS": "1", "c-INITIAL_FORMS": "0", "c-0-key": "a b", "c-0-part": "Label"}, "topologyKey: "),
            ({"g-TOTAL_FORMS": "1", "g-INITIAL_FORMS": "0", "g-0-name": "a b"}, "groupName: "),
        ],
    )
    def test_what_the_schema_refuses_stands_beneath_its_row(
        self, admin: Client, field: dict[str, str], says: str
    ) -> None:
        page = admin.post(PAGE, fields({}) | field)
        assert page.status_code == 400
        forms = [form for kind in draft_forms.ROWS for form in page.context["forms"].get(kind, ())]
        assert [form.flaws[0].startswith(says) for form in forms if form.flaws] == [True]

    def test_rows_are_added_and_removed_without_a_script(self, admin: Client) -> None:
        answer = admin.post(PAGE, fields({}, add="label-1"))
        shown = admin.get(answer["Location"].partition("#")[0])
        assert 'id="added"' in shown.content.decode()
        assert drafted(answer).spec == {}
        kept = drafted(
            admin.post(PAGE, fields({"predicates": [*matching(env="prod"), *matching(a="b")]}, remove="p-0"))
        )
        assert kept.spec == {"predicates": matching(a="b")}

    def test_the_smallest_change_of_each_cluster_is_one_click_away(self, admin: Client) -> None:
        place(predicates=matching(env="prod"))
        for page in ("/placements/shop/p1/why/", f"{PAGE}?from=shop/p1"):
            rows = {row["name"]: row for row in admin.get(page).context["rows"]}
            assert chosen(admin.get(rows["web-3"]["trial_url"])) == ["web-1", "web-3"]
            assert chosen(admin.get(rows["web-2"]["trial_url"])) == ["web-1", "web-2"]
            assert chosen(admin.get(rows["db-1"]["trial_url"])) == ["db-1", "web-1"]
        tried = admin.get(rows["web-3"]["trial_url"])
        assert next(row["pretended"] for row in tried.context["rows"] if row["name"] == "web-3") == ["env=prod"]
        few = admin.get(address({"numberOfClusters": 1}))
        last = next(row for row in few.context["rows"] if row["why"] and row["why"].trial[0] == "number")
        assert last["name"] in chosen(admin.get(last["trial_url"]))
        named = next(row for row in admin.get(address({"clusterSets": ["db"]})).context["rows"] if row["set"] == "web")
        assert drafted_in(named["trial_url"]).spec["clusterSets"] == ["db", "web"]

    def test_scores_stand_as_bars_with_the_cut(self, admin: Client) -> None:
        place()
        page = admin.get(address({"numberOfClusters": 2}, **{"from": "shop/p1"}))
        scores = page.context["scores"]
        assert sum(bar["count"] for bar in scores["bars"]) == scores["passed"] == 3
        assert sum(bar["chosen"] for bar in scores["bars"]) == 2
        assert "Scores of the 3 that passed" in text(page)
        assert admin.get(address({})).context["scores"] is None


@pytest.mark.contract("D16")
class TestSight:
    def test_who_has_no_right_in_the_namespace_learns_nothing(self) -> None:
        answer = signed_in("mallory").get(address({}))
        assert answer.status_code == 200
        assert "You may not try placements in shop" in text(answer)
        assert "has_answer" not in answer.context
        assert not re.search(r"web-\d|db-1", answer.content.decode())

    def test_a_namespace_user_tries_saves_and_reads_why_without_any_right_on_the_hub(self) -> None:
        client = signed_in("li")
        author("li")
        spec = {"predicates": matching(env="prod")}
        assert client.get(PAGE).context["tried"].namespace == TEAM
        answer = client.get(address(spec))
        assert answer.context["chosen_count"] == 1
        assert answer.context["rows"] == []
        assert "5 others are counted above, not named" in text(answer)
        assert not re.search(r"web-\d|db-1", answer.content.decode())
        assert client.get(client.post(PAGE, fields(spec, review="1"))["Location"]).context["changes"]["enter"] == 1
        assert client.post(REVIEW, saving(spec, name="mine")).status_code == 302
        make.settle()
        assert [
            row["name"]
            for group in client.get("/placements/shop/mine/").context["groups"]["shown"]
            for row in group["rows"]
        ] == ["web-1"]

    def test_a_binding_cannot_be_pretended_to_count_clusters_that_one_does_not_see(self) -> None:
        client = signed_in("li")
        author("li")
        li = User.objects.get(username="li")
        pretended = address({"clusterSets": ["db"]}, Pretence("binding", "db", ""))
        assert "you see no set of this name" in text(client.get(pretended))
        grant(person("li"), rule("get list", "managedclustersets", groups=GROUP))
        assert client.get(pretended).context["chosen_count"] == 0
        assign_perm("clusters.view_managedcluster", li, ManagedCluster.objects.get(name="db-1"))
        assert client.get(pretended).context["chosen_count"] == 1

    def test_only_clusters_that_one_sees_are_pretended_to_change(self) -> None:
        client = signed_in("li")
        author("li")
        assign_perm(
            "clusters.view_managedcluster", User.objects.get(username="li"), ManagedCluster.objects.get(name="web-4")
        )
        answer = client.get(address({"predicates": matching(env="x")}, Pretence("label", "*", "env=x")))
        assert [row["name"] for row in answer.context["rows"] if row["chosen"]] == ["web-4"]
        assert answer.context["chosen_count"] == 1


def stored() -> Doc:
    doc = verbs.find(PLACEMENT, Key(TEAM, "p1"))
    assert doc is not None
    return doc


def _random_spec(random: Random) -> Doc:
    found: Doc = {}
    if random.random() < 0.7:
        found["predicates"] = matching(env=random.choice(["prod", "test"])) * random.randint(1, 2)
    if random.random() < 0.5:
        found["numberOfClusters"] = random.randint(0, 4)
    if random.random() < 0.5:
        found["tolerations"] = [{"key": "ocmconsole.io/maintenance", "operator": "Exists"}]
    if random.random() < 0.3:
        found["clusterSets"] = random.sample(["web", "db"], random.randint(1, 2))
    return found
