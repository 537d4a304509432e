{{- define "spechop.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "spechop.selector" -}}
app.kubernetes.io/name: spechop
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spechop.labels" -}}
{{ include "spechop.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "spechop.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "spechop.indexClaim" -}}
{{- .Values.index.existingClaim | default (printf "%s-indexes" (include "spechop.name" .)) -}}
{{- end -}}

{{/* The gateways of Qdrant, as the server takes them: with commas between. */}}
{{- define "spechop.qdrantUrls" -}}
{{- if .Values.qdrant.enabled -}}
http://{{ include "spechop.name" . }}-qdrant:6334
{{- else -}}
{{- join "," .Values.qdrantUrls -}}
{{- end -}}
{{- end -}}

{{/* How many servers hold each part of a collection that the chart fills; empty if the cluster decides. One of this
chart's servers that goes must not be missed. */}}
{{- define "spechop.qdrantReplicas" -}}
{{- .Values.index.collectionReplicas | default (.Values.qdrant.enabled | ternary 2 "") -}}
{{- end -}}

{{/* The variables that a configuration names keys by. */}}
{{- define "spechop.secrets" -}}
{{- with .Values.existingSecret -}}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end -}}
{{- end -}}

{{/* Whether the server itself asks who calls; empty if not. */}}
{{- define "spechop.asksWho" -}}
{{- if or .Values.keys.existingSecret .Values.tls.clientAuthoritySecret -}}yes{{- end -}}
{{- end -}}

{{- define "spechop.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "spechop.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "spechop.placing" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What cannot work, or would be open to everybody, is said before anything is installed. */}}
{{- define "spechop.checks" -}}
{{- $values := .Values -}}
{{- if not (or $values.networkPolicy.enabled (include "spechop.asksWho" .) $values.allowUnprotected) -}}
{{- fail "every pod of the cluster could ask: set networkPolicy.enabled, keys.existingSecret or tls.clientAuthoritySecret, or allowUnprotected if something else protects the server" -}}
{{- end -}}
{{- if not (has $values.index.target (list "volume" "qdrant" "none")) -}}
{{- fail (printf "index.target is %q; it is volume, qdrant or none" $values.index.target) -}}
{{- end -}}
{{- if and (eq $values.index.target "none") $values.index.build.enabled -}}
{{- fail "index.build.enabled with index.target none would build an index that no server reads" -}}
{{- end -}}
{{- if and (eq $values.index.target "qdrant") (not $values.qdrant.enabled) (not $values.qdrantUrls) -}}
{{- fail "index.target is qdrant: set qdrant.enabled, or qdrantUrls to a cluster that is there" -}}
{{- end -}}
{{- if and (eq $values.index.target "qdrant") (not $values.qdrant.enabled) $values.networkPolicy.enabled (not $values.networkPolicy.to) -}}
{{- fail "qdrantUrls with networkPolicy.enabled needs networkPolicy.to: the way to that cluster" -}}
{{- end -}}
{{- if and (eq $values.index.target "qdrant") (gt (float64 $values.index.build.hotFraction) 0.0) -}}
{{- fail "index.build.hotFraction is for index.target volume: servers that look up in Qdrant hold no hot subset" -}}
{{- end -}}
{{- if and $values.qdrantKeyEnv (not $values.existingSecret) -}}
{{- fail "qdrantKeyEnv needs existingSecret: the Secret with an entry of that name" -}}
{{- end -}}
{{- if and $values.index.build.enabled (not $values.index.build.corpusClaim) -}}
{{- fail "index.build.enabled needs index.build.corpusClaim: the claim that holds the corpus" -}}
{{- end -}}
{{- if and $values.tls.clientAuthoritySecret (not $values.tls.existingSecret) -}}
{{- fail "tls.clientAuthoritySecret needs tls.existingSecret" -}}
{{- end -}}
{{- $operator := $values.prometheusOperator -}}
{{- if $operator.enabled -}}
{{- if and $values.networkPolicy.enabled (not $values.networkPolicy.metricsFrom) -}}
{{- fail "prometheusOperator.enabled needs networkPolicy.metricsFrom: who may read /metrics" -}}
{{- end -}}
{{- if and $values.keys.existingSecret (not $operator.authorization) -}}
{{- fail "prometheusOperator.enabled with keys.existingSecret needs prometheusOperator.authorization: a key with the role admin" -}}
{{- end -}}
{{- if and $values.tls.existingSecret (not $operator.tlsConfig) -}}
{{- fail "prometheusOperator.enabled with tls.existingSecret needs prometheusOperator.tlsConfig: the authority of the server's certificate" -}}
{{- end -}}
{{- if and $values.tls.clientAuthoritySecret (not (and $operator.tlsConfig.cert $operator.tlsConfig.keySecret)) -}}
{{- fail "prometheusOperator.enabled with tls.clientAuthoritySecret needs prometheusOperator.tlsConfig.cert and keySecret: a certificate of that authority" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The kubelet's gRPC probe speaks no TLS. Then an open port must do: the server listens when it can answer. */}}
{{- define "spechop.probe" -}}
{{- if .Values.tls.existingSecret -}}
tcpSocket: {port: 50051}
{{- else -}}
grpc: {port: 50051}
{{- end -}}
{{- end -}}

{{/* Its HTTPS probe does, but has no certificate to show. /readyz also says whether parts elsewhere are there, which a
restart does not mend. Health of the service says whether somebody can be let in, too. */}}
{{- define "spechop.readiness" -}}
{{- if and .Values.tls.existingSecret (not .Values.tls.clientAuthoritySecret) -}}
httpGet: {path: /readyz, port: 50051, scheme: HTTPS}
{{- else if .Values.tls.existingSecret -}}
{{- include "spechop.probe" . -}}
{{- else -}}
grpc: {port: 50051, service: spechop.v1.SpecHop}
{{- end -}}
{{- end -}}
