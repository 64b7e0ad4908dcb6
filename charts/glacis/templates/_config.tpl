{{/* The configuration of ext-proc: what the values say, and what the chart knows. */}}
{{- define "glacis.extProcConfig" -}}
{{- $config := deepCopy .Values.extProc.config -}}
{{- /* `on` and `off` are booleans for YAML 1.1. */ -}}
{{- if kindIs "bool" $config.mode -}}
{{- $_ := set $config "mode" (ternary "on" "off" $config.mode) -}}
{{- end -}}
{{- range $name, $profile := $config.profiles | default dict -}}
{{- if kindIs "bool" $profile.mode -}}
{{- $_ := set $profile "mode" (ternary "on" "off" $profile.mode) -}}
{{- end -}}
{{- end -}}
{{- $tls := include "glacis.listenTls" . | fromYaml -}}
{{- $_ := set $config "listen" (dict "tcp" "0.0.0.0:9001") -}}
{{- if $tls -}}
{{- $_ := set $config.listen "tls" $tls -}}
{{- end -}}
{{- if .Values.tokens.grpc -}}
{{- $_ := set $config.listen "token_file" "/etc/glacis/tokens/grpc" -}}
{{- end -}}
{{- $names := list -}}
{{- range $name := list "" (printf ".%s" .Release.Namespace) (printf ".%s.svc" .Release.Namespace) (printf ".%s.svc.cluster.local" .Release.Namespace) -}}
{{- $names = append $names (printf "%s-ext-proc%s" (include "glacis.fullname" $) $name) -}}
{{- end -}}
{{- $_ := set $config "admin" (include "glacis.admin" (dict "root" . "port" 9101 "hosts" $names) | fromYaml) -}}
{{- if and .Values.extProc.crs (not (hasKey $config "crs")) -}}
{{- $_ := set $config "crs" "/usr/share/glacis/crs" -}}
{{- end -}}
{{- $rules := $config.rules | default list -}}
{{- if .Values.extProc.rules -}}
{{- $rules = append $rules "/etc/glacis/rules/*.conf" -}}
{{- end -}}
{{- range .Values.extProc.rulesConfigMaps -}}
{{- $rules = append $rules (printf "/etc/glacis/rules-of/%s/*.conf" .) -}}
{{- end -}}
{{- if .Values.extProc.rulesImage -}}
{{- $rules = append $rules "/etc/glacis/rules-image/*.conf" -}}
{{- end -}}
{{- if $rules -}}
{{- $_ := set $config "rules" $rules -}}
{{- end -}}
{{- with include "glacis.redis" . | fromYaml -}}
{{- $collections := $config.collections | default dict -}}
{{- if not (hasKey $collections "redis") -}}
{{- $_ := set $collections "redis" . -}}
{{- end -}}
{{- $_ := set $config "collections" $collections -}}
{{- end -}}
{{- if .Values.wasm.serve -}}
{{- $_ := set $config "wasm" (dict "listen" "0.0.0.0:9103" "file" "/usr/share/glacis/glacis_wasm_filter.wasm") -}}
{{- end -}}
{{- if not (hasKey $config "metrics") -}}
{{- $_ := set $config "metrics" (dict "engine" (include "glacis.fullname" .) "namespace" .Release.Namespace) -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/*
Of this configuration, what is read at the start only: pods are exchanged when it changes. A test compares the keys,
here and below, with `differs_beyond_reload` of the service.
*/}}
{{- define "glacis.extProcStart" -}}
{{- $config := include "glacis.extProcConfig" . | fromYaml -}}
{{- $start := dict -}}
{{- range $key := list "listen" "admin" "metrics" "log_level" "reload_seconds" "recent" "proposals" "limits" "audit" "otlp" "traces" "canary_seconds" "canary_envoy" "collections_max" "collections" "bans" "max_streams" "client_share_percent" "envoy_buffer_bytes" "max_message_bytes" "inline_body_bytes" "evaluation_threads" "evaluation_queue_max" "deadline_ms" "body_bytes_max" "out_of_band_threads" "out_of_band_queue_max" "out_of_band_bytes_max" "overload" "drain_notice_seconds" "drain_seconds" "wasm" -}}
{{- if hasKey $config $key -}}
{{- $_ := set $start $key (get $config $key) -}}
{{- end -}}
{{- end -}}
{{ toYaml $start }}
{{- end -}}

