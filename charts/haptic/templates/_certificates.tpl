{{- /* (list . SECRETS) */ -}}
{{- define "haptic.certificateArguments" -}}
{{- $root := first . -}}
{{- $secrets := last . -}}
{{- $certificates := $root.Values.certificates -}}
{{- if eq $certificates.mode "controller" -}}
- --issue-certificates
- --authority-secret={{ $secrets.authority }}
- --controller-secret={{ $secrets.controller }}
- --agent-secret={{ $secrets.agent }}
{{- if $root.Values.webhook.enabled }}
- --webhook-secret={{ $secrets.webhook }}
- --webhook-service={{ include "haptic.fullname" $root }}-webhook
- --webhook-configuration={{ include "haptic.webhookConfiguration" $root }}
{{- end }}
- --certificate-lifetime={{ $certificates.lifetime }}
- --authority-lifetime={{ $certificates.authorityLifetime }}
{{- end -}}
{{- end -}}

{{- define "haptic.webhookArguments" -}}
{{- if .Values.webhook.enabled -}}
- --webhook-listen=0.0.0.0:{{ .Values.webhook.port }}
- --webhook-tls=/webhook-tls
{{- end -}}
{{- end -}}

{{- /* Of the whole cluster, so the namespace is a part of its name. */ -}}
{{- define "haptic.webhookConfiguration" -}}
{{- include "haptic.fullname" . }}-{{ .Release.Namespace -}}
{{- end -}}
