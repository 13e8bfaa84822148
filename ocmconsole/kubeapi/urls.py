"""Routes of the API listener: resources by group, version, namespace and name; documents; anything else.

``server.listeners`` resolves a path here without its empty parts and its last slash, past Django's middleware. What is
served for a resource is looked up by the view, as CustomResourceDefinitions and virtual resources are no routes.
"""

from __future__ import annotations

from django.urls import include, path, re_path
from django.utils.module_loading import import_string

from ocmconsole.kubeapi import virtual_resources
from ocmconsole.kubeapi.http.views import DocumentView, ResourceView
from ocmconsole.kubeapi.publish import endpoints

resource = ResourceView.as_view()
document = DocumentView.as_view

resources = [
    path("namespaces/<namespace>/<resource>/<name>", resource),
    path("namespaces/<name>/status", resource, {"resource": "namespaces", "subresource": "status"}),
    path("namespaces/<name>/finalize", resource, {"resource": "namespaces", "subresource": "finalize"}),
    path("namespaces/<namespace>/<resource>", resource),
    path("namespaces/<namespace>/<resource>/<name>/<subresource>", resource),
    path("<resource>", resource),
    path("<resource>/<name>", resource),
    path("<resource>/<name>/<subresource>", resource),
    path("<resource>/<path:beyond>", resource),
]

urlpatterns = [
    path("apis/<group>/<version>/", include(resources)),
    path("api/<version>/", include(resources)),
    path("", document(read=endpoints.root)),
    path("api", document(read=endpoints.core_versions)),
    path("api/<version>", document(read=endpoints.resource_list)),
    path("apis", document(read=endpoints.groups)),
    path("apis/<group>", document(read=endpoints.group)),
    path("apis/<group>/<version>", document(read=endpoints.resource_list)),
    path("openapi/v2", document(read=endpoints.openapi_v2)),
    re_path(r"^swagger-2\.0\.0\.pb-v1(?:/|$)", document(read=endpoints.openapi_v2)),
    path("openapi/v3", document(read=endpoints.openapi_v3_paths)),
    path("openapi/v3/<path:path>", document(read=endpoints.openapi_v3)),
    path("version", document(read=endpoints.version)),
    path("metrics", document(read=endpoints.prometheus)),
    re_path(r"^(?:healthz|livez|readyz)(?:/|$)", document(read=endpoints.health)),
    *(path(each.route, import_string(each.name).as_view()) for each in virtual_resources.views()),
    re_path("", document(read=endpoints.registered)),
]
