"""CEL about a cluster: what Kubernetes' libraries answer, and what is refused (P7)."""

from __future__ import annotations

import pytest

from placements.scheduler.expressions import MOST_CHARACTERS, Expression
from placements.scheduler.fleet import Cluster

CLUSTER = Cluster(
    {
        "metadata": {"name": "c1", "labels": {"env": "prod"}},
        "status": {
            "version": {"kubernetes": "v1.30.2"},
            "capacity": {"memory": "32Gi"},
            "clusterClaims": [{"name": "nodes", "value": '{"gpu": [1, 2]}'}],
        },
    }
)

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
TOO_MANY_STEPS = f"{TEN}.map(a, {TEN}.map(b, {TEN}.map(c, {TEN}.map(d, {TEN}.map(e, 1))))).size() > 0"


def value(text: str) -> bool | str:
    """What it evaluates to; the text of the error where there is one."""
    expression = Expression.compiled(text)
    return expression.error(CLUSTER, lambda _: {}) or expression.holds(CLUSTER, lambda _: {})


@pytest.mark.contract("P7")
@pytest.mark.parametrize(
    "text",
    [
        "managedCluster.metadata.labels['env'] == 'prod'",
        "managedCluster.metadata.name.matches('^c[0-9]+$')",
        "has(managedCluster.status.version)",
        "!has(managedCluster.status.allocatable)",
        "managedCluster.?kind.orValue('') == ''",
        "managedCluster.metadata.?labels.?zone.orValue('none') == 'none'",
        "'a,b'.split(',').size() == 2 && 'HELLO'.lowerAscii() == 'hello'",
        "managedCluster.status.clusterClaims.filter(c, c.name == 'nodes')[0].value.parseJSON().gpu[1] == 2",
        "quantity('1000m') == quantity('1') && quantity('5Gi').isGreaterThan(quantity('3Gi'))",
        "quantity(managedCluster.status.capacity.memory).compareTo(quantity('32Gi')) == 0",
        "quantity('5').add(3).sub(quantity('2')).asInteger() == 6 && quantity('-1').sign() == -1",
        "!isQuantity('5 Gi') && quantity('1500m').asApproximateFloat() == 1.5 && !quantity('1500m').isInteger()",
        "semver(managedCluster.status.version.kubernetes.substring(1)).minor() == 30",
        "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta')) && semver('1.10.0').isGreaterThan(semver('1.9.0'))",
        "isSemver('1.2.3') && !isSemver('v1.2.3') && !isSemver('1.2')",
        "ip('10.0.0.1').family() == 4 && string(ip('0:0::1')) == '::1' && !ip.isCanonical('0::1')",
        "ip('127.0.0.1').isLoopback() && ip('10.0.0.1').isGlobalUnicast() && ip('169.254.0.1').isLinkLocalUnicast()",
        "!isIP('1.2.3') && !isIP('::ffff:1.2.3.4') && ip('::').isUnspecified() && ip('ff02::1').isLinkLocalMulticast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.0.0.5/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.5/8').prefixLength() == 8",
        "url('https://a.b:80/c?d=e').getHost() == 'a.b:80' && url('https://a.b:80/c?d=e').getPort() == '80'",
        "url('https://a.b/c%20d?e=f').getEscapedPath() == '/c%20d' && url('/x?e=f').getQuery()['e'] == ['f']",
        "isURL('https://a') && !isURL('a') && url('https://[::1]:80/').getHostname() == '::1'",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2c3'.findAll('[0-9]', 2) == ['1', '2']",
        "[1, 2, 3].sum() == 6 && [3, 1].max() == 3 && [3, 1].min() == 1 && ![2, 1].isSorted()",
        "['a', 'b', 'a'].lastIndexOf('a') == 2 && ['a'].indexOf('b') == -1 && [1.5, 2.5].sum() == 4.0",
    ],
)
def test_it_is_true(text: str) -> None:
    assert value(text) is True


@pytest.mark.contract("P7")
@pytest.mark.parametrize(
    "text",
    [
        "managedCluster.kind == 'ManagedCluster'",
        "managedCluster.metadata.labels.zone == 'a'",
        "semver(managedCluster.status.version.kubernetes).major() == 1",
        "quantity('x').isInteger()",
        "ip('300.0.0.1').family() == 4",
        "cidr('10.0.0.0').prefixLength() == 8",
        "'x'.parseJSON() == 1",
        "'x'.find('(') == ''",
        "[].max() == 1",
        "managedCluster.scores('none').size() == 0",
        "managedCluster.metadata.name",
        "optional.none()",
        TOO_MANY_STEPS,
    ],
)
def test_it_has_no_value_and_so_the_cluster_does_not_match(text: str) -> None:
    assert isinstance(value(text), str)
    assert Expression.compiled(text).holds(CLUSTER, lambda _: {}) is False


@pytest.mark.contract("P7")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "'a' + 1",
        "nope(1)",
        "now() == 1",
        "authorizer.path('/x')",
        "sets.contains([1], [1])",
        "math.greatest(1, 2) == 2",
        "base64.encode(b'x') == ''",
        "cel.bind(x, 1, x == 1)",
        "lists.range(3) == []",
        "[[1]].flatten() == [1]",
        "[1].all(i, v, v > 0)",
        "semver('1.0.0', true).major() == 1",
        "quantity('1') < quantity('2')",
        "semver('1.0.0').isGreaterThan(quantity('1'))",
        "x" * (MOST_CHARACTERS + 1),
    ],
)
def test_it_does_not_compile(text: str) -> None:
    with pytest.raises(ValueError, match=r"^compilation failed: "):
        Expression.compiled(text)
