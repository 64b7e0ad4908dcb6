{{/*
Envoy's configuration, as every way of attaching has it. envoy-configs/quickstart/README.md says what each part is for.
The arguments are an attachment with its defaults, and "root".
*/}}

{{/* By which the services know an attached Envoy. Whoever may read the object can read it. */}}
{{- define "glacis.envoy.token" -}}
{{- if .root.Values.tokens.grpc }}
initial_metadata: [{key: authorization, value: {{ printf "Bearer %s" (include "glacis.token" (dict "root" .root "key" "grpc")) | quote }}}]
{{- end }}
{{- end -}}

{{/* 1. The rules. */}}
{{- define "glacis.envoy.extProc" -}}
name: glacis.ext_proc
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
  grpc_service:
    envoy_grpc: {cluster_name: glacis-ext-proc}
    {{- include "glacis.envoy.token" . | nindent 4 }}
  # Bodies are asked for by mode_override, only when a rule reads them.
  processing_mode:
    request_header_mode: SEND
    response_header_mode: {{ .responses | ternary "SEND" "SKIP" }}
    request_body_mode: NONE
    response_body_mode: NONE
    request_trailer_mode: SKIP
    response_trailer_mode: SKIP
  allow_mode_override: true
  message_timeout: {{ .messageTimeout }}
  failure_mode_allow: {{ .failOpen }}
  status_on_error: {code: ServiceUnavailable}
  request_attributes: [source.address, destination.address, request.protocol, xds.route_name]
  # Without this line Envoy drops the receipts silently, and the guard refuses all.
  metadata_options: {receiving_namespaces: {untyped: [glacis]}}
{{- end -}}

{{- define "glacis.envoy.receipt" -}}
# Denied is what has no receipt that says "allow". The policy's name tells in the access log who has refused.
action: DENY
policies:
  glacis_no_receipt:
    permissions: [{any: true}]
    principals:
      - not_id:
          sourced_metadata:
            metadata_matcher: {filter: glacis, path: [{key: verdict}], value: {string_match: {exact: allow}}}
{{- end -}}

{{/* 2. The guard behind it: no receipt that says "allow", no upstream; only counted where the attachment fails open. */}}
{{- define "glacis.envoy.guard" -}}
name: glacis.guard
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
  rules_stat_prefix: glacis_receipt
  shadow_rules_stat_prefix: glacis_receipt
  {{ .failOpen | ternary "shadow_rules" "rules" }}: {{- include "glacis.envoy.receipt" . | nindent 4 }}
{{- end -}}

{{/* Identity, lists and limits of a fleet, before the rules. */}}
{{- define "glacis.envoy.extAuthz" -}}
name: glacis.ext_authz
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
  transport_api_version: V3
  grpc_service:
    envoy_grpc: {cluster_name: glacis-ext-authz}
    {{- include "glacis.envoy.token" . | nindent 4 }}
    timeout: 0.25s
  # Who a request is from is another question than what is in it: this failure mode is its own.
  failure_mode_allow: {{ .extAuthzFailOpen }}
  status_on_error: {code: ServiceUnavailable}
  # Without this line headers of one name come joined, and what is not UTF-8 in them is lost.
  encode_raw_headers: true
  {{- if .root.Values.extAuthz.config.profiles }}
  with_request_body: {max_request_bytes: 65536, allow_partial_message: true, pack_as_bytes: true}
  {{- end }}
  metadata_context_namespaces: [envoy.filters.http.jwt_authn]
{{- end -}}

{{/*
Names of headers that only Glacis may set, and what servers fold to the same variable: CGI, WSGI, Rack and PHP make
`HTTP_X_GLACIS_CLIENT` of `x_glacis_client`, and some of any character that is neither a letter nor a digit.
*/}}
{{- define "glacis.envoy.ownHeaders" -}}
(?i)x[^a-z0-9]glacis[^a-z0-9].*
{{- end -}}

