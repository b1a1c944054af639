{{/*
Certificates that the chart makes itself (certificates.source: chart). They are made once in a rendering, kept in .Values._certificates, and taken
from what is in the cluster where that is still good, so that an upgrade changes nothing. A certificate is made anew when the hosts that it is for,
or the authority, are others than those of before, or when a third of its life is over. Authorities are kept as they are in their Secrets.
Without a cluster to look into (helm template) everything is new.

An authority that is gone from a release that had one is not made anew unasked: all that it has signed would be worth nothing. That there was one is
known by what the chart makes with it, and with no other source of certificates: the ConfigMap F-ca, or a certificate of its own, of which one may
have been lost as well. Where neither is seen, the release had others, or there is no cluster to ask.
*/}}

{{/* Called with a dict: root, secret, what (it signs, in words). */}}
{{- define "ilmare.refuseNewAuthority" -}}
{{- $r := .root.Release -}}
{{- $had := false -}}
{{- range list (list "ConfigMap" "ca") (list "Secret" "cloud-tls") -}}
{{- $notes := ((lookup "v1" (index . 0) $r.Namespace (printf "%s-%s" (include "ilmare.fullname" $.root) (index . 1))).metadata | default dict).annotations | default dict -}}
{{- $had = or $had (eq (index $notes "meta.helm.sh/release-name" | default "") $r.Name) -}}
{{- end -}}
{{- if and $r.IsUpgrade $had (ne (int $r.Revision) (int .root.Values.certificates.newAuthorityAt)) -}}
{{- $back := printf "  helm rollback %s %d --namespace %s" $r.Name (sub $r.Revision 1) $r.Namespace -}}
{{- $new := printf "  --set certificates.newAuthorityAt=%d" (int $r.Revision) -}}
{{- fail (printf "\n\nilmare: the Secret %s is gone, or has no tls.crt and tls.key any more. %s\nBring it back as it was, from Helm's own record:\n%s\nor from a backup, then upgrade. If it is lost, or meant to go, let this upgrade make a new one:\n%s\n" .secret .what $back $new) -}}
{{- end -}}
{{- end -}}

{{/* into[as] = {Cert, Key}. what: what hangs on it outside of this rendering, in words; none: it may always be made anew. */}}
{{- define "ilmare.makeAuthority" -}}
{{- $old := (lookup "v1" "Secret" .root.Release.Namespace .secret).data | default dict -}}
{{- if and (index $old "tls.crt") (index $old "tls.key") -}}
{{- $_ := set .into .as (buildCustomCert (index $old "tls.crt") (index $old "tls.key")) -}}
{{- else -}}
{{- with .what -}}{{- template "ilmare.refuseNewAuthority" (dict "root" $.root "secret" $.secret "what" .) -}}{{- end -}}
{{- $_ := set .into .as (genCAWithKey .cn (int .root.Values.certificates.authorityDays) (genPrivateKey "ecdsa")) -}}
{{- end -}}
{{- end -}}

{{/* into[as] = {cert, key, made, renew}: the two annotations tell the next upgrade what it is for, and from when on it is replaced. */}}
{{- define "ilmare.makeCertificate" -}}
{{- $made := printf "%s %s %s" .cn (join "," .hosts) .ca.Cert | sha256sum | trunc 32 -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $old := lookup "v1" "Secret" .root.Release.Namespace .secret | default dict -}}
{{- $data := $old.data | default dict -}}
{{- $notes := ($old.metadata | default dict).annotations | default dict -}}
{{- $renew := index $notes "ilmare/renew-after" | default "0" -}}
{{- if and (index $data "tls.crt") (index $data "tls.key") (eq (index $notes "ilmare/made-for" | default "") $made) (lt $now (int64 $renew)) -}}
{{- $_ := set .into .as (dict "cert" (index $data "tls.crt" | b64dec) "key" (index $data "tls.key" | b64dec) "made" $made "renew" $renew) -}}
{{- else -}}
{{- $ips := list -}}
{{- $names := list -}}
{{- range .hosts -}}
{{- if or (contains ":" .) (regexMatch "^[0-9]+([.][0-9]+){3}$" .) -}}{{- $ips = append $ips . -}}{{- else -}}{{- $names = append $names . -}}{{- end -}}
{{- end -}}
{{- $days := int .root.Values.certificates.days -}}
{{- $new := genSignedCertWithKey .cn $ips $names $days .ca (genPrivateKey "ecdsa") -}}
{{- $renew = add $now (div (mul $days 86400) 3) | toString -}}
{{- $_ := set .into .as (dict "cert" $new.Cert "key" $new.Key "made" $made "renew" $renew) -}}
{{- end -}}
{{- end -}}

{{- define "ilmare.certificates" -}}
{{- if not (hasKey .Values "_certificates") -}}
{{- $f := include "ilmare.fullname" . -}}
{{- $all := dict -}}
{{- if eq .Values.certificates.source "chart" -}}
{{- $devices := "It signs devices' certificates: with another one, no device that is enrolled gets in any more." -}}
{{- $cloud := "" -}}
{{- if and (not .Values.broker.enabled) .Values.broker.external.clientCertificates -}}
{{- $cloud = "Your broker knows the cloud agents by it: with another one, it lets none of them in." -}}
{{- end -}}
{{- template "ilmare.makeAuthority" (dict "root" . "secret" (printf "%s-authority" $f) "cn" "Ilmare devices" "into" $all "as" "authority" "what" $devices) -}}
{{- template "ilmare.makeAuthority" (dict "root" . "secret" (printf "%s-cloud-authority" $f) "cn" "Ilmare cloud" "into" $all "as" "cloudAuthority" "what" $cloud) -}}
{{- $none := list -}}
{{- range list (list "broker" "broker" (include "ilmare.hosts" (list . "broker") | fromJsonArray)) (list "enrolment" "enrolment" (include "ilmare.hosts" (list . "enrolment") | fromJsonArray)) (list "test" "helm-test" $none) -}}
{{- template "ilmare.makeCertificate" (dict "root" $ "into" $all "ca" $all.authority "secret" (printf "%s-%s-tls" $f (index . 0)) "as" (index . 0) "cn" (index . 1) "hosts" (index . 2)) -}}
{{- end -}}
{{- template "ilmare.makeCertificate" (dict "root" . "into" $all "ca" $all.cloudAuthority "secret" (printf "%s-cloud-tls" $f) "as" "cloud" "cn" "cloud" "hosts" $none) -}}
{{- $operators := dict -}}
{{- range .Values.broker.operators -}}
{{- template "ilmare.makeCertificate" (dict "root" $ "into" $operators "ca" $all.authority "secret" (printf "%s-operator-%s" $f .) "cn" . "as" . "hosts" $none) -}}
{{- end -}}
{{- $_ := set $all "operators" $operators -}}
{{- end -}}
{{- $_ := set .Values "_certificates" $all -}}
{{- end -}}
{{- end -}}
