{{- /* What things are called, and how they are found. */ -}}

{{- define "haptic.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "haptic.serviceAccount" -}}
{{- .Values.controller.serviceAccount.name | default (include "haptic.fullname" .) -}}
{{- end -}}

{{- /* (list . COMPONENT): what a pod of the component is found by; never changes in the life of a release. */ -}}
{{- define "haptic.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ $root.Values.nameOverride | default $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- /* (list . COMPONENT [MORE]): labels and annotations of an object; MORE has labels and annotations of its own. */ -}}
{{- define "haptic.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := dict -}}
{{- if gt (len .) 2 -}}{{- $more = index . 2 | default dict -}}{{- end -}}
labels:
  {{- include "haptic.selector" (list $root (index . 1)) | nindent 2 }}
  app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ $root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
  {{- with merge (dict) ($more.labels | default dict) ($root.Values.commonLabels | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) ($more.annotations | default dict) ($root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* (list . IMAGE TAG): the image of this tag, unless the values name another or a digest. */ -}}
{{- define "haptic.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $registry := $image.registry | default $root.Values.imageRegistry -}}
{{- if $registry -}}{{ $registry | trimSuffix "/" }}/{{- end -}}
{{- $image.repository }}:{{ $image.tag | default (index . 2) -}}
{{- if $image.digest -}}@{{ $image.digest }}{{- end -}}
{{- end -}}

{{- define "haptic.controllerImage" -}}
{{- include "haptic.image" (list . .Values.controller.image .Chart.AppVersion) -}}
{{- end -}}

{{- define "haptic.haproxyImage" -}}
{{- include "haptic.image" (list . .Values.haproxy.image (printf "%s-%s" .Chart.AppVersion .Values.haproxy.version)) -}}
{{- end -}}

{{- /* Names of Secrets, whoever fills them. */ -}}
{{- define "haptic.secrets" -}}
{{- $fullname := include "haptic.fullname" . -}}
{{- $existing := .Values.certificates.existing -}}
{{- $own := ne .Values.certificates.mode "existing" -}}
{{- if not $own }}
{{- range $key := ternary (list "controllerSecret" "agentSecret" "webhookSecret") (list "controllerSecret" "agentSecret") .Values.webhook.enabled }}
{{- if not (get $existing $key) }}
{{- fail (printf "certificates.existing.%s: with certificates.mode `existing` name the Secret (tls.crt, tls.key, ca.crt)" $key) }}
{{- end }}
{{- end }}
{{- end }}
authority: {{ $fullname }}-authority
controller: {{ ternary (printf "%s-controller" $fullname) $existing.controllerSecret $own }}
agent: {{ ternary (printf "%s-agent" $fullname) $existing.agentSecret $own }}
webhook: {{ ternary (printf "%s-webhook" $fullname) $existing.webhookSecret $own }}
{{- end -}}
