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
{{- $read := list "get" "list" "watch" -}}
{{- $status := list "get" "patch" "update" -}}
{{- $report := list "create" "patch" -}}
{{- $cluster := dict "apiextensions.k8s.io|customresourcedefinitions|" (list "list" "watch") -}}
{{- $here := dict "|pods|" $read "events.k8s.io|events|" $report -}}
{{- range list "haproxytemplatelibraries" "haproxyplugins" -}}
{{- $_ := set $here (printf "haptic.rs|%s|" .) $read -}}
{{- end -}}
{{- $_ := set $here "haptic.rs|haproxyplugins/status|" $status -}}
{{- range list "haproxycfgs" "haproxycrtlistfiles" "haproxygeneralfiles" "haproxymapfiles" -}}
{{- $_ := set $here (printf "haptic.rs|%s|" .) (list "create" "delete" "get" "list" "patch" "update" "watch") -}}
{{- $_ := set $here (printf "haptic.rs|%s/status|" .) $status -}}
{{- end -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs|%s" $fullname) $read -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs/status|%s" $fullname) $status -}}
{{- $_ := set $here (printf "haptic.rs|haproxytemplateconfigs/finalizers|%s" $fullname) (list "update") -}}
{{- $_ := set $here "coordination.k8s.io|leases|" (list "create") -}}
{{- $_ := set $here (printf "coordination.k8s.io|leases|%s" (include "haptic.leaseName" .)) (list "get" "list" "update" "watch") -}}
{{- $_ := set $here (printf "|secrets|%s" $spec.credentialsSecretRef.name) $read -}}
{{- range include "haptic.plugins" . | fromYaml -}}
{{- with dig "module" "oci" "pullSecret" "" . -}}{{- $_ := set $here (printf "|secrets|%s" .) $read -}}{{- end -}}
{{- with dig "module" "configMap" "name" "" . -}}{{- $_ := set $here (printf "|configmaps|%s" .) $read -}}{{- end -}}
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
{{- range include "haptic.watchedResources" . | fromYaml -}}
{{- include "haptic.grantWatch" (list $scopes . (gt (len $ingressStatus) 0)) -}}
{{- end -}}
{{- with $ingressStatus.publishService -}}
{{- $namespace := .namespace | default $own -}}
{{- if not (hasKey $scopes $namespace) -}}{{- $_ := set $scopes $namespace dict -}}{{- end -}}
{{- $_ := set (get $scopes $namespace) (printf "|services|%s" .name) (list "get") -}}
{{- end -}}
{{- toYaml $scopes -}}
{{- end -}}

{{- /* (list SCOPES RESOURCE INGRESS_STATUS): reads of one watched resource, and Events where its objects are. */ -}}
{{- define "haptic.grantWatch" -}}
{{- $scopes := index . 0 -}}
{{- $resource := index . 1 -}}
{{- $withStatus := index . 2 -}}
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
{{- $namespaces := $resource.namespaces | default (list "") -}}
{{- if has (printf "%s/%s" $group $resource.resources) (include "haptic.withoutNamespace" . | fromYamlArray) -}}
{{- $namespaces = list "" -}}
{{- end -}}
{{- range $namespaces -}}
{{- if not (hasKey $scopes .) -}}{{- $_ := set $scopes . dict -}}{{- end -}}
{{- $rules := get $scopes . -}}
{{- $_ := set $rules (printf "%s|%s|%s" $group $resource.resources $name) (list "get" "list" "watch") -}}
{{- $_ := set $rules "events.k8s.io|events|" (list "create" "patch") -}}
{{- if and $withStatus (eq $group "networking.k8s.io") (eq $resource.resources "ingresses") -}}
{{- $_ := set $rules "networking.k8s.io|ingresses/status|" (list "get" "patch" "update") -}}
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
