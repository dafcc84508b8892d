{{- /* The HAProxyTemplateConfig, its libraries and plugins. No text of a template passes through Helm's own templates. */ -}}

{{- /* The libraries of the chart that are in use, as a list of objects. */ -}}
{{- define "haptic.libraries" -}}
libraries:
{{- range .Values.libraries }}
{{- $text := $.Files.Get (printf "libraries/%s.yaml" .) }}
{{- if not $text }}
{{- fail (printf "libraries: the chart has no library `%s`; name libraries of your own in config.libraryRefs" .) }}
{{- end }}
{{- list ($text | fromYaml) | toYaml | nindent 0 }}
{{- end }}
{{- end -}}

{{- /* Everything that is watched, by name: later libraries win, the configuration last, each entry as a whole. */ -}}
{{- define "haptic.watchedResources" -}}
{{- $watched := dict -}}
{{- range (include "haptic.libraries" . | fromYaml).libraries -}}
{{- range $name, $resource := .spec.watchedResources -}}
{{- $_ := set $watched $name $resource -}}
{{- end -}}
{{- end -}}
{{- range $name, $resource := .Values.config.watchedResources -}}
{{- $_ := set $watched $name $resource -}}
{{- end -}}
{{- toYaml $watched -}}
{{- end -}}

{{- /* The specs of the plugins that are in use, by name. */ -}}
{{- define "haptic.plugins" -}}
{{- $plugins := dict -}}
{{- range $name, $plugin := .Values.plugins -}}
{{- if or $plugin.enabled (and (eq $name "spoe") $.Values.spoe.engines) -}}
{{- $spec := $plugin.spec | default dict | deepCopy -}}
{{- if not $spec.module -}}
{{- $_ := set $spec "module" (dict "builtin" (dict "name" $name)) -}}
{{- end -}}
{{- $_ := set $plugins $name $spec -}}
{{- end -}}
{{- end -}}
{{- toYaml $plugins -}}
{{- end -}}

{{- /* Ports are said once, where the pods have them too. */ -}}
{{- define "haptic.extraContext" -}}
{{- $given := .Values.config.extraContext | default dict -}}
{{- range $key, $value := dict "http_port" "haproxy.ports.http" "https_port" "haproxy.ports.https" -}}
{{- if hasKey $given $key -}}
{{- fail (printf "config.extraContext.%s: set %s, which the pods and the Service follow" $key $value) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "http_port" (.Values.haproxy.ports.http | int) "ingress_controller" .Values.ingressClass.controller -}}
{{- if has "ssl" .Values.libraries -}}
{{- $_ := set $own "https_port" (.Values.haproxy.ports.https | int) -}}
{{- end -}}
{{- merge (deepCopy $given) $own | toYaml -}}
{{- end -}}

{{- define "haptic.spec" -}}
{{- $fullname := include "haptic.fullname" . -}}
{{- $spec := deepCopy .Values.config -}}
{{- $_ := set $spec "podSelector" (dict "matchLabels" (include "haptic.selector" (list . "haproxy") | fromYaml)) -}}
{{- $_ := set $spec "credentialsSecretRef" (dict "name" (include "haptic.secrets" . | fromYaml).controller) -}}
{{- $refs := list -}}
{{- range (include "haptic.libraries" . | fromYaml).libraries -}}
{{- $refs = append $refs (dict "name" .metadata.name "revision" .spec.revision) -}}
{{- end -}}
{{- $_ := set $spec "libraryRefs" (concat $refs ($spec.libraryRefs | default list)) -}}
{{- $_ := set $spec "extraContext" (include "haptic.extraContext" . | fromYaml) -}}
{{- /* Plugins in the order of their names. */ -}}
{{- $plugins := list -}}
{{- $validators := list -}}
{{- range $name, $_ := include "haptic.plugins" . | fromYaml -}}
{{- $plugins = append $plugins (dict "name" $name) -}}
{{- range (get $.Values.plugins $name).validators -}}
{{- $validators = append $validators (merge (dict "plugin" $name) .) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $spec "plugins" (concat $plugins ($spec.plugins | default list)) -}}
{{- $_ := set $spec "validators" (concat $validators ($spec.validators | default list)) -}}
{{- /* The settings of the controller that other objects of the chart depend on. */ -}}
{{- $controller := $spec.controller | default dict -}}
{{- $election := $controller.leaderElection | default dict -}}
{{- $_ := set $controller "leaderElection" (merge $election (dict "leaseName" (include "haptic.leaseName" .))) -}}
{{- if and .Values.haproxy.service.enabled .Values.ingressStatus.fromService -}}
{{- $status := $controller.ingressStatus | default dict -}}
{{- $_ := set $controller "ingressStatus" (merge $status (dict "publishService" (dict "name" (printf "%s-haproxy" $fullname)))) -}}
{{- end -}}
{{- $_ := set $spec "controller" $controller -}}
{{- include "haptic.addSpoe" (list . $spec) -}}
{{- include "haptic.addMetrics" (list . $spec) -}}
{{- toYaml $spec -}}
{{- end -}}

