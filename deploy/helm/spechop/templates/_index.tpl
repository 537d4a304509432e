{{/* Of all that decides what the index holds, but what encodes it: `revision` is for that. The file `default.of` says of
which the index is that lies there: it is written last, so going back to an earlier corpus builds that one again. */}}
{{- define "spechop.indexId" -}}
{{- $build := .Values.index.build -}}
{{- printf "%v %s %s %v %v" $build.revision $build.corpusClaim $build.corpusPath $build.shards $build.hotFraction | sha256sum | trunc 8 -}}
{{- end -}}

{{/* The file that says of which index the servers' look-ups are. */}}
{{- define "spechop.indexOf" -}}
{{- ternary "pushed.of" "default.of" (eq .Values.index.target "qdrant") -}}
{{- end -}}

{{/* What that file says. With Qdrant, a collection of another name, or elsewhere, is waited for, too. */}}
{{- define "spechop.indexDone" -}}
{{- $id := include "spechop.indexId" . -}}
{{- if eq .Values.index.target "qdrant" -}}
{{- printf "%s %s %s" $id (include "spechop.qdrantUrls" .) .Values.index.collection | sha256sum | trunc 8 -}}
{{- else -}}
{{- $id -}}
{{- end -}}
{{- end -}}

{{/* Process 1 of a container hears only of signals that it has a trap for, and of none while a program runs in front. Else
a pod that is deleted takes its whole grace period. */}}
{{- define "spechop.endable" -}}
trap 'exit 143' TERM
run() { "$@" & wait $!; }
{{- end -}}

{{- define "spechop.indexPod" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- include "spechop.podSecurity" . | nindent 2 }}
{{- include "spechop.placing" . | nindent 0 }}
{{- end -}}

{{- define "spechop.indexLabels" -}}
labels: {{- include "spechop.labels" . | nindent 2 }}
  app.kubernetes.io/component: index
{{- end -}}

{{/* A pod that builds a part. A part that is there is complete; an interrupted one is resumed. */}}
{{- define "spechop.partPod" -}}
{{- $build := .Values.index.build -}}
{{- $id := include "spechop.indexId" . -}}
metadata:
  {{- include "spechop.indexLabels" . | nindent 2 }}
spec:
  {{- include "spechop.indexPod" . | nindent 2 }}
  containers:
    - name: part
      image: {{ include "spechop.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        - bash
        - -euc
        - |
          {{- include "spechop.endable" . | nindent 10 }}
          cd /var/lib/spechop/indexes
          if [ "$(cat default.of 2>/dev/null)" = {{ $id }} ]; then exit; fi
          part=parts-{{ $id }}/$JOB_COMPLETION_INDEX
          [ -e "$part/manifest.json" ] || run spechop index build --config /etc/spechop/spechop.toml \
            --corpus "/corpus/$CORPUS" --out "$part" --shard "$JOB_COMPLETION_INDEX/{{ $build.shards }}"
      env:
        - {name: CORPUS, value: {{ $build.corpusPath | quote }}}
      {{- with include "spechop.secrets" . }}{{ . | nindent 6 }}{{ end }}
      securityContext: {{- include "spechop.security" . | nindent 8 }}
      resources: {{- toYaml $build.resources | nindent 8 }}
      volumeMounts:
        # The servers' encoder is the index's.
        - {name: config, mountPath: /etc/spechop, readOnly: true}
        - {name: corpus, mountPath: /corpus, readOnly: true}
        - {name: indexes, mountPath: /var/lib/spechop/indexes}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: config
      configMap: {name: {{ include "spechop.name" . }}}
    - name: corpus
      persistentVolumeClaim: {claimName: {{ $build.corpusClaim }}, readOnly: true}
    - name: indexes
      persistentVolumeClaim: {claimName: {{ include "spechop.indexClaim" . }}}
    - name: tmp
      emptyDir: {}
{{- end -}}

{{/* The pod that joins the parts, and fills Qdrant with them. */}}
{{- define "spechop.joinPod" -}}
{{- $build := .Values.index.build -}}
{{- $id := include "spechop.indexId" . -}}
metadata:
  {{- include "spechop.indexLabels" . | nindent 2 }}
spec:
  {{- include "spechop.indexPod" . | nindent 2 }}
  containers:
    - name: join
      image: {{ include "spechop.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command:
        - bash
        - -euc
        - |
          {{- include "spechop.endable" . | nindent 10 }}
          cd /var/lib/spechop/indexes
          joined() { [ "$(cat default.of 2>/dev/null)" = {{ $id }} ]; }
          # Of builds that were given up. Helm ends their jobs after it has begun ours, so a newer build's may be there later.
          given_up=(parts-*)
          parts=()
          for ((part = 0; part < {{ $build.shards }}; part++)); do
            until joined || [ -e "parts-{{ $id }}/$part/manifest.json" ]; do sleep 5; done
            parts+=("parts-{{ $id }}/$part")
          done
          if ! joined; then
            rm -f default.of
            run spechop index merge --out default {{ if gt (float64 $build.hotFraction) 0.0 }}--hot-fraction {{ $build.hotFraction }} {{ end }}"${parts[@]}"
            echo {{ $id }} >default.of
          fi
          rm -rf parts-{{ $id }} "${given_up[@]}"
          {{- if eq .Values.index.target "qdrant" }}
          IFS=, read -ra urls <<<"$QDRANT_URLS"
          run spechop index push "${urls[@]/#/--url=}" --collection "$COLLECTION"
          {{- with .Values.qdrantKeyEnv }} --api-key-env {{ . }}{{ end }}
          {{- with include "spechop.qdrantReplicas" . }} --replicas {{ . }}{{ end }} default
          echo {{ include "spechop.indexDone" . }} >{{ include "spechop.indexOf" . }}
          {{- end }}
      {{- if eq .Values.index.target "qdrant" }}
      env:
        - {name: QDRANT_URLS, value: {{ include "spechop.qdrantUrls" . | quote }}}
        - {name: COLLECTION, value: {{ .Values.index.collection | quote }}}
      {{- with include "spechop.secrets" . }}{{ . | nindent 6 }}{{ end }}
      {{- end }}
      securityContext: {{- include "spechop.security" . | nindent 8 }}
      # It waits for the parts while they need the cores, and then copies what they have encoded.
      resources: {{- toYaml $build.joinResources | nindent 8 }}
      volumeMounts:
        - {name: indexes, mountPath: /var/lib/spechop/indexes}
        - {name: tmp, mountPath: /tmp}
  volumes:
    - name: indexes
      persistentVolumeClaim: {claimName: {{ include "spechop.indexClaim" . }}}
    - name: tmp
      emptyDir: {}
{{- end -}}
