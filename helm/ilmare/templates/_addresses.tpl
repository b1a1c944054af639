{{/*
Where broker and enrolment are reached: by pods of this cluster (names of Services), and by devices (external.host). A device that is a node of the
cluster is told the outside address as well, if there is one: edge nodes often cannot resolve names of Services.
*/}}

{{- define "ilmare.brokerPort" -}}
{{- $s := .Values.broker.service -}}
{{- if .Values.external.brokerPort -}}{{ int .Values.external.brokerPort }}
{{- else if $s.hostPort -}}{{ int $s.hostPort }}
{{- else if and (eq $s.type "NodePort") $s.nodePort -}}{{ int $s.nodePort }}
{{- else -}}8883
{{- end -}}
{{- end -}}

{{- define "ilmare.enrolmentPort" -}}
{{- $s := .Values.enrolment.service -}}
{{- if .Values.external.enrolmentPort -}}{{ int .Values.external.enrolmentPort }}
{{- else if $s.hostPort -}}{{ int $s.hostPort }}
{{- else if and (eq $s.type "NodePort") $s.nodePort -}}{{ int $s.nodePort }}
{{- else -}}8443
{{- end -}}
{{- end -}}

{{/* A host name, or an address as it is written in a url. */}}
{{- define "ilmare.urlHost" -}}
{{- if and (contains ":" .) (not (hasPrefix "[" .)) -}}[{{ . }}]{{- else -}}{{ . }}{{- end -}}
{{- end -}}

{{/* Names of the Service F-NAME inside the cluster and out of it, as a JSON list. Called with (list $ NAME). */}}
{{- define "ilmare.hosts" -}}
{{- $root := index . 0 -}}
{{- template "ilmare.checkHosts" $root -}}
{{- $name := printf "%s-%s" (include "ilmare.fullname" $root) (index . 1) -}}
{{- $ns := $root.Release.Namespace -}}
{{- $hosts := list $name (printf "%s.%s" $name $ns) (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.%s" $name $ns $root.Values.clusterDomain) -}}
{{- with $root.Values.external.host -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- range $root.Values.external.alternatives -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- $hosts | uniq | toJson -}}
{{- end -}}

{{/* Brokers of the cloud agent and of devices, as JSON lists of urls. */}}
{{- define "ilmare.cloudBrokers" -}}
{{- if .Values.broker.enabled -}}
{{- list (printf "mqtts://%s-broker.%s.svc:8884" (include "ilmare.fullname" .) .Release.Namespace) | toJson -}}
{{- else -}}
{{- .Values.broker.external.addresses | toJson -}}
{{- end -}}
{{- end -}}

{{- define "ilmare.deviceBrokers" -}}
{{- if not .Values.broker.enabled -}}
{{- .Values.broker.external.deviceAddresses | default .Values.broker.external.addresses | toJson -}}
{{- else if .Values.external.host -}}
{{- list (printf "mqtts://%s:%s" (include "ilmare.urlHost" .Values.external.host) (include "ilmare.brokerPort" .)) | toJson -}}
{{- else -}}
{{- list (printf "mqtts://%s-broker.%s.svc:8883" (include "ilmare.fullname" .) .Release.Namespace) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "ilmare.enrolmentUrl" -}}
{{- if not .Values.enrolment.enabled -}}
{{- else if .Values.external.host -}}
https://{{ include "ilmare.urlHost" .Values.external.host }}:{{ include "ilmare.enrolmentPort" . }}
{{- else -}}
https://{{ include "ilmare.fullname" . }}-enrolment.{{ .Release.Namespace }}.svc:8443
{{- end -}}
{{- end -}}