{{- define "haptic.leaseName" -}}
{{- dig "controller" "leaderElection" "leaseName" (printf "%s-leader" (include "haptic.fullname" .)) .Values.config -}}
{{- end -}}

{{- /* (list . SPEC): an engine is a file, a filter in every frontend, and the backend of its agents. */ -}}
{{- define "haptic.addSpoe" -}}
{{- $root := first . -}}
{{- $spec := last . -}}
{{- range $name, $engine := $root.Values.spoe.engines -}}
{{- $file := printf "spoe-%s.conf" $name -}}
{{- $_ := set $spec "files" ($spec.files | default dict) -}}
{{- $_ := set $spec "templateSnippets" ($spec.templateSnippets | default dict) -}}
{{- $_ := set $spec.files $file (dict "template" $engine.config "reloadOnChange" true) -}}
{{- $filter := printf "filter spoe engine %s config general/%s\n" $name $file -}}
{{- $_ := set $spec.templateSnippets (printf "frontend/20-spoe-%s" $name) (dict "template" $filter) -}}
{{- $backend := include "haptic.spoeBackend" (list $name $engine) -}}
{{- $_ := set $spec.templateSnippets (printf "sections/20-spoe-%s" $name) (dict "template" $backend) -}}
{{- end -}}
{{- end -}}

{{- define "haptic.spoeBackend" -}}
{{- $engine := last . -}}
backend spoe-{{ first . }}
  {{ `{% if haproxy.at_least(3, 1) %}` }}
  mode spop
  {{ `{% else %}` }}
  mode tcp
  {{ `{% endif %}` }}
  timeout connect {{ $engine.connectTimeout | default "1s" }}
  timeout server {{ $engine.serverTimeout | default "1m" }}
  {{- range $index, $address := $engine.agents }}
  server agent{{ add1 $index }} {{ $address }} check init-addr last,libc,none {{ `{% if dns_servers %}resolvers haptic{% endif %}` }}
  {{- end }}
{{ end -}}

{{- /* (list . SPEC): HAProxy's own exporter on a port of its own. */ -}}
{{- define "haptic.addMetrics" -}}
{{- $root := first . -}}
{{- $spec := last . -}}
{{- if $root.Values.metrics.haproxy.enabled -}}
{{- $_ := set $spec "templateSnippets" ($spec.templateSnippets | default dict) -}}
{{- $text := include "haptic.metricsFrontend" $root -}}
{{- $_ := set $spec.templateSnippets "frontends/90-metrics" (dict "template" $text) -}}
{{- end -}}
{{- end -}}

{{- define "haptic.metricsFrontend" -}}
frontend metrics from haptic
  {{ `{{ bind("metrics", ` }}{{ .Values.metrics.haproxy.port }}{{ `, address=bind_address) }}` }}
  http-request use-service prometheus-exporter if {{ `{ path /metrics }` }}
  http-request return status 404 content-type text/plain string "only /metrics is here\n"
{{ end -}}
