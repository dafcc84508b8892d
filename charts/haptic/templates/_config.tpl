{{- /* The HAProxyTemplateConfig, its libraries and plugins. No text of a template passes through Helm's own templates. */ -}}

{{- /* Their names; that of HAProxy's own exporter is switched where the port of the pods is. */ -}}
{{- define "haptic.libraryNames" -}}
{{- $names := without .Values.libraries "metrics" -}}
{{- if .Values.metrics.haproxy.enabled -}}
{{- $names = append $names "metrics" -}}
{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{- /* The libraries of the chart that are in use, as a list of objects. */ -}}
{{- define "haptic.libraries" -}}
libraries:
{{- range include "haptic.libraryNames" . | fromYamlArray }}
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

{{- /* What is tried out at admission, by RESOURCE.GROUP: each kind once, in all its versions and namespaces (none = all). */ -}}
{{- define "haptic.checkedKinds" -}}
{{- $kinds := dict -}}
{{- range include "haptic.watchedResources" . | fromYaml -}}
{{- if .enableValidationWebhook -}}
{{- $resource := . -}}
{{- range .apiVersions | default (list .apiVersion) -}}
{{- $group := ternary (splitList "/" . | first) "" (contains "/" .) -}}
{{- $name := printf "%s.%s" $resource.resources ($group | default "core") -}}
{{- $kind := get $kinds $name | default (dict "group" $group "resource" $resource.resources "versions" list "namespaces" dict) -}}
{{- $_ := set $kind "versions" (append $kind.versions (splitList "/" . | last) | uniq) -}}
{{- if not $resource.namespaces -}}{{- $_ := set $kind "everywhere" true -}}{{- end -}}
{{- range $resource.namespaces -}}{{- $_ := set $kind.namespaces . true -}}{{- end -}}
{{- if $kind.everywhere -}}{{- $_ := set $kind "namespaces" dict -}}{{- end -}}
{{- $_ := set $kinds $name $kind -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $kinds -}}
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
{{- range $key, $value := dict "http_port" "haproxy.ports.http" "https_port" "haproxy.ports.https" "metrics_port" "metrics.haproxy.port" -}}
{{- if hasKey $given $key -}}
{{- fail (printf "config.extraContext.%s: set %s, which the pods and the Service follow" $key $value) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "http_port" (.Values.haproxy.ports.http | int) "ingress_controller" .Values.ingressClass.controller -}}
{{- if has "ssl" .Values.libraries -}}
{{- $_ := set $own "https_port" (.Values.haproxy.ports.https | int) -}}
{{- end -}}
{{- if .Values.metrics.haproxy.enabled -}}
{{- $_ := set $own "metrics_port" (.Values.metrics.haproxy.port | int) -}}
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
{{- with concat $refs ($spec.libraryRefs | default list) -}}{{- $_ := set $spec "libraryRefs" . -}}{{- end -}}
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
{{- /* Helm prints an empty list that it made as null. */ -}}
{{- with concat $plugins ($spec.plugins | default list) -}}{{- $_ := set $spec "plugins" . -}}{{- end -}}
{{- with concat $validators ($spec.validators | default list) -}}{{- $_ := set $spec "validators" . -}}{{- end -}}
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
{{- toYaml $spec -}}
{{- end -}}

{{- define "haptic.leaseName" -}}
{{- dig "controller" "leaderElection" "leaseName" (printf "%s-leader" (include "haptic.fullname" .)) .Values.config -}}
{{- end -}}

{{- /*
(list . SPEC): an engine is a file, a filter in every frontend, and the backend of its agents.

HAProxy changes into the folder of a file that a filter loads and stays there, so that the relative paths of all lines
below lead nowhere. So the filter is the last line of a frontend, and a second `global` goes back.
*/ -}}
{{- define "haptic.addSpoe" -}}
{{- $root := first . -}}
{{- $spec := last . -}}
{{- range $name, $engine := $root.Values.spoe.engines -}}
{{- $file := printf "spoe-%s.conf" $name -}}
{{- $_ := set $spec "files" (merge (dict $file (dict "template" $engine.config "reloadOnChange" true)) ($spec.files | default dict)) -}}
{{- $back := dict "template" "global\n  default-path config\n" -}}
{{- $filter := dict "template" (printf "filter spoe engine %s config general/%s\n" $name $file) -}}
{{- $snippets := dict
      "sections/20-spoe" (dict "template" (include "haptic.spoeBackend" (list $name $engine)))
      "frontend-http/99-spoe" $filter
      "frontends/00-spoe" $back -}}
{{- if has "ssl" $root.Values.libraries -}}
{{- $_ := set $snippets "frontend-https/99-spoe" $filter -}}
{{- $_ := set $snippets "frontends/51-spoe" $back -}}
{{- end -}}
{{- $_ := set $spec "templateSnippets" (merge $snippets ($spec.templateSnippets | default dict)) -}}
{{- end -}}
{{- end -}}

{{- define "haptic.spoeBackend" -}}
{{- $engine := last . -}}
defaults haptic-spoe
  timeout connect {{ $engine.connectTimeout | default "1s" }}
  timeout server {{ $engine.serverTimeout | default "1m" }}
  default-server check init-addr last,libc,none

backend spoe-{{ first . }} from haptic-spoe
  {{ `{% if haproxy.at_least(3, 1) %}` }}
  mode spop
  {{ `{% else %}` }}
  mode tcp
  {{ `{% endif %}` }}
  {{ `{% if dns_servers %}` }}
  default-server resolvers haptic
  {{ `{% endif %}` }}
  {{- range $index, $address := $engine.agents }}
  server agent{{ add1 $index }} {{ $address }}
  {{- end }}
{{ end -}}
