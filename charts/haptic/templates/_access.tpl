{{- /*
What the controller may do: the same as `haptic rbac` prints for the rendered configuration, which a test compares. No
rule has a wildcard, and none names what the configuration does not.

"haptic.grants" is a map of scopes (a namespace; empty = the cluster), each a map of "GROUP|RESOURCE|NAME" to verbs,
NAME being empty where every object is meant.
*/ -}}

{{- define "haptic.grants" -}}
{{- $own := .Release.Namespace -}}
{{- $fullname := include "haptic.fullname" . -}}
{{- $spec := include "haptic.spec" . | fromYaml -}}
{{- $follow := list "list" "watch" -}}
{{- $read := list "get" "list" "watch" -}}
{{- $cluster := dict "apiextensions.k8s.io|customresourcedefinitions|" (list "list" "watch") -}}
{{- $here := dict "|pods|" $follow "events.k8s.io|events|" (list "create" "patch") -}}
{{- $_ := set $here "haptic.rs|haproxytemplatelibraries|" $follow -}}
{{- $_ := set $here "haptic.rs|haproxyplugins|" $read -}}
{{- range list "haproxycfgs" "haproxycrtlistfiles" "haproxygeneralfiles" "haproxymapfiles" -}}
{{- $_ := set $here (printf "haptic.rs|%s|" .) (list "create" "delete" "list" "patch") -}}
{{- end -}}
{{- range list "haproxycfgs" "haproxyplugins" -}}
{{- $_ := set $here (printf "haptic.rs|%s/status|" .) (list "patch") -}}
{{- end -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs|%s" $fullname) $read -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs/status|%s" $fullname) (list "patch") -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs/finalizers|%s" $fullname) (list "update") -}}
{{- $_ := set $here "coordination.k8s.io|leases|" (list "create") -}}
{{- $_ := set $here (printf "coordination.k8s.io|leases|%s" (include "haptic.leaseName" .)) (list "get" "update" "watch") -}}
{{- $_ := set $here (printf "|secrets|%s" $spec.credentialsSecretRef.name) $follow -}}
{{- range include "haptic.plugins" . | fromYaml -}}
{{- with dig "module" "oci" "pullSecret" "" . -}}{{- $_ := set $here (printf "|secrets|%s" .) $follow -}}{{- end -}}
{{- with dig "module" "configMap" "name" "" . -}}{{- $_ := set $here (printf "|configmaps|%s" .) $follow -}}{{- end -}}
{{- end -}}
{{- if eq .Values.certificates.mode "controller" -}}
{{- $secrets := include "haptic.secrets" . | fromYaml -}}
{{- range ternary (list "authority" "controller" "agent" "webhook") (list "authority" "controller" "agent") .Values.webhook.enabled -}}
{{- $_ := set $here (printf "|secrets|%s" (get $secrets .)) (list "get" "list" "update" "watch") -}}
{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $_ := set $cluster (printf "admissionregistration.k8s.io|validatingwebhookconfigurations|%s-%s" $fullname $own) (list "get" "patch") -}}
{{- end -}}
{{- end -}}
{{- $scopes := dict "" $cluster $own $here -}}
{{- $ingressStatus := dig "controller" "ingressStatus" (dict) $spec -}}
{{- $watched := include "haptic.watchedResources" . | fromYaml -}}
{{- $withoutNamespace := include "haptic.withoutNamespace" . | fromYamlArray -}}
{{- $judged := false -}}
{{- $everywhere := false -}}
{{- range $watched -}}
{{- if .enableValidationWebhook -}}{{- $judged = true -}}{{- end -}}
{{- $resource := . -}}
{{- range .apiVersions | default (list .apiVersion) -}}
{{- $group := ternary (splitList "/" . | first) "" (contains "/" .) -}}
{{- if not (or $resource.namespaces (has (printf "%s/%s" $group $resource.resources) $withoutNamespace)) -}}
{{- $everywhere = true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $watched -}}
{{- include "haptic.grantWatch" (list $scopes . (gt (len $ingressStatus) 0) $judged $everywhere) -}}
{{- end -}}
{{- with $ingressStatus.publishService -}}
{{- $namespace := .namespace | default $own -}}
{{- if not (hasKey $scopes $namespace) -}}{{- $_ := set $scopes $namespace dict -}}{{- end -}}
{{- $what := printf "|services|%s" .name -}}
{{- $rules := get $scopes $namespace -}}
{{- $_ := set $rules $what (concat (list "get") (get $rules $what | default list) | uniq | sortAlpha) -}}
{{- end -}}
{{- toYaml $scopes -}}
{{- end -}}

