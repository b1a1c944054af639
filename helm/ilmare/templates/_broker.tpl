{{/*
Mosquitto's configuration and access rules: files/production.conf and files/production.acl, which are those of broker-config/ in the sources, with
what the values change. The files lie where they are in production.conf's own lines, so nothing else has to be replaced. No list of revoked
certificates: those that a chart can make run out; who is to stay out is denied by name (broker.denied).
*/}}

{{- define "ilmare.mosquittoConf" -}}
{{- $conf := regexReplaceAll "(?s)\\A.*?(# ---- who gets in)" (.Files.Get "files/production.conf") "${1}" -}}
{{- $conf = regexReplaceAll "(?m)^# ?change: .*\n" $conf "" -}}
{{- if not .Values.broker.revocationLists -}}{{- $conf = regexReplaceAll "(?m)^crlfile .*\n" $conf "" -}}{{- end -}}
{{- if not .Values.broker.persistence.enabled -}}{{- $conf = regexReplaceAll "(?m)^persistence true$" $conf "persistence false" -}}{{- end -}}
{{- $conf = regexReplaceAll "(?m)^memory_limit .*$" $conf (printf "memory_limit %d" (int64 .Values.broker.memoryLimit)) -}}
{{- $conf = regexReplaceAll "(?m)^max_connections 10000$" $conf (printf "max_connections %d" (int .Values.broker.maxConnections)) -}}
{{- $conf -}}
{{- with .Values.broker.extraConfig }}

# ---- broker.extraConfig ----

{{ . }}
{{- end -}}
{{- end -}}

{{- define "ilmare.mosquittoAcl" -}}
{{- $root := .Values.mqtt.topicRoot -}}
{{- $acl := .Files.Get "files/production.acl" -}}
{{- $acl = regexReplaceAll "(?m)^(pattern [a-z]+|topic [a-z]+) ilmare/v1/" $acl (printf "${1} %s/" $root) -}}
{{- $acl = regexReplaceAll "(?m)^# (Another topic root|Operators are added) .*\n" $acl "" -}}
{{- $acl -}}
{{- range .Values.broker.operators }}

# An operator: reads all but what is secret, writes nothing.
user {{ . }}
topic deny {{ $root }}/node/+/credential/#
topic deny {{ $root }}/presence/{{ . }}
topic deny {{ $root }}/ns/+/job/+/node/{{ . }}/+/+
topic deny {{ $root }}/ns/+/dataset/+/node/{{ . }}/status
topic read {{ $root }}/#
topic read $SYS/#
{{- end }}
{{- range .Values.broker.denied }}

# Denied: hears and says nothing.
user {{ . }}
topic deny #
{{- end }}
{{- with .Values.broker.extraAcl }}

{{ . }}
{{- end }}
{{ end -}}