{{/*
Whether a service asks anybody by itself: Redis, a collector, an Envoy for its canary. Empty: it answers and asks
nobody. A key below which a service is told of another machine has to stand here.
*/}}
{{- define "glacis.extProcAsks" -}}
{{- $config := include "glacis.extProcConfig" . | fromYaml -}}
{{- if or ($config.collections | default dict).redis ($config.bans | default dict).redis ($config.otlp | default dict).endpoint $config.canary_envoy -}}
yes
{{- end -}}
{{- end -}}

{{- define "glacis.extAuthzAsks" -}}
{{- $config := include "glacis.extAuthzConfig" . | fromYaml -}}
{{- if ($config.store | default dict).redis -}}
yes
{{- end -}}
{{- end -}}

{{- define "glacis.extAuthzConfig" -}}
{{- $config := deepCopy .Values.extAuthz.config -}}
{{- $tls := include "glacis.listenTls" . | fromYaml -}}
{{- $_ := set $config "listen" (dict "tcp" "0.0.0.0:9002") -}}
{{- if $tls -}}
{{- $_ := set $config.listen "tls" $tls -}}
{{- end -}}
{{- if .Values.tokens.grpc -}}
{{- $_ := set $config.listen "token_file" "/etc/glacis/tokens/grpc" -}}
{{- end -}}
{{- $names := list -}}
{{- range $name := list "" (printf ".%s" .Release.Namespace) (printf ".%s.svc" .Release.Namespace) (printf ".%s.svc.cluster.local" .Release.Namespace) -}}
{{- $names = append $names (printf "%s-ext-authz%s" (include "glacis.fullname" $) $name) -}}
{{- end -}}
{{- $_ := set $config "admin" (include "glacis.admin" (dict "root" . "port" 9102 "hosts" $names) | fromYaml) -}}
{{- $store := $config.store | default dict -}}
{{- with include "glacis.redis" . | fromYaml -}}
{{- if not (hasKey $store "redis") -}}
{{- $_ := set $store "redis" . -}}
{{- end -}}
{{- end -}}
{{- if not (hasKey $store "replicas") -}}
{{- $_ := set $store "replicas" (.Values.extAuthz.autoscaling.enabled | ternary .Values.extAuthz.autoscaling.minReplicas .Values.extAuthz.replicas) -}}
{{- end -}}
{{- $_ := set $config "store" $store -}}
{{- if .Values.extAuthz.serveLists -}}
{{- $lists := $config.lists | default dict -}}
{{- $_ := set $lists "listen" "0.0.0.0:9104" -}}
{{- $_ := set $config "lists" $lists -}}
{{- end -}}
{{ toYaml $config }}
{{- end -}}

{{/* The same of ext-authz. Not among it is how many replicas there are: who scales does not want all pods anew. */}}
{{- define "glacis.extAuthzStart" -}}
{{- $config := include "glacis.extAuthzConfig" . | fromYaml -}}
{{- $start := dict "store" (omit $config.store "replicas") -}}
{{- range $key := list "listen" "admin" "log_level" "reload_seconds" "max_checks" "max_message_bytes" "overload" "rate_limit_service" "leases" "quota" "drain_notice_seconds" "drain_seconds" -}}
{{- if hasKey $config $key -}}
{{- $_ := set $start $key (get $config $key) -}}
{{- end -}}
{{- end -}}
{{- with $config.lists -}}
{{- $_ := set $start "lists" (pick . "listen") -}}
{{- end -}}
{{ toYaml $start }}
{{- end -}}
