{{/*
The native module in Envoy. Its image has everything below /module, which a volume has at the same place below
/opt/glacis, whether the image is the volume or an init container has copied it.
*/}}
{{- define "glacis.native.library" -}}
/opt/glacis/module/libglacis.so
{{- end -}}

{{/* The configuration of the filter: that of the values, with the CRS of the image. */}}
{{- define "glacis.native.config" -}}
{{- mergeOverwrite (dict "crs" "/opt/glacis/module/crs") (deepCopy .Values.native.config) | toJson -}}
{{- end -}}

{{- define "glacis.native.image" -}}
{{- $native := .Values.native -}}
{{- $repository := ternary $native.image.initRepository $native.image.repository (eq $native.volume "init") -}}
{{- $values := dict "image" (dict "repository" $repository "tag" $native.image.tag) "digest" $native.digest -}}
{{- include "glacis.image" (dict "root" . "values" $values) -}}
{{- end -}}

{{/* The volume of Envoy's pods, without its name. */}}
{{- define "glacis.native.volume" -}}
{{- if eq .Values.native.volume "init" -}}
emptyDir: {sizeLimit: 64Mi}
{{- else -}}
image: {reference: {{ include "glacis.native.image" . | quote }}, pullPolicy: {{ .Values.image.pullPolicy }}}
{{- end -}}
{{- end -}}

{{/* The container that fills it. */}}
{{- define "glacis.native.init" -}}
- name: glacis
  image: {{ include "glacis.native.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- with .Values.containerSecurityContext }}
  securityContext: {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts: [{name: glacis, mountPath: /shared}]
{{- end -}}

{{/* The filter, for an Envoy whose filters the chart writes: an attachment with its defaults, and "root". */}}
{{- define "glacis.envoy.native" -}}
name: glacis.native
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
  dynamic_module_config: {module: {local: {filename: {{ include "glacis.native.library" .root }}}}}
  filter_name: waf
  filter_config:
    "@type": type.googleapis.com/google.protobuf.StringValue
    value: {{ include "glacis.native.config" .root | squote }}
{{- end -}}

{{/* What a route says of it, in words that every version of Envoy has: (merge of an attachment with "route") */}}
{{- define "glacis.envoy.nativeRoute" -}}
{{- if .route.skip -}}
typed_per_filter_config:
  glacis.native:
    "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
    disabled: true
{{- else -}}
metadata: {filter_metadata: {glacis: {profile: {{ .route.profile | quote }}}}}
{{- end -}}
{{- end -}}

{{/* Refusals that both kinds of attachments have in common: (dict "at" "attach.istio.a" "given" the attachment as written) */}}
{{- define "glacis.native.check" -}}
{{- if .given.native -}}
{{- if .given.extProc -}}
{{- fail (printf "%s: with native: true the module has the rules, and with extProc: true ext-proc has; write one of them" .at) -}}
{{- end -}}
{{- if .given.failOpen -}}
{{- fail (printf "%s.failOpen: the native module has no failure mode; what it cannot evaluate is answered with 503" .at) -}}
{{- end -}}
{{- range .given.routes -}}
{{- if hasKey . "failOpen" -}}
{{- fail (printf "%s.routes: the native module has no failure mode; remove failOpen from the route %s" $.at .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
