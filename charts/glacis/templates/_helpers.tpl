{{- define "glacis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Values.nameOverride .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of a part: (dict "root" $ "part" "ext-proc") */}}
{{- define "glacis.selector" -}}
app.kubernetes.io/name: glacis
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "glacis.labels" -}}
{{ include "glacis.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image of a service: (dict "root" $ "values" .Values.extProc) */}}
{{- define "glacis.image" -}}
{{- $name := .values.image.repository -}}
{{- with .root.Values.image.registry -}}
{{- $name = printf "%s/%s" . $name -}}
{{- end -}}
{{- if .values.digest -}}
{{- printf "%s@%s" $name .values.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.values.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a service: (dict "root" $ "part" "ext-proc" "values" .Values.extProc) */}}
{{- define "glacis.serviceAccountName" -}}
{{- $made := printf "%s-%s" (include "glacis.fullname" .root) .part -}}
{{- .values.serviceAccount.name | default (ternary $made "default" .values.serviceAccount.create) -}}
{{- end -}}

{{- define "glacis.serviceAccount" -}}
{{- if .values.serviceAccount.create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "glacis.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "glacis.labels" . | nindent 4 }}
  {{- with .values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/* Secrets for the registry, and the security context: the same for all pods. */}}
{{- define "glacis.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.image.pullSecrets .Values.imagePullSecrets }}
imagePullSecrets:
{{- range .Values.image.pullSecrets }}
  - name: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The Secret with the certificate of both services. */}}
{{- define "glacis.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{ include "glacis.fullname" . }}-tls
{{- else -}}
{{ .Values.tls.secretName }}
{{- end -}}
{{- end -}}

{{/* The names under which Envoys reach a service, most specific first. */}}
{{- define "glacis.host" -}}
{{ include "glacis.fullname" .root }}-{{ .part }}.{{ .root.Release.Namespace }}.svc.cluster.local
{{- end -}}

{{/* The Secret with the tokens of both services. */}}
{{- define "glacis.tokenSecret" -}}
{{- .Values.tokens.secretName | default (printf "%s-tokens" (include "glacis.fullname" .)) -}}
{{- end -}}

{{/*
A token, the same in all files of one rendering: (dict "root" $ "key" "grpc"). What is in the cluster stays; a random
one is made where nothing is.
*/}}
{{- define "glacis.token" -}}
{{- $root := .root -}}
{{- if not (hasKey $root.Values "madeTokens") -}}
{{- $_ := set $root.Values "madeTokens" dict -}}
{{- end -}}
{{- $made := $root.Values.madeTokens -}}
{{- if not (hasKey $made .key) -}}
{{- $there := lookup "v1" "Secret" $root.Release.Namespace (include "glacis.tokenSecret" $root) | default dict -}}
{{- $data := $there.data | default dict -}}
{{- if and (eq .key "grpc") $root.Values.tokens.grpcValue -}}
{{- $_ := set $made .key $root.Values.tokens.grpcValue -}}
{{- else if hasKey $data .key -}}
{{- $_ := set $made .key (get $data .key | b64dec | trim) -}}
{{- else if $root.Values.tokens.secretName -}}
{{- fail (printf "tokens.grpcValue: an attachment sends the token of the Secret %s, which Helm cannot read here; write its key `grpc`" $root.Values.tokens.secretName) -}}
{{- else -}}
{{- $_ := set $made .key (randAlphaNum 40) -}}
{{- end -}}
{{- end -}}
{{- get $made .key -}}
{{- end -}}

{{/* Where both services find their tokens, for pods. */}}
{{- define "glacis.tokenMount" -}}
{{- if or .Values.tokens.admin .Values.tokens.grpc }}
- {name: tokens, mountPath: /etc/glacis/tokens, readOnly: true}
{{- end }}
{{- end -}}

{{- define "glacis.tokenVolume" -}}
{{- if or .Values.tokens.admin .Values.tokens.grpc }}
- name: tokens
  secret: {secretName: {{ include "glacis.tokenSecret" . }}}
{{- end }}
{{- end -}}

{{/* Who is answered on the admin port, besides its address: (dict "root" $ "port" 9101 "hosts" list) */}}
{{- define "glacis.admin" -}}
address: 0.0.0.0:{{ .port }}
hosts: {{ toJson .hosts }}
{{- if .root.Values.tokens.admin }}
token_file: /etc/glacis/tokens/admin
open_metrics: {{ .root.Values.tokens.openMetrics }}
{{- else }}
allow_remote: true
{{- end }}
{{- end -}}

{{/* What both listeners of gRPC have in common. */}}
{{- define "glacis.listenTls" -}}
{{- if .Values.tls.enabled -}}
certificate: /etc/glacis/tls/tls.crt
key: /etc/glacis/tls/tls.key
{{- with .Values.tls.clientNames }}
client_ca: /etc/glacis/tls/ca.crt
client_names: {{ toJson . }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Redis, as both services read it; empty for none. */}}
{{- define "glacis.redis" -}}
{{- if .Values.redis.trial.enabled -}}
nodes: [{{ printf "%s-redis.%s.svc.cluster.local:6379" (include "glacis.fullname" .) .Release.Namespace | quote }}]
{{- else if .Values.redis.nodes -}}
nodes: {{ toJson .Values.redis.nodes }}
kind: {{ .Values.redis.kind }}
{{- with .Values.redis.master }}
master: {{ . | quote }}
{{- end }}
{{- with .Values.redis.username }}
username: {{ . | quote }}
{{- end }}
{{- if .Values.redis.passwordSecretName }}
password_file: /etc/glacis/redis/password
{{- end }}
{{- if .Values.redis.tls }}
tls: {}
{{- end }}
{{- end -}}
{{- end -}}

{{/* What a pod has whatever runs in it: (dict "root" $ "part" "ext-proc" "values" .Values.extProc) */}}
{{- define "glacis.pod" -}}
serviceAccountName: {{ include "glacis.serviceAccountName" . }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{ include "glacis.podSecurity" .root }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.initContainers }}
initContainers: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- with .values.topologySpreadConstraints }}
{{- toYaml . | nindent 2 }}
{{- else }}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "glacis.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where ext-proc and its check read rules, and what is mounted by the values. */}}
{{- define "glacis.extProcRuleMounts" -}}
{{- if .Values.extProc.rules }}
- {name: rules, mountPath: /etc/glacis/rules, readOnly: true}
{{- end }}
{{- range $index, $map := .Values.extProc.rulesConfigMaps }}
- {name: rules-{{ $index }}, mountPath: /etc/glacis/rules-of/{{ $map }}, readOnly: true}
{{- end }}
{{- if .Values.extProc.rulesImage }}
- {name: rules-image, mountPath: /etc/glacis/rules-image, readOnly: true}
{{- end }}
{{- end -}}

{{/* (dict "root" $ "rules" "NAME-OF-CONFIGMAP") */}}
{{- define "glacis.extProcRuleVolumes" -}}
{{- if .root.Values.extProc.rules }}
- name: rules
  configMap: {name: {{ .rules }}}
{{- end }}
{{- range $index, $map := .root.Values.extProc.rulesConfigMaps }}
- name: rules-{{ $index }}
  configMap: {name: {{ $map }}}
{{- end }}
{{- with .root.Values.extProc.rulesImage }}
- name: rules-image
  image: {reference: {{ . | quote }}, pullPolicy: {{ $.root.Values.image.pullPolicy }}}
{{- end }}
{{- end -}}

{{- define "glacis.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 1
  failureThreshold: 2
{{- end -}}

{{/* Envoys call the services, sidecars would stand between: none of a mesh. */}}
{{- define "glacis.podLabels" -}}
{{ include "glacis.selector" . }}
sidecar.istio.io/inject: "false"
istio.io/dataplane-mode: none
{{- with merge dict (.values.podLabels | default dict) .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Refusals that a schema cannot say. */}}
{{- define "glacis.check" -}}
{{- $v := .Values -}}
{{- if and $v.redis.trial.enabled $v.redis.nodes -}}
{{- fail "redis: write either redis.nodes (yours) or redis.trial.enabled (a small one for trials), not both" -}}
{{- end -}}
{{- if $v.tls.enabled -}}
{{- if and $v.tls.certManager.enabled $v.tls.secretName -}}
{{- fail "tls: with tls.certManager.enabled the Secret is made; leave tls.secretName empty" -}}
{{- end -}}
{{- if not (or $v.tls.certManager.enabled $v.tls.secretName) -}}
{{- fail "tls: tls.enabled needs a certificate: name a Secret in tls.secretName, or set tls.certManager.enabled" -}}
{{- end -}}
{{- if and $v.tls.certManager.enabled (not $v.tls.certManager.issuerRef.name) -}}
{{- fail "tls: tls.certManager.enabled needs the name of an issuer in tls.certManager.issuerRef.name" -}}
{{- end -}}
{{- end -}}
{{- if and $v.monitoring.serviceMonitor $v.monitoring.podMonitor -}}
{{- fail "monitoring: with both serviceMonitor and podMonitor every sample would be there twice; choose one" -}}
{{- end -}}
{{- range $name := list "extProc" "extAuthz" -}}
{{- $scaling := (get $v $name).autoscaling -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
{{- fail (printf "%s.autoscaling: minReplicas (%d) is greater than maxReplicas (%d)" $name (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and $v.wasm.serve (not $v.extProc.enabled) -}}
{{- fail "wasm: it is ext-proc that serves the module; wasm.serve needs extProc.enabled" -}}
{{- end -}}
{{- if and $v.extProc.rules $v.extProc.config.rules -}}
{{- fail "extProc: write rule files either in extProc.rules, or name them in extProc.config.rules, not both" -}}
{{- end -}}
{{- range $key := list "listen" "admin" -}}
{{- if hasKey $v.extProc.config $key -}}
{{- fail (printf "extProc.config.%s: this part of the configuration is the chart's" $key) -}}
{{- end -}}
{{- if hasKey $v.extAuthz.config $key -}}
{{- fail (printf "extAuthz.config.%s: this part of the configuration is the chart's" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