{{/* What the HTTP connection manager does before and after all filters. */}}
{{- define "glacis.envoy.connectionManager" -}}
# Headers that only Glacis may set go first, before a route is chosen: also with an underscore, or whatever else a
# server turns into the same variable, in place of a hyphen.
early_header_mutation_extensions:
  - name: envoy.http.early_header_mutation.header_mutation
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
      mutations:
        - remove_on_match: {key_matcher: {safe_regex: {regex: {{ include "glacis.envoy.ownHeaders" . | squote }}}}}
{{- if .rejectUnderscores }}
common_http_protocol_options: {headers_with_underscores_action: REJECT_REQUEST}
{{- end }}
# A request that could not be checked is nobody's fault: always the same 503.
local_reply_config:
  mappers:
    - filter:
        extension_filter:
          name: envoy.access_loggers.extension_filters.cel
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter
            # Refusals by other RBAC filters, such as Istio's, are left as they are.
            expression: >-
              response.code_details.startsWith("ext_proc_error") ||
              response.code_details == "overload" || response.code_details == "ext_authz_error" ||
              response.code_details.startsWith("rbac_access_denied_matched_policy[glacis_no_receipt]")
      status_code: 503
      body: {inline_string: "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"The request could not be checked. Try again later.\"}\n"}
      body_format_override:
        text_format_source: {inline_string: "%LOCAL_REPLY_BODY%"}
        content_type: application/problem+json
      headers_to_add:
        - {header: {key: retry-after, value: "1"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
        - {header: {key: cache-control, value: no-store}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
{{- end -}}

{{/* What an Envoy may hold for its clients, for its bootstrap. envoy-configs/quickstart/README.md says what happens when. */}}
{{- define "glacis.envoy.overloadManager" -}}
refresh_interval: 0.1s
# Only streams that hold 1 MiB or more are counted, and reset.
buffer_factory_config: {minimum_account_to_track_power_of_two: 20}
resource_monitors:
# Without a bound the file descriptors are the bound.
- name: envoy.resource_monitors.global_downstream_max_connections
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
    max_active_downstream_connections: 10000
# Of buffers and everything else on Envoy's heap; the module's memory comes on top.
- name: envoy.resource_monitors.fixed_heap
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig
    max_heap_size_bytes: {{ .root.Values.attach.maxHeapBytes | int64 }}
actions:
- name: envoy.overload_actions.reduce_timeouts
  triggers: [{name: envoy.resource_monitors.fixed_heap, scaled: {scaling_threshold: 0.4, saturation_threshold: 0.6}}]
  typed_config:
    "@type": type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig
    timer_scale_factors:
    - {timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 3s}
    - {timer: HTTP_DOWNSTREAM_CONNECTION_IDLE, min_timeout: 2s}
- name: envoy.overload_actions.shrink_heap
  triggers: [{name: envoy.resource_monitors.fixed_heap, threshold: {value: 0.7}}]
- name: envoy.overload_actions.reset_high_memory_stream
  triggers: [{name: envoy.resource_monitors.fixed_heap, scaled: {scaling_threshold: 0.7, saturation_threshold: 0.95}}]
- name: envoy.overload_actions.stop_accepting_requests
  triggers: [{name: envoy.resource_monitors.fixed_heap, threshold: {value: 0.98}}]
loadshed_points:
# The action above resets streams of HTTP/2 and HTTP/3 only.
- name: envoy.load_shed_points.http1_server_abort_dispatch
  triggers: [{name: envoy.resource_monitors.fixed_heap, scaled: {scaling_threshold: 0.6, saturation_threshold: 1.0}}]
{{- end -}}

{{/*
Requests that Envoy may have in ext-proc at once: more than all its pods take, which share `max_streams` among clients
and answer for themselves. Clients choose how long their bodies take, and are not to reach the failure mode by that.
*/}}
{{- define "glacis.envoy.extProcRequests" -}}
{{- $pods := ternary .Values.extProc.autoscaling.maxReplicas .Values.extProc.replicas .Values.extProc.autoscaling.enabled -}}
{{- mul (add1 $pods) (.Values.extProc.config.max_streams | default 4096) -}}
{{- end -}}

{{/* A service's cluster, with its breaker: (merge of an attachment with "part" "port" "health" "requests") */}}
{{- define "glacis.envoy.cluster" -}}
name: glacis-{{ .part }}
{{- if .istio }}
# Istio's proxies take a cluster's name out of statistics only where it ends so.
alt_stat_name: glacis-{{ .part }};
{{- end }}
connect_timeout: 0.25s
# The Service has no address of its own: every pod is a host.
type: STRICT_DNS
dns_lookup_family: ALL
dns_refresh_rate: 5s
respect_dns_ttl: false
lb_policy: LEAST_REQUEST
load_assignment:
  cluster_name: glacis-{{ .part }}
  endpoints:
    - lb_endpoints:
        - endpoint:
            address: {socket_address: {address: {{ include "glacis.host" . }}, port_value: {{ .port }}}}
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config:
      http2_protocol_options:
        connection_keepalive: {interval: 5s, timeout: 1s}
{{- if .root.Values.tls.enabled }}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: {{ include "glacis.host" . }}
    common_tls_context:
      alpn_protocols: [h2]
      {{- with .clientCertificate }}
      tls_certificates:
        - certificate_chain: {filename: {{ .certificate | quote }}}
          private_key: {filename: {{ .key | quote }}}
      {{- end }}
      validation_context:
        trusted_ca: {inline_string: {{ .ca | quote }}}
        match_typed_subject_alt_names:
          - {san_type: DNS, matcher: {exact: {{ include "glacis.host" . }}}}
{{- end }}
# The breaker: a freeze shows in probes only, a crash in failed streams.
health_checks:
  - timeout: 0.25s
    interval: 0.5s
    no_traffic_interval: 0.5s
    unhealthy_threshold: 2
    healthy_threshold: 2
    grpc_health_check: {{ .health }}
outlier_detection:
  consecutive_gateway_failure: 5
  enforcing_consecutive_gateway_failure: 100
  interval: 1s
  base_ejection_time: 10s
  max_ejection_percent: 100
  always_eject_one_host: true
# Otherwise Envoy sends to sick hosts when all are sick, and its workers learn of health up to 1 s late.
common_lb_config: {healthy_panic_threshold: {value: 0}, update_merge_window: 0s}
# The bulkhead: more requests than this at once are decided by the failure mode at once. It is above what all pods take.
circuit_breakers:
  thresholds: [{max_requests: {{ .requests }}, max_pending_requests: {{ .requests }}, track_remaining: true}]
{{- end -}}

{{/* What a route says of its own: (merge of an attachment with "route") */}}
{{- define "glacis.envoy.route" -}}
typed_per_filter_config:
  glacis.ext_proc:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
    {{- if .route.skip }}
    disabled: true
    {{- else }}
    overrides:
      {{- if hasKey .route "failOpen" }}
      failure_mode_allow: {{ .route.failOpen }}
      {{- end }}
      {{- with .route.profile }}
      grpc_initial_metadata: [{key: glacis-profile, value: {{ . | quote }}}]
      {{- end }}
    {{- end }}
{{- if and .guard (or .route.skip (hasKey .route "failOpen")) }}
  glacis.guard:
    "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute
    {{- if not .route.skip }}
    rbac:
      rules_stat_prefix: glacis_receipt
      shadow_rules_stat_prefix: glacis_receipt
      {{ .route.failOpen | ternary "shadow_rules" "rules" }}: {{- include "glacis.envoy.receipt" . | nindent 8 }}
    {{- end }}
{{- end }}
{{- end -}}
