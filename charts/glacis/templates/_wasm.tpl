{{/* Where Envoys load the module from. */}}
{{- define "glacis.wasmUrl" -}}
{{- if and (not .Values.wasm.url) (not .Values.wasm.serve) -}}
{{- fail "wasm: an attachment wants the module, but nobody has it: set wasm.serve, or wasm.url" -}}
{{- end -}}
{{- $url := .Values.wasm.url | default (printf "http://%s:9103/glacis_wasm_filter.wasm" (include "glacis.host" (dict "root" . "part" "ext-proc"))) -}}
{{- if and (hasPrefix "http:" $url) (not .Values.wasm.sha256) -}}
{{- fail "wasm.sha256: what comes over http:// is only believed with its SHA-256; ext-proc tells it at /glacis_wasm_filter.wasm.sha256, and `sha256sum` of the file does" -}}
{{- end -}}
{{- $url -}}
{{- end -}}
