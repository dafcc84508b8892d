{{- /* What the pods of controller and HAProxy have in common. All of it passes the Pod Security Standard `restricted`. */ -}}

{{- /* (list . COMPONENT WORKLOAD): metadata of the pods of a workload. No version: a new chart alone replaces no pod. */ -}}
{{- define "haptic.podMetadata" -}}
{{- $root := first . -}}
{{- $workload := last . -}}
labels:
  {{- include "haptic.selector" (list $root (index . 1)) | nindent 2 }}
  {{- with merge (dict) $workload.podLabels $root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) $workload.podAnnotations $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* (list . COMPONENT WORKLOAD): where its pods run. */ -}}
{{- define "haptic.scheduling" -}}
{{- $root := index . 0 -}}
{{- $workload := index . 2 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $workload.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $workload.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $workload.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $workload.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $workload.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml $workload.topologySpreadConstraints | nindent 2 }}
{{- else if $workload.spread }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "haptic.selector" (list $root (index $ 1)) | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- /* The pod's user; a number of its own only where the platform does not choose one. */ -}}
{{- define "haptic.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  {{- if not .Values.platformChoosesUser }}
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "haptic.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- /* (list . COMPONENT WORKLOAD): a budget where there is more than one pod. */ -}}
{{- define "haptic.disruptionBudget" -}}
{{- $root := index . 0 -}}
{{- $workload := index . 2 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "haptic.fullname" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  {{- include "haptic.metadata" (list $root (index . 1)) | nindent 2 }}
spec:
  maxUnavailable: {{ $workload.disruptionBudget.maxUnavailable }}
  # A pod that is not ready keeps nobody waiting.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "haptic.selector" (list $root (index . 1)) | nindent 6 }}
{{- end -}}
