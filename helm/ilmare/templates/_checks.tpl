{{/*
What a schema cannot say: values that contradict each other, and another release that follows the same namespaces (which would be two leaders for
one job). Called once, from checks.yaml.
*/}}
{{- define "ilmare.checks" -}}
{{- $v := .Values -}}
{{- if not $v.broker.enabled -}}
{{- if not $v.broker.external.addresses -}}
{{- fail "\n\nilmare: broker.enabled is false, and broker.external.addresses names no other broker. Set it, for example: --set broker.external.addresses={mqtts://broker.example:8883}\n" -}}
{{- end -}}
{{- range concat $v.broker.external.addresses ($v.broker.external.deviceAddresses | default list) -}}
{{- if and (hasPrefix "mqtt:" .) (not $v.broker.external.insecure) -}}
{{- fail (printf "\n\nilmare: %s is a broker without TLS. Use mqtts://, or say that it is meant with broker.external.insecure=true\n" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not $v.broker.enabled) $v.enrolment.enabled (hasPrefix "mqtts:" (first ($v.broker.external.deviceAddresses | default $v.broker.external.addresses | default (list "")))) -}}
{{- if not $v.broker.external.ca -}}
{{- fail "\n\nilmare: devices that enrol check the broker and the enrolment with one file, so the authority of the other broker has to be known.\nGive it as PEM, also if it is a public one: --set-file broker.external.ca=FILE. Or let no device enrol: --set enrolment.enabled=false\n" -}}
{{- end -}}
{{- if eq $v.certificates.source "cert-manager" -}}
{{- fail "\n\nilmare: cert-manager cannot put the authorities of enrolment and of another broker into one file. Use certificates.source=chart or existing\n" -}}
{{- end -}}
{{- end -}}
{{- if and $v.broker.enabled $v.broker.external.addresses -}}
{{- fail "\n\nilmare: broker.external.addresses is set, and the chart's own broker is on as well. Set broker.enabled=false to use the other one\n" -}}
{{- end -}}
{{- range list (list "broker" $v.broker.service) (list "enrolment" $v.enrolment.service) -}}
{{- $s := index . 1 -}}
{{- if and $s.hostPort (ne $s.type "ClusterIP") -}}
{{- fail (printf "\n\nilmare: %s.service has both a hostPort and the type %s. Devices need one way in: set one of them\n" (index . 0) $s.type) -}}
{{- end -}}
{{- if and $s.nodePort (ne $s.type "NodePort") (ne $s.type "LoadBalancer") -}}
{{- fail (printf "\n\nilmare: %s.service.nodePort is set, but the type is %s. Set %s.service.type=NodePort\n" (index . 0) $s.type (index . 0)) -}}
{{- end -}}
{{- end -}}
{{- template "ilmare.checkPorts" . -}}
{{- template "ilmare.checkEdgeFolders" . -}}
{{- template "ilmare.checkHosts" . -}}
{{- if and (eq $v.certificates.source "chart") (gt (int $v.certificates.days) (int $v.certificates.authorityDays)) -}}
{{- fail (printf "\n\nilmare: certificates.days (%d) is more than certificates.authorityDays (%d): a certificate is worth nothing once its authority has ended\n" (int $v.certificates.days) (int $v.certificates.authorityDays)) -}}
{{- end -}}
{{- if and $v.broker.enabled $v.broker.revocationLists (ne $v.certificates.source "existing") -}}
{{- fail (printf "\n\nilmare: broker.revocationLists needs certificates.source=existing: with %s nobody makes the lists, and the broker would not start without.\nTo shut a device out: broker.denied\n" $v.certificates.source) -}}
{{- end -}}
{{- if has "cloud" (concat ($v.broker.denied | default list) ($v.enrolment.denied | default list)) -}}
{{- fail "\n\nilmare: \"cloud\" among the denied would shut the cloud agents out themselves (broker.denied, enrolment.denied): name devices and operators\n" -}}
{{- end -}}
{{- range $v.broker.operators -}}
{{- if has . (list "broker" "cloud" "enrolment" "helm-test") -}}
{{- fail (printf "\n\nilmare: an operator cannot be called %q (broker.operators): that name is taken\n" .) -}}
{{- end -}}
{{- end -}}
{{- /* Helm removes what a release no longer has: an authority that is to be gone on with would be lost, and all devices with it. */ -}}
{{- if ne $v.certificates.source "chart" -}}
{{- range list "authority" "cloudAuthority" -}}
{{- $name := include "ilmare.secretName" (list $ .) -}}
{{- $notes := ((lookup "v1" "Secret" $.Release.Namespace $name).metadata | default dict).annotations | default dict -}}
{{- if and (eq (index $notes "meta.helm.sh/release-name" | default "") $.Release.Name) (ne (index $notes "helm.sh/resource-policy" | default "") "keep") -}}
{{- fail (printf "\n\nilmare: the chart made the Secret %s, and Helm would remove it when certificates.source becomes %s. Keep it first:\nkubectl annotate secret %s helm.sh/resource-policy=keep --namespace %s\n" $name $v.certificates.source $name $.Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $mine := printf "%s-cloud" (include "ilmare.clusterName" .) -}}
{{- if $v.rbac.create -}}
{{- range $role := (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items | default list -}}
{{- $follows := index ($role.metadata.annotations | default dict) "ilmare/follows" -}}
{{- if and $follows (ne $role.metadata.name $mine) -}}
{{- $theirs := splitList "," $follows -}}
{{- range $v.watch.namespaces | default (list "*") -}}
{{- if or (eq . "*") (has "*" $theirs) (has . $theirs) -}}
{{- fail (printf "\n\nilmare: the release %s follows %s, and this one would follow %s as well: a job can have one leader only.\nGive each release namespaces of its own with watch.namespaces, in both of them.\n" ($role.metadata.name | trimSuffix "-cloud" | quote) (eq $follows "*" | ternary "all namespaces" $follows) (eq . "*" | ternary "all of them" .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Two that listen at one port: the second one would wait or end, without a word from Helm. */}}
{{- define "ilmare.checkPorts" -}}
{{- $b := .Values.broker.service -}}
{{- $e := .Values.enrolment.service -}}
{{- if and .Values.broker.enabled .Values.enrolment.enabled -}}
{{- range list "hostPort" "nodePort" -}}
{{- if and (index $b .) (eq (int (index $b .)) (int (index $e . | default 0))) -}}
{{- fail (printf "\n\nilmare: broker.service.%s and enrolment.service.%s are both %d: each needs a port of its own\n" . . (int (index $b .))) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.external.host (eq (include "ilmare.brokerPort" .) (include "ilmare.enrolmentPort" .)) -}}
{{- fail (printf "\n\nilmare: devices would look for the broker and for the enrolment at one port, %s:%s. Set external.brokerPort or external.enrolmentPort\n" .Values.external.host (include "ilmare.brokerPort" .)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.edge.enabled .Values.edge.metrics.enabled (eq (int .Values.edge.workersPort) (int .Values.edge.metrics.port)) -}}
{{- fail (printf "\n\nilmare: edge.workersPort and edge.metrics.port are both %d: each needs a port of its own\n" (int .Values.edge.workersPort)) -}}
{{- end -}}
{{- end -}}

{{/* The node's key is in stateDir: no job may name a file there. */}}
{{- define "ilmare.checkEdgeFolders" -}}
{{- $state := printf "%s/" .Values.edge.stateDir -}}
{{- if .Values.edge.enabled -}}
{{- range concat (.Values.edge.hostPaths | default list) (list .Values.edge.hotUpdateDir | compact) -}}
{{- $open := printf "%s/" . -}}
{{- if or (hasPrefix $state $open) (hasPrefix $open $state) -}}
{{- fail (printf "\n\nilmare: jobs could read and change the edge agent's own files, the node's key among them: %s is open to them (edge.hostPaths, edge.hotUpdateDir), and edge.stateDir is %s. Keep the two apart\n" . $.Values.edge.stateDir) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Before certificates are made for them, too, as that would say less. */}}
{{- define "ilmare.checkHosts" -}}
{{- range concat (list .Values.external.host) (.Values.external.alternatives | default list) | compact -}}
{{- if and (regexMatch "^[0-9.]+$" .) (not (regexMatch "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])([.]|$)){4}$" .)) -}}
{{- fail (printf "\n\nilmare: %s is no IPv4 address, and no name of a host is made of numbers alone (external.host, external.alternatives)\n" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
