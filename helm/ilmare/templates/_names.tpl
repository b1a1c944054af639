{{/*
Names and labels. Everything of a release is called F-SOMETHING, F being RELEASE-ilmare, or RELEASE if that says "ilmare" already; at most 40
characters, so that what is made of it (Services, labels of revisions) has at most 63. A longer name is cut and ends in a digest of the whole, so
that two long ones stay apart. A Service's name begins with a letter and has no dot, which a release's may: 123 becomes ilmare-123.
*/}}

{{- define "ilmare.fullname" -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- $own := contains "ilmare" $release | ternary $release (printf "%s-ilmare" $release) -}}
{{- if not (regexMatch "^[a-z]" $release) -}}{{- $own = printf "ilmare-%s" $release -}}{{- end -}}
{{- $name := .Values.fullnameOverride | default $own -}}
{{- if gt (len $name) 40 -}}
{{- printf "%s-%s" ($name | trunc 31 | trimSuffix "-" | trimSuffix ".") (sha256sum $name | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* What pods are found by; never changes in the life of a release. Called with (list $ COMPONENT). */}}
{{- define "ilmare.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: ilmare
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "ilmare.labels" -}}
{{- $root := index . 0 -}}
{{ include "ilmare.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: ilmare
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Name of an image. Called with (list $ IMAGE), IMAGE being {repository, tag} of the values. */}}
{{- define "ilmare.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $image.repository }}:{{ $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end -}}

{{- define "ilmare.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Cluster-wide objects carry the namespace, so that releases of one name in two namespaces are two. */}}
{{- define "ilmare.clusterName" -}}
{{ .Release.Namespace }}:{{ include "ilmare.fullname" . }}
{{- end -}}

{{- define "ilmare.cloudAccount" -}}
{{ .Values.rbac.serviceAccount | default (printf "%s-cloud" (include "ilmare.fullname" .)) }}
{{- end -}}

{{/* Pod and container as the restricted Pod Security Standard wants them. */}}
{{- define "ilmare.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "ilmare.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Names of Secrets with certificates: the chart's own, or the ones that the values name. Called with (list $ WHICH), WHICH as in
certificates.existing. */}}
{{- define "ilmare.secretName" -}}
{{- $root := index . 0 -}}
{{- $which := index . 1 -}}
{{- $own := dict "authority" "authority" "cloudAuthority" "cloud-authority" "broker" "broker-tls" "cloud" "cloud-tls" "enrolment" "enrolment-tls" "test" "test-tls" -}}
{{- $given := "" -}}
{{- if eq $root.Values.certificates.source "existing" -}}
{{- $given = index $root.Values.certificates.existing $which -}}
{{- end -}}
{{- $given | default (printf "%s-%s" (include "ilmare.fullname" $root) (index $own $which)) -}}
{{- end -}}
