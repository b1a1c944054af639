{{/*
The agents' configuration files: what the chart knows, and over it cloud.settings and edge.settings. Names are those of docs/configuration.md.
*/}}

{{- define "ilmare.cloudSettings" -}}
{{- $f := include "ilmare.fullname" . -}}
{{- $x := .Values.broker.external -}}
{{- $mqtt := dict "brokers" (include "ilmare.cloudBrokers" . | fromJsonArray) "topicRoot" .Values.mqtt.topicRoot -}}
{{- if or .Values.broker.enabled $x.clientCertificates -}}
{{- $_ := set $mqtt "certFile" "/etc/ilmare/tls/tls.crt" -}}
{{- $_ := set $mqtt "keyFile" "/etc/ilmare/tls/tls.key" -}}
{{- end -}}
{{- if or .Values.broker.enabled $x.ca -}}{{- $_ := set $mqtt "caFile" "/etc/ilmare/broker-ca/ca.crt" -}}{{- end -}}
{{- if not .Values.broker.enabled -}}
{{- if $x.cloudAuthSecret -}}{{- $_ := set $mqtt "passwordFile" "/etc/ilmare/broker-auth/password" -}}{{- end -}}
{{- if $x.insecure -}}{{- $_ := set $mqtt "insecure" true -}}{{- end -}}
{{- end -}}
{{- $kube := dict "lease" (printf "%s-cloud" $f) "leaseNamespace" .Release.Namespace "storageImage" (include "ilmare.image" (list . .Values.transfer.image)) -}}
{{- with .Values.watch.namespaces -}}{{- $_ := set $kube "namespaces" . -}}{{- end -}}
{{- $all := dict "cluster" "kube" "mqtt" $mqtt "kube" $kube "observe" (dict "host" "0.0.0.0" "port" 9101) -}}
{{- if .Values.enrolment.enabled -}}
{{- $e := dict "host" "0.0.0.0" "port" 8443 "certFile" "/etc/ilmare/enrolment/tls.crt" "keyFile" "/etc/ilmare/enrolment/tls.key" -}}
{{- $_ := set $e "authorityCert" "/etc/ilmare/authority/tls.crt" -}}
{{- $_ := set $e "authorityKey" "/etc/ilmare/authority/tls.key" -}}
{{- $_ := set $e "secretPrefix" (printf "%s-enrol-" $f) -}}
{{- $_ := set $e "lifetime" .Values.enrolment.lifetime -}}
{{- if .Values.edge.enabled -}}{{- $_ := set $e "serviceAccount" (printf "%s:%s-edge" .Release.Namespace $f) -}}{{- end -}}
{{- with concat (.Values.broker.denied | default list) (.Values.enrolment.denied | default list) | uniq -}}{{- $_ := set $e "denied" . -}}{{- end -}}
{{- $_ := set $e "reserved" (concat (list "enrolment" "helm-test") (.Values.broker.operators | default list) (.Values.enrolment.reserved | default list) | uniq) -}}
{{- $_ := set $all "enrolment" $e -}}
{{- end -}}
{{- mergeOverwrite $all (deepCopy (.Values.cloud.settings | default dict)) | toYaml -}}
{{- end -}}

{{- define "ilmare.edgeSettings" -}}
{{- $x := .Values.broker.external -}}
{{- $mqtt := dict "brokers" (include "ilmare.deviceBrokers" . | fromJsonArray) "topicRoot" .Values.mqtt.topicRoot -}}
{{- if or .Values.broker.enabled $x.ca .Values.enrolment.enabled -}}{{- $_ := set $mqtt "caFile" "/etc/ilmare/ca/ca.crt" -}}{{- end -}}
{{- if not .Values.broker.enabled -}}
{{- if $x.deviceAuthSecret -}}{{- $_ := set $mqtt "passwordFile" "/etc/ilmare/broker-auth/password" -}}{{- end -}}
{{- if $x.insecure -}}{{- $_ := set $mqtt "insecure" true -}}{{- end -}}
{{- end -}}
{{- $all := dict "stateDir" "/var/lib/ilmare" "rootDir" "/rootfs" "mqtt" $mqtt "workers" (dict "host" "127.0.0.1" "port" (int .Values.edge.workersPort)) -}}
{{- if .Values.enrolment.enabled -}}
{{- $_ := set $all "enrolment" (dict "url" (include "ilmare.enrolmentUrl" .) "tokenFile" "/var/run/secrets/ilmare/token") -}}
{{- end -}}
{{- if .Values.edge.metrics.enabled -}}
{{- $_ := set $all "observe" (dict "host" "0.0.0.0" "port" (int .Values.edge.metrics.port)) -}}
{{- end -}}
{{- mergeOverwrite $all (deepCopy (.Values.edge.settings | default dict)) | toYaml -}}
{{- end -}}