{{- /*
(list SCOPES RESOURCE INGRESS_STATUS JUDGED EVERYWHERE): reads of one watched resource, and Events where its objects are. Single
objects are read where bodies are not kept, before a status is written, and where a judge of writes may miss them.
*/ -}}
{{- define "haptic.grantWatch" -}}
{{- $scopes := index . 0 -}}
{{- $resource := index . 1 -}}
{{- $withStatus := index . 2 -}}
{{- $judged := index . 3 -}}
{{- $everywhere := index . 4 -}}
{{- $index := list -}}
{{- range $resource.indexBy -}}
{{- $index = append $index (regexReplaceAll "[^a-zA-Z0-9]+" . "." | trimAll ".") -}}
{{- end -}}
{{- $byNames := or (not $index) (eq (join " " $index) "metadata.namespace metadata.name") -}}
{{- $name := "" -}}
{{- range splitList "," ($resource.fieldSelector | default "") -}}
{{- $requirement := trim . | replace "==" "=" -}}
{{- if hasPrefix "metadata.name=" $requirement -}}{{- $name = trimPrefix "metadata.name=" $requirement | trim -}}{{- end -}}
{{- end -}}
{{- $versions := $resource.apiVersions | default (list $resource.apiVersion) -}}
{{- range $version := $versions -}}
{{- $group := ternary (splitList "/" $version | first) "" (contains "/" $version) -}}
{{- /* At admission an object may come in another version than templates read: its definition says whether fields differ. */ -}}
{{- if and $resource.enableValidationWebhook (gt (len $versions) 1) (contains "." $group) -}}
{{- $definition := printf "apiextensions.k8s.io|customresourcedefinitions|%s.%s" $resource.resources $group -}}
{{- $_ := set (get $scopes "") $definition (list "get") -}}
{{- end -}}
{{- $kind := printf "%s/%s" $group $resource.resources -}}
{{- $withoutNamespace := has $kind (include "haptic.withoutNamespace" . | fromYamlArray) -}}
{{- $hasStatus := and $withStatus (eq $kind "networking.k8s.io/ingresses") -}}
{{- $verbs := list "list" "watch" -}}
{{- if or $hasStatus (eq ($resource.store | default "") "on-demand") (and $judged $byNames (not $withoutNamespace)) -}}
{{- $verbs = prepend $verbs "get" -}}
{{- end -}}
{{- range ternary (list "") ($resource.namespaces | default (list "")) $withoutNamespace -}}
{{- if not (hasKey $scopes .) -}}{{- $_ := set $scopes . dict -}}{{- end -}}
{{- $rules := get $scopes . -}}
{{- $what := printf "%s|%s|%s" $group $resource.resources $name -}}
{{- $_ := set $rules $what (concat $verbs (get $rules $what | default list) | uniq | sortAlpha) -}}
{{- /* Events about an object without a namespace stand in `default`, if they are not made in every one anyway. */ -}}
{{- $ofEvents := ternary (ternary "" "default" $everywhere) . $withoutNamespace -}}
{{- if not (hasKey $scopes $ofEvents) -}}{{- $_ := set $scopes $ofEvents dict -}}{{- end -}}
{{- $_ := set (get $scopes $ofEvents) "events.k8s.io|events|" (list "create" "patch") -}}
{{- if $hasStatus -}}
{{- $_ := set $rules "networking.k8s.io|ingresses/status|" (list "patch") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Kinds that no Role can allow: a list of namespaces does not limit them. */ -}}
{{- define "haptic.withoutNamespace" -}}
- /namespaces
- /nodes
- /persistentvolumes
- admissionregistration.k8s.io/mutatingwebhookconfigurations
- admissionregistration.k8s.io/validatingwebhookconfigurations
- apiextensions.k8s.io/customresourcedefinitions
- certificates.k8s.io/certificatesigningrequests
- certificates.k8s.io/clustertrustbundles
- gateway.networking.k8s.io/gatewayclasses
- networking.k8s.io/ingressclasses
- networking.k8s.io/ipaddresses
- scheduling.k8s.io/priorityclasses
- storage.k8s.io/storageclasses
{{- end -}}

{{- /* One scope's grants as rules. */ -}}
{{- define "haptic.rules" -}}
rules:
{{- range $what, $verbs := . }}
{{- $parts := splitList "|" $what }}
- apiGroups: [{{ index $parts 0 | quote }}]
  resources: [{{ index $parts 1 | quote }}]
  {{- with index $parts 2 }}
  resourceNames: [{{ . | quote }}]
  {{- end }}
  verbs: {{ toJson $verbs }}
{{- end }}
{{- end -}}
