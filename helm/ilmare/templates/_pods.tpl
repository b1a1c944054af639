{{/* Parts that several pods share. */}}

{{/* Called with the values of a part: nodeSelector, affinity, tolerations, topologySpreadConstraints, hostAliases, extraVolumes are the user's. */}}
{{- define "ilmare.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The Service by which a part is reached from outside the cluster, if there is one: (list $ NAME COMPONENT PORT-NAME PORT SERVICE-VALUES). */}}
{{- define "ilmare.outsideService" -}}
{{- $root := index . 0 -}}
{{- $s := index . 5 -}}
{{- if ne $s.type "ClusterIP" }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "ilmare.fullname" $root }}-{{ index . 1 }}-external
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "ilmare.labels" (list $root (index . 2)) | nindent 4 }}
  {{- with $s.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $s.type }}
  selector:
    {{- include "ilmare.selector" (list $root (index . 2 | eq "enrolment" | ternary "cloud" (index . 2))) | nindent 4 }}
  {{- with $s.externalTrafficPolicy }}
  externalTrafficPolicy: {{ . | quote }}
  {{- end }}
  {{- if eq $s.type "LoadBalancer" }}
  {{- with $s.loadBalancerClass }}
  loadBalancerClass: {{ . | quote }}
  {{- end }}
  {{- with $s.loadBalancerIP }}
  loadBalancerIP: {{ . | quote }}
  {{- end }}
  {{- with $s.loadBalancerSourceRanges }}
  loadBalancerSourceRanges:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  ports:
    - name: {{ index . 3 }}
      port: {{ index . 4 }}
      targetPort: {{ index . 3 }}
      {{- with $s.nodePort }}
      nodePort: {{ int . }}
      {{- end }}
{{- end }}
{{- end -}}

{{/* Annotations of what is there for crds/ alone. Called with the weight. */}}
{{- define "ilmare.hook" }}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{/* A container that says something to the broker as the node helm-test. Called with a dict: root, name, topic, and what the program is told
beside that (more); with an answer's topic it ends when the answer is there. */}}
{{- define "ilmare.say" -}}
- name: {{ .name }}
  image: {{ include "ilmare.image" (list .root .root.Values.broker.image) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [{{ .answer | empty | ternary "/usr/bin/mosquitto_pub" "/usr/bin/mosquitto_rr" }}]
  args:
    - -V
    - mqttv5
    - -h
    - {{ include "ilmare.fullname" .root }}-broker.{{ .root.Release.Namespace }}.svc
    - -p
    - "8883"
    - -i
    - helm-test
    - --cafile
    - /tls/ca.crt
    - --cert
    - /tls/tls.crt
    - --key
    - /tls/tls.key
    - -t
    - {{ .topic | quote }}
    {{- with .answer }}
    - -e
    - {{ . | quote }}
    - -W
    - "5"
    - -v
    {{- end }}
    {{- range .more }}
    - {{ . | quote }}
    {{- end }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  securityContext:
    {{- include "ilmare.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    - {name: tls, mountPath: /tls, readOnly: true}
{{- end -}}
